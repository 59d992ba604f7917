"""Recurrent layers and single steps, compared with PyTorch's modules.

The GRU is that of Bahdanau et al., as an eager loop, since nn.GRU is another function (erratum 17).
`grads.verification.reference.fused` arranges the weights for PyTorch. PyTorch's second bias is zero
and has the same gradient as the first, so it is left out.

Operations are the multiplications and additions of the matrix products: 2 G (E + H) per step and
example, where G is the number of rows of T. The backward has two products for each of the forward.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from backend import array_module
from backend.workspace import Workspace
from benchmarks.case import Results
from benchmarks.kernel import Arrays, Kernel, Make, Passes, autograd, differentiated, leaves_of
from lstm.cells import CELLS
from lstm.recurrent import recurrent_backward, recurrent_forward, recurrent_step
from lstm.stack import Stack, stack_backward, stack_forward, zero_state


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
    """A step of an LSTM, as search and a decoder run it; E = H."""
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


def our_layer(unit: str, a: Arrays) -> Passes:
    """Our stack of one layer, with one workspace for all calls."""
    workspace, x = Workspace(), a["x"]
    stack = Stack(unit, 1, x.shape[2])
    initial = [[zero_state(array_module(x), unit, x.shape[1], x.shape[2], x.dtype)]]

    def forward() -> tuple[Results, Any]:
        h, _, cache = stack_forward(x, a, "rnn", stack, initial, workspace=workspace)
        return {"h": h}, cache

    def backward(cache: Any) -> Results:
        dx, _, gradients = stack_backward(a["dh"], None, cache)
        return {"dx": dx, **gradients}

    return differentiated(forward, backward)


def our_step(a: Arrays) -> Passes:
    """Our step. Its gradients are those of h' dh + c' dc."""
    cell, x, state, T, b = CELLS["lstm"], a["x"], (a["h"], a["c"]), a["rnn.0.W"], a["rnn.0.b"]

    def forward() -> tuple[Results, Any]:
        _, (h, c), cache = recurrent_forward(cell, x[None], state, T, b)
        return {"h": h, "c": c}, cache

    def backward(cache: Any) -> Results:
        dx, (dh_prev, dc_prev), dT, db = recurrent_backward(None, (a["dh"], a["dc"]), cache)
        return {"dx": dx[0], "dh_prev": dh_prev, "dc_prev": dc_prev, "rnn.0.W": dT, "rnn.0.b": db}

    both = differentiated(forward, backward).run["both"]
    return Passes({"forward": lambda: dict(zip("hc", recurrent_step(cell, x, state, T, b),
                                               strict=True)), "both": both})


def torch_layer(a: Arrays) -> Passes:
    """nn.LSTM, which is oneDNN's layer on the CPU and cuDNN's on a GPU."""
    from torch import nn

    leaves, weights = torch_leaves(a, {"x": "dx"})
    x, *names = leaves
    module = nn.LSTM(*(a["x"].shape[2],) * 2).to(a["x"].device)
    module.load_state_dict(dict(zip(module.state_dict(), weights, strict=True)))
    leaves |= dict(zip(names, module.parameters(), strict=False))  # without its second bias
    return autograd(lambda: {"h": module(leaves[x])[0]}, leaves, {"h": a["dh"]}, in_our_layout)


def torch_loop(a: Arrays) -> Passes:
    """A loop over the function that nn.LSTMCell calls, as in a decoder with input feeding."""
    return _torch_loop(a, lambda function: function)


def compiled_loop(a: Arrays, backend: str = "inductor") -> Passes:
    """The loop under torch.compile, which unrolls it. Compiling is not timed."""
    import torch

    return _torch_loop(a, partial(torch.compile, backend=backend))


def _torch_loop(a: Arrays, compiled: Callable[[Any], Any]) -> Passes:
    import torch

    leaves, weights = torch_leaves(a, {"x": "dx"})

    def over_time() -> Results:
        zero, states = torch.zeros_like(a["dh"][0]), []
        h, c = zero, zero
        for x_t in leaves["dx"]:
            h, c = torch.lstm_cell(x_t, (h, c), *weights)
            states.append(h)
        return {"h": torch.stack(states)}

    return autograd(compiled(over_time), leaves, {"h": a["dh"]}, in_our_layout)


def torch_step(a: Arrays) -> Passes:
    """A call of the function that nn.LSTMCell calls."""
    import torch

    leaves, weights = torch_leaves(a, {"x": "dx", "h": "dh_prev", "c": "dc_prev"})
    return autograd(lambda: dict(zip("hc", torch.lstm_cell(
        leaves["dx"], (leaves["dh_prev"], leaves["dc_prev"]), *weights), strict=True)),
        leaves, {"h": a["dh"], "c": a["dc"]}, in_our_layout)


def torch_leaves(a: Arrays, inputs: Mapping[str, str]) -> tuple[dict[str, Any], list[Any]]:
    """The tensors with gradients: these inputs, and our weights in the form of PyTorch's kernels,
    `rnn.0.weight_ih` and so on. Also returns the weights with the second bias."""
    import torch

    from grads.verification.reference.fused import fused

    weights = {name: value.requires_grad_() for name, value in fused(
        "lstm", {name: value for name, value in a.items() if name.startswith("rnn.")}).items()}
    return leaves_of(a, inputs) | weights, [
        *weights.values(), torch.zeros_like(weights["rnn.0.bias_ih"])]


def in_our_layout(results: Results) -> Results:
    """PyTorch's weight gradients as ours: one matrix and one bias a layer, our order of gates."""
    from grads.verification.reference.fused import unfused

    return unfused("lstm", results)


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
