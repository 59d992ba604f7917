"""Ufuncs continued to complex arguments, as complex step needs them.

Of z = x + i y with a tiny y, a real function f becomes f(x) + i y f'(x). NumPy's own complex
functions do that where f is analytic; `abs`, `sign`, `hypot` and the like are different there, or
missing, and have a rule here. Decisions are made on the real parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any
LARGE = 300.0  # exp and cosh of larger arguments come near overflow


def real(x: Any) -> Any:
    """The real part of a complex value; anything else unchanged."""
    return x.real if isinstance(x, (np.ndarray, np.generic, complex)) else x


def imaginary(x: Any) -> Any:
    """The imaginary part, zero of what is real."""
    return x.imag if np.iscomplexobj(x) else 0.0


def joined(re: Any, im: Any) -> Array:
    """The complex array of these parts."""
    found = np.empty(np.broadcast_shapes(np.shape(re), np.shape(im)), np.complex128)
    found.real, found.imag = re, im
    return found


def term(slope: Any, im: Any) -> Any:
    """slope * im; zero where im is zero, even if the slope is infinite."""
    return np.where(np.asarray(im) == 0, 0.0, np.asarray(slope) * im)


def dual(function: Callable[..., Any], *slopes: Callable[..., Any]) -> Callable[..., Array]:
    """The rule of a function from the slopes for each argument, called (value, *arguments)."""

    def rule(*arguments: Any) -> Array:
        x = [real(a) for a in arguments]
        value = function(*x)
        im: Any = sum(term(slope(value, *x), imaginary(a))
                      for slope, a in zip(slopes, arguments, strict=True))
        return joined(value, im)

    return rule


def level(function: Callable[..., Any]) -> Callable[..., Array]:
    """The rule of a function that is constant between its jumps."""
    return lambda *arguments: joined(function(*(real(a) for a in arguments)), 0.0)


def absolute(z: Any) -> Array:
    """|x| with the slope sign(x)."""
    return joined(np.abs(real(z)), np.sign(real(z)) * imaginary(z))


def power(a: Any, b: Any) -> Array:
    """a ** b; NumPy's own where the base is positive, by its slopes elsewhere."""
    if np.all(real(a) > 0):
        return np.power(np.asarray(a, np.complex128), b)
    return _power(a, b)


_power = dual(
    np.power,
    lambda v, a, b: np.where(np.equal(b, 0), 0.0, b * np.power(np.asarray(a, float), b - 1.0)),
    lambda v, a, b: v * np.log(np.where(np.greater(a, 0), a, 1.0)),
)

RULES: dict[Any, Callable[..., Array]] = {
    np.absolute: absolute, np.fabs: absolute, np.conjugate: lambda z: np.array(z),
    np.sign: level(np.sign), np.floor: level(np.floor), np.ceil: level(np.ceil),
    np.trunc: level(np.trunc), np.rint: level(np.rint), np.heaviside: level(np.heaviside),
    np.floor_divide: level(np.floor_divide),
    np.hypot: dual(np.hypot, lambda v, a, b: a / v, lambda v, a, b: b / v),
    np.arctan2: dual(np.arctan2, lambda v, a, b: b / (a * a + b * b),
                     lambda v, a, b: -a / (a * a + b * b)),
    np.logaddexp: dual(np.logaddexp, lambda v, a, b: np.exp(a - v), lambda v, a, b: np.exp(b - v)),
    np.logaddexp2: dual(np.logaddexp2, lambda v, a, b: np.exp2(a - v),
                        lambda v, a, b: np.exp2(b - v)),
    np.cbrt: dual(np.cbrt, lambda v, a: 1 / (3 * v * v)),
    np.log1p: dual(np.log1p, lambda v, a: 1 / (1 + a)),
    np.expm1: dual(np.expm1, lambda v, a: v + 1),
    np.deg2rad: dual(np.deg2rad, lambda v, a: np.pi / 180),
    np.rad2deg: dual(np.rad2deg, lambda v, a: 180 / np.pi),
    np.remainder: dual(np.remainder, lambda v, a, b: 1.0, lambda v, a, b: -np.floor(a / b)),
    np.fmod: dual(np.fmod, lambda v, a, b: 1.0, lambda v, a, b: -np.trunc(a / b)),
    np.copysign: dual(np.copysign, lambda v, a, b: np.sign(v) * np.sign(a), lambda v, a, b: 0.0),
    np.power: power, np.float_power: power,
}  # fmt: skip
RULES[np.radians], RULES[np.degrees] = RULES[np.deg2rad], RULES[np.rad2deg]

def sech_squared(v: Any, x: Any) -> Any:
    """The slope of tanh, without the cancellation of 1 - tanh^2 where it is flat."""
    found = np.asarray(np.cosh(np.clip(x, -LARGE, LARGE)))
    found *= found
    return np.divide(1.0, found, out=found)


SLOPES: dict[Any, Callable[..., Any]] = {  # of functions that runs in lanes treat separately
    np.exp: lambda v, x: np.array(v), np.tanh: sech_squared,
}

REPAIRS = {  # NumPy's complex products are NaN where a factor is infinite
    np.multiply: dual(np.multiply, lambda v, a, b: b, lambda v, a, b: a),
    np.true_divide: dual(np.true_divide, lambda v, a, b: 1 / b, lambda v, a, b: -v / b),
    **{ufunc: dual(ufunc, slope) for ufunc, slope in SLOPES.items()},
}

DECISIONS = frozenset({
    np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal,
    np.logical_and, np.logical_or, np.logical_not, np.logical_xor, np.isnan, np.isfinite,
    np.isinf, np.signbit,
})

SPECIAL: dict[str, tuple[Callable[..., Any], ...]] = {  # SciPy's functions by name -> their slopes
    "expit": (lambda v, x: v * (1 - v),),
    "logit": (lambda v, x: 1 / (x * (1 - x)),),
    "log_expit": (lambda v, x: -np.expm1(v),),
    "gammaln": (lambda v, x: _scipy("psi")(x),),
    "entr": (lambda v, x: -np.log(x) - 1,),
    "rel_entr": (lambda v, x, y: np.log(x / y) + 1, lambda v, x, y: -x / y),
    "kl_div": (lambda v, x, y: np.log(x / y), lambda v, x, y: 1 - x / y),
}


def _scipy(name: str) -> Any:
    import scipy.special  # type: ignore[import-untyped]

    return getattr(scipy.special, name)


def rule_of(ufunc: np.ufunc) -> Callable[..., Array] | None:
    """The rule of a ufunc, NumPy's or SciPy's; None where its complex form is the continuation."""
    if ufunc in RULES:
        return RULES[ufunc]
    slopes = SPECIAL.get(ufunc.__name__)
    return dual(ufunc, *slopes) if slopes and not hasattr(np, ufunc.__name__) else None
