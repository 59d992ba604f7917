"""PyTorch twins of the catalogue's entries of `lstm` and `attention`; see `grads.oracle`.

A twin takes an entry's inputs as tensors, the facts of the case (ids, lengths, masks; host arrays)
and the options of the entry, and returns the outputs by name. Sequences are nn.LSTM and nn.RNN on
packed batches, attention is `scaled_dot_product_attention`, losses are `cross_entropy`. The GRU is
a loop over `grads.oracle.bahdanau_gru`, since nn.GRU is another function (erratum 17).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from benchmarks import peer_attention
from grads.oracle import STATES, bahdanau_gru, recurrent_weights
from lstm.gru import GATES as GRU_GATES

SEQUENCES: dict[str, Any] = {"lstm": nn.LSTM, "rnn": nn.RNN}
CELLS: dict[str, Any] = {"lstm": nn.LSTMCell, "rnn": nn.RNNCell}

Tensors = Mapping[str, Tensor]
Options = Mapping[str, Any]
State = tuple[Tensor, ...]
Weights = tuple[Tensor, Tensor | None]  # T, b


# --- units, run by PyTorch's modules ------------------------------------------------------------


def run_cell(unit: str, x: Tensor, state: State, weights: Weights) -> State:
    """One step of nn.LSTMCell, nn.RNNCell or the GRU on rows x (B, E)."""
    if unit == "gru":
        return (gru_step(x, state[0], weights),)
    T, b = weights
    E, H = x.shape[1], state[0].shape[1]
    cell = CELLS[unit](E, H, bias=b is not None, dtype=x.dtype)
    argument = state if unit == "lstm" else state[0]
    out = functional_call(cell, recurrent_weights(unit, T, b), (x, argument))
    return out if unit == "lstm" else (out,)


def gru_step(x: Tensor, h_prev: Tensor, weights: Weights) -> Tensor:
    """h (B, H); the bias is what a column of ones in x is multiplied by."""
    T, b = weights
    E = x.shape[1]
    W, U = T[:, :E], T[:, E:]
    if b is not None:
        W = torch.cat([W, b[:, None]], dim=1)
        x = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
    names = [{"h~": "s~"}.get(gate, gate) for gate in GRU_GATES]
    return bahdanau_gru(x, h_prev, *(dict(zip(names, m.chunk(3), strict=True)) for m in (W, U)))


def gru_layer(
    x: Tensor, states: Sequence[State], weights: Sequence[Weights], lengths: np.ndarray | None
) -> tuple[Tensor, list[State]]:
    """The GRU over x (T, B, E), as `run_layer`: a padded step keeps the state."""
    steps = range(len(x))
    ends: list[State] = []
    sides = []
    for order, (h,), own in zip((steps, steps[::-1]), states, weights, strict=False):
        found = {}
        for t in order:
            live = torch.tensor(np.full(x.shape[1], True) if lengths is None else t < lengths)
            found[t] = h = torch.where(live[:, None], gru_step(x[t], h, own), h)
        sides.append(torch.stack([found[t] for t in steps]))
        ends.append((h,))
    return torch.cat(sides, dim=2), ends


def run_layer(
    unit: str, x: Tensor, states: Sequence[State], weights: Sequence[Weights],
    lengths: np.ndarray | None,
) -> tuple[Tensor, list[State]]:
    """nn.LSTM, nn.RNN or the GRU over x (T, B, E), one way or both (the second backwards).

    Returns h (T, B, directions * H), on padding what our kernels carry there (the last state,
    and in a backward run the first), and each direction's last state. Packed batches have no
    room for a sequence without a real step: such a one is left out, and hands its state on.
    """
    if unit == "gru":
        return gru_layer(x, states, weights, lengths)
    if lengths is None:
        return run_module(unit, x, states, weights)
    real = torch.tensor(np.flatnonzero(lengths))  # (B',)
    last = list(states)
    h = torch.cat([state[0] for state in states], dim=1).expand(len(x), -1, -1)
    if len(real):
        kept = torch.tensor(lengths)[real]
        packed = pack_padded_sequence(x[:, real], kept, enforce_sorted=False)
        begin = [tuple(part[real] for part in state) for state in states]
        out, ends = run_module(unit, packed, begin, weights)
        last = [tuple(part.index_copy(0, real, end) for part, end in zip(*pair, strict=True))
                for pair in zip(states, ends, strict=True)]
        h = h.index_copy(1, real, pad_packed_sequence(out, total_length=len(x))[0])
    live = torch.arange(len(x))[:, None, None] < torch.tensor(lengths)[:, None]  # (T, B, 1)
    carried = [last[0][0], *(state[0] for state in states[1:])]
    return torch.where(live, h, torch.cat(carried, dim=1)), last


def run_module(
    unit: str, x: Any, states: Sequence[State], weights: Sequence[Weights]
) -> tuple[Any, list[State]]:
    """One layer of nn.LSTM or nn.RNN; x and h are tensors or packed batches."""
    H, E = states[0][0].shape[1], weights[0][0].shape[1] - states[0][0].shape[1]
    by_name: dict[str, Any] = {}
    for suffix, (T, b) in zip(("_l0", "_l0_reverse"), weights, strict=False):
        by_name |= recurrent_weights(unit, T, b, suffix)
    module = SEQUENCES[unit](E, H, bias=weights[0][1] is not None, dtype=weights[0][0].dtype,
                             bidirectional=len(states) == 2)
    first = tuple(torch.stack(part) for part in zip(*states, strict=True))
    h, last = functional_call(module, by_name, (x, first if unit == "lstm" else first[0]))
    return h, list(zip(*(last if unit == "lstm" else (last,)), strict=True))


def run_stack(
    a: Tensors, prefix: str, unit: str, x: Tensor, initial: Sequence[Sequence[State]],
    lengths: np.ndarray | None, masks: Sequence[np.ndarray | None],
) -> tuple[Tensor, list[list[State]]]:
    """Layer on layer, `masks[layer]` (or None) times what each reads."""
    last = []
    for layer, states in enumerate(initial):
        name = f"{prefix}.{layer}"
        names = [f"{name}.forward", f"{name}.backward"] if len(states) == 2 else [name]
        weights = [(a[f"{end}.T"], a.get(f"{end}.b")) for end in names]
        x = dropped(x, masks[layer])
        x, ends = run_layer(unit, x, states, weights, lengths)
        last.append(ends)
    return x, last


def dropped(x: Tensor, mask: np.ndarray | None) -> Tensor:
    """x under a frozen dropout mask."""
    return x if mask is None else x * torch.tensor(mask, dtype=x.dtype)


def state_of(a: Tensors, prefix: str, unit: str) -> State:
    """`{prefix}.0`, and `{prefix}.1` of a unit with a memory cell."""
    return tuple(a[f"{prefix}.{k}"] for k in range(STATES[unit]))


def named(prefix: str, tree: Any) -> dict[str, Tensor]:
    """The tensors of nested states under the catalogue's names `{prefix}.0.1...`."""
    if isinstance(tree, Tensor):
        return {prefix: tree}
    return {name: leaf for k, branch in enumerate(tree)
            for name, leaf in named(f"{prefix}.{k}", branch).items()}


