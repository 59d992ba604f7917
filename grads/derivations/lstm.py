"""The LSTM language model (Luong, 2016, Eqs. 2.35-2.40) and Algorithm 2.

Parameters: `W_e` (V, E), `T` (4H, E + H) = T_lstm = [T_x T_h] with the gates in the order i, f, o,
h_hat (erratum 5), `W_hy` (V, H); biases `b` (4H,) and `b_hy` (V,) are optional.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from grads.derivations.calculus import Array, Number, bias, sigm, sigm_prime, tanh_prime
from grads.derivations.declaration import Declaration
from grads.derivations.errata import Mistake
from grads.derivations.examples import LANGUAGE, language_example
from grads.derivations.rnn import (
    ONE_EMBEDDING,
    OVERWRITTEN,
    PRINTED_SIGN,
    embed,
    embed_grad,
    predict,
    predict_grad,
)


class LSTMTrace(NamedTuple):
    """The values of the forward pass, by time step."""

    x: dict[int, Array]  # x_1 .. x_T, (E, 1)
    h: dict[int, Array]  # h_0 .. h_T, (H, 1)
    c: dict[int, Array]  # c_0 .. c_T, (H, 1)
    p: dict[int, Array]  # p_1 .. p_T, (V, 1)
    l: dict[int, Number]  # l_1 .. l_T, nats


# --- the unit -----------------------------------------------------------------------------------


def g(a: Array) -> Array:
    """The non-linearity of Eq. 2.38 on (4H, 1): tanh on the fourth block (h_hat), sigm before."""
    i, f, o, h_hat = np.split(a, 4)
    return np.vstack([sigm(i), sigm(f), sigm(o), np.tanh(h_hat)])


def g_prime(a: Array) -> Array:
    """g' at the pre-activation a = T_lstm z_t (4H, 1), as Eqs. 2.47-2.50 print it (erratum 4)."""
    i, f, o, h_hat = np.split(a, 4)
    return np.vstack([sigm_prime(i), sigm_prime(f), sigm_prime(o), tanh_prime(h_hat)])


def lstm(
    h_prev: Array, c_prev: Array, x: Array, T: Array, b: Array | float = 0.0
) -> tuple[Array, Array]:
    """h_t and c_t (H, 1) from h_{t-1}, c_{t-1} (H, 1) and x_t (E, 1); Eqs. 2.35-2.40."""
    z = np.vstack([x, h_prev])                                   # z_t = [x_t; h_{t-1}]
    a = T @ z + b                                                # T_lstm z_t
    u = g(a)                                                     # (2.35), (2.38)
    i, f, o, h_hat = np.split(u, 4)
    c = f * c_prev + i * h_hat                                   # (2.36)
    h = o * np.tanh(c)                                           # (2.37)
    return h, c                                                  # (2.40)


def lstm_grad(
    dh: Array, dc: Array, h_prev: Array, c_prev: Array, x: Array, T: Array, b: Array | float = 0.0
) -> tuple[Array, Array, Array, Array, Array]:
    """Lines 7-15 of Algorithm 2, then Eqs. 2.47 and 2.48: LSTM_grad of Algorithm 4 line 14.

    Arguments: dh, dc (H, 1), gradients of h_t and c_t from above and from time t + 1; the unit's
    inputs. Returns dh_{t-1}, dc_{t-1}, dx_t, dT (4H, E + H) and the bias's db (4H, 1). Remarks 2
    and 3 and Lemma 1 are cited with the equation that each is applied to. Algorithm 2 does not
    print dx_t and dh_{t-1} (erratum 2).
    """
    T_x, T_h = np.split(T, [len(x)], axis=1)
    a = T_x @ x + T_h @ h_prev + b                               # T_lstm z_t, as in (2.39)
    i, f, o, h_hat = np.split(g(a), 4)
    c = f * c_prev + i * h_hat
    do = np.tanh(c) * dh                                         # (2.41): (2.15) on (2.37), line 7
    dc = dc + tanh_prime(c) * o * dh                             # (2.42): (2.16) on (2.37), line 8
    df = c_prev * dc                                             # (2.43): (2.17) on (2.36), line 9
    di = h_hat * dc                                              # (2.45): (2.17) on (2.36), line 10
    dh_hat = i * dc                                              # (2.46): (2.18) on (2.36), line 11
    dc_prev = f * dc                                             # (2.44): (2.18) on (2.36), line 12
    du = np.vstack([di, df, do, dh_hat])                         # line 13
    da = g_prime(a) * du                                         # g'(T_lstm z_t) o du_t
    dT_x = da @ x.T                                              # (2.49): (2.12) on (2.39), line 14
    dT_h = da @ h_prev.T                                         # (2.50): (2.12) on (2.39), line 15
    dx = T_x.T @ da                                              # (2.47): (2.11) on (2.39)
    dh_prev = T_h.T @ da                                         # (2.48): (2.11) on (2.39)
    dT = np.hstack([dT_x, dT_h])
    return dh_prev, dc_prev, dx, dT, da


# --- the language model -------------------------------------------------------------------------


