"""A memory with gates, the second step towards the LSTM (Luong, 2016, Eqs. 2.33 and 2.34).

Parameters: `W_e` (V, E), `T` (H, E + H) = [W_xh W_hh], `b` (4H,) in the order i, f, o, h_hat,
`W_hy` (V, H); `b` and the bias `b_hy` (V,) are optional. sigma is tanh. The step before is
`grads.derivations.adding_memory`, the next one `grads.derivations.lstm`.

Departure: the thesis does not say at this point where the gates come from. Here each is the sigmoid
of a bias, the same at every time step. The LSTM makes them depend on x_t and h_{t-1} (2.35): there
T has rows for the gates too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from grads.derivations.calculus import Array, Number, bias, sigm, sigm_prime, tanh_prime
from grads.derivations.declaration import Declaration
from grads.derivations.errata import Mistake
from grads.derivations.examples import Example, Request, draw, language_example
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


def gated_memory(
    h_prev: Array, c_prev: Array, x: Array, T: Array, b: Array
) -> tuple[Array, Array]:
    """h_t and c_t (H, 1) from h_{t-1}, c_{t-1} (H, 1) and x_t (E, 1); Eqs. 2.33 and 2.34."""
    b_i, b_f, b_o, b_h = np.split(b, 4)
    i = sigm(b_i)                                                # gates in [0, 1]
    f = sigm(b_f)
    o = sigm(b_o)
    z = np.vstack([x, h_prev])                                   # z_t = [x_t; h_{t-1}]
    a = T @ z + b_h                                              # W_xh x_t + W_hh h_{t-1}
    h_hat = np.tanh(a)                                           # sigma(a)
    c = f * c_prev + i * h_hat                                   # (2.33)
    h = o * np.tanh(c)                                           # (2.34)
    return h, c


def gated_memory_grad(
    dh: Array, dc: Array, h_prev: Array, c_prev: Array, x: Array, T: Array, b: Array
) -> tuple[Array, Array, Array, Array, Array]:
    """dh_{t-1}, dc_{t-1} (H, 1), dx_t (E, 1), dT (H, E + H) and db (4H, 1).

    Arguments: dh, dc (H, 1), gradients of h_t and c_t from above and from time t + 1; the unit's
    inputs. The thesis prints no backward: each line names the remark or lemma that it follows from.
    """
    T_x, T_h = np.split(T, [len(x)], axis=1)
    b_i, b_f, b_o, b_h = np.split(b, 4)
    i = sigm(b_i)
    f = sigm(b_f)
    o = sigm(b_o)
    a = T_x @ x + T_h @ h_prev + b_h
    h_hat = np.tanh(a)
    c = f * c_prev + i * h_hat
    do = np.tanh(c) * dh                                         # (2.15) on (2.34)
    dc = dc + tanh_prime(c) * o * dh                             # (2.16) on (2.34)
    df = c_prev * dc                                             # (2.17) on (2.33)
    di = h_hat * dc                                              # (2.17) on (2.33)
    dh_hat = i * dc                                              # (2.18) on (2.33)
    dc_prev = f * dc                                             # (2.18) on (2.33)
    da = tanh_prime(a) * dh_hat
    db_i = sigm_prime(b_i) * di
    db_f = sigm_prime(b_f) * df
    db_o = sigm_prime(b_o) * do
    dT_x = da @ x.T                                              # (2.12) on (2.33)
    dT_h = da @ h_prev.T                                         # (2.12) on (2.33)
    dx = T_x.T @ da                                              # (2.11) on (2.33)
    dh_prev = T_h.T @ da                                         # (2.11) on (2.33)
    dT = np.hstack([dT_x, dT_h])
    db = np.vstack([db_i, db_f, db_o, da])
    return dh_prev, dc_prev, dx, dT, db


# --- the language model -------------------------------------------------------------------------


def gated_forward(
    parameters: Mapping[str, Array], x: Sequence[int], y: Sequence[int]
) -> tuple[Number, LSTMTrace]:
    """J = -log p(y) for one sentence, in nats; Eqs. 2.1, 2.33 and 2.34.

    Arguments: x and y, T token ids each, y being x shifted by one word.
    """
    W_e, T, W_hy = (parameters[name] for name in ("W_e", "T", "W_hy"))
    b, b_hy = gates(parameters), bias(parameters, "b_hy")
    h, c = {0: np.zeros((len(T), 1))}, {0: np.zeros((len(T), 1))}
    v, p, l = {}, {}, {}
    for t in range(1, len(x) + 1):
        v[t] = embed(x[t - 1], W_e)                              # x_t, the word's row of W_e
        h[t], c[t] = gated_memory(h[t - 1], c[t - 1], v[t], T, b)
        l[t], p[t] = predict(y[t - 1], h[t], W_hy, b_hy)
    J = sum(l.values())                                          # -log p(y), (2.1)
    return J, LSTMTrace(v, h, c, p, l)


def gated_backward(
    parameters: Mapping[str, Array], x: Sequence[int], y: Sequence[int], trace: LSTMTrace
) -> dict[str, Array]:
    """The gradient of J for every parameter, in the order of Algorithm 2."""
    W_e, T, W_hy = (parameters[name] for name in ("W_e", "T", "W_hy"))
    b = gates(parameters)
    v, h, c, p, _ = trace
    dW_e, dT, dW_hy = np.zeros_like(W_e), np.zeros_like(T), np.zeros_like(W_hy)
    db, db_hy = np.zeros_like(b), np.zeros_like(W_hy[:, :1])
    dh, dc = {len(x): np.zeros_like(h[0])}, {len(x): np.zeros_like(c[0])}
    for t in range(len(x), 0, -1):                               # line 1
        d_vertical, dW, d_hy = predict_grad(y[t - 1], p[t], h[t], W_hy)
        dW_hy, db_hy = dW_hy + dW, db_hy + d_hy                  # line 4
        dh[t] = dh[t] + d_vertical                               # line 5
        dh[t - 1], dc[t - 1], dx, dT_t, db_t = gated_memory_grad(
            dh[t], dc[t], h[t - 1], c[t - 1], v[t], T, b)
        dT, db = dT + dT_t, db + db_t                            # summed over time
        dW_e = embed_grad(x[t - 1], dx, dW_e)
    gradients = {"W_e": dW_e, "T": dT, "W_hy": dW_hy, "b": db[:, 0], "b_hy": db_hy[:, 0]}
    return {name: gradients[name] for name in parameters}


def gates(parameters: Mapping[str, Array]) -> Array:
    """b (4H, 1); if the model has no b, zeros, which make every gate 1/2."""
    return bias(parameters, "b") + np.zeros((4 * len(parameters["T"]), 1))


# --- the declaration ------------------------------------------------------------------------------


def gated_example(request: Request) -> Example:
    """A sentence for the language model, and random weights."""
    example = language_example(1, request)
    parameters, x, y = example.arguments
    if "b" in parameters:
        parameters |= draw(request.rng, {"b": (4 * len(parameters["T"]),)})
    return Example((parameters, x, y), {}, example.words)


PAIRS = {"gated_memory_grad.dT_x": "T:first columns", "gated_memory_grad.dT_h": "T:last columns"}
HERE = "grads.derivations.gated_memory"
MISTAKES = {
    **PRINTED_SIGN,
    "forget gate left out": Mistake(
        f"{HERE}.gated_memory_grad", "dc_prev = f * dc", "dc_prev = dc",
        "dc_{t-1} of the memory that only adds: Eq. 2.33 multiplies c_{t-1} by f."),
    "slope of another gate": Mistake(
        f"{HERE}.gated_memory_grad", "sigm_prime(b_f) * df", "sigm_prime(b_i) * df",
        "back through the forget gate with the slope of the input gate's sigmoid."),
    **{name: mistake._replace(function=f"{HERE}.gated_backward")
       for name, mistake in OVERWRITTEN.items()},
    **ONE_EMBEDDING,
}
DECLARATIONS = (Declaration(
    "gated-memory", "Language model of a memory with constant gates, Eqs. 2.33 and 2.34",
    gated_forward, gated_backward, gated_example, None, ("sentence",), attentive=False,
    mistakes=MISTAKES),)
