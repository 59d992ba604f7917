"""Fused kernels of `attention.step` (`step.cu`): an LSTM's step with attention after it."""

from __future__ import annotations

from typing import Any

from attention.attention import AttentionCache, ScoreGradients
from attention.memory import Memory
from attention.scores import SCORES, maps_of
from attention.several import AnyMemory
from backend.fused.cells import LstmStep
from backend.fused.layout import WAVE, Unfusable, flat, optional, spread, stride
from backend.fused.source import Source
from backend.switch import Array, array_module

STEP = Source("attention", "step.cu", "lstm.cuh")


def lstm_attend(
    launch: Any, step: LstmStep, memory: AnyMemory, mask: Array | None, joined: Array
) -> AttentionCache:
    """A sentence a block: its units, its scores, their softmax, its context."""
    xp, char, h = array_module(joined), step.char, step.state
    one, *given = _products(memory, step)
    a = xp.empty((step.rows, 1, one.hbar.shape[1]), dtype=h.dtype)
    out, out_b, _, out_s = spread(one.mask, a)
    launch(STEP["lstm_attend"], char, min(step.rows, WAVE), *step.arguments, *given, out, out_b,
           out_s, *optional(mask, char), a, joined, stride(joined, char))
    return AttentionCache(a, a, h[:, None])


def attend_lstm_backward(
    launch: Any, step: LstmStep, memory: AnyMemory, cache: AttentionCache, mask: Array | None,
    d_joined: Array, da: Array | None, dc: Array,
) -> ScoreGradients:
    """A sentence a block, from its context back to its units."""
    if da is not None:
        raise Unfusable
    xp, char = array_module(dc), step.char
    _, *given = _products(memory, step)
    flat(char, cache.a)
    de = xp.empty(cache.a.shape, dtype=dc.dtype)
    launch(STEP["attend_lstm_backward"], char, min(step.rows, WAVE), *step.arguments, *given,
           cache.a, d_joined, stride(d_joined, char), *optional(mask, char), dc, stride(dc, char),
           de)
    return ScoreGradients(de)


def _products(memory: AnyMemory, step: LstmStep) -> tuple[Any, ...]:
    """The memory; and S, He, keys, states and what q'k is multiplied by, as the kernels take them.

    Raises Unfusable for several memories, in a window, and for scores that are not products of h_t.
    """
    if not isinstance(memory, Memory) or memory.variant.local:
        raise Unfusable
    factor = SCORES[memory.variant.score].energy.factor
    if factor is None or maps_of(memory.variant)[0] is not None:
        raise Unfusable
    (B, S, He), A = memory.hbar.shape, memory.keys.shape[2]
    flat(step.char, memory.hbar)
    flat(step.char, memory.keys)
    if (B, A) != (step.rows, step.H) or not S:
        raise Unfusable
    return memory, S, He, memory.keys, memory.hbar, factor(A)
