"""Numerical differentiation of named outputs with respect to named inputs, with error estimates.

A derivative is that of L_k(t) = sum(d_out_k * out_k(x + t d)) at t = 0, for each output k with an
upstream gradient d_out_k; d is one entry of one tensor, or any direction. Each evaluation serves
all outputs. Outputs are subtracted element by element before they are multiplied by d_out, which
reduces cancellation; the derivative of an output that does not depend on x is exactly zero, without
error. So is that of an output that no step changes.

`complex`: Im L(x + i h d) / h, one evaluation and no subtraction: exact up to rounding where the
function is analytic (Squire and Trapp, 1998). `ridders`: central differences, extrapolated to
h = 0, in real numbers (Ridders, 1982); it needs only smoothness, and estimates its error.
`central` and `forward` are for teaching, with the textbooks' steps and errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from grads.check.evaluate import (
    Array,
    Entries,
    Evaluator,
    Function,
    Lines,
    NotAnalytic,
    length,
    weights_of,
)
from grads.check.kinks import Kink, find_kink, find_kink_along

__all__ = [
    "METHODS", "Evaluator", "Function", "Kink", "NotAnalytic", "Numeric", "Probe",
    "along", "at_entries", "central_difference", "complex_step", "find_kink", "forward_difference",
    "real_direction", "ridders", "second_direction",
]

EPS = float(np.finfo(np.float64).eps)
ROUNDINGS = 4.0  # assumed rounding error of an output, in units of eps times its size

COMPLEX_STEP = 1e-30  # its square is below rounding, and no subtraction sets a lower limit
SMALLEST = -600  # power of 2 of an input below which a complex step would underflow
FORWARD_STEP = 2.0**-26  # about sqrt(eps): truncation h / 2 and rounding eps / h are of one size
CENTRAL_STEP = 2.0**-17  # about eps^(1/3): so are h^2 / 6 and eps / h
RIDDERS_STEP = 2.0**-5  # largest step of the first iteration; extrapolation to h^8 allows it
LEVELS = 4  # halvings an iteration: 8 evaluations
ITERATIONS = 3  # further iterations where the first is too inexact, with steps
CLOSER = 2.0**-8  # times as large
GOOD = 1e-8  # relative error that is good enough
SECOND = (2.0**-17, 2.0**-24, 2.0**-31)  # steps in the second direction, of which one must agree
STRETCH = 2.0**10  # largest relative change of small inputs by these steps, times h
ALIKE = 1e-4  # relative difference of the derivatives in two directions


class Numeric(NamedTuple):
    """Derivatives of K projected outputs at n places."""

    value: Array  # (K, n) float64; NaN where the outputs are not finite
    error: Array  # (K, n), estimated absolute error; complex step: of rounding only
    scale: Array  # (K, n), sum(|d_out * derivative of out|): size of the terms that were summed

    def at(self, k: int) -> Numeric:
        """The derivatives at one of the places."""
        return Numeric(*(values[:, [k]] for values in self))


def at_entries(
    f: Function | Evaluator, inputs: Mapping[str, Any], upstream: Mapping[str, Any],
    positions: Mapping[str, Any], method: str = "complex", *, lanes: bool = True, **options: Any,
) -> dict[str, Numeric]:
    """The derivatives with respect to single entries.

    Arguments: f, inputs by name -> outputs by name, or an `Evaluator` of it at these inputs, which
    counts evaluations and caches; inputs, by name, floating; upstream, d_out by the name of an
    output, of its shape; positions, flat, by the name of an input; method, in METHODS; lanes,
    whether many perturbed copies may run at once; options of the method. Returns by the name of an
    input: a row for each output, in upstream's order, a column for each position. Raises ValueError
    on arguments that do not fit, NotAnalytic if method is "complex" and f cannot be continued.
    """
    evaluate = _evaluator(f, inputs, lanes)
    return {name: _derivatives(evaluate, upstream, Entries(evaluate.inputs, name, where), method,
                               options) for name, where in positions.items()}


def along(
    f: Function | Evaluator, inputs: Mapping[str, Any], upstream: Mapping[str, Any],
    directions: Sequence[Mapping[str, Any]], method: str = "complex", *, lanes: bool = True,
    **options: Any,
) -> Numeric:
    """The derivatives along directions, each an array for some of the inputs, of their shape.

    A row for each output, in upstream's order, a column for each direction; the rest as in
    `at_entries`.
    """
    evaluate = _evaluator(f, inputs, lanes)
    return _derivatives(evaluate, upstream, Lines(evaluate.inputs, directions), method, options)


class Probe:
    """Lines through the inputs, and the outputs along them.

    Attributes: n, the number of lines; unit (n,), a power of 2, the step along each that moves
    the inputs by about max(1, |x|); near (n,), one that changes no input by more than its own
    size; coarse (n,), the inputs' rounding as a step, in units of eps; noise, the observed rounding
    of the outputs, (size,) or 0.0 each; names of the outputs; weights, their upstream gradients,
    (size,) each; base, the outputs at t = 0, likewise.
    """

    def __init__(
        self, evaluate: Evaluator, weights: Mapping[str, Array], places: Entries | Lines,
        which: Array,
    ) -> None:
        self._evaluate, self._places, self._which = evaluate, places, which
        self.names = list(weights)
        self.n = len(which)
        self.unit, self.coarse = places.unit[which], places.coarse[which]
        self.near = places.near[which]
        self.noise = [evaluate.noise.get(name, 0.0) for name in weights]
        self.weights = list(weights.values())
        self.base = [evaluate.outputs[name].reshape(-1) for name in weights]

    def __call__(self, t: Array) -> list[Array]:
        """The outputs at steps t (m, n) along the lines: (m, n, size) for each output."""
        which = np.broadcast_to(self._which, t.shape).reshape(-1)
        found = self._evaluate.at(self._places, which, t.reshape(-1))
        return [found[name].reshape(*t.shape, -1) for name in self.names]

    def some(self, lines: Array) -> Probe:
        """The probe of some of these lines, by number."""
        weights = dict(zip(self.names, self.weights, strict=True))
        return Probe(self._evaluate, weights, self._places, self._which[lines])


# --- the methods: the derivative of a probe at t = 0 ---------------------------------------------


def complex_step(probe: Probe, *, h: float = COMPLEX_STEP) -> Numeric:
    """Im L(i h) / h (Squire and Trapp, 1998). One evaluation a line; the step is scaled down with
    inputs below 1."""
    steps = h * 2.0 ** np.clip(np.floor(np.log2(probe.near)), SMALLEST, 0)  # (n,)
    outputs = probe(1j * steps[None])
    rows = []
    for out, weight in zip(outputs, probe.weights, strict=True):
        slope = out[0].imag / steps[:, None]  # (n, size)
        scale = np.abs(slope) @ np.abs(weight)
        rows.append((slope @ weight, 4 * ROUNDINGS * EPS * scale, scale))
    return _numeric(rows)


def forward_difference(probe: Probe, *, h: float = FORWARD_STEP) -> Numeric:
    """(L(h) - L(0)) / h; its error, h L'' / 2, from a second step 2 h. Two evaluations a line."""
    steps = np.outer([2 * h, h], probe.unit)  # (2, n)
    rows = []
    for k, (out, base, weight) in enumerate(zip(probe(steps), probe.base, probe.weights,
                                                strict=True)):
        change = out - base
        slope, scale = _slopes(change, weight, steps)
        noise = _noise(change, k, scale[-1], probe) * 2 / steps[1]
        rows.append((slope[1], np.abs(slope[0] - slope[1]) + noise, scale[1]))
    return _numeric(rows)


def central_difference(probe: Probe, *, h: float = CENTRAL_STEP) -> Numeric:
    """(L(h) - L(-h)) / 2h; its error, h^2 L''' / 6, from 2 h. Four evaluations a line."""
    steps = np.outer([2 * h, h], probe.unit)  # (2, n)
    rows = []
    outputs = probe(np.concatenate([steps, -steps]))
    for k, (out, weight) in enumerate(zip(outputs, probe.weights, strict=True)):
        change = out[:2] - out[2:]
        slope, scale = _slopes(change, weight, 2 * steps)
        noise = _noise(change, k, scale[-1], probe) / steps[1]
        rows.append((slope[1], np.abs(slope[0] - slope[1]) / 3 + noise, scale[1]))
    return _numeric(rows)


def ridders(probe: Probe, *, h: float = RIDDERS_STEP, iterations: int = ITERATIONS) -> Numeric:
    """Central differences at h, h/2, h/4, h/8, extrapolated to h = 0 (Ridders, 1982).

    Eight evaluations a line; where truncation leaves a relative error above GOOD, as many again at
    smaller steps. Half the difference of the one-sided slopes, extrapolated likewise, is added to
    the error of the extrapolation: at a kink, central differences agree on the mean of the two.
    """
    best, rounding = _ridders_iteration(probe, h * probe.unit)
    for k in range(1, iterations + 1):
        fine = best.error <= np.maximum(GOOD * best.scale, rounding / CLOSER)
        again = np.flatnonzero(~fine.all(axis=0))  # NaN counts as not fine
        if k == iterations:  # near small inputs: within the domain of a logarithm
            again = again[probe.near[again] < probe.unit[again] * CLOSER]
        if not again.size:
            break
        some = probe.some(again)
        closer, noise = _ridders_iteration(
            some, h * some.near if k == iterations else h * CLOSER**k * some.unit)
        better = closer.error < best.error[:, again]
        for old, new in zip((*best, rounding), (*closer, noise), strict=True):
            old[:, again] = np.where(better, new, old[:, again])
    return best


def _ridders_iteration(probe: Probe, h: Array) -> tuple[Numeric, Array]:
    """The derivatives from steps h (n,), h/2, ..., and the rounding part (K, n) of their errors."""
    steps = np.outer(0.5 ** np.arange(LEVELS), h)  # (m, n)
    rows, roundings = [], []
    outputs = probe(np.concatenate([steps, -steps]))
    for k, (out, base, weight) in enumerate(zip(outputs, probe.base, probe.weights, strict=True)):
        ahead, behind = out[:LEVELS] - base, base - out[LEVELS:]
        change = out[:LEVELS] - out[LEVELS:]
        slope, scale = _slopes(change, weight, 2 * steps)
        value, error = _extrapolated(slope, (2, 4, 6))  # its error has even powers of h
        corner, _ = _extrapolated((ahead - behind) @ weight / steps, (1, 3, 5))
        roundings.append(_noise(change, k, scale[-1], probe) / steps[-1])
        rows.append((value, error + np.abs(corner) / 2 + roundings[-1], scale[-1]))
    return _numeric(rows), np.array(roundings)


METHODS: dict[str, Callable[..., Numeric]] = {
    "complex": complex_step, "ridders": ridders, "central": central_difference,
    "forward": forward_difference,
}


def _extrapolated(rows: Array, powers: Sequence[int]) -> tuple[Array, Array]:
    """The limit at h = 0 of the values at h, h/2, ..., and its error (Ridders' tableau).

    Arguments: rows (m, n); powers of h in their error, ascending. Each column of the tableau
    removes one power from the column before. The column is chosen whose entries differ least from
    their two parents, counting all its entries and not the best one: where only rounding is left,
    two can be close by chance.
    """
    column, best, error = rows, rows[-1], np.full(rows.shape[1], np.inf)
    for power in powers:
        better = column[1:] + (column[1:] - column[:-1]) / (2.0**power - 1)
        differs = np.maximum(np.abs(better - column[1:]), np.abs(better - column[:-1])).max(axis=0)
        closer = differs < error  # False for NaN
        best, error = np.where(closer, better[-1], best), np.where(closer, differs, error)
        column = better
    return best, error


def _slopes(change: Array, weight: Array, steps: Array) -> tuple[Array, Array]:
    """Differences (m, n, size) per step (m, n): projected on d_out, and the size of the terms."""
    return change @ weight / steps, np.abs(change) @ np.abs(weight) / np.abs(steps)


def _noise(change: Array, k: int, scale: Array, probe: Probe) -> Array:
    """Rounding error of the k-th output, projected (n,).

    A step that changes some elements may have changed others by less than their rounding; where an
    output is computed in less than float64, so may a step that changes nothing.
    """
    moves = (change != 0).any(axis=(0, 2))  # (n,)
    outputs = moves * length([probe.weights[k] * probe.base[k]])
    observed = length([probe.weights[k] * probe.noise[k]])
    return ROUNDINGS / 2 * (EPS * (outputs + scale * probe.coarse) + observed)


def _numeric(rows: Sequence[tuple[Array, Array, Array]]) -> Numeric:
    """A Numeric of rows of value, error and scale; where these are not finite, the error is
    infinite."""
    value, error, scale = (np.array(part) for part in zip(*rows, strict=True))
    finite = np.isfinite(value) & np.isfinite(error)
    return Numeric(np.where(finite, value, np.nan), np.where(finite, error, np.inf), scale)


def second_direction(
    evaluate: Evaluator, upstream: Mapping[str, Any], direction: Mapping[str, Any], found: Numeric
) -> str:
    """Check for analyticity by steps in a second direction of the complex plane.

    The derivative of an analytic function is the same in all directions. Here t = (1 + i) h: the
    real and the imaginary part of a difference must agree, and, except at a kink, agree with the
    complex step `found`. Returns "" if they do at one of three step sizes, or if rounding is too
    large to tell; else the reason why complex step cannot be used.
    """
    probe = _probe(evaluate, upstream, direction)
    if not _agree(probe, 1 + 1j, lambda change, weight, k: float(change.imag @ weight)):
        return ("f: the derivative is not the same in all directions of the complex plane: "
                "something is not analytic (a complex conjugate, an absolute value outside of "
                "NumPy)")
    if _agree(probe, 1 + 1j, lambda change, weight, k: float(found.value[k, 0])) or (
            find_kink_along(evaluate, upstream, direction) is not None):
        return ""
    return ("f: a small complex step is lost: real and imaginary parts are mixed, each with the "
            "other's rounding (a Fourier transform outside of NumPy)")


def real_direction(
    evaluate: Evaluator, upstream: Mapping[str, Any], direction: Mapping[str, Any], found: Numeric
) -> str:
    """As `second_direction`, by real steps, whose differences must agree with the complex step
    `found`."""
    probe = _probe(evaluate, upstream, direction)
    if _agree(probe, 1.0, lambda change, weight, k: float(found.value[k, 0])):
        return ""
    return "f: real differences say otherwise: it computes something else with complex numbers"


def _probe(
    evaluate: Evaluator, upstream: Mapping[str, Any], direction: Mapping[str, Any]
) -> Probe:
    return Probe(evaluate, weights_of(evaluate, upstream), Lines(evaluate.inputs, [direction]),
                 np.zeros(1, np.int64))


def _agree(
    probe: Probe, turn: complex, expected: Callable[[Array, Array, int], float]
) -> bool:
    """Whether central differences along `turn` have the expected slope, at one of the steps."""
    with np.errstate(all="ignore"):
        return any(_apart(probe, h, turn, expected) <= 1 for h in SECOND)


def _apart(
    probe: Probe, h: float, turn: complex, expected: Callable[[Array, Array, int], float]
) -> float:
    """The deviation of a difference from the expected one, in units of the allowed deviation."""
    t = h * np.minimum(probe.unit, STRETCH * probe.near)[None] * turn
    apart = allowed = 0.0
    for k, (ahead, behind) in enumerate(zip(probe(t), probe(-t), strict=True)):
        base, weight = probe.base[k], probe.weights[k]
        change = (ahead - behind)[0, 0] * turn / (2 * t[0, 0])
        apart += abs(float(change.real @ weight) - expected(change, weight, k))
        noise = ROUNDINGS * EPS * float(np.abs(weight * base).sum()) / abs(t[0, 0])
        noise += float(np.abs(weight * probe.noise[k]).sum()) / abs(t[0, 0])
        allowed += ALIKE * float(np.abs(change) @ np.abs(weight)) + 16 * noise
    return apart / allowed if apart else 0.0 if np.isfinite(apart) else np.inf


# --- running them ---------------------------------------------------------------------------------


def _evaluator(f: Function | Evaluator, inputs: Mapping[str, Any], lanes: bool) -> Evaluator:
    return f if isinstance(f, Evaluator) else Evaluator(f, inputs, lanes=lanes)


def _derivatives(
    evaluate: Evaluator, upstream: Mapping[str, Any], places: Entries | Lines, method: str,
    options: Mapping[str, Any],
) -> Numeric:
    """The method on all lines, a chunk at a time, which limits the number of copies in a run."""
    if method not in METHODS:
        raise ValueError(f"method: expected one of {sorted(METHODS)}, got {method!r}")
    weights = weights_of(evaluate, upstream)
    lines = np.arange(len(places))
    with np.errstate(all="ignore"):  # a step may leave the domain, which the error estimate shows
        chunks = [METHODS[method](Probe(evaluate, weights, places, part), **options)
                  for k in range(0, len(lines), evaluate.width)
                  for part in [lines[k:k + evaluate.width]]]
    nothing = Numeric(*(np.zeros((len(weights), 0)) for _ in range(3)))
    return Numeric(*(np.concatenate(part, axis=1) for part in zip(nothing, *chunks, strict=True)))
