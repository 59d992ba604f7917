"""Recurrent layers, stacks and single steps, beside PyTorch's modules.

The GRU is that of Bahdanau et al., an eager loop: nn.GRU is another function (erratum 17). Weights
are laid out for PyTorch by `grads.verification.reference.fused`; its second bias is zero, has the
same gradient as the first and is left out.

Operations are those of the matrix products, a multiplication and an addition each: 2 G (E + H) a
step and example, G the rows of T; the backward has two products for each one forward.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from backend import array_module
from backend.workspace import Workspace
from benchmarks.implementations import Arrays, Kernel, Passes, Results
from lstm.cells import CELLS
from lstm.recurrent import recurrent_backward, recurrent_forward, recurrent_step
from lstm.stack import stack_backward, stack_forward, zero_state

Goals = Mapping[tuple[str, str], float]


def layer(unit: str, T: int, B: int, H: int, goals: Goals | None = None) -> Kernel:
    """One layer over a sequence; E = H."""
    inputs = draw_layers(len(CELLS[unit].gates), 1, T, B, H)
    module = f"nn.{unit.upper()}"
    theirs: dict[str, Any] = {module: lambda a: torch_layers(unit, a),
                              f"{module}Cell loop": lambda a: torch_loop(unit, a)}
    if unit == "gru":
        theirs = {"eager loop": gru_loop}
    return Kernel(f"{unit.upper()} layer", {"T": T, "B": B, "H": H}, inputs,
                  gemm_flops(len(CELLS[unit].gates), 1, T, B, H), "FLOP",
                  lambda a: our_layers(unit, a), theirs, goals=goals or {})


def stack(layers: int, T: int, B: int, H: int) -> Kernel:
    """LSTM layers on top of each other, without dropout; E = H."""
    return Kernel("LSTM stack", {"L": layers, "T": T, "B": B, "H": H},
                  draw_layers(4, layers, T, B, H), gemm_flops(4, layers, T, B, H), "FLOP",
                  lambda a: our_layers("lstm", a), {"nn.LSTM": lambda a: torch_layers("lstm", a)})


def step(B: int, H: int) -> Kernel:
    """One step of an LSTM, as search and a decoder run it; E = H."""
    rng = np.random.default_rng(1)
    inputs = {name: rng.normal(size=(B, H)) for name in ("x", "h", "c", "dh", "dc")}
    inputs |= {"rnn.0.W": rng.uniform(-0.1, 0.1, (4 * H, 2 * H)),
               "rnn.0.b": rng.uniform(-0.1, 0.1, 4 * H)}
    inputs = {name: value.astype(np.float32) for name, value in inputs.items()}
    return Kernel("LSTM step", {"B": B, "H": H}, inputs, gemm_flops(4, 1, 1, B, H), "FLOP",
                  our_step, {"nn.LSTMCell": torch_step})


def gemm_flops(blocks: int, layers: int, T: int, B: int, H: int) -> dict[str, float]:
    """Operations of the forward's products, and of both passes'."""
    forward = 2.0 * layers * T * B * blocks * H * 2 * H
    return {"forward": forward, "both": 3 * forward}


def draw_layers(blocks: int, layers: int, T: int, B: int, H: int) -> dict[str, np.ndarray]:
    """x, the upstream gradient dh of the top states, and weights as `stack_forward` names them."""
    rng = np.random.default_rng(1)
    arrays = {"x": rng.normal(size=(T, B, H)), "dh": rng.normal(size=(T, B, H))}
    limit = 1.0 / np.sqrt(H)
    for index in range(layers):
        arrays[f"rnn.{index}.W"] = rng.uniform(-limit, limit, (blocks * H, 2 * H))
        arrays[f"rnn.{index}.b"] = rng.uniform(-limit, limit, blocks * H)
    return {name: array.astype(np.float32) for name, array in arrays.items()}


def layers_of(a: Arrays) -> int:
    """The number of layers of the weights."""
    return sum(name.endswith(".W") for name in a)


# --- ours -----------------------------------------------------------------------------------------


def our_layers(unit: str, a: Arrays) -> Passes:
    """Our stack, of any depth, with one workspace for all calls."""
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
    cell, x, state, T, b = CELLS["lstm"], a["x"], (a["h"], a["c"]), a["rnn.0.W"], a["rnn.0.b"]

    def forward() -> Results:
        h, c = recurrent_step(cell, x, state, T, b)
        return {"h": h, "c": c}

    def both() -> Results:
        _, (h, c), cache = recurrent_forward(cell, x[None], state, T, b)
        dx, (dh_prev, dc_prev), dT, db = recurrent_backward(None, (a["dh"], a["dc"]), cache)
        return {"h": h, "c": c, "dx": dx[0], "dh_prev": dh_prev, "dc_prev": dc_prev,
                "rnn.0.W": dT, "rnn.0.b": db}

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

    theirs = laid_out(unit, a)
    names = {f"{name.rpartition('.')[2]}{suffix.format(name.split('.')[1])}": name
             for name in theirs}  # the module's: ours
    zeros = {name.replace("ih", "hh"): torch.zeros_like(theirs[own])
             for name, own in names.items() if name.startswith("bias")}
    module.load_state_dict({name: theirs[own] for name, own in names.items()} | zeros)
    trained = {names[name]: value for name, value in module.named_parameters() if name in names}
    x = a["x"].requires_grad_()

    def forward() -> Results:
        with torch.no_grad():
            return {"h": call(x)}

    def both() -> Results:
        h = call(x)
        dx, *gradients = torch.autograd.grad(h, [x, *trained.values()], a["dh"])
        return {"h": h, "dx": dx, **dict(zip(trained, gradients, strict=True))}

    return Passes({"forward": forward, "both": both}, lambda results: in_our_layout(unit, results))


def laid_out(unit: str, a: Arrays) -> dict[str, Any]:
    """Our weights as PyTorch's kernels take them: `rnn.{layer}.weight_ih` and so on."""
    from grads.verification.reference.fused import fused

    return fused(unit, {name: value for name, value in a.items() if name.startswith("rnn.")})


