"""The attention variants, and the table of scores between h_t and hbar_s (section 4.2.1).

Every score compares a query q_t, a linear map of h_t, with keys k_s, linear maps of the source
states. The keys are computed once per sentence. The energy of the score is e_t(s):

| score | q_t | k_s | e_t(s) |
|---|---|---|---|
| dot | h_t | hbar_s | q_t' k_s |
| scaled-dot (Vaswani et al., 2017) | h_t | hbar_s | q_t' k_s / sqrt(H) |
| general | h_t | W_a hbar_s | q_t' k_s |
| general in a window | W_a' h_t | hbar_s | q_t' k_s |
| concat, W_a = [W_h W_s] | W_h h_t | W_s hbar_s | v_a' tanh(q_t + k_s) |
| concat with the identity (footnote 14) | W_a h_t | hbar_s | v_a' tanh(q_t + k_s) |
| additive (Bahdanau et al., 2015, A.1.2) | W_a h_t | U_a hbar_s | v_a' tanh(q_t + k_s) |
| location | W_a h_t | | q_t(s) |

The query of `additive` is made of h_t here, and of the previous state in RNNsearch. `location` has
a row of W_a for each of the first L_max words, in written order. Its softmax runs over all L_max
words, and weights after the sentence's end are dropped (footnote 5, erratum 7). To add a score, add
a row to `SCORES` and, if its energy is new, an `Energy`. Letters as in `attention.attention`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from attention.blocks import rectangles
from backend import Array, array_module
from backend.errors import check_among
from backend.fused import fused, softmax
from lstm.parameters import STD, Axis, Parameters, Scheme, Weight, axis

WINDOWS = ("global", "local-m", "local-p")


class Variant(NamedTuple):
    """The configuration of one attention variant."""

    score: str = "general"  # one of SCORES
    window: str = "global"  # global, local-m (p_t = t), or local-p (p_t is predicted)
    D: int = 10  # words on either side of p_t that a local window holds
    length: int = 50  # L_max, the source positions that the score `location` knows
    renormalise: bool = False  # local-p: whether a_t is made to sum to one (erratum 8)
    reverse: bool = False  # whether the encoder read the source from its end (erratum 9)

    @property
    def predicts(self) -> bool:
        """Whether the window's centre is predicted."""
        return self.window == "local-p"


Axes = dict[str, tuple[Axis, ...]]
Weights = Mapping[str, Array]  # a score's weights by short name
Matrices = tuple[Array | None, Array | None]  # of queries and of keys


class Sums(NamedTuple):
    """Accumulators: gradients that are summed step by step."""

    keys: Array  # (B, S, A), of the keys
    v: Array  # (A,), of v_a


class Energy(NamedTuple):
    """e_t(s) of queries q (B, Q, A) and keys (B, S, A), and its gradients; v (A,) is v_a, or None.

    forward(q, keys, v) returns e (B, Q, S); backward(de, q, keys, v, sums) returns dq.

    The gradient of the keys is computed in one of two ways. For a score with v_a, backward adds it
    and the gradient of v_a to `sums`, step by step. For a score without v_a, sums is None. After
    the last step factors(de, q) returns (B, T, S) and (B, T, A). Their product, summed over the T
    target states, is dkeys (B, S, A).
    """

    forward: Callable[[Array, Array, Array | None], Array]
    backward: Callable[[Array, Array, Array, Array | None, Any], Array]
    factors: Callable[[Array, Array], tuple[Array, Array]] = lambda de, q: (de, q)


# --- e = q'k --------------------------------------------------------------------------------------


def product_forward(q: Array, keys: Array, v: Array | None) -> Array:
    """e_t(s) = q_t' k_s."""
    return array_module(q, keys).matmul(  # (4.2.1 dot; 4.2.1 general)
        q, keys.transpose(0, 2, 1))


def product_backward(de: Array, q: Array, keys: Array, v: Array | None, sums: Sums | None) -> Array:
    """dq_t = sum over s of de_t(s) k_s."""
    return array_module(de, keys).matmul(de, keys)                         # (2.13)


# --- e = q'k / sqrt(H) ----------------------------------------------------------------------------


def scaled_forward(q: Array, keys: Array, v: Array | None) -> Array:
    """e_t(s) = q_t' k_s / sqrt(H) (Vaswani et al., 2017; Nguyen Eq. 1.8)."""
    return product_forward(q, keys, v) * q.shape[2] ** -0.5


def scaled_backward(de: Array, q: Array, keys: Array, v: Array | None, sums: Sums | None) -> Array:
    """dq_t = sum over s of de_t(s) k_s / sqrt(H)."""
    return product_backward(de, q, keys, v, sums) * q.shape[2] ** -0.5     # (2.13)