def summed_loss(
    h: Tensor, targets: np.ndarray, W_hy: Tensor, b: Tensor | None
) -> Tensor:
    """-log p of the targets (N,) in nats, summed over the rows of h (N, H)."""
    logits = functional.linear(h, W_hy, b)
    return functional.cross_entropy(logits, torch.tensor(targets), reduction="sum")


# --- twins of `lstm` ----------------------------------------------------------------------------


def embedding(a: Tensors, facts: Options, options: Options) -> dict[str, Tensor]:
    """Rows of a table."""
    return {"x": functional.embedding(torch.tensor(facts["ids"]), a["W_e"])}


def prediction(a: Tensors, facts: Options, options: Options) -> dict[str, Tensor]:
    """The summed cross-entropy of linear scores."""
    return {"loss": summed_loss(a["h"], facts["targets"], a["W_hy"], a.get("b"))}


def lstm_cell(a: Tensors, facts: Options, options: Options) -> dict[str, Tensor]:
    """nn.LSTMCell that reads the pre-activation as it is: T_x is the identity, T_h is zero."""
    z, c_prev = a["z"], a["c_prev"]
    H = c_prev.shape[1]
    T = torch.cat([torch.eye(4 * H, dtype=z.dtype), z.new_zeros(4 * H, H)], dim=1)
    h, c = run_cell("lstm", z, (torch.zeros_like(c_prev), c_prev), (T, None))
    return {"h": h, "c": c}


