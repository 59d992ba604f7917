"""Local attention (Luong, 2016, 4.2.2): alignment inside a window around a position p_t.

local-m puts the window around p_t = t, local-p around a predicted p_t (Eq. 4.9) and multiplies the
weights by a Gaussian (Eq. 4.10). The window holds the 2D + 1 words around floor(p_t), so that a_t
is in R^(2D + 1) as printed, the Gaussian has the real p_t, the softmax runs over the window only,
and sigma = D / 2 (erratum 8). The part of a window outside of the sentence is ignored (footnote 7).
Source states and scores are those of `grads.derivations.scores`; the states are in the written
order of the words, in whichever direction the encoder read (erratum 9).

**Counting from 0.** s = 0 .. S - 1 and p_t count words from 0: Eq. 4.9's S sigm(.) lies in [0, S],
its floor is at most S - 1, and p_t = t of local-m, whose t begins with 1, is word t - 1; after the
source's end it stays at the last word.

**Where the derivatives hold.** The words in the window do not change while p_t stays between two
integers: there local-p is smooth, and the backward here is its derivative. Where p_t passes an
integer k, the state k + D enters as k - D - 1 leaves (if they exist): a_t jumps, and no derivative
exists. A gradient check has to keep p_t inside such an interval, away from its ends. With D >= S
the window always holds the whole sentence. For local-m t is a constant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from grads.derivations.calculus import Array, sigm, sigm_prime, softmax, softmax_grad, tanh_prime
from grads.derivations.scores import CONTENT, Variant, require, score, score_grad

# --- windows ------------------------------------------------------------------------------------


def positions(S: int) -> Array:
    """s (S, 1): the words of a sentence, from 0."""
    s = np.arange(S)[:, None]
    return s


def window(p: Any, D: int, s: Array) -> Array:
    """M (S, n), the columns of the identity matrix that belong to the n states in the window.

    `h_bar @ M` are the states in the window, `M @ v` puts their weights at their positions.
    Arguments: p, a number or (1, 1), from 0; D, at least 1; s (S, 1), positions.
    Raises ValueError for D below 1: sigma would be zero, or the window empty.
    """
    if D < 1:
        raise ValueError(f"D: expected at least 1, got {D}")
    centre = np.minimum(np.floor(p.real), len(s) - 1)            # no further than the last word
    inside = (centre - D <= s) & (s <= centre + D)               # (4.2.2 window)
    M = np.eye(len(s))[:, inside[:, 0]]
    return M


# --- local-m ------------------------------------------------------------------------------------


def align_local_m(
    variant: Variant, h: Array, h_bar: Array, w: Mapping[str, Array], t: int
) -> Array:
    """a_t (S, 1): Eq. 4.7 over the window around p_t = t, zero outside.

    Arguments: h, h_bar, w as in `grads.derivations.scores.score`; t from 1.
    Raises ValueError for the score "location", and for D below 1.
    """
    require(variant.score, CONTENT, " in a window")
    p = t - 1                                                    # (4.2.2 local-m)
    M = window(p, variant.D, positions(h_bar.shape[1]))
    h_bar_w = h_bar @ M                                          # the states in the window
    e = score(variant.score, h, h_bar_w, w)
    align = softmax(e)                                           # (4.7)
    a = M @ align
    return a


def align_local_m_grad(
    variant: Variant, da: Array, h: Array, h_bar: Array, w: Mapping[str, Array], t: int
) -> tuple[Array, Array, dict[str, Array]]:
    """dh (H, 1), dh_bar (He, S) and the weights' gradients by name, given da (S, 1)."""
    p = t - 1
    M = window(p, variant.D, positions(h_bar.shape[1]))
    h_bar_w = h_bar @ M
    e = score(variant.score, h, h_bar_w, w)
    align = softmax(e)
    d_align = M.T @ da                                           # (2.13) on a = M align
    de = softmax_grad(align, d_align)                            # (4.7)
    dh, dh_bar_w, dw = score_grad(variant.score, de, h, h_bar_w, w)
    dh_bar = dh_bar_w @ M.T                                      # (2.14) on hbar_w = hbar M
    return dh, dh_bar, dw


# --- local-p ------------------------------------------------------------------------------------


def predict_position(h: Array, W_p: Array, v_p: Array, S: int) -> Array:
    """p_t (1, 1), real, between 0 and S, from 0, Eq. 4.9; W_p (P, H), v_p (P, 1)."""
    u = W_p @ h                                                  # W_p h_t, (P, 1)
    k = v_p.T @ np.tanh(u)                                       # v_p^T tanh(W_p h_t), (1, 1)
    p = S * sigm(k)                                              # (4.9)
    return p