# --- e = v_a' tanh(q + k) -------------------------------------------------------------------------


def tanh_forward(q: Array, keys: Array, v: Array) -> Array:
    """e_t(s) = v_a' tanh(q_t + k_s), block by block. The tanh is not kept."""
    xp, (B, Q, A), S = array_module(q, keys, v), q.shape, keys.shape[1]
    e = xp.empty((B, Q, S), dtype=np.result_type(q.dtype, keys.dtype, v.dtype))
    for b, t in rectangles(xp, B, Q, S * A):
        e[b, t] = xp.matmul(_hidden(q[b, t], keys[b]), v)  # (4.2.1 concat; Bahdanau A.1.2 score)
    return e


def _hidden(q: Array, keys: Array) -> Array:
    """tanh(q_t + k_s), (B, Q, S, A)."""
    a = q[:, :, None] + keys[:, None]
    return array_module(a).tanh(a, out=a)


def tanh_backward(de: Array, q: Array, keys: Array, v: Array, sums: Sums) -> Array:
    """dq (B, Q, A). The gradients of keys and v_a are added to `sums`. The tanh is recomputed."""
    dkeys, dv = sums
    xp, (B, Q, A), S = array_module(de, q, keys, v), q.shape, keys.shape[1]
    dq = xp.empty(q.shape, dtype=np.result_type(de.dtype, q.dtype, keys.dtype, v.dtype))
    for b, t in rectangles(xp, B, Q, S * A):
        hidden, d = _hidden(q[b, t], keys[b]), de[b, t]
        dv += (d.reshape(1, -1) @ hidden.reshape(-1, A))[0]  # (2.13) on e = tanh(a)' v_a
        slope = xp.multiply(hidden, hidden, out=hidden)
        xp.subtract(1.0, slope, out=slope)                 # tanh' = 1 - tanh^2
        dq[b, t] = xp.matmul(d[:, :, None], slope)[:, :, 0]  # q_t is added to every k_s
        dkeys[b] += _over_queries(d, slope) * v            # and k_s beside every q_t
    dq *= v                                                # (2.14) on e = tanh(a)' v_a
    return dq


def _over_queries(d: Array, slope: Array) -> Array:
    """The sum over Q of d (B, Q, S) times slope (B, Q, S, A), which it may overwrite: (B, S, A)."""
    xp = array_module(d, slope)
    if slope.shape[1] == 1:
        return xp.multiply(slope, d[..., None], out=slope)[:, 0]
    d = xp.ascontiguousarray(d.transpose(0, 2, 1))[:, :, None]  # (B, S, 1, Q)
    return xp.matmul(d, slope.transpose(0, 2, 1, 3))[:, :, 0]


PRODUCT = Energy(product_forward, product_backward)        # dk = de q'  (2.14)
SCALED = Energy(scaled_forward, scaled_backward, lambda de, q: (de, q * q.shape[2] ** -0.5))
TANH = Energy(tanh_forward, tanh_backward)


# --- the table ------------------------------------------------------------------------------------


class Widths(NamedTuple):
    """The axes that a score's weights may have."""

    unit: Axis  # H, of h_t and of hidden layers, as rows
    input: Axis  # H, of h_t, as columns
    source: Axis  # He, of hbar_s
    both: Axis  # H + He
    position: Axis  # L_max


class Score(NamedTuple):
    """A row of the table: the weights, the energy, and the matrices of queries and keys."""

    axes: Callable[[Widths], Axes]  # of its weights, by short name
    energy: Energy | None  # None: q_t(s) itself, by position, in `attention.location`
    matrices: Callable[[Weights, int], Matrices] = lambda W, He: (None, None)  # None: the identity
    # The gradients of the weights, by short name, from the gradients of the two matrices.
    gradients: Callable[[Array, Array], Parameters] = lambda dW_query, dW_keys: {}