def rnn_cell(a: Tensors, facts: Options, options: Options) -> dict[str, Tensor]:
    """tanh of the pre-activation."""
    return {"h": torch.tanh(a["z"])}


def gru_cell(a: Tensors, facts: Options, options: Options) -> dict[str, Tensor]:
    """The GRU that reads the input's share as it is: T_x is the identity."""
    z = a["z"]
    T = torch.cat([torch.eye(z.shape[1], dtype=z.dtype), torch.tensor(facts["T_h"])], dim=1)
    return {"h": gru_step(z, a["h_prev"], (T, None))}


def step(a: Tensors, facts: Options, options: Options) -> dict[str, Tensor]:
    """One step of a unit."""
    unit = options["unit"]
    before = tuple(a[name] for name in ("h_prev", "c_prev")[: STATES[unit]])
    after = run_cell(unit, a["x"], before, (a["T"], a.get("b")))
    return dict(zip("hc", after, strict=False))


def sequence(a: Tensors, facts: Options, options: Options) -> dict[str, Tensor]:
    """One layer over a padded batch; a reversed run is the second half of a bidirectional one."""
    unit, both = options["unit"], 2 if options["reverse"] else 1
    state, weights = state_of(a, "state", unit), (a["T"], a.get("b"))
    h, last = run_layer(unit, a["x"], [state] * both, [weights] * both, facts["lengths"])
    return {"h": h.chunk(both, dim=2)[-1], **named("last", last[-1])}


def stack(a: Tensors, facts: Options, options: Options) -> dict[str, Tensor]:
    """Two layers, in one direction or both."""
    unit, directions = options["unit"], 2 if options["bidirectional"] else 1
    initial = [[state_of(a, f"initial.{l}.{d}", unit) for d in range(directions)]
               for l in range(2)]
    h, last = run_stack(a, "stack", unit, a["x"], initial, facts["lengths"], facts["masks"])
    return {"h": h, **named("last", last)}


def language_model(a: Tensors, facts: Options, options: Options) -> dict[str, Tensor]:
    """Embeddings, layers and predictions, from states that are constants."""
    config = facts["config"]
    x = functional.embedding(torch.tensor(facts["ids"]), a["W_e"])
    initial = [[tuple(torch.tensor(part) for part in state)] for state in facts["states"]]
    h, _ = run_stack(a, "rnn", config.unit, x, initial, None, facts["masks"])
    h = dropped(h, facts["out_mask"]).flatten(0, 1)
    targets = facts["targets"].reshape(-1)
    return {"loss": summed_loss(h, targets, a["output.W_hy"], a.get("output.b"))}


# --- twins of `attention` -----------------------------------------------------------------------


def look(
    h: Tensor, hbar: Tensor, keys: Tensor, lengths: np.ndarray | None
) -> Tensor:
    """Contexts (B, Q, He) of target states h (B, Q, H): softmax of h' k_s, unscaled (Eq. 4.7)."""
    live = None
    if lengths is not None:
        live = torch.arange(hbar.shape[1]) < torch.tensor(lengths)[:, None, None]  # (B, 1, S)
    return functional.scaled_dot_product_attention(h, keys, hbar, attn_mask=live, scale=1.0)