def forward(
    parameters: Mapping[str, Array], x: Sequence[int], y: Sequence[int],
    h_0: Array | None = None, c_0: Array | None = None,
) -> tuple[Number, LSTMTrace]:
    """J = -log p(y) for one sentence, in nats; Eqs. 2.1 and 2.35-2.40.

    Arguments: x and y, T token ids each, y being x shifted by one word; h_0, c_0 (H, 1), zero if
    None.
    """
    W_e, T, W_hy = (parameters[name] for name in ("W_e", "T", "W_hy"))
    b, b_hy = bias(parameters, "b"), bias(parameters, "b_hy")
    zero = np.zeros((W_hy.shape[1], 1))
    h = {0: zero if h_0 is None else h_0}
    c = {0: zero if c_0 is None else c_0}
    v, p, l = {}, {}, {}
    for t in range(1, len(x) + 1):
        v[t] = embed(x[t - 1], W_e)                              # x_t, the word's row of W_e
        h[t], c[t] = lstm(h[t - 1], c[t - 1], v[t], T, b)        # (2.40)
        l[t], p[t] = predict(y[t - 1], h[t], W_hy, b_hy)
    J = sum(l.values())                                          # -log p(y), (2.1)
    return J, LSTMTrace(v, h, c, p, l)


def backward(
    parameters: Mapping[str, Array], x: Sequence[int], y: Sequence[int], trace: LSTMTrace
) -> tuple[dict[str, Array], Array, Array]:
    """The gradient of J for every parameter, dh_0 and dc_0 (H, 1); Algorithm 2 from line 1.

    Departure: dT is summed over time, as in Algorithm 4 line 16; lines 14 and 15 print "<-" only.
    """
    W_e, T, W_hy = (parameters[name] for name in ("W_e", "T", "W_hy"))
    b = bias(parameters, "b")
    v, h, c, p, _ = trace
    dW_e, dT, dW_hy = np.zeros_like(W_e), np.zeros_like(T), np.zeros_like(W_hy)
    db, db_hy = np.zeros_like(T[:, :1]), np.zeros_like(W_hy[:, :1])
    dh, dc = {len(x): np.zeros_like(h[0])}, {len(x): np.zeros_like(c[0])}
    for t in range(len(x), 0, -1):                               # line 1
        d_vertical, dW, d_hy = predict_grad(y[t - 1], p[t], h[t], W_hy)
        dW_hy, db_hy = dW_hy + dW, db_hy + d_hy                  # line 4
        dh[t] = dh[t] + d_vertical                               # line 5
        dh[t - 1], dc[t - 1], dx, dT_t, db_t = lstm_grad(
            dh[t], dc[t], h[t - 1], c[t - 1], v[t], T, b)
        dT, db = dT + dT_t, db + db_t                            # summed over time
        dW_e = embed_grad(x[t - 1], dx, dW_e)                    # Algorithm 4, line 18
    gradients = {"W_e": dW_e, "T": dT, "W_hy": dW_hy, "b": db[:, 0], "b_hy": db_hy[:, 0]}
    return {name: gradients[name] for name in parameters}, dh[0], dc[0]


# --- the declaration ------------------------------------------------------------------------------

PAIRS = {"lstm_grad.dT_x": "T:first columns", "lstm_grad.dT_h": "T:last columns"}
HERE = "grads.derivations.lstm"
FORGOTTEN_DC = {"dc not carried": Mistake(
    f"{HERE}.lstm_grad", "dc = dc + tanh_prime(c)", "dc = tanh_prime(c)",
    "what c_{t+1} sends back is forgotten in line 8: long-range gradients vanish.")}
NO_DH_PREV = {"dropped recurrent term": Mistake(
    f"{HERE}.lstm_grad", "dh_prev = T_h.T @ da", "dh_prev = 0 * (T_h.T @ da)",
    "Algorithm 2 as printed does not compute dh_{t-1} (2.48; erratum 2): time steps before t get "
    "no gradient through h.")}
MISTAKES = {
    **PRINTED_SIGN, **FORGOTTEN_DC, **NO_DH_PREV,
    "forget gate for input gate": Mistake(
        f"{HERE}.lstm_grad", "dh_hat = i * dc", "dh_hat = f * dc",
        "line 11 with f_t in the place of i_t: the memory's candidate gets a wrong gradient."),
    "g' at the activation": Mistake(
        f"{HERE}.lstm_grad", "g_prime(a) * du", "g_prime(np.vstack([i, f, o, h_hat])) * du",
        "g'(u_t) for g'(T_lstm z_t): Eqs. 2.47-2.50 read with what the forward keeps (erratum 4)."),
    **OVERWRITTEN,
    "dT as printed": Mistake(
        f"{HERE}.backward", "dT, db = dT + dT_t,", "dT, db = dT_t,",
        "Algorithm 2 lines 14 and 15 print <- where the sum over time is meant: only the first "
        "time step is left."),
    **ONE_EMBEDDING,
}
DECLARATIONS = (Declaration(
    "lstm", "LSTM language model, Algorithm 2", forward, backward,
    partial(language_example, 4), None, LANGUAGE, attentive=False,
    gates=("i", "f", "o", "h_hat"), mistakes=MISTAKES),)
