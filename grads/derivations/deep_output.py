"""The deep output with maxout of Bahdanau et al. (2015), A.2.2: one prediction, and back.

| here | shape | A.2.2 |
|---|---|---|
| `s` | (H, 1) | s_{i-1} as printed; s_i in the authors' later code (erratum 18) |
| `y` | (E, 1) | E y_{i-1}, the embedding of the word before |
| `c` | (He, 1) | c_i |
| `t_tilde`, `t` | (2M, 1), (M, 1) | t~_i, t_i; l of the paper is M |
| `U_o`, `V_o`, `C_o`, `W_o` | (2M, H), (2M, E), (2M, He), (V, M) | the same |
| `b_t`, `b` | (2M, 1), (V, 1) | not printed; zero unless given |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grads.derivations.calculus import Array, Number, tanh_prime
from grads.derivations.rnn import predict, predict_grad
from grads.derivations.units import Part


class Output(NamedTuple):
    """The weights, or their gradients."""

    W_o: Array
    U_o: Array
    V_o: Array
    C_o: Array
    b_t: Array | float = 0.0
    b: Array | float = 0.0


def maxout(t_tilde: Array) -> Array:
    """t_j = max(t~_{2j-1}, t~_{2j}): (M, 1) from (2M, 1).

    Where the two are equal there is a kink, and no derivative; the first is taken as the maximum.
    """
    first, second = t_tilde[0::2], t_tilde[1::2]
    t = np.where(first.real >= second.real, first, second)       # (Bahdanau A.2.2 maxout)
    return t


def maxout_grad(dt: Array, t_tilde: Array) -> Array:
    """dt~ (2M, 1) given dt (M, 1): dt at the larger of each two, zero at the other."""
    first, second = t_tilde[0::2], t_tilde[1::2]
    d_first = np.where(first.real >= second.real, dt, 0)         # (Bahdanau A.2.2 maxout)
    d_second = np.where(first.real >= second.real, 0, dt)        # (Bahdanau A.2.2 maxout)
    dt_tilde = np.hstack([d_first, d_second]).reshape(-1, 1)     # rows 1, 2, 1, 2 ... again
    return dt_tilde


def tanh(t_tilde: Array) -> Array:
    """The hidden layer of Sennrich's models (2016), in the place of the maxout."""
    return np.tanh(t_tilde)


def tanh_grad(dt: Array, t_tilde: Array) -> Array:
    """dt~, given dt."""
    return tanh_prime(t_tilde) * dt


HIDDEN = {"maxout": Part(maxout, maxout_grad), "tanh": Part(tanh, tanh_grad)}


def deep(s: Array, y: Array, c: Array, output: Output) -> Array:
    """t~ (2M, 1), the input of the maxout; (M, 1) for another hidden layer."""
    _, U_o, V_o, C_o, b_t, _ = output
    t_tilde = U_o @ s + V_o @ y + C_o @ c + b_t                  # (Bahdanau A.2.2 deep)
    return t_tilde


def deep_grad(
    dt_tilde: Array, s: Array, y: Array, c: Array, output: Output
) -> tuple[Array, Array, Array, Array, Array, Array]:
    """ds (H, 1), dy (E, 1), dc (He, 1), dU_o, dV_o, dC_o; db_t is dt~ itself."""
    _, U_o, V_o, C_o, _, _ = output
    dU_o, dV_o, dC_o = dt_tilde @ s.T, dt_tilde @ y.T, dt_tilde @ c.T  # (2.14) on U_o s, V_o y, ...
    ds, dy, dc = U_o.T @ dt_tilde, V_o.T @ dt_tilde, C_o.T @ dt_tilde  # (2.13) on U_o s, V_o y, ...
    return ds, dy, dc, dU_o, dV_o, dC_o


def deep_output(
    word: int, s: Array, y: Array, c: Array, output: Output, layer: str = "maxout"
) -> tuple[Number, Array]:
    """-log p(y_i), in nats, and p (V, 1); `word` is y_i, `layer` a key of HIDDEN."""
    W_o, b = output.W_o, output.b
    t_tilde = deep(s, y, c, output)
    t = HIDDEN[layer].forward(t_tilde)                           # (Bahdanau A.2.2 maxout)
    l, p = predict(word, t, W_o, b)                              # (Bahdanau A.2.2 output)
    return l, p


def deep_output_grad(
    word: int, p: Array, s: Array, y: Array, c: Array, output: Output, layer: str = "maxout"
) -> tuple[Array, Array, Array, Output]:
    """ds (H, 1), dy (E, 1), dc (He, 1) and the weights' gradients."""
    W_o, t_tilde = output.W_o, deep(s, y, c, output)
    t = HIDDEN[layer].forward(t_tilde)
    dt, dW_o, db = predict_grad(word, p, t, W_o)                 # (Bahdanau A.2.2 output)
    dt_tilde = HIDDEN[layer].backward(dt, t_tilde)               # (Bahdanau A.2.2 maxout)
    ds, dy, dc, dU_o, dV_o, dC_o = deep_grad(dt_tilde, s, y, c, output)
    return ds, dy, dc, Output(dW_o, dU_o, dV_o, dC_o, dt_tilde, db)