def keys(a: Tensors, facts: Options, options: Options) -> dict[str, Tensor]:
    """hbar_s, or W_a hbar_s."""
    W_a = a.get("attention.W_a")
    return {"keys": a["hbar"] * 1.0 if W_a is None else functional.linear(a["hbar"], W_a)}


def memory(a: Tensors, facts: Options, options: Options) -> dict[str, Tensor]:
    """The encoder's states, sentence by sentence, and their keys."""
    hbar = a["states"].transpose(0, 1)
    return {"hbar": hbar, **keys({**a, "hbar": hbar}, facts, options)}


def attend(a: Tensors, facts: Options, options: Options) -> dict[str, Tensor]:
    """Contexts."""
    return {"c": look(a["h"], a["hbar"], a["keys"], facts["lengths"])}


def softmax(a: Tensors, facts: Options, options: Options) -> dict[str, Tensor]:
    """torch.softmax over what is not padding."""
    dead = torch.arange(a["e"].shape[2]) >= torch.tensor(facts["lengths"])[:, None, None]
    return {"a": a["e"].masked_fill(dead, -torch.inf).softmax(dim=2)}


def tanh_score(a: Tensors, facts: Options, options: Options) -> dict[str, Tensor]:
    """v' tanh(q + k)."""
    return {"e": (a["q"][:, :, None] + a["keys"]).tanh() @ a["v"]}


def position(a: Tensors, facts: Options, options: Options) -> dict[str, Tensor]:
    """S sigmoid(v_p' tanh(W_p h)) (Eq. 4.9)."""
    k = functional.linear(a["h"], a["W_p"]).tanh() @ a["v_p"]
    return {"p": torch.tensor(facts["lengths"])[:, None] * k.sigmoid()}


def nearness(a: Tensors, facts: Options, options: Options) -> dict[str, Tensor]:
    """align times a Gaussian of standard deviation D / 2 (Eq. 4.10)."""
    away = torch.tensor(facts["columns"]) - a["centre"][..., None]
    weights = a["align"] * (-(away**2) / (2 * (facts["D"] / 2) ** 2)).exp()
    if options["renormalise"]:
        weights = weights / weights.sum(dim=2, keepdim=True)
    return {"a": weights}


def look_any(a: Tensors, facts: Options, options: Options) -> dict[str, Tensor]:
    """Contexts in any way, as the benchmarks' peer has them."""
    weights = {name.split(".")[1]: weight for name, weight in a.items() if "." in name}
    hbar, lengths = a["states"].transpose(0, 1), torch.tensor(facts["lengths"])
    dead = (torch.arange(hbar.shape[1]) >= lengths[:, None])[:, None]
    memory = peer_attention.Memory(
        hbar, peer_attention.make_keys(facts["way"], weights, hbar), dead, lengths)
    return {"c": peer_attention.look(facts["way"], weights, a["h"], memory, facts["t"])}


def linear_map(a: Tensors, facts: Options, options: Options) -> dict[str, Tensor]:
    """nn.Linear without a bias."""
    return {"y": functional.linear(a["x"], a["W"])}


def attentional(a: Tensors, facts: Options, options: Options) -> dict[str, Tensor]:
    """tanh(W_c [c_t; h_t]) (Eq. 4.5)."""
    return {"h_tilde": functional.linear(a["joined"], a["W_c"]).tanh()}


TWINS = {
    "embedding": embedding, "prediction": prediction, "lstm cell": lstm_cell,
    "rnn cell": rnn_cell, "gru cell": gru_cell, "step": step, "sequence": sequence, "stack": stack,
    "language model": language_model, "map": linear_map, "memory": memory, "attend": attend,
    "attentional": attentional, "softmax": softmax, "tanh score": tanh_score,
    "position": position, "nearness": nearness, "look": look_any,
}
