"""Fused kernels of the norms, `attention.norms` (`norms.cu`).

Each takes a launcher, then the arguments of the function of the same name.
"""

from __future__ import annotations

from typing import Any

from attention.norm_cache import EPS, NormCache
from backend.fused.layout import WAVE, Unfusable, flat, vector
from backend.fused.source import Launcher, Source
from backend.switch import Array, array_module

NORMS = Source("attention", "norms.cu")
BLOCKS = 512  # blocks of a backward pass, each with its own sum of the weights' gradients


def layer_norm_forward(launch: Launcher, x: Array, g: Array, b: Array) -> tuple[Array, NormCache]:
    """Mean, variance, weights and bias of a vector in one block."""
    return _forward(launch, x, g, b, centred=1, averaged=1)


def scale_norm_forward(launch: Launcher, x: Array, g: Array | float) -> tuple[Array, NormCache]:
    """Length and quotient of a vector in one block."""
    return _forward(launch, x, g, None, centred=0, averaged=0)


def rms_norm_forward(launch: Launcher, x: Array, g: Array) -> tuple[Array, NormCache]:
    """Mean square and weights of a vector in one block."""
    return _forward(launch, x, g, None, centred=0, averaged=1)


def layer_norm_backward(
    launch: Launcher, dy: Array, cache: NormCache
) -> tuple[Array, Array, Array]:
    """Two launches: first the vectors and the sums of blocks, then the total of these sums."""
    dx, weight_gradients = _backward(launch, dy, cache, centred=1, averaged=1)
    d = dy.shape[-1]
    return dx, weight_gradients[:d], weight_gradients[d:]


def scale_norm_backward(launch: Launcher, dy: Array, cache: NormCache) -> tuple[Array, Array]:
    """Two launches, as for the layer norm."""
    return _backward(launch, dy, cache, centred=0, averaged=0)


def rms_norm_backward(launch: Launcher, dy: Array, cache: NormCache) -> tuple[Array, Array]:
    """Two launches, as for the layer norm."""
    return _backward(launch, dy, cache, centred=0, averaged=1)


def _forward(
    launch: Launcher, x: Array, g: Array | float, b: Array | None, centred: int, averaged: int
) -> tuple[Array, NormCache]:
    xp, char, d = array_module(x), x.dtype.char, x.shape[-1]
    if flat(char, x) == 0:
        raise Unfusable
    weights = _weights(g, char, averaged)
    x_hat, y = xp.empty(x.shape, dtype=x.dtype), xp.empty(x.shape, dtype=x.dtype)
    size = xp.empty((*x.shape[:-1], 1), dtype=x.dtype)
    outside = None if averaged else xp.empty(size.shape, dtype=bool)
    launch(NORMS["norm_forward"], char, min(size.size, WAVE), size.size, d, x, centred, averaged,
           EPS, *weights, vector(b, char), x_hat, size, 0 if outside is None else outside, y)
    return y, NormCache(x_hat, size, g, outside)


def _backward(
    launch: Launcher, dy: Array, cache: NormCache, centred: int, averaged: int
) -> tuple[Array, Array]:
    """dx, and the gradients of the weights, one after another."""
    xp, char, d = array_module(dy), dy.dtype.char, dy.shape[-1]
    x_hat, size, g, outside = cache
    if flat(char, dy, x_hat) == 0:
        raise Unfusable
    flat(char, size)
    blocks, width = min(size.size, BLOCKS), d * (1 + centred) if averaged else 1
    dx, partial = xp.empty(dy.shape, dtype=dy.dtype), xp.empty((blocks, width), dtype=dy.dtype)
    sums = xp.empty((width,), dtype=dy.dtype)
    launch(NORMS["norm_backward"], char, blocks, size.size, d, dy, x_hat, size,
           0 if outside is None else outside, centred, averaged, *_weights(g, char, averaged), dx,
           partial, width)
    launch(NORMS["column_sums"], char, width, blocks, width, partial, sums)
    return dx, sums


def _weights(g: Array | float, char: str, averaged: int) -> tuple[Any, int, float]:
    """g, its step, and its value where it is a number."""
    if isinstance(g, (int, float)):
        return 0, 0, float(g)
    return vector(g, char), averaged, 0.0
