"""The cache of a norm (`attention.norms`), for its Python form and for its fused kernel."""

from __future__ import annotations

from typing import NamedTuple

from backend import Array

EPS = 1e-5


class NormCache(NamedTuple):
    """The data that a backward pass reads. Every norm computes x_hat from x, and y from x_hat."""

    x_hat: Array  # (..., d), x (centred, for `layer`) divided by `size`
    size: Array  # (..., 1), the divisor
    g: Array | float  # (d,), (1,), or the fixed sqrt(d)
    free: Array | None = None  # (..., 1) bool, for `scale`: whether size is the vector's length
