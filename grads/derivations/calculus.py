"""The thesis's mathematical helpers (2.2.1) and the functions every derivation is built from.

All of them are analytic, so that complex-step differentiation passes through: the one maximum
uses the real part only. Biases are an option that the thesis does not have (erratum 5).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Number = np.inexact[Any] | float  # a loss, which is complex during a complex step
Function = Callable[[Array], Array]


# --- functions and their derivatives ------------------------------------------------------------


def sigm(x: Array) -> Array:
    """f(x) = 1 / (1 + e^-x), as printed above Eq. 2.35.

    Departure: below zero it is written e^x / (1 + e^x), the same number, since e^-x overflows.
    """
    return np.exp(np.where(x.real < 0, x, 0)) / (1 + np.exp(np.where(x.real < 0, x, -x)))


def sigm_prime(x: Array) -> Array:
    """sigm'(x), at the pre-activation x (erratum 4): u (1 - u) with u = sigm(x)."""
    return sigm(x) * (1 - sigm(x))


def tanh_prime(x: Array) -> Array:
    """tanh'(x), at the pre-activation x (erratum 4): 1 - u^2 with u = tanh(x)."""
    return 1 - np.tanh(x) ** 2


def softmax(s: Array) -> Array:
    """p(y) = e^s(y) / sum over y' of e^s(y'), Eq. 2.6, for a column s (V, 1).

    Departure: the largest score is subtracted first, which leaves p as it is and keeps e^s finite.
    """
    e = np.exp(s - s.real.max())
    return e / e.sum()                                           # (2.6)


def log_sum_exp(s: Array) -> Any:
    """log sum over y' of e^s(y'), the first term of Eq. 2.19, for a column s (V, 1).

    Departure: the largest score is subtracted first and added again, as in `softmax`.
    """
    return np.log(np.exp(s - s.real.max()).sum()) + s.real.max()


def softmax_grad(p: Array, dp: Array) -> Array:
    """ds for p = softmax(s): the Jacobian diag(p) - p p^T, symmetric, times dp."""
    return p * dp - p * (p.T @ dp)


# --- vectors ------------------------------------------------------------------------------------


def one_hot(y: int, size: int) -> Array:
    """1_y of Eq. 2.21: a column (size, 1) with a one at position y."""
    return np.where(np.arange(size) == y, 1.0, 0.0)[:, None]


def bias(parameters: Mapping[str, Array], name: str) -> Array | float:
    """The bias `name` as a column, or zero where the model has none."""
    return parameters[name][:, None] if name in parameters else 0.0


# --- remarks, lemma and corollary ---------------------------------------------------------------


def remark_1(u: Array, v: Array) -> Array:
    """diag(u) v = u o v; Eq. 2.10. Both are columns (d, 1)."""
    return u * v                                                 # (2.10)


def lemma_1(W: Array, h: Array, dv: Array, f_prime: Function) -> tuple[Array, Array]:
    """v = f(W h) has dh = W^T (f'(W h) o dv), dW = (f'(W h) o dv) h^T; Eqs. 2.11 and 2.12.

    Arguments: W (m, n), h (n, 1), dv (m, 1), and f', applied to each element.
    """
    dh = W.T @ (f_prime(W @ h) * dv)                             # (2.11)
    dW = (f_prime(W @ h) * dv) @ h.T                             # (2.12)
    return dh, dW


def corollary_1(W: Array, h: Array, dv: Array) -> tuple[Array, Array]:
    """v = W h has dh = W^T dv, dW = dv h^T; Eqs. 2.13 and 2.14. Arguments as in `lemma_1`."""
    dh = W.T @ dv                                                # (2.13)
    dW = dv @ h.T                                                # (2.14)
    return dh, dW


def remark_2(
    u: Array, v: Array, ds: Array, f: Function, f_prime: Function
) -> tuple[Array, Array]:
    """s = u o f(v) has du = f(v) o ds, dv = f'(v) o u o ds; Eqs. 2.15 and 2.16. All (d, 1)."""
    du = f(v) * ds                                               # (2.15)
    dv = f_prime(v) * u * ds                                     # (2.16)
    return du, dv


def remark_3(u: Array, v: Array, ds: Array) -> tuple[Array, Array]:
    """s = u o v has du = v o ds, dv = u o ds; Eqs. 2.17 and 2.18. All (d, 1)."""
    du = v * ds                                                  # (2.17)
    dv = u * ds                                                  # (2.18)
    return du, dv
