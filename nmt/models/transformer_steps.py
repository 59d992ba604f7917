"""A step of a Transformer's decoder, for search. Keys and values of earlier words are cached.

The N = B k rows are hypotheses, k per sentence. The hypotheses of a sentence share the keys and
values of its source, as if their queries were k steps (k, B, d).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from attention.feed_forward import feed_forward_forward
from attention.multihead import heads_forward, joined_heads, keys_values, queries
from attention.norms import norm_forward
from attention.positions import positions, positions_at
from attention.sublayer import sublayer_forward
from backend import Array, array_module, to_device
from backend.rows import gather_rows
from nmt.models.transformer_layers import Layers

KeysValues = tuple[Array, Array]


class StepState(NamedTuple):
    """The decoder's search state between two words."""

    sources: list[KeysValues]  # by layer, (S, B, d) each
    padding: Array | None  # (B, 1, S) bool
    past: list[KeysValues]  # by layer, of the t earlier words, (t, N, d) each
    lengths: Array | None = None  # (B, L) logits of the target's length, with a countdown
    left: np.ndarray | None = None  # (B,) host, the position of the next word, with a countdown


def first_state(
    prefix: str, layers: Layers, parameters: Mapping[str, Array], memory: Array,
    padding: Array | None, lengths: Array | None = None,
) -> StepState:
    """The state before the first word. memory: (S, B, d), and its padding, from the encoder.
    lengths: (B, L), logits of the target's length."""
    empty = memory[:0]
    return StepState([keys_values(f"{prefix}.{depth}.source", parameters, memory)
                      for depth in range(layers.depth)], padding, [(empty, empty)] * layers.depth,
                     lengths)


def counting_state(state: StepState, sentences: np.ndarray, lengths: np.ndarray) -> StepState:
    """The state of sentences (N,) before their first word. Arguments: sentences, ascending, in
    which a sentence may occur several times; lengths (N,), their numbers of words; both on the
    host."""
    of, (k, v) = to_device(sentences), state.past[0]
    empty = (k[:, of], v[:, of])
    return StepState([(k[:, of], v[:, of]) for k, v in state.sources],
                     None if state.padding is None else state.padding[of],
                     [empty] * len(state.past), None, lengths - 1)


def stack_step(
    prefix: str, layers: Layers, parameters: Mapping[str, Array], tokens: np.ndarray,
    state: StepState,
) -> tuple[Array, StepState, Array]:
    """Feed a word to each row: tokens (N,) host ids. Returns the top layer's output (N, d), the new
    state, and the alignment (N, S): the top layer's attention to the source, averaged over its
    heads."""
    table, (kind, pre), past, align = parameters[f"{prefix}.W_e"], layers.placement, [], None
    x = gather_rows(table, to_device(tokens))[None] * layers.width**0.5    # (1, N, d)
    left = state.left
    if left is None:
        x = x + positions(len(state.past[0][0]), 1, layers.width, x.dtype)
    else:
        x = x + positions_at(np.repeat(left, len(tokens) // len(left)), layers.width, x.dtype)
        left = np.maximum(left - 1, 0)                                     # (Nguyen 4.1.2 position)
    for depth in range(layers.depth):
        for sublayer in layers.sublayers:
            name = f"{prefix}.{depth}.{sublayer}"
            layer: Any = partial(feed_forward_forward, name, parameters)
            if sublayer == "attention":
                layer = partial(_past_step, name, parameters, layers.heads, state.past[depth])
            elif sublayer == "source":
                layer = partial(_source_step, name, parameters, layers.heads, state.sources[depth],
                                state.padding)
            x, cache = sublayer_forward(f"{name}.norm", layers.placement, parameters, x, layer)
            if sublayer == "attention":
                past.append(cache.layer)
            elif sublayer == "source":
                align = cache.layer
    assert align is not None
    if pre:
        x, _ = norm_forward(f"{prefix}.norm", kind, parameters, x)
    return x[0], state._replace(past=past, left=left), align


def _past_step(
    name: str, parameters: Mapping[str, Array], heads: int, before: KeysValues, x: Array
) -> tuple[Array, KeysValues]:
    """Self-attention of the newest word x (1, N, d) to itself and to earlier words, and the keys
    and values of all these words (t + 1, N, d)."""
    now = keys_values(name, parameters, x)
    k, v = (array_module(x).concatenate([old, new]) for old, new in zip(before, now, strict=True))
    c, _ = heads_forward(queries(name, parameters, x), k, v, heads)
    return joined_heads(name, parameters, c), (k, v)


def _source_step(
    name: str, parameters: Mapping[str, Array], heads: int, source: KeysValues,
    padding: Array | None, x: Array,
) -> tuple[Array, Array]:
    """Attention of x (1, N, d) to the sources, and its weights (N, S), averaged over the heads."""
    xp, (_, N, d), (S, B, _) = array_module(x), x.shape, source[0].shape
    q = queries(name, parameters, x).reshape(B, N // B, d).transpose(1, 0, 2)
    c, cache = heads_forward(xp.ascontiguousarray(q), *source, heads, padding)  # (K, B, d)
    c = c.transpose(1, 0, 2).reshape(1, N, d)
    align = cache.align.reshape(B, heads, N // B, S).sum(axis=1) * (1.0 / heads)  # (B, K, S)
    return joined_heads(name, parameters, c), align.reshape(N, S)


def select_step(state: StepState, rows: np.ndarray, sentences: np.ndarray) -> StepState:
    """Keep hypotheses (N',) and sentences (B',), ascending, both on the host."""
    past = _columns(state.past, rows)
    if len(sentences) == state.sources[0][0].shape[1]:
        return state._replace(past=past)
    of = to_device(sentences)
    return StepState(_columns(state.sources, sentences),
                     None if state.padding is None else state.padding[of], past, None,
                     None if state.left is None else state.left[sentences])


def _columns(pairs: list[KeysValues], chosen: np.ndarray) -> list[KeysValues]:
    """The chosen columns of keys and values (t, N, d), with contiguous rows, so that heads are
    views of them. chosen: (N',) on the host. If all are chosen, the same arrays."""
    if len(chosen) == pairs[0][0].shape[1] and (chosen[1:] > chosen[:-1]).all():
        return pairs
    of = to_device(chosen)
    return [(k.take(of, axis=1), v.take(of, axis=1)) for k, v in pairs]
