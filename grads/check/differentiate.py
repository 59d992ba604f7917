"""Numerical differentiation of named outputs with respect to named inputs, with error estimates.

For each output k with an upstream gradient d_out_k, the derivative of
L_k(t) = sum(d_out_k * out_k(x + t d)) is taken at t = 0. The direction d is any direction, or one
entry of one tensor. Each evaluation serves all outputs. Outputs are subtracted element by element
before they are multiplied by d_out, which reduces cancellation. An output that no step changes has
the derivative zero, exactly.

`complex`: Im L(x + i h d) / h. It takes one evaluation and subtracts nothing, so it is exact up to
rounding if the function is analytic (Squire and Trapp, 1998).
`ridders`: central differences in real numbers, extrapolated to h = 0 (Ridders, 1982). The function
need only be smooth. The error is estimated.
`central` and `forward` are for teaching: they use the steps and error estimates of textbooks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from grads.check.evaluate import (
    Array,
    Evaluator,
    Function,
    Line,
    entry_line,
    length,
    weights_of,
)

EPS = float(np.finfo(np.float64).eps)
ROUNDINGS = 4.0  # assumed rounding error of an output, in units of eps times its size

COMPLEX_STEP = 1e-30  # its square is below rounding, and no subtraction sets a lower limit
SMALLEST = -600  # power of 2 of an input below which a complex step would underflow
FORWARD_STEP = 2.0**-26  # about sqrt(eps): truncation h / 2 and rounding eps / h are of one size
CENTRAL_STEP = 2.0**-17  # about eps^(1/3): so are h^2 / 6 and eps / h
RIDDERS_STEP = 2.0**-5  # largest step of the first iteration; extrapolation to h^8 allows it
LEVELS = 4  # halvings an iteration: 8 evaluations
ITERATIONS = 4  # further iterations if the first is too inexact
SMALLER = 4  # still further ones if the differences alone decide
WITNESSES = (1, 3)  # before these further steps a shorter one, a witness, must not contradict
WITNESS = 0.7  # length of a witness, in steps
SURE = 10.0  # errors by which its slope must differ to contradict, and in addition
CONTRADICTS = 1e-2  # this fraction of the derivative
LAST, ENOUGH = 2, 1e-3  # the last two steps are tried only if this relative error is left
CLOSER = 2.0**-8  # factor of their steps
WIDER = 8.0  # factor of the steps if the function is computed in less than float64
GOOD = 1e-8  # relative error that is good enough
WITHIN = (0.25, 2.0**-4)  # fractions of the largest step that stays in the domain
HALVINGS = 40  # of the step, to stay in the domain; shorter steps have no digits
AMPLIFIES = "f: it amplifies rounding: no difference shows its derivative"


class Numeric(NamedTuple):
    """Derivatives of K projected outputs along n lines, or (K,) along one."""

    value: Array  # (K, n) float64; NaN if the outputs are not finite
    error: Array  # (K, n), estimated absolute error; of the complex step: rounding only
    scale: Array  # (K, n), sum(|d_out * derivative of out|): size of the terms that were summed


def at_entries(
    f: Function | Evaluator, inputs: Mapping[str, Any], upstream: Mapping[str, Any],
    positions: Mapping[str, Any], method: str = "complex", **options: Any,
) -> dict[str, Numeric]:
    """The derivatives with respect to single entries.

    Arguments: f, inputs by name -> outputs by name, or an `Evaluator` of it at these inputs, which
    counts evaluations; inputs, by name, floating; upstream, d_out by the name of an output, of its
    shape; positions, flat, by the name of an input; method, a name in METHODS; options of the
    method. Returns a `Numeric` by the name of an input: a row for each output, in upstream's order,
    and a column for each position. Raises ValueError for arguments that do not fit, NotAnalytic if
    method is "complex" and f cannot be continued.
    """
    evaluate = f if isinstance(f, Evaluator) else Evaluator(f, inputs)
    by_name = {}
    for name, entries in positions.items():
        x, where = evaluate.inputs.get(name), np.asarray(entries, np.int64).reshape(-1)
        if x is None or x.dtype.kind != "f":
            kind = "none of that name" if x is None else x.dtype
            raise ValueError(f"positions: expected the name of a floating input, got {name!r}: "
                             f"{kind}")
        if where.size and not 0 <= where.min() <= where.max() < x.size:
            raise ValueError(f"positions: expected {name!r} in 0..{x.size - 1}, "
                             f"got {where.min()}..{where.max()}")
        lines = (entry_line(evaluate.inputs, name, int(entry)) for entry in where)
        by_name[name] = derivatives(evaluate, upstream, lines, method, **options)
    return by_name


def derivatives(
    evaluate: Evaluator, upstream: Mapping[str, Any], lines: Iterable[Line], method: str,
    **options: Any,
) -> Numeric:
    """The derivatives along lines by a method: a row for each output, in upstream's order, and a
    column for each line."""
    if method not in METHODS:
        raise ValueError(f"method: expected one of {sorted(METHODS)}, got {method!r}")
    with np.errstate(all="ignore"):  # a step may leave the domain, which the error estimate shows
        numbers = [METHODS[method](Probe(evaluate, upstream, line), **options) for line in lines]
    if not numbers:
        return Numeric(*np.zeros((3, len(upstream), 0)))
    return Numeric(*(np.array(values).T for values in zip(*numbers, strict=True)))


class Probe:
    """The outputs along a line.

    Attributes: alone, whether no complex step confirms the differences; coarse, the inputs'
    rounding as a step, in units of eps; unit, a power of 2, the step that moves the inputs by about
    max(1, |x|); near, a step that changes no input by more than its own size. For each output:
    noise, its observed rounding, (size,) or 0.0; weights, its upstream gradient, (size,); base, its
    values at t = 0, (size,).
    """

    def __init__(self, evaluate: Evaluator, upstream: Mapping[str, Any], line: Line) -> None:
        weights = weights_of(evaluate, upstream)
        self.alone = not evaluate.complex_step
        self._evaluate, self._line, self._names = evaluate, line, list(weights)
        self.coarse, self.unit, self.near = line.scales(evaluate.inputs)
        self.noise: list[Any] = [evaluate.noise.get(name, 0.0) for name in weights]
        self.weights = list(weights.values())
        self.base = [evaluate.outputs[name].reshape(-1) for name in weights]

    def __call__(self, t: Array) -> list[Array]:
        """The outputs at steps t (m,): (m, size) for each output."""
        outputs = self._evaluate.along(self._line, t)
        return [outputs[name] for name in self._names]


# --- the methods: the derivative of a probe at t = 0, (K,) ---------------------------------------


def complex_step(probe: Probe, *, h: float = COMPLEX_STEP) -> Numeric:
    """Im L(i h) / h (Squire and Trapp, 1998). One evaluation. The step is smaller for inputs below
    1."""
    h *= 2.0 ** np.clip(np.floor(np.log2(probe.near)), SMALLEST, 0)
    rows = []
    for out, weight in zip(probe(np.array([1j * h])), probe.weights, strict=True):
        slope = out[0].imag / h  # (size,)
        scale = np.abs(slope) @ np.abs(weight)
        rows.append((slope @ weight, 4 * ROUNDINGS * EPS * scale, scale))
    return _numeric(rows)


def forward_difference(probe: Probe, *, h: float = FORWARD_STEP) -> Numeric:
    """(L(h) - L(0)) / h. A second step 2 h gives its error, h L'' / 2. Two evaluations."""
    steps = np.array([2 * h, h]) * probe.unit
    rows = []
    for k, (out, base) in enumerate(zip(probe(steps), probe.base, strict=True)):
        slope, scale, noise = _slopes(probe, k, out - base, steps)
        rows.append((slope[1], np.abs(slope[0] - slope[1]) + 2 * noise / steps[1], scale[1]))
    return _numeric(rows)


def central_difference(probe: Probe, *, h: float = CENTRAL_STEP) -> Numeric:
    """(L(h) - L(-h)) / 2h. A second step 2 h gives its error, h^2 L''' / 6. Four evaluations."""
    steps = np.array([2 * h, h]) * probe.unit
    rows = []
    for k, out in enumerate(probe(np.concatenate([steps, -steps]))):
        slope, scale, noise = _slopes(probe, k, out[:2] - out[2:], 2 * steps)
        rows.append((slope[1], np.abs(slope[0] - slope[1]) / 3 + noise / steps[1], scale[1]))
    return _numeric(rows)


def ridders(probe: Probe, *, h: float = RIDDERS_STEP) -> Numeric:
    """Central differences at h, h/2, h/4, h/8, extrapolated to h = 0 (Ridders, 1982).

    Eight evaluations. If truncation leaves a relative error above GOOD, another eight follow at
    smaller steps. At a kink, central differences agree on the mean of the two slopes. Therefore
    half the difference of the one-sided slopes, extrapolated likewise, is added to the error. If
    steps leave the domain, they are halved until they do not.
    """
    best, rounding = _ridders_iteration(probe, h * probe.unit)
    if _settled(best, rounding, GOOD) and not probe.alone and not any(
            np.any(noise) for noise in probe.noise):
        return best
    return _with_other_steps(probe, h, best, rounding)


def _settled(numeric: Numeric, rounding: Array, good: float) -> bool:
    """Whether the derivatives are good enough, or as good as rounding allows."""
    enough = numeric.error <= np.maximum(good * numeric.scale, rounding / CLOSER)
    return bool((enough & np.isfinite(numeric.error)).all())


def _with_other_steps(probe: Probe, h: float, best: Numeric, rounding: Array) -> Numeric:
    """The most exact derivatives from other steps than h, which gave `best` and `rounding`.

    Where two iterations contradict each other, that with the shorter steps counts: the function may
    vary over less than the longer ones. If the differences alone decide, shorter steps must not
    contradict derivatives that are good enough: longer ones may be whole periods of the function.
    """
    left, shorter = not np.isfinite(best.error).all(), list[float]()

    def closest(step: float) -> tuple[Numeric, Array]:
        further, noise = _ridders_iteration(probe, step)
        better = (further.error < best.error) | (
            np.abs(further.value - best.value) > further.error + best.error)
        if step in shorter:  # where no change is one that is lost in rounding
            better &= further.scale > 0
        return Numeric(*(np.where(better, *numbers) for numbers in zip(further, best, strict=True))
                       ), np.where(better, noise, rounding)

    noisy = any(np.any(noise) for noise in probe.noise)
    if noisy:  # longer steps exceed this rounding
        best, rounding = closest(WIDER * h * probe.unit)
    steps = [h * CLOSER**k * probe.unit for k in range(1, ITERATIONS + SMALLER + 1)]
    exact = EPS / CLOSER * probe.coarse  # longer steps than this move the inputs exactly enough
    shorter += [step for step in steps[ITERATIONS:] if probe.alone and step > exact]
    steps = steps[:ITERATIONS] + shorter
    if probe.near < probe.unit * CLOSER:
        steps.insert(2, h * probe.near)  # near small inputs: within the domain of a logarithm
    lenient = len(steps) - len(shorter) - LAST
    witnessed, doubted, shortest = probe.alone and not noisy, False, h * probe.unit
    for k, step in enumerate(steps):
        if _settled(best, rounding, GOOD if k < lenient or doubted else ENOUGH):
            doubted = witnessed and step < shortest and (
                doubted or k in WITNESSES) and _contradicted(probe, best, WITNESS * step)
            if not doubted:
                if not witnessed or k >= WITNESSES[-1]:
                    return best
                continue
        best, rounding = closest(step)
        shortest = min(shortest, step)
    if left and (domain := largest_step(probe, h * probe.unit)):
        for fraction in WITHIN:
            best, rounding = closest(fraction * domain)
    return best


def _contradicted(probe: Probe, best: Numeric, step: float) -> bool:
    """Whether a slope over a shorter step is another than the best."""
    steps = np.array([step])
    for k, out in enumerate(probe(np.array([step, -step]))):
        slope, _, noise = _slopes(probe, k, out[:1] - out[1:], 2 * steps)
        allowed = SURE * (best.error[k] + noise / step) + CONTRADICTS * best.scale[k]
        if slope[0] and abs(slope[0] - best.value[k]) > allowed:
            return True
    return False


def largest_step(probe: Probe, h: float) -> float:
    """The largest of h, h/2, ... after which the outputs are finite on both sides; 0.0 if there is
    none."""
    for step in h * 0.5 ** np.arange(HALVINGS):
        if all(np.isfinite(out).all() for out in probe(np.array([step, -step]))):
            return float(step)
    return 0.0


def _ridders_iteration(probe: Probe, h: float) -> tuple[Numeric, Array]:
    """The derivatives from steps h, h/2, ..., and the part (K,) of their errors that is rounding.
    """
    steps = h * 0.5 ** np.arange(LEVELS)  # (m,)
    rows, roundings = [], []
    for k, out in enumerate(probe(np.concatenate([steps, -steps]))):
        ahead, behind = out[:LEVELS] - probe.base[k], probe.base[k] - out[LEVELS:]
        slope, scale, noise = _slopes(probe, k, out[:LEVELS] - out[LEVELS:], 2 * steps)
        value, error = _extrapolated(slope, (2, 4, 6))  # its error has even powers of h
        corner, _ = _extrapolated((ahead - behind) @ probe.weights[k] / steps, (1, 3, 5))
        roundings.append(noise / steps[-1])
        rows.append((value, error + np.abs(corner) / 2 + roundings[-1], scale[-1]))
    return _numeric(rows), np.array(roundings)


METHODS: dict[str, Callable[..., Numeric]] = {
    "complex": complex_step, "ridders": ridders, "central": central_difference,
    "forward": forward_difference,
}


def _extrapolated(column: Array, powers: Sequence[int]) -> tuple[float, float]:
    """The limit at h = 0 of the values at h, h/2, ..., and its error (Ridders' tableau).

    Arguments: column (m,), the values; powers of h in their error, ascending. Each column of the
    tableau removes one power from the column before it. The chosen column is that whose entries
    differ least from their two parents. The largest difference in a column counts, because two
    values that are only rounding can be close by chance.
    """
    best, error = column[-1], np.inf
    for power in powers:
        better = column[1:] + (column[1:] - column[:-1]) / (2.0**power - 1)
        differs = np.maximum(np.abs(better - column[1:]), np.abs(better - column[:-1])).max()
        if differs < error:  # False for NaN
            best, error = better[-1], differs
        column = better
    return best, error


def _slopes(probe: Probe, k: int, change: Array, steps: Array) -> tuple[Array, Array, float]:
    """The slopes of the k-th output, projected on d_out, the size of their terms, and the rounding
    error of the differences.

    Arguments: change, differences (m, size) of the output over steps (m,). A step that changes some
    elements may have changed others by less than their rounding. So may a step that changes
    nothing, if an output is computed in less than float64.
    """
    weight = probe.weights[k]
    scale = np.abs(change) @ np.abs(weight) / np.abs(steps)
    outputs = length([weight * probe.base[k]]) if (change != 0).any() else 0.0
    noise = EPS * (outputs + scale[-1] * probe.coarse) + length([weight * probe.noise[k]])
    return change @ weight / steps, scale, ROUNDINGS / 2 * noise


def _numeric(rows: Sequence[tuple[Any, Any, Any]]) -> Numeric:
    """A Numeric from rows of value, error and scale. A value that is not finite has an infinite
    error."""
    value, error, scale = np.array(rows, np.float64).T
    finite = np.isfinite(value) & np.isfinite(error)
    return Numeric(np.where(finite, value, np.nan), np.where(finite, error, np.inf), scale)
