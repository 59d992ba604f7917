"""Every variant of attention with small random memories, for `tests/attention`."""

from __future__ import annotations

import numpy as np
from literal import draw, draw_parameters

from attention.attention import memory_forward
from attention.scores import AS_THEY_ARE, CONTENT, SCORES, Variant, score_weights
from grads.derivations.attention_step import Variant as LiteralVariant
from lstm.parameters import Scheme

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
    He = H if variant.score in AS_THEY_ARE else HE
    h, states = draw(rng, (B, Q, H), dtype, scale), draw(rng, (S, B, He), dtype, scale)
    weights = score_weights(variant, "attention", H, He, Scheme())
    parameters = draw_parameters(rng, weights, dtype, scale)
    memory = memory_forward(states, np.array(lengths), variant, parameters, "attention")
    return h, states, parameters, memory


def backward(h, dc, memory, first=1, stepwise=False):
    """dh, the gradient of the states, and those of the weights, computed all at once or step by
    step."""
    T = h.shape[1]
    steps = [slice(t, t + 1) for t in range(T)] if stepwise else [slice(0, T)]
    caches = [memory.attend(h[:, span], first + span.start)[1] for span in steps]
    sums, upstreams = memory.accumulators(), []
    for span, cache in reversed(list(zip(steps, caches, strict=True))):
        upstreams.insert(0, memory.attend_backward(dc[:, span], cache, sums))
    dstates, gradients = memory.gradients(dc, h, caches, [step for _, step in upstreams], sums)
    return np.concatenate([dh for dh, _ in upstreams], axis=1), dstates, gradients


def literal_of(variant):
    """The derivation's variant that corresponds to this one."""
    return LiteralVariant(variant.score, variant.window, variant.D, variant.reverse,
                          variant.renormalise)


def only(cache):
    """The arrays in a cache."""
    if isinstance(cache, np.ndarray):
        return [cache]
    return [array for entry in cache if isinstance(entry, (tuple, list, np.ndarray))
            for array in only(entry)]
