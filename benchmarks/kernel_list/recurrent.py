"""Recurrent layers and single steps, beside PyTorch's modules.

The GRU is that of Bahdanau et al., an eager loop: nn.GRU is another function (erratum 17). Weights
are laid out for PyTorch by `grads.verification.reference.fused`; its second bias is zero, has the
same gradient as the first and is left out.

Operations are those of the matrix products, a multiplication and an addition each: 2 G (E + H) a
step and example, G the rows of T; the backward has two products for each one forward.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from backend import array_module
from backend.workspace import Workspace
from benchmarks.case import Results
from benchmarks.kernel import Arrays, Kernel, Make, Passes, autograd, leaves_of
from lstm.cells import CELLS
from lstm.recurrent import recurrent_backward, recurrent_forward, recurrent_step
from lstm.stack import stack_backward, stack_forward, zero_state


def layer(unit: str, T: int, B: int, H: int, goals: Mapping[str, float] | None = None) -> Kernel:
    """One layer over a sequence, "lstm" or "gru"; E = H."""
    blocks = len(CELLS[unit].gates)
    theirs: dict[str, Make] = {"eager loop": gru_loop} if unit == "gru" else {
        "nn.LSTM": torch_layer, "nn.LSTMCell loop": torch_loop}
    return Kernel(f"{unit.upper()} layer", {"T": T, "B": B, "H": H},
                  partial(draw, blocks, H, {"x": (T, B, H), "dh": (T, B, H)}),
                  gemm_flops(blocks, T, B, H), "FLOP", partial(our_layer, unit), theirs,
                  goals=goals or {})


def step(B: int, H: int) -> Kernel:
    """One step of an LSTM, as search and a decoder run it; E = H."""
    shapes = dict.fromkeys(("x", "h", "c", "dh", "dc"), (B, H))
    return Kernel("LSTM step", {"B": B, "H": H}, partial(draw, 4, H, shapes),
                  gemm_flops(4, 1, B, H), "FLOP", our_step, {"nn.LSTMCell": torch_step})


def gemm_flops(blocks: int, T: int, B: int, H: int) -> dict[str, float]:
    """Operations of the forward's products, and of both passes'."""
    forward = 2.0 * T * B * blocks * H * 2 * H
    return {"forward": forward, "both": 3 * forward}


def draw(blocks: int, H: int, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Arrays of these shapes, d.. the upstream gradients, and a layer's weights as `stack_forward`
    names them."""
    rng, limit = np.random.default_rng(1), 1.0 / np.sqrt(H)
    arrays = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    arrays["rnn.0.W"] = rng.uniform(-limit, limit, (blocks * H, 2 * H))
    arrays["rnn.0.b"] = rng.uniform(-limit, limit, blocks * H)
    return {name: array.astype(np.float32) for name, array in arrays.items()}


# --- ours -----------------------------------------------------------------------------------------


def our_layer(unit: str, a: Arrays) -> Passes:
    """Our stack of one layer, with one workspace for all calls."""
    workspace, x = Workspace(), a["x"]
    initial = [[zero_state(array_module(x), unit, x.shape[1], x.shape[2], x.dtype)]]

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


def torch_layer(a: Arrays) -> Passes:
    """nn.LSTM: oneDNN's layer on the CPU, cuDNN's on a GPU."""
    from torch import nn

    H = a["x"].shape[2]
    module = nn.LSTM(H, H).to(a["x"].device)
    return run_module(module, a, lambda x: module(x)[0], "_l0")


def torch_loop(a: Arrays) -> Passes:
    """A loop over nn.LSTMCell, as a decoder with input feeding has to run it."""
    import torch
    from torch import nn

    H = a["x"].shape[2]
    cell = nn.LSTMCell(H, H).to(a["x"].device)

    def over_time(x: Any) -> Any:
        states, state = [], None
        for x_t in x:
            state = cell(x_t, state)
            states.append(state[0])
        return torch.stack(states)

    return run_module(cell, a, over_time, "")


def run_module(module: Any, a: Arrays, call: Any, suffix: str) -> Passes:
    """The passes of a module once it has our weights; suffix names those of a layer."""
    import torch

    theirs = laid_out(a)
    names = {f"{name.rpartition('.')[2]}{suffix}": name for name in theirs}  # the module's: ours
    zeros = {name.replace("ih", "hh"): torch.zeros_like(theirs[own])
             for name, own in names.items() if name.startswith("bias")}
    module.load_state_dict({name: theirs[own] for name, own in names.items()} | zeros)
    trained = {names[name]: value for name, value in module.named_parameters() if name in names}
    leaves = leaves_of(a, {"x": "dx"})
    return autograd(lambda: {"h": call(leaves["dx"])}, leaves | trained, {"h": a["dh"]},
                    in_our_layout)


def laid_out(a: Arrays) -> dict[str, Any]:
    """Our weights as PyTorch's kernels take them: `rnn.0.weight_ih` and so on."""
    from grads.verification.reference.fused import fused

    return fused("lstm", {name: value for name, value in a.items() if name.startswith("rnn.")})


def in_our_layout(results: Results) -> Results:
    """PyTorch's weight gradients as ours: one matrix and one bias a layer, our order of gates."""
    import torch

    from grads.verification.reference.fused import unfused

    tensors = {name: torch.from_numpy(value) for name, value in results.items()}
    return {name: tensor.numpy() for name, tensor in unfused("lstm", tensors).items()}


def torch_step(a: Arrays) -> Passes:
    """The function that nn.LSTMCell calls."""
    import torch

    leaves = leaves_of(a, {"x": "dx", "h": "dh_prev", "c": "dc_prev"})
    leaves |= {name: value.requires_grad_() for name, value in laid_out(a).items()}
    x, h, c, *weights = leaves.values()
    weights.append(torch.zeros_like(leaves["rnn.0.bias_ih"]))
    return autograd(lambda: dict(zip("hc", torch.lstm_cell(x, (h, c), *weights), strict=True)),
                    leaves, {"h": a["dh"], "c": a["dc"]}, in_our_layout)


def gru_loop(a: Arrays) -> Passes:
    """The reference's layer, the input's share of all steps in one product."""
    from grads.verification.reference.recurrent import layer as reference_layer
    from grads.verification.reference.recurrent import weights, zero_state

    leaves = leaves_of(a, {"x": "dx", "rnn.0.W": "rnn.0.W", "rnn.0.b": "rnn.0.b"})
    x, config = a["x"], SimpleNamespace(unit="gru", hidden_size=a["x"].shape[2], clip_elements=None)

    def run() -> Results:
        w = weights(config, leaves, "rnn.0")
        return {"h": reference_layer(config, x, zero_state(config, x), w)[0]}

    return autograd(run, leaves, {"h": a["dh"]})
