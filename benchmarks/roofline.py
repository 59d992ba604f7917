"""The roofline, measured in the same run: the rates of a large matrix product and of a copy.

No kernel of ours multiplies faster than one large float32 product of the same library, and none
moves memory faster than one large copy. The fraction of the roofline shows how much can be gained.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Roofline(NamedTuple):
    """A computation that runs at the machine's limit."""

    run: Callable[[], Any]
    work: float  # floating-point operations, or bytes read and written


def gemm_roofline(xp: Any, size: int, wait: Callable[[], Any]) -> Roofline:
    """A product of two square float32 matrices of `size` rows."""
    a, b = (xp.full((size, size), value, dtype=np.float32) for value in (0.5, 0.25))
    out = xp.empty((size, size), dtype=np.float32)

    def run() -> None:
        xp.matmul(a, b, out=out)
        wait()

    return Roofline(run, 2.0 * size**3)


def copy_roofline(xp: Any, size: int, wait: Callable[[], Any]) -> Roofline:
    """A copy of `size` bytes, far more than any cache holds: as many are read as written."""
    source = xp.zeros((size // 4,), dtype=np.float32)
    source += 1.0  # so that its pages exist, and are not all one page of zeros
    target = xp.empty_like(source)

    def run() -> None:
        xp.copyto(target, source)
        wait()

    return Roofline(run, 2.0 * size)


def make_roofline(
    unit: str, xp: Any, wait: Callable[[], Any], *, gpu: bool, quick: bool
) -> Roofline:
    """The roofline of work counted in `unit`, "FLOP" or "B"; a GPU needs larger arrays for it."""
    if unit == "FLOP":
        return gemm_roofline(xp, 128 if quick else 8192 if gpu else 1536, wait)
    return copy_roofline(xp, 1 << (16 if quick else 30 if gpu else 26), wait)
