"""Parameter updates and the gradient's norm, beside `torch.optim` in its fastest eager form.

All of it is bound by memory: the work is the bytes that one update has to read and write, four each
for a parameter, its gradient and each of its optimizer states.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from benchmarks.implementations import Arrays, Kernel, Passes, Results
from nmt.training.optimizers import SGD, Adadelta, Adam, Optimizer, gradient_scale

FLOAT = 4  # bytes


class Rule(NamedTuple):
    """An optimizer here and in PyTorch, with the same options in both."""

    ours: Callable[[], Optimizer]
    theirs: Callable[[Any, list[Any]], Any]  # of torch and its parameters
    moved: int  # numbers read and written, of each parameter


RULES: Mapping[str, Rule] = {
    "SGD": Rule(lambda: SGD(0.1), lambda torch, p: torch.optim.SGD(p, 0.1, fused=True), 3),
    "Adam": Rule(lambda: Adam(0.001), lambda torch, p: torch.optim.Adam(p, 0.001, fused=True), 7),
    "Adadelta": Rule(lambda: Adadelta(1.0), lambda torch, p: torch.optim.Adadelta(
        p, 1.0, rho=0.95, eps=1e-6), 7),
}


def draw(H: int, V: int) -> dict[str, np.ndarray]:
    """Parameters of two LSTM layers and an output layer, and a gradient of each."""
    rng = np.random.default_rng(1)
    shapes = {"0.W": (4 * H, 2 * H), "0.b": (4 * H,), "1.W": (4 * H, 2 * H), "1.b": (4 * H,),
              "W_hy": (V, H)}
    return {f"{kind}{name}": rng.normal(size=shape).astype(np.float32)
            for name, shape in shapes.items() for kind in ("", "d ")}


def split(a: Arrays) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and their gradients, of one set of names."""
    return ({name: value for name, value in a.items() if not name.startswith("d ")},
            {name[2:]: value for name, value in a.items() if name.startswith("d ")})


def update(name: str, H: int, V: int) -> Kernel:
    """One update of all parameters by the optimizer `name`, one of `RULES`."""
    rule, inputs = RULES[name], draw(H, V)
    numbers = sum(value.size for value in split(inputs)[0].values())
    return Kernel(f"update {name}", {"H": H, "V": V}, inputs,
                  {"update": float(rule.moved * numbers * FLOAT)}, "B",
                  lambda a: our_update(rule, a, inputs),
                  {"torch.optim": lambda a: torch_update(rule, a, inputs)})


def moved(start: Arrays) -> Callable[[Results], Results]:
    """The change of parameters from `start`: relative to their own size an update would be too
    small."""
    return lambda after: {name: value - start[name] for name, value in after.items()}


def our_update(rule: Rule, a: Arrays, start: Arrays) -> Passes:
    """Our update, in place: every pass continues from the one before."""
    parameters, gradients = split(a)
    optimizer = rule.ours()

    def run() -> Results:
        optimizer.update(parameters, gradients)
        return parameters

    return Passes({"update": run}, moved(start))


def torch_update(rule: Rule, a: Arrays, start: Arrays) -> Passes:
    """PyTorch's update, of tensors with their gradients."""
    import torch

    parameters, gradients = split(a)
    for name, parameter in parameters.items():
        parameter.requires_grad_()
        parameter.grad = gradients[name]
    optimizer = rule.theirs(torch, list(parameters.values()))

    def run() -> Results:
        optimizer.step()
        return parameters

    return Passes({"update": run}, moved(start))


def norm(H: int, V: int) -> Kernel:
    """||g|| over all parameters, as clipping needs it. PyTorch's float32 sum is about 1e-4 off."""
    inputs = draw(H, V)
    numbers = sum(value.size for value in split(inputs)[0].values())
    return Kernel("gradient norm", {"H": H, "V": V}, inputs, {"norm": float(numbers * FLOAT)}, "B",
                  our_norm, {"get_total_norm": torch_norm}, tolerance=1e-3)


def our_norm(a: Arrays) -> Passes:
    """`gradient_scale`, which also computes the clipping factor."""
    gradients = split(a)[1]
    return Passes({"norm": lambda: {"norm": gradient_scale(gradients, 1, 5.0)[1]}})


def torch_norm(a: Arrays) -> Passes:
    """torch.nn.utils.get_total_norm, the first half of clip_grad_norm_, which only reads."""
    from torch.nn.utils import get_total_norm

    gradients = list(split(a)[1].values())
    return Passes({"norm": lambda: {"norm": get_total_norm(gradients)}})