def in_our_layout(unit: str, results: Results) -> Results:
    """PyTorch's weight gradients as ours: one matrix and one bias a layer, our order of gates."""
    import torch

    from grads.verification.reference.fused import unfused

    tensors = {name: torch.from_numpy(value) for name, value in results.items()}
    return {name: tensor.numpy() for name, tensor in unfused(unit, tensors).items()}


def torch_step(a: Arrays) -> Passes:
    """The function that nn.LSTMCell calls."""
    import torch

    theirs = {name: value.requires_grad_() for name, value in laid_out("lstm", a).items()}
    inputs = {name: a[name].requires_grad_() for name in ("x", "h", "c")}
    weights = (*theirs.values(), torch.zeros_like(theirs["rnn.0.bias_ih"]))
    names = ("dx", "dh_prev", "dc_prev", *theirs)

    def run() -> Any:
        return torch.lstm_cell(inputs["x"], (inputs["h"], inputs["c"]), *weights)

    def forward() -> Results:
        with torch.no_grad():
            h, c = run()
        return {"h": h, "c": c}

    def both() -> Results:
        h, c = run()
        leaves = [*inputs.values(), *theirs.values()]
        gradients = torch.autograd.grad([h, c], leaves, [a["dh"], a["dc"]])
        return {"h": h, "c": c, **dict(zip(names, gradients, strict=True))}

    return Passes({"forward": forward, "both": both}, lambda r: in_our_layout("lstm", r))


def gru_loop(a: Arrays) -> Passes:
    """The reference's layer, the input's share of all steps in one product."""
    import torch

    from grads.verification.reference.recurrent import layer as reference_layer
    from grads.verification.reference.recurrent import weights, zero_state

    leaves = {name: a[name].requires_grad_() for name in ("x", "rnn.0.W", "rnn.0.b")}
    x, H = leaves["x"], a["x"].shape[2]
    config = SimpleNamespace(unit="gru", hidden_size=H, clip_elements=None)

    def over_time() -> Any:
        w = weights(config, leaves, "rnn.0")
        return reference_layer(config, x, zero_state(config, x), w)[0]

    def forward() -> Results:
        with torch.no_grad():
            return {"h": over_time()}

    def both() -> Results:
        h = over_time()
        dx, dT, db = torch.autograd.grad(h, list(leaves.values()), a["dh"])
        return {"h": h, "dx": dx, "rnn.0.W": dT, "rnn.0.b": db}

    return Passes({"forward": forward, "both": both})
