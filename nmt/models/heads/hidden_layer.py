"""Hidden layers of the deep output: a maxout over pairs of neighbours (Bahdanau et al., 2015,
A.2.2), or tanh (Sennrich, 2016)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from backend import Array, array_module


def maxout_forward(t_tilde: Array) -> tuple[Array, Array]:
    """t_j = max(t~_{2j-1}, t~_{2j}): (N, M) from (N, 2M), and whether it is the first of the two.

    If the two are equal there is no derivative. Then the first counts as the maximum.
    """
    first, second = t_tilde[:, 0::2], t_tilde[:, 1::2]
    is_first = first.real >= second.real                                   # (N, M) bool
    t = array_module(t_tilde).where(is_first, first, second)               # (Bahdanau A.2.2 maxout)
    return t, is_first


def maxout_backward(dt: Array, is_first: Array) -> Array:
    """dt~ (N, 2M) given dt (N, M): dt at the larger of two, zero at the smaller."""
    xp = array_module(dt)
    N, M = dt.shape
    dt_tilde: Any = xp.empty((N, 2 * M), dtype=dt.dtype)
    xp.multiply(dt, is_first, out=dt_tilde[:, 0::2])
    xp.multiply(dt, ~is_first, out=dt_tilde[:, 1::2])
    return dt_tilde


def tanh_layer_forward(t_tilde: Array) -> tuple[Array, Array]:
    """t = tanh(t~), (N, M), in place; the cache is t."""
    t = array_module(t_tilde).tanh(t_tilde, out=t_tilde)
    return t, t


def tanh_layer_backward(dt: Array, t: Array) -> Array:
    """dt~ = (1 - t^2) o dt, (N, M)."""
    xp = array_module(dt, t)
    slope = t * t
    xp.subtract(1.0, slope, out=slope)
    slope *= dt
    return slope


class Layer(NamedTuple):
    """A hidden layer: the number of t~'s rows for a unit of t, forward, backward."""

    rows: int
    forward: Callable[[Array], tuple[Array, Array]]
    backward: Callable[[Array, Array], Array]


LAYERS = {
    "maxout": Layer(2, maxout_forward, maxout_backward),
    "tanh": Layer(1, tanh_layer_forward, tanh_layer_backward),
}
