"""The softmax over source positions that are there (Luong, 2016, Eq. 4.7)."""

from __future__ import annotations

from backend import Array, array_module
from backend.fused import fused
from backend.fused import softmax as kernels

LEAST = -1e30  # below any score, and a float32


@fused(kernels.softmax_forward)
def softmax_forward(e: Array, mask: Array | None) -> Array:
    """a(s) = exp(e(s)) / sum of exp(e(s')) over the last axis, in place of e.

    Arguments: e (..., S); mask, bool, broadcast to e, True where there is no position; or None.
    Returns a (..., S), exactly zero where masked, everywhere if all is: a window behind the
    sentence's end gives no context.
    """
    xp = array_module(e)
    if mask is not None:
        xp.copyto(e, -xp.inf, where=mask)
    e -= xp.maximum(e.real.max(axis=-1, keepdims=True), LEAST)
    a = xp.exp(e, out=e)
    total = a.sum(axis=-1, keepdims=True)
    if mask is not None:
        total += total.real == 0.0
    a /= total                                             # a_t(s)                  (4.7)
    return a


@fused(kernels.softmax_backward)
def softmax_backward(da: Array, a: Array) -> Array:
    """de = (diag(a) - a a') da, in place of da (..., S)."""
    da -= (a * da).sum(axis=-1, keepdims=True)
    da *= a                                                # softmax backward
    return da
