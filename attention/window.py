"""Local attention: a window of the source around a position p_t (Luong, 2016, section 4.2.2).

local-m has p_t = t. local-p predicts p_t (Eq. 4.9) and multiplies the weights by the Gaussian of
Eq. 4.10. The window holds the 2D + 1 words around floor(p_t) (erratum 8), as far as the sentence
has them. Only these are gathered and used, so that a step's cost does not grow with the source. A
source of at most 2D + 1 words is not gathered. Letters as in `attention.attention`.

Here s and p_t count the words in written order from 0: local-m has p_t = min(t, S) - 1, and Eq. 4.9
counts from 0, too. When p_t passes an integer the window moves: there local-p has no derivative.
"""

from __future__ import annotations

from typing import NamedTuple

from backend import Array, array_module


class Window(NamedTuple):
    """The P source positions that each of Q target states attends to.

    Without `rows` the positions are all S, the same for all target states.
    """

    rows: Array | None  # (B, Q, P) int64, distinct rows of the states (B S, He)
    offset: Array  # (B, Q, P), s - p_t
    mask: Array  # (B, Q, P) bool, True for positions that have no weight


def make_window(p: Array, lengths: Array, S: int, D: int) -> Window:
    """The windows around the positions p (B, Q), not below 0; lengths (B,) float, of the sources.

    A position after the sentence's end is centred on its last word.
    """
    xp = array_module(p, lengths)
    B, P = len(lengths), min(2 * D + 1, S)
    centre = xp.minimum(xp.floor(p.real), lengths[:, None] - 1.0)  # (B, Q)  (4.2.2 window)
    first = xp.clip(centre - D, 0.0, float(S - P))
    columns = first[..., None] + xp.arange(P, dtype=lengths.dtype)  # (B, Q, P)
    distance = columns - centre[..., None]
    mask = (columns >= lengths[:, None, None]) | (distance < -D) | (distance > D)
    offset = columns - p[..., None]
    if P == S:
        return Window(None, offset, mask)
    start = xp.arange(0, B * S, S, dtype="int64")[:, None, None]
    return Window(columns.astype("int64") + start, offset, mask)


def gather_window(states: Array, rows: Array | None) -> Array:
    """The states (B, S, A) in the windows: (B Q, P, A), a copy for each target state.

    Arguments: rows (B, Q, P), or None for all: then the states themselves, which all target states
    share.
    """
    if rows is None:
        return states
    (B, S, A), (_, Q, P) = states.shape, rows.shape
    return array_module(states, rows).take(states.reshape(B * S, A), rows.reshape(B * Q, P), axis=0)


def scatter_window(total: Array, d_window: Array, rows: Array) -> None:
    """Add gradients of gathered states (B' Q, P, A) to those of all states, total (B, S, A).

    rows (B', Q, P), as in `gather_window`, may be those of some of the sentences. The rows of one
    target state are distinct, but windows of different target states overlap: these are added one
    after another, so that no addition is lost and the order of the sum is fixed.
    """
    (_, S, A), (B, Q, P) = total.shape, rows.shape
    flat, d = total.reshape(len(total) * S, A), d_window.reshape(B, Q, P, A)
    for q in range(Q):
        of_q = rows[:, q].reshape(-1)
        flat[of_q] += d[:, q].reshape(-1, A)


def spread_window(align: Array, rows: Array | None, S: int) -> Array:
    """Weights (B, Q, P) of the words in the windows among all words, (B, Q, S), zero elsewhere."""
    if rows is None:
        return align
    (B, Q, _), xp = align.shape, array_module(align)
    spread = xp.zeros((B, Q, S), dtype=align.dtype)
    spread.reshape(-1)[_places(rows, S)] = align
    return spread


def pick_window(d_align: Array, rows: Array | None) -> Array:
    """Backward of `spread_window`: the gradient (B, Q, P) of the weights, from (B, Q, S)."""
    if rows is None:
        return d_align
    return array_module(d_align).take(d_align, _places(rows, d_align.shape[2]))


def _places(rows: Array, S: int) -> Array:
    """The flat positions in (B, Q, S) of windows with these rows (B, Q, P) of the states (B S)."""
    xp, (B, Q, _) = array_module(rows), rows.shape
    return rows + ((xp.arange(B)[:, None] * (Q - 1) + xp.arange(Q)) * S)[..., None]


