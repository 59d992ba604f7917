"""Recurrent layers, stacks and single steps, beside PyTorch's modules.

| here | in PyTorch |
|---|---|
| gates i, f, o, h_hat | i, f, g, o |
| `T` = [T_x T_h] | `weight_ih` and `weight_hh` |
| one bias `b` | `bias_ih`; `bias_hh` is zero, has the same gradient and is left out |
| the GRU of Bahdanau et al. | an eager loop: nn.GRU is another function (erratum 17) |

Operations are those of the matrix products, a multiplication and an addition each: 2 G (E + H) a
step and example, G the rows of T; the backward has two products for each one forward.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from backend import array_module
from backend.workspace import Workspace
from benchmarks.sides import Arrays, Kernel, Passes, Results
from grads.oracle import from_torch, recurrent_weights
from lstm.lstm import lstm_step_backward, lstm_step_forward
from lstm.stack import UNITS, stack_backward, stack_forward, zero_state

Goals = Mapping[tuple[str, str], float]


def layer(unit: str, T: int, B: int, H: int, goals: Goals | None = None) -> Kernel:
    """One layer over a sequence; E = H."""
    inputs = draw_layers(UNITS[unit].blocks, 1, T, B, H)
    module = f"nn.{unit.upper()}"
    theirs: dict[str, Any] = {module: lambda a: torch_layers(unit, a),
                              f"{module}Cell loop": lambda a: torch_loop(unit, a)}
    if unit == "gru":
        theirs = {"eager loop": gru_loop}
    return Kernel(f"{unit.upper()} layer", {"T": T, "B": B, "H": H}, inputs,
                  products(UNITS[unit].blocks, 1, T, B, H), "FLOP",
                  lambda a: our_layers(unit, a), theirs, goals=goals or {})


def stack(layers: int, T: int, B: int, H: int) -> Kernel:
    """LSTM layers on top of each other, without dropout; E = H."""
    return Kernel("LSTM stack", {"L": layers, "T": T, "B": B, "H": H},
                  draw_layers(4, layers, T, B, H), products(4, layers, T, B, H), "FLOP",
                  lambda a: our_layers("lstm", a), {"nn.LSTM": lambda a: torch_layers("lstm", a)})


def step(B: int, H: int) -> Kernel:
    """One step of an LSTM, as search and a decoder run it; E = H."""
    rng = np.random.default_rng(1)
    inputs = {name: rng.normal(size=(B, H)) for name in ("x", "h", "c", "dh", "dc")}
    inputs |= {"T": rng.uniform(-0.1, 0.1, (4 * H, 2 * H)), "b": rng.uniform(-0.1, 0.1, 4 * H)}
    inputs = {name: value.astype(np.float32) for name, value in inputs.items()}
    return Kernel("LSTM step", {"B": B, "H": H}, inputs, products(4, 1, 1, B, H), "FLOP",
                  our_step, {"nn.LSTMCell": torch_step})


def products(blocks: int, layers: int, T: int, B: int, H: int) -> dict[str, float]:
    """Operations of the forward's products, and of both passes'."""
    forward = 2.0 * layers * T * B * blocks * H * 2 * H
    return {"forward": forward, "both": 3 * forward}


def draw_layers(blocks: int, layers: int, T: int, B: int, H: int) -> dict[str, np.ndarray]:
    """x, the upstream gradient dh of the top states, and weights as `stack_forward` names them."""
    rng = np.random.default_rng(1)
    arrays = {"x": rng.normal(size=(T, B, H)), "dh": rng.normal(size=(T, B, H))}
    limit = 1.0 / np.sqrt(H)
    for index in range(layers):
        arrays[f"rnn.{index}.T"] = rng.uniform(-limit, limit, (blocks * H, 2 * H))
        arrays[f"rnn.{index}.b"] = rng.uniform(-limit, limit, blocks * H)
    return {name: array.astype(np.float32) for name, array in arrays.items()}


def layers_of(a: Arrays) -> int:
    """How many layers the weights are for."""
    return sum(name.endswith(".T") for name in a)


# --- ours -----------------------------------------------------------------------------------------


def our_layers(unit: str, a: Arrays) -> Passes:
    """Our stack, whatever its depth, with one workspace that is kept."""
    workspace, x = Workspace(), a["x"]
    zero = zero_state(array_module(x), unit, x.shape[1], x.shape[2], x.dtype)
    initial = [[zero]] * layers_of(a)

    def forward() -> Results:
        return {"h": stack_forward(x, a, "rnn", unit, initial, workspace=workspace)[0]}

    def both() -> Results:
        h, _, cache = stack_forward(x, a, "rnn", unit, initial, workspace=workspace)
        dx, _, gradients = stack_backward(a["dh"], None, cache)
        return {"h": h, "dx": dx, **gradients}

    return Passes({"forward": forward, "both": both})


def our_step(a: Arrays) -> Passes:
    """Our step; its gradients are those of h' dh + c' dc."""
    arguments = a["x"], a["h"], a["c"], a["T"], a["b"]

    def forward() -> Results:
        (h, c), _ = lstm_step_forward(*arguments)
        return {"h": h, "c": c}

    def both() -> Results:
        (h, c), cache = lstm_step_forward(*arguments)
        dx, dh_prev, dc_prev, dT, db = lstm_step_backward(a["dh"], a["dc"], cache)
        return {"h": h, "c": c, "dx": dx, "dh_prev": dh_prev, "dc_prev": dc_prev,
                "rnn.0.T": dT, "rnn.0.b": db}

    return Passes({"forward": forward, "both": both})


# --- theirs ---------------------------------------------------------------------------------------


def torch_layers(unit: str, a: Arrays) -> Passes:
    """nn.LSTM or nn.RNN: oneDNN's or ATen's layer on the CPU, cuDNN's on a GPU."""
    from torch import nn

    H = a["x"].shape[2]
    module = {"lstm": nn.LSTM, "rnn": nn.RNN}[unit](H, H, layers_of(a)).to(a["x"].device)
    return run_module(unit, module, a, lambda x: module(x)[0], "_l{}")


