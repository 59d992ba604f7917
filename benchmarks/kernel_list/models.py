"""A whole translator's loss and gradients, beside the same model in eager PyTorch."""

from __future__ import annotations

import numpy as np

from benchmarks.implementations import Arrays, Kernel, Passes, Results
from nmt.data.batches import make_batch
from nmt.models.translator import ModelConfig, Translator


def translator(S: int, T: int, B: int, H: int, V: int) -> Kernel:
    """One LSTM layer each, general attention, no input feeding, E = H; loss and gradients."""
    rng = np.random.default_rng(1)
    model = Translator(ModelConfig(layers=1, hidden_size=H, embedding_size=H, input_feeding=False),
                       V, V, reverse_source=True)
    pairs = [(rng.integers(3, V, S).tolist(), rng.integers(3, V, T - 1).tolist()) for _ in range(B)]
    layer = 4 * H * 2 * H
    pairs_multiplied = (B * (S + T) * layer + B * S * H * H + 2 * B * T * S * H
                        + B * T * 2 * H * H + B * T * H * V)

    def ours(a: Arrays) -> Passes:
        batch = make_batch(pairs, range(B), reverse_source=True)

        def both() -> Results:
            loss, cache = model.loss(a, batch)
            return {"loss": loss, **model.backward(cache)}

        return Passes({"both": both})

    def theirs(a: Arrays) -> Passes:
        from benchmarks.peer import Peer

        batch = make_batch(pairs, range(B), reverse_source=True)
        peer = Peer(model, {name: value.numpy() for name, value in a.items()})

        def both() -> Results:
            for parameter in peer.parameters.values():
                parameter.grad = None
            loss = peer(batch)
            loss.backward()
            return {"loss": np.array(loss.item()), **peer.gradients()}

        return Passes({"both": both})

    return Kernel("translator", {"S": S, "T": T, "B": B, "H": H, "V": V},
                  model.initial_parameters(rng), {"both": 6.0 * pairs_multiplied}, "FLOP", ours,
                  {"eager PyTorch": theirs}, cuda=False)