def predict_position_grad(
    dp: Array, h: Array, W_p: Array, v_p: Array, S: int
) -> tuple[Array, Array, Array]:
    """dh (H, 1), dW_p (P, H) and dv_p (P, 1), given dp (1, 1)."""
    u = W_p @ h
    k = v_p.T @ np.tanh(u)
    dk = S * sigm_prime(k) * dp                                  # (4.9)
    dv_p = np.tanh(u) @ dk                                       # (2.14) on k = v_p^T tanh(u)
    du = tanh_prime(u) * (v_p @ dk)                              # (2.13) on it, then tanh'
    dW_p = du @ h.T                                              # (2.14) on u = W_p h
    dh = W_p.T @ du                                              # (2.13) on u = W_p h
    return dh, dW_p, dv_p


def align_local_p(
    variant: Variant, h: Array, h_bar: Array, w: Mapping[str, Array], t: int
) -> Array:
    """a_t (S, 1), Eq. 4.10: in the window align * Gaussian, zero outside.

    Arguments: w, the score's weights and W_p (P, H), v_p (P, 1); the rest as in `align_local_m`.
    Raises ValueError for the score "location", and for D below 1.
    """
    require(variant.score, CONTENT, " in a window")
    S, sigma = h_bar.shape[1], variant.D / 2                     # (4.2.2 sigma)
    p = predict_position(h, w["W_p"], w["v_p"], S)               # (4.9)
    s = positions(S)
    M = window(p, variant.D, s)
    h_bar_w = h_bar @ M                                          # the states in the window
    e = score(variant.score, h, h_bar_w, w)
    align = softmax(e)                                           # (4.7)
    gauss = np.exp(-(M.T @ s - p) ** 2 / (2 * sigma**2))         # e^(-(s - p_t)^2 / 2 sigma^2)
    b = align * gauss                                            # (4.10)
    a = M @ b
    return a


def align_local_p_grad(
    variant: Variant, da: Array, h: Array, h_bar: Array, w: Mapping[str, Array], t: int
) -> tuple[Array, Array, dict[str, Array]]:
    """dh (H, 1), dh_bar (He, S) and the weights' gradients by name, given da (S, 1)."""
    S, sigma = h_bar.shape[1], variant.D / 2
    p = predict_position(h, w["W_p"], w["v_p"], S)
    s = positions(S)
    M = window(p, variant.D, s)
    h_bar_w = h_bar @ M
    e = score(variant.score, h, h_bar_w, w)
    align = softmax(e)
    gauss = np.exp(-(M.T @ s - p) ** 2 / (2 * sigma**2))
    db = M.T @ da                                                # (2.13) on a = M b
    d_align = gauss * db                                         # (2.17) on (4.10)
    d_gauss = align * db                                         # (2.18) on (4.10)
    dp = ((M.T @ s - p) / sigma**2 * gauss).T @ d_gauss          # dgauss/dp = gauss (s - p)/sigma^2
    de = softmax_grad(align, d_align)                            # (4.7)
    dh_score, dh_bar_w, dw = score_grad(variant.score, de, h, h_bar_w, w)
    dh_bar = dh_bar_w @ M.T                                      # (2.14) on hbar_w = hbar M
    dh_position, dW_p, dv_p = predict_position_grad(dp, h, w["W_p"], w["v_p"], S)  # (4.9)
    dh = dh_score + dh_position                                  # from the score, and from p_t
    return dh, dh_bar, {**dw, "W_p": dW_p, "v_p": dv_p}


def align_renormalised(
    variant: Variant, h: Array, h_bar: Array, w: Mapping[str, Array], t: int
) -> Array:
    """a_t (S, 1) of local-p divided by its sum, which the thesis does not print (erratum 8)."""
    b = align_local_p(variant, h, h_bar, w, t)                   # (4.10)
    a = b / b.sum()
    return a


def align_renormalised_grad(
    variant: Variant, da: Array, h: Array, h_bar: Array, w: Mapping[str, Array], t: int
) -> tuple[Array, Array, dict[str, Array]]:
    """dh (H, 1), dh_bar (He, S) and the weights' gradients by name, given da (S, 1)."""
    b = align_local_p(variant, h, h_bar, w, t)
    db = (da - da.T @ b / b.sum()) / b.sum()                     # a = b / sum of b
    return align_local_p_grad(variant, db, h, h_bar, w, t)