def torch_loop(unit: str, a: Arrays) -> Passes:
    """A loop over nn.LSTMCell or nn.RNNCell, as a decoder with input feeding has to run it."""
    import torch
    from torch import nn

    H = a["x"].shape[2]
    cell = {"lstm": nn.LSTMCell, "rnn": nn.RNNCell}[unit](H, H).to(a["x"].device)

    def over_time(x: Any) -> Any:
        states, state = [], None
        for x_t in x:
            state = cell(x_t, state)
            states.append(state[0] if unit == "lstm" else state)
        return torch.stack(states)

    return run_module(unit, cell, a, over_time, "")


def run_module(unit: str, module: Any, a: Arrays, call: Any, suffix: str) -> Passes:
    """The passes of a module once it has our weights; suffix names those of a layer."""
    import torch

    weights: dict[str, Any] = {}
    for index in range(layers_of(a)):
        ours = a[f"rnn.{index}.T"], a[f"rnn.{index}.b"]
        weights |= recurrent_weights(unit, *ours, suffix=suffix.format(index))
    module.load_state_dict(weights)
    trained = {name: value for name, value in module.named_parameters() if "bias_hh" not in name}
    x = a["x"].requires_grad_()

    def forward() -> Results:
        with torch.no_grad():
            return {"h": call(x)}

    def both() -> Results:
        h = call(x)
        dx, *gradients = torch.autograd.grad(h, [x, *trained.values()], a["dh"])
        return {"h": h, "dx": dx, **dict(zip(trained, gradients, strict=True))}

    return Passes({"forward": forward, "both": both}, lambda results: in_our_layout(unit, results))


def in_our_layout(unit: str, results: Results) -> Results:
    """PyTorch's weight gradients as ours: one matrix and one bias a layer, our order of gates."""
    read = {name: value for name, value in results.items() if not name.startswith(("we", "bi"))}
    for name, value in results.items():
        part, _, suffix = name.partition("_l") if "_l" in name else (name, "", "0")
        if part == "weight_ih":
            other = results[name.replace("_ih", "_hh")]
            read[f"rnn.{suffix}.T"] = from_torch(np.concatenate([value, other], axis=1), unit)
        elif part == "bias_ih":
            read[f"rnn.{suffix}.b"] = from_torch(value, unit)
    return read


def torch_step(a: Arrays) -> Passes:
    """nn.LSTMCell."""
    import torch
    from torch import nn

    H = a["x"].shape[1]
    cell = nn.LSTMCell(H, H).to(a["x"].device)
    cell.load_state_dict(recurrent_weights("lstm", a["T"], a["b"]))
    leaves = [a[name].requires_grad_() for name in ("x", "h", "c")]
    weights = [cell.weight_ih, cell.weight_hh, cell.bias_ih]
    names = ("dx", "dh_prev", "dc_prev", "weight_ih", "weight_hh", "bias_ih")

    def forward() -> Results:
        with torch.no_grad():
            h, c = cell(leaves[0], tuple(leaves[1:]))
        return {"h": h, "c": c}

    def both() -> Results:
        h, c = cell(leaves[0], tuple(leaves[1:]))
        gradients = torch.autograd.grad([h, c], [*leaves, *weights], [a["dh"], a["dc"]])
        return {"h": h, "c": c, **dict(zip(names, gradients, strict=True))}

    return Passes({"forward": forward, "both": both}, lambda r: in_our_layout("lstm", r))


def gru_loop(a: Arrays) -> Passes:
    """Bahdanau's gated unit in eager PyTorch, the input's share of all steps in one product."""
    import torch
    from torch.nn import functional

    x, T, b = (a[name].requires_grad_() for name in ("x", "rnn.0.T", "rnn.0.b"))
    H = x.shape[2]

    def over_time() -> Any:
        U, U_candidate = T[: 2 * H, H:], T[2 * H :, H:]
        shares, h, states = functional.linear(x, T[:, :H], b), x.new_zeros(x.shape[1], H), []
        for share in shares:
            r, z = (share[:, : 2 * H] + functional.linear(h, U)).sigmoid().chunk(2, dim=1)
            candidate = (share[:, 2 * H :] + functional.linear(r * h, U_candidate)).tanh()
            h = h + z * (candidate - h)
            states.append(h)
        return torch.stack(states)

    def forward() -> Results:
        with torch.no_grad():
            return {"h": over_time()}

    def both() -> Results:
        h = over_time()
        dx, dT, db = torch.autograd.grad(h, [x, T, b], a["dh"])
        return {"h": h, "dx": dx, "rnn.0.T": dT, "rnn.0.b": db}

    return Passes({"forward": forward, "both": both})
