"""The vanilla recurrent language model (Luong, 2016, Eqs. 2.3-2.8) and Algorithm 1.

Parameters: `W_e` (V, E), `T` (H, E + H) = T_rnn = [W_xh W_hh], `W_hy` (V, H); biases `b` (H,)
(footnote 2) and `b_hy` (V,) are optional. sigma is tanh.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from grads.derivations.calculus import (
    Array,
    Number,
    bias,
    log_sum_exp,
    one_hot,
    softmax,
    tanh_prime,
)
from grads.derivations.declaration import Declaration
from grads.derivations.errata import Mistake
from grads.derivations.examples import LANGUAGE, language_example


class RNNTrace(NamedTuple):
    """The values of the forward pass, by time step."""

    x: dict[int, Array]  # x_1 .. x_T, (E, 1)
    h: dict[int, Array]  # h_0 .. h_T, (H, 1)
    p: dict[int, Array]  # p_1 .. p_T, (V, 1)
    l: dict[int, Number]  # l_1 .. l_T, nats


# --- embedding and prediction, shared by all the models -----------------------------------------


def embed(word: int, W_e: Array) -> Array:
    """x_t (E, 1): the column of the thesis's W_e, hence the row of ours, that belongs to a word."""
    return W_e[word][:, None]


def embed_grad(word: int, dx: Array, dW_e: Array) -> Array:
    """dW_e (V, E) with dx (E, 1) added to the word's row; Algorithm 4 line 18."""
    return dW_e + one_hot(word, len(dW_e)) @ dx.T


def predict(y: int, h: Array, W_hy: Array, b: Array | float = 0.0) -> tuple[Number, Array]:
    """The loss l_t = -log p_t(y_t), in nats, and p_t; Eqs. 2.4, 2.5 and 2.19.

    Arguments: y, the word to be predicted; h (H, 1); W_hy (V, H); b (V, 1) or zero.
    The loss is finite where p_t(y_t) underflows to zero.
    """
    s = W_hy @ h + b                                             # (2.4)
    p = softmax(s)                                               # (2.5)
    l = log_sum_exp(s) - s[y, 0]                                 # -log p_t(y_t), as in (2.19)
    return l, p


def predict_grad(y: int, p: Array, h: Array, W_hy: Array) -> tuple[Array, Array, Array]:
    """dh_t (H, 1), dW_hy (V, H) and the bias's db (V, 1) of l_t; Eqs. 2.21-2.23.

    Algorithm 1 line 2 and Algorithm 2 line 3 print the opposite sign for ds_t (erratum 1). Returned
    are the terms that lines 3 and 4, or 4 and 5, add.
    """
    ds = p - one_hot(y, len(p))                                  # (2.20), (2.21)
    dW_hy = ds @ h.T                                             # (2.23): (2.14) on (2.4)
    dh = W_hy.T @ ds                                             # (2.22): (2.13) on (2.4)
    return dh, dW_hy, ds


def predictions(
    parameters: Mapping[str, Array], y: Sequence[int], above: Mapping[int, Array],
    prefix: str = "output",
) -> tuple[Number, dict[int, Array], dict[int, Number]]:
    """J = -log p(y), in nats, p_t and l_t, from the vector (H, 1) above each word y_t, t from 1."""
    W_hy, b_hy = parameters[f"{prefix}.W_hy"], bias(parameters, f"{prefix}.b")
    p, l = {}, {}
    for t, word in enumerate(y, start=1):
        l[t], p[t] = predict(word, above[t], W_hy, b_hy)         # (2.4), (4.6)
    J = sum(l.values())                                          # -log p(y | x), (2.51), (4.1)
    return J, p, l


def predictions_grad(
    parameters: Mapping[str, Array], y: Sequence[int], p: Mapping[int, Array],
    above: Mapping[int, Array], prefix: str = "output",
) -> tuple[dict[int, Array], dict[str, Array]]:
    """The gradient of each vector (H, 1), by time step, and those of the weights by name."""
    W_hy = parameters[f"{prefix}.W_hy"]
    dW_hy, db_hy, d_above = np.zeros_like(W_hy), np.zeros_like(W_hy[:, :1]), {}
    for t in range(len(y), 0, -1):
        d_above[t], dW, d_hy = predict_grad(y[t - 1], p[t], above[t], W_hy)
        dW_hy, db_hy = dW_hy + dW, db_hy + d_hy                  # Algorithm 4 line 11
    return d_above, {f"{prefix}.W_hy": dW_hy, f"{prefix}.b": db_hy[:, 0]}


# --- the recurrent unit -------------------------------------------------------------------------


def rnn(x: Array, h_prev: Array, T: Array, b: Array | float = 0.0) -> Array:
    """h_t (H, 1) from x_t (E, 1) and h_{t-1} (H, 1); Eqs. 2.2, 2.3 and 2.24."""
    z = np.vstack([x, h_prev])                                   # z_t = [x_t; h_{t-1}]
    a = T @ z + b                                                # W_xh x_t + W_hh h_{t-1}
    return np.tanh(a)                                            # (2.3), (2.24)


def rnn_grad(
    dh: Array, x: Array, h_prev: Array, T: Array, b: Array | float = 0.0
) -> tuple[Array, Array, Array, Array]:
    """dh_{t-1} (H, 1), dx_t (E, 1), dT (H, E + H) and db (H, 1); Algorithm 1 from line 5.

    The columns of dT are dW_xh and dW_hh of Eqs. 2.29 and 2.30.
    """
    z = np.vstack([x, h_prev])                                   # z_t = [x_t; h_{t-1}]
    da = tanh_prime(T @ z + b) * dh                              # sigma'(T_rnn z_t) o dh_t
    dT = da @ z.T                                                # (2.26): (2.12) on (2.24)
    dz = T.T @ da                                                # (2.25): (2.11) on (2.24)
    dx = dz[: len(x)]                                            # (2.27), line 7
    dh_prev = dz[len(x) :]                                       # (2.28), line 8
    return dh_prev, dx, dT, da


