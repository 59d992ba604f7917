"""Fused kernels of softmax and cross-entropy: `attention.scores`, `attention.multihead`,
`lstm.prediction`."""

from __future__ import annotations

from typing import Any

from backend.fused.layout import WAVE, Unfusable, flat, stride, vector
from backend.fused.source import Launcher, Source
from backend.switch import Array, array_module

SOFTMAX = Source("backend.fused", "kernels/softmax.cu")


def softmax_forward(launch: Launcher, e: Array, mask: Array | None) -> Array:
    """Maximum, exponential, sum and quotient of a row in one block, the mask read in the same pass.

    Takes e (B, Q, S); a mask of size 1 along an axis is repeated along it.
    """
    _forward(launch, e, mask, 1.0)
    return e


def heads_softmax_forward(
    launch: Launcher, e: Array, scale: float, masked: Array | None, mask: Array | None
) -> tuple[Array, Array]:
    """The same with the scale before it and dropout of the weights after it.

    Takes e (B n, T, S) and a mask of sentences (B, 1, S), which a head's rows share, or of steps.
    """
    rows, char = e, e.dtype.char
    if masked is not None and masked.shape[0] > 1:
        rows = e.reshape(masked.shape[0], -1, e.shape[2])
    kept = e
    if mask is not None:
        flat(char, e, mask)
        kept = array_module(e).empty(e.shape, dtype=e.dtype)
    _forward(launch, rows, masked, scale, 0 if mask is None else mask, 0 if mask is None else kept)
    return e, kept


def _forward(
    launch: Launcher, e: Array, mask: Array | None, scale: float, dropout: Any = 0, kept: Any = 0
) -> None:
    char = e.dtype.char
    flat(char, e)
    if e.ndim != 3 or not e.size:
        raise Unfusable
    B, Q, S = e.shape
    launch(SOFTMAX["softmax_forward"], char, min(B * Q, WAVE), B * Q, Q, S, e,
           *((0, 0, 0, 0) if mask is None else _spread(mask, e)), float(scale), dropout, kept)


def _spread(mask: Array, e: Array) -> tuple[Any, ...]:
    """A mask and its strides in bytes along the axes of e; 0 along a repeated axis."""
    if mask.dtype.char != "?" or mask.ndim != 3:
        raise Unfusable
    for size, wanted in zip(mask.shape, e.shape, strict=True):
        if size not in (1, wanted):
            raise Unfusable
    strides = (step if size > 1 else 0 for size, step in zip(mask.shape, mask.strides, strict=True))
    return (mask, *strides)


def softmax_backward(launch: Launcher, da: Array, a: Array) -> Array:
    """One block for each row."""
    return heads_softmax_backward(launch, da, a, 1.0, None)


def heads_softmax_backward(
    launch: Launcher, da: Array, a: Array, scale: float, mask: Array | None
) -> Array:
    """The same with dropout of the weights before it and the scale after it."""
    char = da.dtype.char
    flat(char, *((da, a) if mask is None else (da, a, mask)))
    if da.shape != a.shape or not da.size:
        raise Unfusable
    S = da.shape[-1]
    launch(SOFTMAX["softmax_backward"], char, min(da.size // S, WAVE), da.size // S, S, da, a,
           float(scale), 0 if mask is None else mask)
    return da


def cross_entropy(
    launch: Launcher, s: Array, targets: Array, losses: Array, b: Array | None = None
) -> None:
    """One block for each row, which is read twice and written once."""
    char = s.dtype.char
    rows, V = s.shape
    flat(char, losses)
    if targets.dtype.char not in "lq" or not targets.flags.c_contiguous or not rows:
        raise Unfusable
    launch(SOFTMAX["cross_entropy"], char, min(rows, WAVE), rows, V, s,
           stride(s, char, limit=None), targets, losses, vector(b, char))


def smoothed_cross_entropy(
    launch: Launcher, s: Array, targets: Array, losses: Array, nll: Array, smoothing: float,
    b: Array | None = None,
) -> None:
    """`cross_entropy` with a target that is spread over all words."""
    char = s.dtype.char
    rows, V = s.shape
    flat(char, losses, nll)
    if targets.dtype.char not in "lq" or not targets.flags.c_contiguous or not rows:
        raise Unfusable
    launch(SOFTMAX["smoothed_cross_entropy"], char, min(rows, WAVE), rows, V, s,
           stride(s, char, limit=None), targets, losses, nll, float(smoothing),
           vector(b, char))
