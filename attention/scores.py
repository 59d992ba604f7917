"""Scores between a target state h_t and the source states hbar_s (section 4.2.1).

Every content-based score compares a query q_t, a linear map of h_t, with keys k_s, linear maps of
the source states that are made once per sentence:

| score | q_t | k_s | e_t(s) |
|---|---|---|---|
| dot | h_t | hbar_s | q_t' k_s |
| general | h_t | W_a hbar_s | q_t' k_s |
| general in a window | W_a' h_t | hbar_s | q_t' k_s |
| concat, W_a = [W_h W_s] | W_h h_t | W_s hbar_s | v_a' tanh(q_t + k_s) |
| concat with the identity (footnote 14) | W_a h_t | hbar_s | v_a' tanh(q_t + k_s) |
| additive (Bahdanau et al., 2015, A.1.2) | W_a h_t | U_a hbar_s | v_a' tanh(q_t + k_s) |
| location | W_a h_t | | q_t(s) |

The score additive asks with h_t here; RNNsearch, which asks with the state before, is another
model. `location` has a row of W_a for each of the first L_max positions: a source that is longer
is attended up to there and no further (the footnote of Eq. 4.8, erratum 7).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from attention.blocks import rectangles
from attention.way import Way
from backend import Array, array_module, matmul
from lstm.parameters import STD, Axis, Parameters, Scheme, Weight, axis

PRODUCTS = ("dot", "general")  # q_t' k_s
SUMS = ("concat", "concat-identity", "additive")  # v_a' tanh(q_t + k_s)
CONTENT = (*PRODUCTS, *SUMS)  # they look at the source states
SCORES = (*CONTENT, "location")


class Maps(NamedTuple):
    """The matrices of queries and of keys; None is the identity."""

    query: Array | None  # (A, H)
    keys: Array | None  # (A, He)


def score_weights(
    way: Way, prefix: str, hidden: int, source_hidden: int, scheme: Scheme, *,
    bidirectional: bool = False, std: float = STD,
) -> dict[str, Weight]:
    """The parameters of a score, and of the predicted position, by name.

    Arguments: hidden H, width of h_t; source_hidden He, width of hbar_s. The hidden layers of
    concat, additive and the position are H wide. bidirectional, whether hbar_s is two states side
    by side; std of the matrices under `orthogonal`.
    Raises ValueError on an unknown score, and for `dot` unless H = He.
    """
    H, He = hidden, source_hidden
    if way.score not in SCORES:
        raise ValueError(f"score: expected one of {', '.join(SCORES)}, got {way.score!r}")
    if way.score == "dot" and H != He:
        raise ValueError(
            f"score: 'dot' needs source and target states of one width, got {He} and {H}"
        )
    unit, query = axis("unit", H), axis("input", H)
    states = axis("source unit", {"forward": He // 2, "backward": He // 2} if bidirectional else He)
    one_of_two = axis("column", {"h": H, "source": He})
    by_score: dict[str, dict[str, tuple[Axis, ...]]] = {
        "dot": {},
        "general": {"W_a": (unit, states)},
        "concat": {"W_a": (unit, one_of_two), "v_a": (unit,)},
        "concat-identity": {"W_a": (states, query), "v_a": (states,)},
        "additive": {"W_a": (unit, query), "U_a": (unit, states), "v_a": (unit,)},
        "location": {"W_a": (axis("position", way.length), query)},
    }
    axes = by_score[way.score]
    if way.window == "local-p":
        axes |= {"W_p": (unit, query), "v_p": (unit,)}
    return {f"{prefix}.{name}": Weight(own, scheme.matrix(std=std) if len(own) == 2
                                       else scheme.vector())
            for name, own in axes.items()}


def score_maps(way: Way, parameters: Mapping[str, Array], prefix: str, hbar: Array) -> Maps:
    """The maps of a score, views of its parameters; hbar (B, S, He) is looked at by them."""
    W_a = parameters.get(f"{prefix}.W_a")
    _, S, He = hbar.shape
    if W_a is None:
        return Maps(None, None)                            # (4.2.1 dot)
    if way.score == "general":
        return Maps(W_a.T, None) if way.local else Maps(None, W_a)  # (4.2.1 general)
    if way.score == "concat":
        return Maps(W_a[:, :-He], W_a[:, -He:])            # (4.2.1 concat)
    if way.score == "location":
        return Maps(W_a[:S], None)                         # W_a h_t of (4.8), its top part
    return Maps(W_a, parameters.get(f"{prefix}.U_a"))      # footnote 14; (Bahdanau A.1.2 score)


def map_gradients(
    way: Way, d: Maps, parameters: Mapping[str, Array], prefix: str
) -> Parameters:
    """The parameters' gradients by name from those of `score_maps`; the reverse of it."""
    name, d_query = f"{prefix}.W_a", d.query
    if name not in parameters:
        return {}
    if way.score == "general":
        return {name: d.keys if d_query is None else d_query.T}
    if way.score == "concat":
        return {name: array_module(d.keys).concatenate([d_query, d.keys], axis=1)}
    if way.score == "location" and d_query is not None:
        W_a = parameters[name]
        dW_a = array_module(W_a).zeros(W_a.shape, dtype=W_a.dtype)
        dW_a[: len(d_query)] = d_query                     # nobody looked behind the end
        return {name: dW_a}
    more = {} if d.keys is None else {f"{prefix}.U_a": d.keys}
    return {name: d_query, **more}


