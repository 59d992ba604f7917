"""Local attention: a window of the source around a position p_t (Luong, 2016, section 4.2.2).

local-m has p_t = t; local-p predicts p_t (Eq. 4.9) and multiplies the weights by the Gaussian of
Eq. 4.10. The window holds the 2D + 1 words around floor(p_t) (erratum 8), as far as the sentence
has them; only these are gathered and computed with, so that a step's cost does not grow with the
source. A source of at most 2D + 1 words is not gathered.

Here s and p_t count the words in written order from 0: local-m has p_t = min(t, S) - 1, and Eq. 4.9
is read likewise. The window moves where p_t passes an integer: there local-p has no derivative.
"""

from __future__ import annotations

from typing import NamedTuple

from backend import Array, array_module


class Window(NamedTuple):
    """The W source positions that each of Q target states attends to.

    Without `rows` they are the first W positions, the same for all target states.
    """

    rows: Array | None  # (B, Q, W) int64, rows of the states (B S, He), distinct
    offset: Array | None  # (B, Q, W), s - p_t
    mask: Array | None  # (B, 1 or Q, W) bool, True where not attended to; None: nowhere


def make_window(p: Array, lengths: Array, S: int, D: int) -> Window:
    """The windows around the positions p (B, Q), not below 0; lengths (B,) float, of the sources.

    A position after the sentence's end is centred on its last word.
    """
    xp = array_module(p, lengths)
    B, W = len(lengths), min(2 * D + 1, S)
    centre = xp.minimum(xp.floor(p.real), lengths[:, None] - 1.0)  # (B, Q)  (4.2.2 window)
    first = xp.clip(centre - D, 0.0, float(S - W))
    columns = first[..., None] + xp.arange(W, dtype=lengths.dtype)  # (B, Q, W)
    distance = columns - centre[..., None]
    mask = (columns >= lengths[:, None, None]) | (distance < -D) | (distance > D)
    offset = columns - p[..., None]
    if W == S:
        return Window(None, offset, mask)
    start = xp.arange(0, B * S, S, dtype="int64")[:, None, None]
    return Window(columns.astype("int64") + start, offset, mask)


def gather_window(states: Array, rows: Array | None) -> Array:
    """The states (B, S, A) in the windows: (B Q, W, A), a copy for each target state.

    Arguments: rows (B, Q, W), or None for all: then the states themselves, which all share.
    """
    if rows is None:
        return states
    (B, S, A), (_, Q, W) = states.shape, rows.shape
    return array_module(states, rows).take(
        states.reshape(B * S, A), rows.reshape(B * Q, W), axis=0)


def scatter_window(total: Array, d_window: Array, rows: Array) -> None:
    """Add gradients of gathered states (B' Q, W, A) to those of all states, total (B, S, A).

    rows (B', Q, W), as in `gather_window`, may be those of some of the sentences. The rows of one
    target state are distinct, but windows of different target states overlap: these are added one
    after another, so that no addition is lost and the order of the sum is fixed.
    """
    (_, S, A), (B, Q, W) = total.shape, rows.shape
    flat, d = total.reshape(len(total) * S, A), d_window.reshape(B, Q, W, A)
    for q in range(Q):
        of_q = rows[:, q].reshape(-1)
        flat[of_q] += d[:, q].reshape(-1, A)


# --- local-p --------------------------------------------------------------------------------------


def position_forward(
    h: Array, lengths: Array, W_p: Array, v_p: Array
) -> tuple[Array, Array, Array]:
    """p_t = S sigmoid(v_p' tanh(W_p h_t)) (4.9).

    Arguments: h (B, Q, H); lengths (B,) real, S of each sentence; W_p (P, H), v_p (P,). Returns
    p (B, Q), real numbers between 0 and S, and what the backward reads: the tanh (B, Q, P) and the
    sigmoid (B, Q).
    """
    xp = array_module(h, lengths, W_p, v_p)
    B, Q, H = h.shape
    u = xp.tanh(h.reshape(B * Q, H) @ W_p.T)
    ratio = (0.5 + 0.5 * xp.tanh(0.5 * (u @ v_p))).reshape(B, Q)  # the sigmoid
    return lengths[:, None] * ratio, u.reshape(B, Q, len(v_p)), ratio  # (4.9)


def position_backward(
    dp: Array, u: Array, ratio: Array, lengths: Array, W_p: Array, v_p: Array
) -> tuple[Array, Array, Array]:
    """dh (B, Q, H), and the gradients of v_p' tanh (B, Q) and of W_p h (B, Q, P), given dp (B, Q).

    The weights' follow from the latter two for all steps at once: `position_weights`.
    """
    xp = array_module(dp, u, ratio)
    B, Q, P = u.shape
    dk = lengths[:, None] * ratio * (1.0 - ratio) * dp     # (4.9)
    du = xp.multiply(1.0 - u * u, dk[..., None] * v_p)     # (2.13) on v_p' tanh(u), then tanh'
    return (du.reshape(B * Q, P) @ W_p).reshape(B, Q, W_p.shape[1]), dk, du


def position_weights(dk: Array, du: Array, u: Array, h: Array) -> tuple[Array, Array]:
    """dW_p (P, H) and dv_p (P,) of all target states, from `position_backward`."""
    P, H = u.shape[2], h.shape[2]
    dW_p = du.reshape(-1, P).T @ h.reshape(-1, H)          # (2.14) on W_p h
    return dW_p, (dk.reshape(1, -1) @ u.reshape(-1, P))[0]  # (2.14) on v_p' tanh(u)


class GaussianCache(NamedTuple):
    """What `gaussian_backward` reads."""

    gauss: Array  # (B, Q, W)
    offset: Array  # (B, Q, W)
    total: Array | None  # (B, Q, 1), the sum that the weights were divided by


def gaussian_forward(
    align: Array, offset: Array, D: int, renormalise: bool
) -> tuple[Array, GaussianCache]:
    """a_t(s) = align(s) exp(-(s - p_t)^2 / (2 sigma^2)), sigma = D / 2 (4.10).

    Arguments: align, offset (B, Q, W); renormalise, whether the weights are divided by their sum,
    which the thesis does not print (erratum 8). Returns a (B, Q, W) and the cache.
    """
    gauss = array_module(align, offset).exp(offset * offset * (-2.0 / D**2))  # (4.2.2 sigma)
    a = align * gauss                                      # (4.10)
    total = None
    if renormalise:
        total = a.sum(axis=2, keepdims=True)
        a /= total
    return a, GaussianCache(gauss, offset, total)


def gaussian_backward(
    da: Array, a: Array, align: Array, cache: GaussianCache, D: int
) -> tuple[Array, Array]:
    """d_align (B, Q, W) and dp (B, Q), given da (B, Q, W); the rest as in `gaussian_forward`."""
    if cache.total is not None:
        da = (da - (a * da).sum(axis=2, keepdims=True)) / cache.total
    d_align = da * cache.gauss                             # (2.17) on (4.10)
    dp = (d_align * align * cache.offset).sum(axis=2)
    return d_align, dp * (4.0 / D**2)                      # dgauss/dp = gauss (s - p) / sigma^2
