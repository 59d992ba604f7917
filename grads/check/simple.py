"""The idea of a gradient check, on one page.

A backward pass turns d, the gradient of a loss with respect to f(x), into dx, the gradient with
respect to x. Along a direction v, the loss sum(d * f(x)) then changes at the rate

    sum(d * f'(x; v)) = sum(dx * v),    where f'(x; v) is the derivative of f(x + t v) at t = 0

The left side is found by one of two methods, without the backward pass:

    complex step        Im f(x + i h v) / h                 off by h^2 f''' / 6
    central difference  (f(x + h v) - f(x - h v)) / (2 h)   off by h^2 f''' / 6, and by eps f / h

eps = 2^-52 is the rounding of float64. The complex step subtracts nothing, so no rounding grows as
h falls: with h = 1e-30 it is exact. But f must be analytic: with `abs` or a conjugate inside, the
result is wrong. The central difference has no such condition, and confirms it to some digits.

Every entry of dx has its own weight v, drawn at random: a wrong one shows in almost any direction.

Source: W. Squire, G. Trapp, Using Complex Variables to Estimate Derivatives of Real Functions, SIAM
Review 40 (1998).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any  # numpy.ndarray, or a number
Function = Callable[[Array], Array]


def complex_step(f: Function, x: Array, v: Array, h: float = 1e-30) -> Array:
    """The derivative of f(x + t v) at t = 0, exact if f is analytic; of the shape of f(x)."""
    return np.imag(f(x + 1j * h * v)) / h


def central_difference(f: Function, x: Array, v: Array, h: float = 2.0**-17) -> Array:
    """The same to about ten digits; h near eps^(1/3) makes both errors equally small."""
    return (f(x + h * v) - f(x - h * v)) / (2 * h)


def check(f: Function, x: Array, dx: Array, d: Array = 1.0, rng: Any = None) -> str:
    """Compare dx with both methods along a random direction.

    Arguments: f, a function of the array x; dx, the gradient of sum(d * f(x)), of x's shape; d, of
    the shape of f(x); rng, a generator of random numbers. Returns "ok", "wrong", or "undecided" if
    the methods disagree: f is not analytic, or has a kink near x.
    """
    v = (rng or np.random.default_rng(0)).normal(size=x.shape)
    slope = complex_step(f, x, v)
    exact, rough = np.sum(d * slope), np.sum(d * central_difference(f, x, v))
    size = np.sum(np.abs(d * slope))  # of the terms that were added
    if not abs(exact - rough) <= 1e-6 * size:  # so that NaN, which compares false, is not ok
        return "undecided"
    return "ok" if abs(np.sum(dx * v) - exact) <= 1e-10 * size else "wrong"
