"""Every variant of attention with small random memories, for `tests/attention`."""

from __future__ import annotations

import numpy as np
from literal import draw, draw_parameters

from attention.attention import accumulators, attention_backward, attention_forward, memory_backward
from attention.memory import memory_forward
from attention.scores import CONTENT, SCORES, Variant, score_weights
from grads.derivations.attention_step import Variant as LiteralVariant
from lstm.parameters import Scheme
from lstm.recurrent import make_padding

H, HE, Q = 3, 4, 4
VARIANTS = [
    *(Variant(score, length=4) for score in SCORES),
    *(Variant(score, window, D, renormalise=again, reverse=reverse)
      for score in CONTENT for reverse in (False, True) for D in (1, 2, 9)
      for window, again in (("local-m", False), ("local-p", False), ("local-p", True))),
]


def make(variant, lengths, dtype=np.float64, scale=0.7):
    """h (B, Q, H), states (S, B, He), parameters, memory."""
    rng, B, S = np.random.default_rng(4), len(lengths), max(lengths)
    score = SCORES[variant.score]
    He = H if score.query is None and score.keys is None else HE  # states compared as they are
    h, states = draw(rng, (B, Q, H), dtype, scale), draw(rng, (S, B, He), dtype, scale)
    weights = score_weights(variant, "attention", H, He, Scheme())
    parameters = draw_parameters(rng, weights, dtype, scale)
    padding = make_padding(np.array(lengths), S)
    return h, states, parameters, memory_forward(states, padding, variant, parameters, "attention")


def backward(h, dc, memory, first=1, stepwise=False):
    """dh, the gradient of the states, those of the weights; all at once, or step by step."""
    T = h.shape[1]
    steps = [slice(t, t + 1) for t in range(T)] if stepwise else [slice(0, T)]
    caches = [attention_forward(h[:, one], memory, first + one.start)[1] for one in steps]
    sums, found = accumulators(memory), []
    for one, cache in reversed(list(zip(steps, caches, strict=True))):
        found.insert(0, attention_backward(dc[:, one], cache, memory, sums))
    dstates, gradients = memory_backward(dc, h, caches, [step for _, step in found], memory, sums)
    return np.concatenate([dh for dh, _ in found], axis=1), dstates, gradients


def literal_of(variant):
    """The same variant as the derivation names it."""
    return LiteralVariant(variant.score, variant.window, variant.D, variant.reverse,
                          variant.renormalise)


def only(cache):
    """The arrays of a cache."""
    flat = [*cache._replace(gaussian=None), *(cache.gaussian or ())]
    return [array for array in flat if array is not None]
