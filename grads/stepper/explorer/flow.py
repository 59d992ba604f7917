"""How far a gradient flows back through time: the norm of dh_{t-k} against k (2.2.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from grads.derivations.adding_memory import adding_memory, adding_memory_grad
from grads.derivations.gated_memory import gated_memory, gated_memory_grad
from grads.derivations.gru import Unit, gru, gru_grad
from grads.derivations.lstm import lstm, lstm_grad
from grads.derivations.rnn import rnn, rnn_grad
from grads.stepper.explorer.tensors import flat

H = 24  # hidden units
LAGS = 20
LAGGED = np.arange(LAGS + 1)
RADII = (0.5, 0.9, 1.1, 1.5)  # of the recurrent weights: the size of every eigenvalue
FORGET = (0.0, 4.0)  # biases of the forget gate: f about 0.5, and about 0.98

TEXT = (
    "A gradient of norm 1 starts at time t, and no earlier step has a loss. Each chart shows the "
    "norm of the gradient that reaches h_{t-k}. The recurrent weights are rho times an orthogonal "
    "matrix (one for each gate). In a vanilla RNN every step multiplies the gradient by W_hh^T "
    "diag(tanh'), so rho^k bounds its norm (section 2.2.2). In a memory that only adds, dc_{t-1} = "
    "dc_t: nothing is lost on that path, and the matrix adds a second path, so the gradient grows. "
    "In an LSTM, dc_{t-1} = f o dc_t meets no matrix: a bias that keeps the forget gate open "
    "preserves the gradient, whatever the recurrent weights are. The update gate of a GRU does "
    "the same.")


def flow_json() -> dict[str, Any]:
    """Norms for each unit at each spectral radius, and the bound for the RNN."""
    series = []
    for unit, norms, biases in UNITS:
        for bias in biases:
            for radius in RADII:
                known = {} if bias is None else {"forget_bias": bias}
                series.append({
                    "unit": unit, "radius": radius, "forget_bias": bias,
                    "norms": flat(norms(radius, np.random.default_rng(1), **known), 4),
                    "bound": flat(radius ** LAGGED, 4) if unit == "rnn" else None})
    return {"lags": LAGGED.tolist(), "series": series, "text": TEXT}


def rnn_norms(radius: float, rng: np.random.Generator) -> list[float]:
    """|dh_{t-k}| for k = 0 .. LAGS of the recurrent unit (2.3), line 8 of Algorithm 1."""
    T = recurrent(1, radius, rng)
    return norms_through(lambda x, h: (rnn(x, h, T),), lambda dh, x, h: rnn_grad(dh, x, h, T)[:1],
                         rng)


def norms_through(
    forward: Callable[..., tuple[np.ndarray, ...]], backward: Callable[..., tuple[np.ndarray, ...]],
    rng: np.random.Generator, states: int = 1,
) -> list[float]:
    """|dh_{t-k}| of a unit with the state h, or h and c.

    Arguments: forward, the states at t from x_t and those at t-1; backward, the gradients of the
    states at t-1 from those at t, x_t and the states at t-1.
    """
    x, nothing = words(rng), np.zeros((H, 1))
    state = [(nothing,) * states]
    for x_t in x:
        state.append(forward(x_t, *state[-1]))
    gradients = (direction(rng), *(nothing,) * (states - 1))
    norms = [size(gradients[0])]
    for t in range(len(x), 0, -1):
        gradients = backward(*gradients, x[t - 1], *state[t - 1])
        norms.append(size(gradients[0]))
    return norms


def adding_norms(radius: float, rng: np.random.Generator) -> list[float]:
    """The same of the memory that only adds (2.31, 2.32): h_t is c_t, so both paths count."""
    T = recurrent(1, radius, rng)

    def backward(dh: np.ndarray, x: np.ndarray, h: np.ndarray) -> tuple[np.ndarray]:
        by_state, by_memory, *_ = adding_memory_grad(dh, np.zeros_like(dh), h, x, T)
        return (by_state + by_memory,)

    return norms_through(lambda x, h: adding_memory(h, h, x, T)[:1], backward, rng)


def gated_norms(radius: float, rng: np.random.Generator, forget_bias: float) -> list[float]:
    """The same of the memory with constant gates (2.33, 2.34)."""
    T = recurrent(1, radius, rng)
    return memory_norms(gated_memory, gated_memory_grad, T, forget_bias, rng)


def lstm_norms(radius: float, rng: np.random.Generator, forget_bias: float) -> list[float]:
    """The same of the LSTM (2.36, 2.37), Algorithm 2."""
    return memory_norms(lstm, lstm_grad, recurrent(4, radius, rng), forget_bias, rng)


def memory_norms(
    forward: Callable[..., Any], backward: Callable[..., Any], T: np.ndarray, forget_bias: float,
    rng: np.random.Generator,
) -> list[float]:
    """The same of a unit with h and c, whose only bias is that of its forget gate."""
    b = np.zeros((4 * H, 1))
    b[H : 2 * H] = forget_bias
    return norms_through(lambda x, h, c: forward(h, c, x, T, b),
                         lambda dh, dc, x, h, c: backward(dh, dc, h, c, x, T, b)[:2], rng, 2)


def gru_norms(radius: float, rng: np.random.Generator) -> list[float]:
    """The same of the gated hidden unit (Bahdanau et al., A.2.1), without biases."""
    W, W_z, W_r = np.split(inputs_weights(3, rng), 3)
    U, U_z, U_r = (radius * orthogonal(rng) for _ in range(3))
    unit = Unit(W, W_z, W_r, U, U_z, U_r, *np.zeros((3, H, 1)))
    return norms_through(lambda x, h: (gru(x, h, unit),),
                         lambda dh, x, h: gru_grad(dh, x, h, unit)[1:2], rng)


UNITS: tuple[tuple[str, Callable[..., list[float]], tuple[float | None, ...]], ...] = (
    ("rnn", rnn_norms, (None,)), ("adding-memory", adding_norms, (None,)),
    ("gated-memory", gated_norms, FORGET), ("gru", gru_norms, (None,)),
    ("lstm", lstm_norms, FORGET))  # each with its norms, and the biases of its forget gate


def orthogonal(rng: np.random.Generator) -> np.ndarray:
    """A random orthogonal matrix (H, H): all its eigenvalues lie on the unit circle."""
    return np.asarray(np.linalg.qr(rng.normal(size=(H, H)))[0])


def recurrent(gates: int, radius: float, rng: np.random.Generator) -> np.ndarray:
    """T (gates H, 2 H): weights of the inputs beside recurrent ones of this spectral radius."""
    return np.hstack([inputs_weights(gates, rng),
                      np.vstack([radius * orthogonal(rng) for _ in range(gates)])])


def inputs_weights(gates: int, rng: np.random.Generator) -> np.ndarray:
    """Small weights of the inputs (gates H, H), so that few units saturate."""
    return rng.normal(scale=0.3 / np.sqrt(H), size=(gates * H, H))


def words(rng: np.random.Generator) -> list[np.ndarray]:
    """LAGS input columns (H, 1)."""
    return list(rng.normal(size=(LAGS, H, 1)))


def direction(rng: np.random.Generator) -> np.ndarray:
    """A column (H, 1) of length 1."""
    v = rng.normal(size=(H, 1))
    return np.asarray(v / size(v))


def size(v: np.ndarray) -> float:
    """The Euclidean norm of a real column."""
    return float(np.sqrt((v**2).sum()))
