"""RNNsearch in eager PyTorch, the peer of `nmt.models.rnnsearch.RNNSearch` in the benchmarks.

Written from the equations (Bahdanau et al., 2015, A.1 and A.2) as a PyTorch user would write it:
automatic differentiation; the gated unit as a loop, because `nn.GRU` is another function (erratum
17); what the words add to it, U_a h_j, the deep output and the losses as one product of all steps.
Batches have sentences of one length, so nothing is masked. `.to("cuda")` moves it.
`grads.oracle.rnnsearch` is the twin of the gradient checks, which takes ragged batches, one
sentence after another.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt.models.rnnsearch import RNNSearch
from nmt.text.batches import Batch


class TorchRNNSearch(nn.Module):
    """The model with `unit: gru`, `layer: maxout`, `context: search`; parameters as ours."""

    def __init__(self, model: RNNSearch) -> None:
        """Parameters are empty shapes of the default dtype until `load` fills them."""
        super().__init__()
        config = model.config
        if (config.unit, config.layer, config.context) != ("gru", "maxout", "search"):
            raise ValueError("config: expected unit gru, layer maxout, context search, "
                             f"got {config.unit}, {config.layer}, {config.context}")
        self.config = config
        self.weights = nn.ParameterDict({
            name.replace(".", "-"): torch.empty(weight.shape)
            for name, weight in model.weights().items()
        })

    @torch.no_grad()
    def load(self, parameters: Mapping[str, np.ndarray]) -> TorchRNNSearch:
        """Copy our parameters, by name; returns self. Their dtype becomes the module's."""
        self.to(torch.tensor(parameters["encoder.W_e"][:0]).dtype)
        for name, array in parameters.items():
            self.weights[name.replace(".", "-")].copy_(torch.tensor(array))
        return self

    def dump(self, gradients: bool) -> dict[str, np.ndarray]:
        """Copies of the gradients (or of the parameters), under our names."""
        found = {}
        for name, parameter in self.weights.items():
            tensor = parameter.grad if gradients else parameter.detach()
            assert tensor is not None, "no gradient: call backward first"
            found[name.replace("-", ".")] = tensor.cpu().numpy().copy()
        return found

    def draw_masks(self, batch: Batch) -> None:
        """As of the other peer: the model has no dropout."""

    def forward(self, batch: Batch, masks: None = None) -> Tensor:
        """-log p(y | x), summed over a batch of sentences of one length, in nats."""
        for lengths in (batch.sources[0].lengths, batch.target.lengths):
            if (lengths != lengths[0]).any():
                raise ValueError("batch: expected sentences of one length, got ragged ones")
        w = {name.replace("-", "."): weight for name, weight in self.weights.items()}
        h, s = self._encode(w, self._here(batch.sources[0].ids))
        keys = functional.linear(h, w["attention.U_a"])  # U_a h_j, (B, S, H)
        y = functional.embedding(self._here(batch.target_in), w["decoder.W_e"])  # (T, B, E)
        E, He = y.shape[2], h.shape[2]
        T = w["decoder.0.T"]
        T_y, T_c, T_s = T[:, :E], T[:, E : E + He], T[:, E + He :]
        words = functional.linear(y, T_y, w.get("decoder.0.b"))  # (T, B, 3H)
        states, contexts = [s], []
        for share in words:
            hidden = functional.linear(s, w["attention.W_a"])[:, None] + keys
            a = (hidden.tanh() @ w["attention.v_a"]).softmax(dim=1)  # (B, S)
            c = torch.bmm(a[:, None], h)[:, 0]
            s = turn(share + functional.linear(c, T_c), s, T_s)
            states.append(s)
            contexts.append(c)
        read = states[:-1] if self.config.deep_state == "before" else states[1:]
        t = self._deep(w, torch.stack(read), y, torch.stack(contexts))
        logits = functional.linear(t, w["output.W_o"], w.get("output.b"))
        targets = self._here(batch.target_out).flatten()
        return functional.cross_entropy(logits.flatten(0, 1), targets, reduction="sum")

    def _here(self, array: np.ndarray) -> Tensor:
        """A host array where the parameters are."""
        return torch.from_numpy(array).to(self.weights["output-W_o"].device)

    def _encode(self, w: Mapping[str, Tensor], source: Tensor) -> tuple[Tensor, Tensor]:
        """Annotations h_j (B, S, 2H), and s_0 (B, H) from the last state of the way back."""
        x = functional.embedding(source, w["encoder.W_e"])  # (S, B, E)
        sides = [run(x, w, "encoder.0.forward"), run(x.flip(0), w, "encoder.0.backward")]
        last = sides[1][-1]
        h = torch.cat([sides[0], sides[1].flip(0)], dim=2).transpose(0, 1)
        return h, functional.linear(last, w["bridge.W_s"], w.get("bridge.b")).tanh()

    def _deep(self, w: Mapping[str, Tensor], s: Tensor, y: Tensor, c: Tensor) -> Tensor:
        """The maxout layer of all steps (T, B, M)."""
        t = functional.linear(s, w["output.U_o"], w.get("output.b_t"))
        t = t + functional.linear(y, w["output.V_o"]) + functional.linear(c, w["output.C_o"])
        return t.unflatten(2, (-1, 2)).amax(dim=3)


def run(x: Tensor, w: Mapping[str, Tensor], name: str) -> Tensor:
    """All states (S, B, H) of a gated layer over x (S, B, E), from zero."""
    T, E = w[f"{name}.T"], x.shape[2]
    shares = functional.linear(x, T[:, :E], w.get(f"{name}.b"))  # (S, B, 3H)
    h, states = x.new_zeros(x.shape[1], T.shape[1] - E), []
    for share in shares:
        h = turn(share, h, T[:, E:])
        states.append(h)
    return torch.stack(states)


def turn(share: Tensor, s: Tensor, T_s: Tensor) -> Tensor:
    """s_i (B, H) of A.2.2, from what is no state's share of the pre-activations (B, 3H)."""
    H = s.shape[1]
    r, z = (share[:, : 2 * H] + functional.linear(s, T_s[: 2 * H])).sigmoid().chunk(2, dim=1)
    proposal = (share[:, 2 * H :] + functional.linear(r * s, T_s[2 * H :])).tanh()
    return (1 - z) * s + z * proposal
