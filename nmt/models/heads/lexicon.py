"""A lexicon as a bias: translations of the attended words become more probable (Arthur et al.,
2016, "Incorporating Discrete Translation Lexicons into Neural Machine Translation").

    x_t(e) = sum over s of a_t(s) p_lex(e | f_s)                       (Nguyen 3.2.5.2 attended)
    p(e) = softmax(W_o h~_t + b + log(x_t(e) + epsilon))               (Nguyen 3.2.5.2 bias)

p_lex is fixed and nearly all of it is 0. In log(x + epsilon) = log epsilon + log(1 + x / epsilon),
the first term is the same number for all words, which does not change the softmax. It is left out.
Then the bias is 0 except for the few words that translate a word of the sentence. Only these biases
are computed, U per sentence, and added to their logits. The gradient reaches a_t.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from attention.memory import written_steps
from backend import Array, array_module, to_device
from backend.errors import check
from nmt.data.batches import Side
from nmt.data.lexicon import BatchEntries, Lexicon, entries_of


def check_lexicon(config: Any) -> None:
    """Raise ValueError for a `lexicon_epsilon` that is not in (0, 1], or that does not fit other
    options."""
    epsilon, name = config.lexicon_epsilon, "lexicon_epsilon"
    if epsilon is not None:
        check(config, name, 0.0 < epsilon <= 1.0, "a number above 0 and at most 1")
        check(config, name, config.attention != "none", "null where attention is 'none'")
        check(config, name, config.target_sample is None,
              "null with target_sample, whose words are not all that are translations")


class LexiconCache(NamedTuple):
    p: Array  # (B, S, U)
    total: Array  # (B, T, U), x + epsilon


def batch_entries(lexicon: Lexicon, side: Side, reverse: bool, dtype: np.dtype) -> BatchEntries:
    """The entries of a batch's sources, with the words in written order.

    reverse: whether `side.ids` are reversed. Padding follows the words in any case.
    """
    ids = side.ids.T                                                       # (B, S)
    if reverse:
        ids = np.take_along_axis(ids, written_steps(len(side.ids), side.lengths), 1)
    entries = entries_of(lexicon, ids, side.lengths)
    return BatchEntries(to_device(entries.words), to_device(entries.p.astype(dtype)))


def lexicon_forward(align: Array, p: Array, epsilon: float) -> tuple[Array, LexiconCache]:
    """log(1 + x / epsilon) (B, T, U), from align (B, T, S), over written words, and p (B, S, U)."""
    xp = array_module(align, p)
    total = xp.matmul(align, p)                                        # (Nguyen 3.2.5.2 attended)
    total += epsilon
    return xp.log(total * (1.0 / epsilon)), LexiconCache(p, total)     # (Nguyen 3.2.5.2 bias)


def lexicon_backward(d: Array, cache: LexiconCache) -> Array:
    """d_align (B, T, S), given the gradient d (B, T, U) of the logits with the bias."""
    xp = array_module(d)
    dx = d / cache.total                                               # (Nguyen 3.2.5.2 bias)
    return xp.matmul(dx, cache.p.transpose(0, 2, 1))                   # (Nguyen 3.2.5.2 attended)


def lexicon_step(logits: Array, align: Array, entries: BatchEntries, epsilon: float) -> None:
    """Add the bias to logits (N, V), for search; align (N, S), N = B K."""
    xp, (B, S, U), N = array_module(logits), entries.p.shape, len(logits)
    values, _ = lexicon_forward(align.reshape(B, -1, S), entries.p, epsilon)
    rows = xp.arange(N)[:, None]
    logits[rows, xp.repeat(entries.words, N // B, axis=0)] += values.reshape(N, U)
