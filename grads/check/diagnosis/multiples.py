"""Finds out whether a wrong gradient is a multiple of the right gradient, and of which size.

A phrase is about the gradient, "it ...", without the "it".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from grads.check.diagnosis.evidence import DIGITS, Evidence, Pair, digits

NAMED = 4  # most axes of one length
ROUNDING = 2.0**-38  # relative, of a gradient (`grads.check.comparison`)


def nature(pair: Pair, named: Sequence[tuple[str, float]]) -> str | None:
    """The phrase for a gradient, or part of it, that is zero or a multiple of the right gradient.
    """
    if not pair.wrong.any():
        return None
    large = ROUNDING * np.abs(pair.analytic).max()  # the share of a wrong gradient in the limit
    nothing = pair.known & (np.abs(pair.numeric) <= np.maximum(pair.allowed - large, 0))
    if not (pair.known & (np.abs(pair.analytic) > pair.allowed)).any():
        return "is zero" if digits(pair.gap, pair.allowed) >= DIGITS else None
    if (nothing == pair.known).all():
        clear = digits(pair.gap, pair.allowed) >= DIGITS
        return "is nonzero although the numerical gradient is zero" if clear else None
    return _multiple(pair, named)


def _multiple(pair: Pair, named: Sequence[tuple[str, float]]) -> str | None:
    """The phrase for a constant ratio, with the name of the ratio if it has a name."""
    if _scaled(pair, -1.0):
        return "has the reversed sign (ratio -1)"
    for factor in dict.fromkeys([2.0, 0.5, *(value for _, value in named)]):
        if _scaled(pair, factor):
            name = next((f" ({name})" for name, value in named if value == factor), "")
            return f"is off by the factor {factor:.6g}{name}"
    weight = np.where(pair.known, 1 / pair.allowed, 0.0)
    a, n = pair.analytic * weight, np.where(pair.known, pair.numeric, 0.0) * weight
    a, n = a / np.abs(n).max(), n / np.abs(n).max()
    ratio = float((a * n).sum() / (n * n).sum())
    if abs(ratio) > 1e-12 and _scaled(pair, ratio, fitted=1):
        return f"is off by the constant factor {ratio:.6g}"
    return None


def _scaled(pair: Pair, factor: float, fitted: int = 0) -> bool:
    """Whether the analytic gradient is `factor` times the numerical one."""
    with np.errstate(over="ignore"):  # of a factor that is tried
        return pair.accepts(pair.analytic / factor, 1 / abs(factor), fitted)


def sizes(evidence: Evidence) -> list[tuple[str, float]]:
    """Names and values of factors by which a wrong mean or sum makes a gradient wrong.

    Some axes of one length are named. A length that is the value of an input, too, is left out: the
    input may be meant.
    """
    lengths: dict[int, str] = {}
    for name, value in evidence.inputs.items():
        for axis, length in enumerate(np.shape(value)):
            others = f"{lengths[length]} or " if length in lengths else "the length of "
            if others.count(" or ") < NAMED:
                lengths[length] = f"{others}axis {axis} of {name}"
    for name, out in evidence.outputs.items():
        lengths.setdefault(out.size, f"the size of output {name}")
        for axis, length in enumerate(out.shape):
            lengths.setdefault(out.size // max(length, 1),
                               f"the size of output {name} without axis {axis}")
    values = [np.abs(value).sum() for value in evidence.inputs.values() if np.size(value) == 1]
    factors = [pair for length, name in lengths.items() if length > 2 and length not in values
               for pair in ((name, float(length)), (f"1/({name})", 1 / length))]
    for name, upstream in evidence.upstream.items():
        if np.size(upstream) == 1 and 1e-3 < abs(u := float(np.sum(upstream))) < 1e3:
            factors += [(f"1/(upstream gradient of {name})", 1 / u),
                        (f"the upstream gradient of {name}", u)]
    return factors