def recurrent_product(T: Array, a: Sequence[Array]) -> Array:
    """The matrix (H, H) that maps dh_t to dh_{t-K} if there are no losses in between: 2.2.2.

    Arguments: T (H, E + H); a, the pre-activations T_rnn z of steps t - K + 1 .. t, (H, 1) each.
    It vanishes or explodes with the K factors W_hh'. The factor of step t is on the right, next to
    dh_t; the printed product, read from left to right, has it on the left (erratum 30).
    """
    H = len(T)
    W_hh, product = T[:, -H:], np.eye(H)
    for a_t in reversed(a):
        factor = W_hh.T @ np.diag(tanh_prime(a_t)[:, 0])         # line 8 of Algorithm 1, by (2.10)
        product = factor @ product                               # (2.2.2 product)
    return product


# --- the language model -------------------------------------------------------------------------


def forward(
    parameters: Mapping[str, Array], x: Sequence[int], y: Sequence[int], h_0: Array | None = None
) -> tuple[Number, RNNTrace]:
    """J = -log p(y) for one sentence, in nats; Eqs. 2.1 and 2.3-2.6.

    Arguments: x and y, T token ids each, y being x shifted by one word; h_0 (H, 1), zero if None.
    """
    W_e, T, W_hy = (parameters[name] for name in ("W_e", "T", "W_hy"))
    b, b_hy = bias(parameters, "b"), bias(parameters, "b_hy")
    h = {0: np.zeros((len(T), 1)) if h_0 is None else h_0}
    v, p, l = {}, {}, {}
    for t in range(1, len(x) + 1):
        v[t] = embed(x[t - 1], W_e)                              # x_t, the word's row of W_e
        h[t] = rnn(v[t], h[t - 1], T, b)                         # (2.3)
        l[t], p[t] = predict(y[t - 1], h[t], W_hy, b_hy)
    J = sum(l.values())                                          # -log p(y), (2.1)
    return J, RNNTrace(v, h, p, l)


def backward(
    parameters: Mapping[str, Array], x: Sequence[int], y: Sequence[int], trace: RNNTrace
) -> tuple[dict[str, Array], Array]:
    """The gradient of J for every parameter, and dh_0 (H, 1); Algorithm 1 from line 1."""
    W_e, T, W_hy = (parameters[name] for name in ("W_e", "T", "W_hy"))
    b = bias(parameters, "b")
    v, h, p, _ = trace
    dW_e, dT, dW_hy = np.zeros_like(W_e), np.zeros_like(T), np.zeros_like(W_hy)
    db, db_hy = np.zeros_like(h[0]), np.zeros_like(W_hy[:, :1])
    dh = {len(x): np.zeros_like(h[0])}
    for t in range(len(x), 0, -1):                               # line 1
        d_vertical, dW, d_hy = predict_grad(y[t - 1], p[t], h[t], W_hy)
        dW_hy, db_hy = dW_hy + dW, db_hy + d_hy                  # line 3
        dh[t] = dh[t] + d_vertical                               # line 4
        dh[t - 1], dx, dT_t, db_t = rnn_grad(dh[t], v[t], h[t - 1], T, b)
        dT, db = dT + dT_t, db + db_t                            # lines 5, 6
        dW_e = embed_grad(x[t - 1], dx, dW_e)                    # remark (b): sparse update
    gradients = {"W_e": dW_e, "T": dT, "W_hy": dW_hy, "b": db[:, 0], "b_hy": db_hy[:, 0]}
    return {name: gradients[name] for name in parameters}, dh[0]


# --- the declaration ------------------------------------------------------------------------------

HERE = "grads.derivations.rnn"
PRINTED_SIGN = {"sign of ds as printed": Mistake(
    f"{HERE}.predict_grad", "p - one_hot(y, len(p))", "one_hot(y, len(p)) - p",
    "Algorithm 1 line 2 and Algorithm 2 line 3 print 1_y - p (erratum 1): every gradient turns out "
    "with its sign reversed.")}
ONE_EMBEDDING = {"one word only": Mistake(
    f"{HERE}.embed_grad", "dW_e + one_hot", "0 * dW_e + one_hot",
    "dW_e holds the term of the last iteration, instead of the sum over all words.")}
OVERWRITTEN = {"vertical gradient overwrites the recurrent one": Mistake(
    f"{HERE}.backward", "dh[t] = dh[t] + d_vertical", "dh[t] = d_vertical",
    "dh_t is what reaches h_t from the loss at t only; what came from t + 1 is lost.")}
MISTAKES = {
    **PRINTED_SIGN,
    "dropped recurrent term": Mistake(
        f"{HERE}.rnn_grad", "dh_prev = dz[len(x) :]", "dh_prev = 0 * dz[len(x) :]",
        "line 8 left out: nothing flows back to time t - 1."),
    "transposed weight": Mistake(
        f"{HERE}.rnn_grad", "dh_prev = dz[len(x) :]", "dh_prev = T[:, len(x) :] @ da",
        "line 8 with W_hh in the place of its transpose."),
    **OVERWRITTEN,
    "last time step only": Mistake(
        f"{HERE}.backward", "dT, db = dT + dT_t,", "dT, db = dT_t,",
        "dT <- where dT <- dT + is meant."),
    **ONE_EMBEDDING,
}
DECLARATIONS = (Declaration(
    "rnn", "Recurrent language model, Algorithm 1", forward, backward,
    partial(language_example, 1), None, LANGUAGE, attentive=False, gates=("",),
    mistakes=MISTAKES),)
