"""LSTM layers of others on NumPy's arrays, as peers: CS231n's, and a layer of `jax.lax.scan` under
`jax.jit`.

CS231n's layer (Stanford), written anew, is the code that most people write first: examples first,
then time, (N, T, D); a = x Wx + h Wh + b; a function for a step and a function for the sequence.
The backward of a step returns whole weight gradients, which the backward of the sequence sums.
`Wx` (D, 4H), `Wh` (H, 4H), `b` (4H,); gates in the order i, f, o, g, which is also ours.

JAX's layer (the extra `peers`) is the plainest layer that people write in JAX. Both passes are
compiled, and compiling is not timed. If NumPy's BLAS has one thread, so has JAX.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from backend.host import blas_threads
from benchmarks.case import Results
from benchmarks.kernel import Arrays, Passes, differentiated

Array = np.ndarray
Cache = tuple[Any, ...]


def sigmoid(a: Array) -> Array:
    """1 / (1 + e^-a), without an exponential that overflows."""
    z = np.exp(-np.abs(a))
    return np.where(a >= 0, 1 / (1 + z), z / (1 + z))


def lstm_step_forward(
    x: Array, prev_h: Array, prev_c: Array, Wx: Array, Wh: Array, b: Array
) -> tuple[Array, Array, Cache]:
    """One step: x (N, D), prev_h and prev_c (N, H). Returns next_h, next_c and a cache."""
    a_i, a_f, a_o, a_g = np.split(x @ Wx + prev_h @ Wh + b, 4, axis=1)
    i, f, o, g = sigmoid(a_i), sigmoid(a_f), sigmoid(a_o), np.tanh(a_g)
    next_c = f * prev_c + i * g
    tanh_c = np.tanh(next_c)
    return o * tanh_c, next_c, (x, prev_h, prev_c, Wx, Wh, i, f, o, g, tanh_c)


def lstm_step_backward(dnext_h: Array, dnext_c: Array, cache: Cache) -> Cache:
    """Returns dx, dprev_h, dprev_c, dWx, dWh, db."""
    x, prev_h, prev_c, Wx, Wh, i, f, o, g, tanh_c = cache
    dc = dnext_c + dnext_h * o * (1 - tanh_c**2)
    da = np.hstack([dc * g * i * (1 - i), dc * prev_c * f * (1 - f),
                    dnext_h * tanh_c * o * (1 - o), dc * i * (1 - g**2)])
    return da @ Wx.T, da @ Wh.T, dc * f, x.T @ da, prev_h.T @ da, da.sum(axis=0)


def lstm_forward(x: Array, h0: Array, Wx: Array, Wh: Array, b: Array) -> tuple[Array, list[Cache]]:
    """All hidden states (N, T, H) of x (N, T, D), and the caches of the steps."""
    N, T, _ = x.shape
    h = np.zeros((N, T, h0.shape[1]), dtype=x.dtype)
    prev_h, prev_c, caches = h0, np.zeros_like(h0), []
    for t in range(T):
        prev_h, prev_c, cache = lstm_step_forward(x[:, t], prev_h, prev_c, Wx, Wh, b)
        h[:, t] = prev_h
        caches.append(cache)
    return h, caches


def lstm_backward(dh: Array, caches: list[Cache]) -> Cache:
    """Returns dx (N, T, D), dh0, dWx, dWh, db, the last three summed step by step."""
    x, prev_h, _, Wx, Wh, *_ = caches[0]
    dx = np.zeros((dh.shape[0], len(caches), x.shape[1]), dtype=dh.dtype)
    sums = [np.zeros_like(Wx), np.zeros_like(Wh), np.zeros(Wx.shape[1], dtype=dh.dtype)]
    dprev_h, dprev_c = np.zeros_like(prev_h), np.zeros_like(prev_h)
    for t in reversed(range(len(caches))):
        dx[:, t], dprev_h, dprev_c, *step = lstm_step_backward(
            dh[:, t] + dprev_h, dprev_c, caches[t])
        for total, term in zip(sums, step, strict=True):
            total += term
    return dx, dprev_h, *sums


def cs231n(a: Arrays) -> Passes:
    """The two passes over the inputs of `benchmarks.kernel_list.recurrent.layer`, an LSTM's."""
    E = a["x"].shape[2]
    x, dh = (np.ascontiguousarray(a[name].transpose(1, 0, 2)) for name in ("x", "dh"))
    Wx, Wh = (np.ascontiguousarray(W.T) for W in (a["rnn.0.W"][:, :E], a["rnn.0.W"][:, E:]))
    h0, b = np.zeros((len(x), len(Wh)), dtype=x.dtype), a["rnn.0.b"]

    def forward() -> tuple[Results, list[Cache]]:
        h, caches = lstm_forward(x, h0, Wx, Wh, b)
        return {"h": h}, caches

    def backward(caches: list[Cache]) -> Results:
        dx, _, dWx, dWh, db = lstm_backward(dh, caches)
        return {"dx": dx, "dWx": dWx, "dWh": dWh, "rnn.0.b": db}

    def read(results: Results) -> Results:
        results = {name: value.transpose(1, 0, 2) if name in ("h", "dx") else value
                 for name, value in results.items()}
        if "dWx" in results:
            results["rnn.0.W"] = np.vstack([results.pop("dWx"), results.pop("dWh")]).T
        return results

    return differentiated(forward, backward, read)


def jax_scan(a: Arrays) -> Passes:
    """The two passes over the same inputs, compiled by XLA."""
    if blas_threads() == 1:  # read when JAX first computes
        os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    import jax
    from jax import lax, nn
    from jax import numpy as jnp

    x, W, b, dh = (jnp.asarray(a[name]) for name in ("x", "rnn.0.W", "rnn.0.b", "dh"))
    E = a["x"].shape[2]

    def layer(x: Any, W: Any, b: Any) -> Any:
        def step(state: Any, a_x: Any) -> Any:
            h, c = state
            a_i, a_f, a_o, a_g = jnp.split(a_x + h @ W[:, E:].T, 4, axis=1)
            c = nn.sigmoid(a_f) * c + nn.sigmoid(a_i) * jnp.tanh(a_g)
            h = nn.sigmoid(a_o) * jnp.tanh(c)
            return (h, c), h

        zero = jnp.zeros_like(dh[0])
        return lax.scan(step, (zero, zero), x @ W[:, :E].T + b)[1]

    def differentiated_layer(x: Any, W: Any, b: Any) -> Any:
        h, backward = jax.vjp(layer, x, W, b)
        return h, *backward(dh)

    forward, both = jax.jit(layer), jax.jit(differentiated_layer)
    names = ("h", "dx", "rnn.0.W", "rnn.0.b")
    return Passes({
        "forward": lambda: {"h": jax.block_until_ready(forward(x, W, b))},
        "both": lambda: dict(zip(names, jax.block_until_ready(both(x, W, b)), strict=True)),
    }, lambda results: {name: np.asarray(value) for name, value in results.items()})