# --- local-p --------------------------------------------------------------------------------------


class PositionCache(NamedTuple):
    """The data of Eq. 4.9 that `position_backward` reads."""

    hidden: Array  # (B, Q, H), the tanh
    sigmoid: Array  # (B, Q)


def position_forward(
    h: Array, lengths: Array, W_p: Array, v_p: Array
) -> tuple[Array, PositionCache]:
    """p_t = S sigmoid(v_p' tanh(W_p h_t)) (4.9).

    Arguments: h (B, Q, H); lengths (B,) real, S of each sentence; W_p (H, H), v_p (H,). Returns
    p (B, Q), real numbers between 0 and S, and the cache of the backward.
    """
    xp = array_module(h, lengths, W_p, v_p)
    B, Q, H = h.shape
    hidden = xp.tanh(h.reshape(B * Q, H) @ W_p.T)
    sigmoid = (0.5 + 0.5 * xp.tanh(0.5 * (hidden @ v_p))).reshape(B, Q)
    return lengths[:, None] * sigmoid, PositionCache(                      # (4.9)
        hidden.reshape(B, Q, len(v_p)), sigmoid)


def position_backward(
    dp: Array, cache: PositionCache, lengths: Array, W_p: Array, v_p: Array
) -> tuple[Array, Array, Array]:
    """dh (B, Q, H), and the gradients of v_p' tanh (B, Q) and of W_p h (B, Q, H), given dp (B, Q).

    From the latter two, `position_weights` computes the weights' gradients for all steps at once.
    """
    hidden, sigmoid = cache
    xp = array_module(dp, hidden, sigmoid)
    B, Q, H = hidden.shape
    d_score = lengths[:, None] * sigmoid * (1.0 - sigmoid) * dp            # (4.9)
    da = xp.multiply(1.0 - hidden * hidden, d_score[..., None] * v_p)  # (2.13) on v_p' tanh(a)
    return (da.reshape(B * Q, H) @ W_p).reshape(B, Q, W_p.shape[1]), d_score, da


def position_weights(d_score: Array, da: Array, hidden: Array, h: Array) -> tuple[Array, Array]:
    """dW_p (H, H) and dv_p (H,) of all target states, from `position_backward`."""
    H = h.shape[2]
    dW_p = da.reshape(-1, hidden.shape[2]).T @ h.reshape(-1, H)            # (2.14) on W_p h
    return dW_p, (d_score.reshape(1, -1) @ hidden.reshape(-1, hidden.shape[2]))[0]  # (2.14)


class GaussianCache(NamedTuple):
    """The data that `gaussian_backward` reads."""

    gauss: Array  # (B, Q, P)
    offset: Array  # (B, Q, P)
    total: Array | None  # (B, Q, 1), the sum by which the weights were divided


def gaussian_forward(
    softmax: Array, offset: Array, D: int, renormalise: bool
) -> tuple[Array, GaussianCache]:
    """a_t(s) = softmax(s) exp(-(s - p_t)^2 / (2 sigma^2)), sigma = D / 2 (4.10).

    Arguments: softmax, offset (B, Q, P); renormalise, whether the weights are divided by their sum,
    which the thesis does not print (erratum 8). Returns align (B, Q, P) and the cache.
    """
    gauss = array_module(softmax, offset).exp(offset * offset * (-2.0 / D**2))  # (4.2.2 sigma)
    align = softmax * gauss                                # (4.10)
    total = None
    if renormalise:
        total = align.sum(axis=2, keepdims=True)
        align /= total
    return align, GaussianCache(gauss, offset, total)


def gaussian_backward(
    d_align: Array, align: Array, softmax: Array, cache: GaussianCache, D: int
) -> tuple[Array, Array]:
    """d_softmax (B, Q, P) and dp (B, Q), given d_align (B, Q, P). Other arguments as in
    `gaussian_forward`."""
    if cache.total is not None:
        d_align = (d_align - (align * d_align).sum(axis=2, keepdims=True)) / cache.total
    d_softmax = d_align * cache.gauss                      # (2.17) on (4.10)
    dp = (d_softmax * softmax * cache.offset).sum(axis=2)
    return d_softmax, dp * (4.0 / D**2)                    # dgauss/dp = gauss (s - p) / sigma^2
