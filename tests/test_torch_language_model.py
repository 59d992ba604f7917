"""The language model against torch.nn: two pieces of a stream, the state carried, float64."""

from __future__ import annotations

import numpy as np
import pytest
from torch_oracle import assert_close, torch

from grads.oracle import to_torch
from nmt.models.language_model import LanguageModel, LanguageModelConfig

V, E, H, LAYERS, T, B = 6, 3, 4, 2, 5, 3



class Peer(torch.nn.Module):
    """Embedding, LSTM or tanh RNN, linear layer, holding our parameters."""

    def __init__(self, unit, parameters):
        super().__init__()
        self.unit = unit
        kind = torch.nn.LSTM if unit == "lstm" else torch.nn.RNN
        self.embedding = torch.nn.Embedding(V, E)
        self.rnn = kind(E, H, LAYERS)
        self.output = torch.nn.Linear(H, V)
        self.double()
        with torch.no_grad():
            for name, place in self.places().items():
                place.copy_(torch.tensor(self.arrange(name, parameters)))
            for layer in range(LAYERS):
                getattr(self.rnn, f"bias_hh_l{layer}").zero_()

    def places(self):
        """Our name, with x or h for the two halves of T -> the tensor that holds it."""
        found = {"W_e": self.embedding.weight, "output.W_hy": self.output.weight,
                 "output.b": self.output.bias}
        for layer in range(LAYERS):
            found[f"rnn.{layer}.T x"] = getattr(self.rnn, f"weight_ih_l{layer}")
            found[f"rnn.{layer}.T h"] = getattr(self.rnn, f"weight_hh_l{layer}")
            found[f"rnn.{layer}.b"] = getattr(self.rnn, f"bias_ih_l{layer}")
        return found

    def arrange(self, name, arrays):
        """Our array or gradient as PyTorch lays it out."""
        base, _, half = name.partition(" ")
        array = arrays[base].dense() if hasattr(arrays[base], "dense") else arrays[base]
        if not base.startswith("rnn"):
            return array
        split = array.shape[-1] - H
        part = {"x": array[..., :split], "h": array[..., split:], "": array}[half]
        return to_torch(part, self.unit)


@pytest.mark.parametrize("unit", ["lstm", "rnn"])
def test_loss_gradients_and_carried_state(unit) -> None:
    config = LanguageModelConfig(unit=unit, layers=LAYERS, hidden_size=H, embedding_size=E,
                                 scale=0.7)
    model, rng = LanguageModel(config, V), np.random.default_rng(3)
    parameters = model.initial_parameters(rng, "float64")
    peer = Peer(unit, parameters)
    states, theirs = model.zero_states(parameters, B), None
    for _ in range(2):
        inputs, targets = rng.integers(0, V, (2, T, B))
        loss, cache = model.loss(parameters, inputs, targets, states)
        gradients, states = model.backward(cache), cache.last
        peer.zero_grad()
        out, theirs = peer.rnn(peer.embedding(torch.tensor(inputs)), theirs)
        logits = peer.output(out).reshape(T * B, V)
        expected = torch.nn.functional.cross_entropy(
            logits, torch.tensor(targets.reshape(-1)), reduction="sum")
        expected.backward()
        theirs = tuple(a.detach() for a in theirs) if unit == "lstm" else theirs.detach()
        assert abs(float(loss) - expected.item()) < 1e-10 * expected.item()
        for name, place in peer.places().items():
            assert_close(peer.arrange(name, gradients), place.grad)