# --- linear maps ----------------------------------------------------------------------------------


def map_forward(x: Array, W: Array | None) -> Array:
    """y = W x for rows x (B, n, k), W (m, k): (B, n, m); x itself without a W."""
    if W is None:
        return x
    B, n, k = x.shape
    return matmul(x.reshape(B * n, k), W.T).reshape(B, n, W.shape[0])


def map_backward(dy: Array, W: Array | None) -> Array:
    """dx = W' dy: (B, n, k). The gradient of W, `map_weight`, can wait for all steps."""
    if W is None:
        return dy
    B, n, m = dy.shape
    return matmul(dy.reshape(B * n, m), W).reshape(B, n, W.shape[1])  # (2.13)


def map_weight(dy: Array, x: Array, W: Array | None) -> Array | None:
    """dW = sum of dy x' over rows dy (B, n, m), x (B, n, k); None without a W."""
    if W is None:
        return None
    rows = dy.shape[0] * dy.shape[1]
    return matmul(dy.reshape(rows, W.shape[0]).T, x.reshape(rows, W.shape[1]))  # (2.14)


# --- v_a' tanh(q + k) -----------------------------------------------------------------------------


def tanh_score_forward(q: Array, keys: Array, v: Array) -> Array:
    """e_t(s) = v_a' tanh(q_t + k_s), block by block; nothing of the tanh is kept.

    Arguments: q (B, Q, A); keys (B, S, A); v (A,). Returns e (B, Q, S).
    """
    xp, (B, Q, A), S = array_module(q, keys, v), q.shape, keys.shape[1]
    e = xp.empty((B, Q, S), dtype=np.result_type(q.dtype, keys.dtype, v.dtype))
    for b, t in rectangles(xp, B, Q, S * A):
        e[b, t] = xp.matmul(_hidden(q[b, t], keys[b]), v)  # (4.2.1 concat)
    return e


def _hidden(q: Array, keys: Array) -> Array:
    """tanh(W_a h_t + U_a hbar_s), (B, Q, S, A)."""
    u = q[:, :, None] + keys[:, None]
    return array_module(u).tanh(u, out=u)


def tanh_score_backward(
    de: Array, q: Array, keys: Array, v: Array, dkeys: Array | None = None
) -> tuple[Array, Array, Array]:
    """Gradients of q (B, Q, A), of keys (B, S, A), and of v (A,).

    Arguments: de (B, Q, S), the gradient at the scores; q, keys, v, as in the forward, whose tanh
    is made again; dkeys (B, S, A), what to add the keys' gradient to, or None for zeros.
    """
    xp, (B, Q, A), S = array_module(de, q, keys, v), q.shape, keys.shape[1]
    dtype = np.result_type(de.dtype, q.dtype, keys.dtype, v.dtype)
    dq, dv = xp.empty(q.shape, dtype=dtype), xp.zeros((1, A), dtype=dtype)
    if dkeys is None:
        dkeys = xp.zeros(keys.shape, dtype=dtype)
    for b, t in rectangles(xp, B, Q, S * A):
        u, d = _hidden(q[b, t], keys[b]), de[b, t]
        dv += d.reshape(1, -1) @ u.reshape(-1, A)          # (2.13) on e = tanh(u)' v_a
        xp.subtract(1.0, xp.multiply(u, u, out=u), out=u)  # tanh'
        dq[b, t] = xp.matmul(d[:, :, None], u)[:, :, 0]    # q_t stands beside every k_s
        dkeys[b] += _over_states(d, u) * v                 # and k_s beside every q_t
    dq *= v                                                # (2.14) on e = tanh(u)' v_a
    return dq, dkeys, dv[0]


def _over_states(d: Array, u: Array) -> Array:
    """The sum over Q of d (B, Q, S) times u (B, Q, S, A), which it may overwrite: (B, S, A)."""
    xp = array_module(d, u)
    if u.shape[1] == 1:
        return xp.multiply(u, d[..., None], out=u)[:, 0]
    d = xp.ascontiguousarray(d.transpose(0, 2, 1))[:, :, None]  # (B, S, 1, Q)
    return xp.matmul(d, u.transpose(0, 2, 1, 3))[:, :, 0]
