"""A memory that only adds, the first step towards the LSTM (Luong, 2016, Eqs. 2.31 and 2.32).

Parameters as of `grads.derivations.rnn`: `W_e` (V, E), `T` (H, E + H) = [W_xh W_hh], `W_hy` (V, H);
biases `b` (H,) and `b_hy` (V,) are optional. sigma is tanh. The next step is
`grads.derivations.gated_memory`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from grads.derivations.calculus import Array, Number, bias, tanh_prime
from grads.derivations.declaration import Declaration
from grads.derivations.errata import Mistake
from grads.derivations.examples import language_example
from grads.derivations.lstm import LSTMTrace
from grads.derivations.rnn import (
    ONE_EMBEDDING,
    OVERWRITTEN,
    PRINTED_SIGN,
    embed,
    embed_grad,
    predict,
    predict_grad,
)

# --- the unit -----------------------------------------------------------------------------------


def adding_memory(
    h_prev: Array, c_prev: Array, x: Array, T: Array, b: Array | float = 0.0
) -> tuple[Array, Array]:
    """h_t and c_t (H, 1) from h_{t-1}, c_{t-1} (H, 1) and x_t (E, 1); Eqs. 2.31 and 2.32."""
    z = np.vstack([x, h_prev])                                   # z_t = [x_t; h_{t-1}]
    a = T @ z + b                                                # W_xh x_t + W_hh h_{t-1}
    h_hat = np.tanh(a)                                           # what is added
    c = c_prev + h_hat                                           # (2.31)
    h = c                                                        # (2.32)
    return h, c


def adding_memory_grad(
    dh: Array, dc: Array, h_prev: Array, x: Array, T: Array, b: Array | float = 0.0
) -> tuple[Array, Array, Array, Array, Array]:
    """dh_{t-1}, dc_{t-1} (H, 1), dx_t (E, 1), dT (H, E + H) and db (H, 1).

    Arguments: dh, dc (H, 1), gradients of h_t and c_t from above and from time t + 1; the unit's
    inputs but for c_{t-1}, which no gradient depends on. The thesis says of the backward pass only
    that dc_{t-1} = dc_t along the path through the memories.
    """
    T_x, T_h = np.split(T, [len(x)], axis=1)
    a = T_x @ x + T_h @ h_prev + b                               # W_xh x_t + W_hh h_{t-1}
    dc = dc + dh                                                 # back through (2.32)
    dc_prev = dc                                                 # back through (2.31): no factor
    dh_hat = dc                                                  # back through (2.31)
    da = tanh_prime(a) * dh_hat
    dT_x = da @ x.T                                              # (2.12) on (2.31)
    dT_h = da @ h_prev.T                                         # (2.12) on (2.31)
    dx = T_x.T @ da                                              # (2.11) on (2.31)
    dh_prev = T_h.T @ da                                         # (2.11) on (2.31)
    dT = np.hstack([dT_x, dT_h])
    return dh_prev, dc_prev, dx, dT, da


# --- the language model -------------------------------------------------------------------------


def adding_forward(
    parameters: Mapping[str, Array], x: Sequence[int], y: Sequence[int]
) -> tuple[Number, LSTMTrace]:
    """J = -log p(y) for one sentence, in nats; Eqs. 2.1, 2.31 and 2.32.

    Arguments: x and y, T token ids each, y being x shifted by one word.
    """
    W_e, T, W_hy = (parameters[name] for name in ("W_e", "T", "W_hy"))
    b, b_hy = bias(parameters, "b"), bias(parameters, "b_hy")
    h, c = {0: np.zeros((len(T), 1))}, {0: np.zeros((len(T), 1))}
    v, p, l = {}, {}, {}
    for t in range(1, len(x) + 1):
        v[t] = embed(x[t - 1], W_e)                              # x_t, the word's row of W_e
        h[t], c[t] = adding_memory(h[t - 1], c[t - 1], v[t], T, b)
        l[t], p[t] = predict(y[t - 1], h[t], W_hy, b_hy)
    J = sum(l.values())                                          # -log p(y), (2.1)
    return J, LSTMTrace(v, h, c, p, l)


def adding_backward(
    parameters: Mapping[str, Array], x: Sequence[int], y: Sequence[int], trace: LSTMTrace
) -> dict[str, Array]:
    """The gradient of J for every parameter, in the order of Algorithm 2."""
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
        dh[t - 1], dc[t - 1], dx, dT_t, db_t = adding_memory_grad(
            dh[t], dc[t], h[t - 1], v[t], T, b)
        dT, db = dT + dT_t, db + db_t                            # summed over time
        dW_e = embed_grad(x[t - 1], dx, dW_e)
    gradients = {"W_e": dW_e, "T": dT, "W_hy": dW_hy, "b": db[:, 0], "b_hy": db_hy[:, 0]}
    return {name: gradients[name] for name in parameters}


# --- the declaration ------------------------------------------------------------------------------

PAIRS = {"adding_memory_grad.dT_x": "T:first columns", "adding_memory_grad.dT_h": "T:last columns"}
HERE = "grads.derivations.adding_memory"
MISTAKES = {
    **PRINTED_SIGN,
    "memory's path forgotten": Mistake(
        f"{HERE}.adding_memory_grad", "dc_prev = dc", "dc_prev = 0 * dc",
        "the sum of Eq. 2.31 hands its gradient to both terms; here c_{t-1} gets none."),
    "state's path forgotten": Mistake(
        f"{HERE}.adding_memory_grad", "dc = dc + dh", "dc = dc",
        "h_t is c_t (Eq. 2.32), so what reaches h_t reaches the memory, too."),
    **{name: mistake._replace(function=f"{HERE}.adding_backward")
       for name, mistake in OVERWRITTEN.items()},
    **ONE_EMBEDDING,
}
DECLARATIONS = (Declaration(
    "adding-memory", "Language model of a memory that only adds, Eqs. 2.31 and 2.32",
    adding_forward, adding_backward, partial(language_example, 1), None, ("sentence",),
    attentive=False, mistakes=MISTAKES),)
