"""The data of the explorer's pages, made once for all tests, and looking things up in it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from grads.stepper.explorer import build

STATUSES = {"verified", "partial", "same", "zero", "share"}  # in a right backward pass


@cache
def data(name: str) -> dict[str, Any]:
    """What `build` makes of a derivation's own example."""
    return build(name)


def values(name: str, i: int, variant: dict[str, Any] | None = None) -> np.ndarray:
    """The numbers of a tensor, in a variant if given, as an array of its shape."""
    tensors = data(name)["tensors"]
    shape = tensors[i]["shape"]
    changed = {} if variant is None else variant["values"]
    while i not in changed and tensors[i]["same_as"] is not None:
        i = tensors[i]["same_as"]
    return np.array(changed.get(i, tensors[i]["value"]), float).reshape(shape)


def step_of(d: dict[str, Any], text: str, **loops: int) -> int:
    """The number of the first step with that text, in those iterations of loops."""
    return next(i for i, step in enumerate(d["steps"]) if step["text"].startswith(text)
                and loops.items() <= dict(step["loops"]).items())
