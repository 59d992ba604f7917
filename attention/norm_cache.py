"""What the forward pass of a norm (`attention.norms`) keeps, in Python and in its fused kernel."""

from __future__ import annotations

from typing import NamedTuple

from backend import Array

EPS = 1e-5


class NormCache(NamedTuple):
    """What a backward pass reads; in all norms y is made of x_hat, and x_hat of x."""

    x_hat: Array  # (..., d), x (centred, for `layer`) divided by `size`
    size: Array  # (..., 1), what it was divided by
    g: Array | float  # (d,), (1,), or the fixed sqrt(d)
    free: Array | None = None  # (..., 1) bool, `scale`: whether size is the vector's own length
