"""Label smoothing of Nguyen (3.3.3.1), for one word, forward and backward.

The target is not the word y alone, but q: a share eps is spread over all V words, y included.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from grads.derivations.calculus import Array, Number, log_sum_exp, one_hot, softmax


def predict_smoothed(
    y: int, h: Array, W_hy: Array, b: Array | float, eps: float
) -> tuple[Number, Array, Any]:
    """The loss l_t = -q' log p_t, p_t, and -log p_t(y); both losses in nats.

    Arguments: y, the word to be predicted; h (H, 1); W_hy (V, H); b (V, 1) or zero; eps.
    """
    s = W_hy @ h + b                                             # (2.4)
    p = softmax(s)                                               # (2.5)
    log_p = s - log_sum_exp(s)                                   # as in (2.19)
    q = smoothed(y, len(s), eps)
    l = -(q.T @ log_p)[0, 0]                                     # (Nguyen 3.3.3.1 smoothing)
    return l, p, -log_p[y, 0]


def smoothed(y: int, V: int, eps: float) -> Array:
    """q (V, 1): 1 - eps + eps / V for the word y, eps / V for every other."""
    q = (1 - eps) * one_hot(y, V) + eps * np.full((V, 1), 1 / V)
    return q


def predict_smoothed_grad(
    y: int, h: Array, W_hy: Array, b: Array | float, eps: float, p: Array
) -> tuple[Array, Array, Array]:
    """dh_t (H, 1), dW_hy (V, H) and db (V, 1) of l_t.

    l_t = log sum e^s - q' s, since q sums to 1; the first term has the gradient p.
    """
    ds = p - smoothed(y, len(p), eps)                            # p_t - q in place of (2.21)
    dW_hy = ds @ h.T                                             # (2.23): (2.14) on (2.4)
    dh = W_hy.T @ ds                                             # (2.22): (2.13) on (2.4)
    return dh, dW_hy, ds