SCORES: dict[str, Score] = {
    "dot": Score(lambda n: {}, PRODUCT),                                   # (4.2.1 dot)
    "scaled-dot": Score(lambda n: {}, SCALED),
    "general": Score(                                                      # (4.2.1 general)
        lambda n: {"W_a": (n.unit, n.source)}, PRODUCT,
        lambda W, He: (None, W["W_a"]), lambda dW_query, dW_keys: {"W_a": dW_keys}),
    "concat": Score(                                                       # (4.2.1 concat)
        lambda n: {"W_a": (n.unit, n.both), "v_a": (n.unit,)}, TANH,
        lambda W, He: (W["W_a"][:, :-He], W["W_a"][:, -He:]),
        lambda dW_query, dW_keys: {
            "W_a": array_module(dW_query).concatenate([dW_query, dW_keys], axis=1)}),
    "concat-identity": Score(                                              # footnote 14
        lambda n: {"W_a": (n.source, n.input), "v_a": (n.source,)}, TANH,
        lambda W, He: (W["W_a"], None), lambda dW_query, dW_keys: {"W_a": dW_query}),
    "additive": Score(                                                     # (Bahdanau A.1.2 score)
        lambda n: {"W_a": (n.unit, n.input), "U_a": (n.unit, n.source), "v_a": (n.unit,)}, TANH,
        lambda W, He: (W["W_a"], W["U_a"]),
        lambda dW_query, dW_keys: {"W_a": dW_query, "U_a": dW_keys}),
    "location": Score(                                                     # (4.8)
        lambda n: {"W_a": (n.position, n.input)}, None,
        lambda W, He: (W["W_a"], None), lambda dW_query, dW_keys: {"W_a": dW_query}),
}
CONTENT = tuple(name for name, score in SCORES.items() if score.energy is not None)
AS_THEY_ARE = tuple(  # compare h_t and hbar_s without a matrix, so that H = He
    name for name in CONTENT if SCORES[name].matrices is Score._field_defaults["matrices"])


def score_weights(
    variant: Variant, prefix: str, hidden: int, source_hidden: int, scheme: Scheme, *,
    bidirectional: bool = False, std: float = STD, query: Axis | None = None,
) -> dict[str, Weight]:
    """The parameters of a score, and of the predicted position, by name.

    Arguments: hidden H, width of h_t; source_hidden He, width of hbar_s. The hidden layers of
    concat, additive and local-p's position are H wide. bidirectional, whether hbar_s is two states
    side by side; std of the matrices under `orthogonal`; query, the axis of what the map of queries
    reads, if that is not h_t.
    Raises ValueError on an unknown score, and for a score without maps unless H = He.
    """
    H, He = hidden, source_hidden
    check_among("score", variant.score, SCORES)
    if variant.score in AS_THEY_ARE and H != He:
        raise ValueError(f"score: {variant.score!r} needs source and target states of one width, "
                         f"got {He} and {H}")
    halves = {"forward": He // 2, "backward": He // 2}
    widths = Widths(axis("unit", H), query or axis("input", H),
                    axis("source unit", halves if bidirectional else He),
                    axis("column", {"h": H, "source": He}), axis("position", variant.length))
    axes = SCORES[variant.score].axes(widths)
    if variant.predicts:
        axes |= {"W_p": (widths.unit, widths.input), "v_p": (widths.unit,)}
    return {f"{prefix}.{name}": Weight(of_weight, scheme.matrix(std=std) if len(of_weight) == 2
                                       else scheme.vector())
            for name, of_weight in axes.items()}


# --- linear maps ----------------------------------------------------------------------------------


def map_forward(x: Array, W: Array | None) -> Array:
    """y = W x for rows x (B, n, k), W (m, k): (B, n, m); x itself if W is None."""
    if W is None:
        return x
    B, n, k = x.shape
    return array_module(x, W).matmul(x.reshape(B * n, k), W.T).reshape(B, n, W.shape[0])


def map_backward(dy: Array, W: Array | None) -> Array:
    """dx = W' dy: (B, n, k). `map_weight` computes the gradient of W once for all steps."""
    if W is None:
        return dy
    B, n, m = dy.shape
    dx = array_module(dy, W).matmul(dy.reshape(B * n, m), W)               # (2.13)
    return dx.reshape(B, n, W.shape[1])


def map_weight(dy: Array, x: Array) -> Array:
    """dW = sum of dy x' over rows dy (B, n, m), x (B, n, k): (m, k)."""
    rows = dy.shape[0] * dy.shape[1]
    return array_module(dy, x).matmul(dy.reshape(rows, -1).T, x.reshape(rows, -1))  # (2.14)


# --- the softmax ----------------------------------------------------------------------------------


@fused(softmax.softmax_forward)
def softmax_forward(e: Array, mask: Array | None) -> Array:
    """align(s) = exp(e(s)) / the sum of exp(e) over the last axis, in place of e.

    Arguments: e (..., S); mask, bool, broadcast to e, True where there is no position; or None. At
    least one position must not be masked. Returns align (..., S), exactly zero where masked.
    """
    xp = array_module(e)
    if mask is not None:
        xp.copyto(e, -xp.inf, where=mask)
    e -= e.real.max(axis=-1, keepdims=True)
    align = xp.exp(e, out=e)
    align /= align.sum(axis=-1, keepdims=True)             # a_t(s)                  (4.7)
    return align


@fused(softmax.softmax_backward)
def softmax_backward(d_align: Array, align: Array) -> Array:
    """de = (diag(align) - align align') d_align, in place of d_align (..., S)."""
    d_align -= (align * d_align).sum(axis=-1, keepdims=True)
    d_align *= align                                       # softmax backward
    return d_align
