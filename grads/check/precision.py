"""Observes the rounding of code that computes in less than float64.

A gradient in float32 or float16 is computed again from inputs that differ in their last bit. Its
change shows the rounding of this code at these values. The rounding of outputs shows in their
differences between points that are close together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from grads.check.analytic import copies, gradients_at
from grads.check.case import Case
from grads.check.comparison import COARSE, EXACT, IN_FLOAT64, SAFETY, Check
from grads.check.differentiate import Probe
from grads.check.directions import ALIKE_RATIO, NEARBY, compare_line
from grads.check.evaluate import Evaluator, Line
from grads.check.other_inputs import derivatives_at, moved
from grads.check.result import Row

RUNS = 3  # number of repeated computations
SPACINGS = (2.0**-22, 2.0**-16, 2.0**-10)  # of values that show an output's rounding
BESIDE = np.concatenate([np.arange(-8.0, 0.0), np.arange(1.0, 9.0)])  # on both sides
LOUD = 2.0**16  # rounding, in eps of float64, from which an output counts as less precise
FINER, DEEPEST = 4.0, 20  # factor and number of the spacings that tell curvature from rounding
CUBIC = 2.5  # powers of 2 by which the fall of curvature may differ from that
CHAOTIC = 2.0**-6  # rounding, in units of an output's size and changes, that leaves nothing
LONG = (2.0, 4.0, 8.0)  # steps, in units of the inputs
ABOUT = 1 + 1e-3 * np.arange(16)  # factors of steps of about the same length
ALIKE_CHANGE = 0.5  # changes over about the same step differ by less than this, unless by rounding
FEW = 4  # roundings
LITTLE = 1e-11  # fraction of the outputs: a larger change shows in short steps, too
HIDDEN = ("fewer than three digits can be had here: in a difference, rounding is larger than "
          "this tensor's gradient, which is far below those of other tensors")

Arrays = Mapping[str, np.ndarray]


def rounding_of(case: Case, upstream: Arrays, gradients: Arrays) -> dict[str, float]:
    """The largest observed rounding of each tensor's gradient. Empty if the gradients are given as
    arrays and so do not depend on the inputs."""
    rng, changes = np.random.default_rng(0), dict.fromkeys(gradients, 0.0)
    for _ in range(RUNS):
        inputs = _neighbours(case.inputs, rng)
        for name, d in gradients_at(case, inputs, copies(upstream, case.dtype)).items():
            gap = np.abs(d.astype(float) - gradients[name])
            changes[name] = max(changes[name], float(gap[np.isfinite(gap)].max(initial=0.0)))
    return changes if any(changes.values()) else {}


def is_ill_conditioned(check: Check) -> bool:
    """Observe the rounding of gradients in float64, which counts if it exceeds the usual allowance.

    The inputs themselves are rounded, so no gradient is more exact than its change when their last
    bits change, as that of the inverse of an ill-conditioned matrix. A change that leaves fewer
    than three digits is a jump, and does not count. Updates `check.rounding`.
    """
    if check.eps > EXACT or check.case.fixed or check.rounding:
        return False
    try:
        changes = rounding_of(check.case, check.upstream, check.analytic["all"])
    except Exception:  # the code may not take these inputs
        return False
    usual = IN_FLOAT64.tensor * float(np.finfo(np.float64).eps)
    for name, rounding in changes.items():
        largest = check.largest["all"][name]
        if usual * largest < SAFETY * rounding < COARSE * largest:
            check.rounding[name] = rounding
    return bool(check.rounding)


def rounding_of_inputs(check: Check, choice: str, lines: Sequence[Line]) -> np.ndarray:
    """The largest change (n,) of the derivatives along lines when the inputs change in their last
    bits, by complex step; zero if it does not suit. No gradient is more exact."""
    evaluate, rng = check.evaluate, np.random.default_rng(0)
    slopes = []
    for run in range(RUNS + 1):
        beside = _neighbours(evaluate.inputs, rng) if run else evaluate.inputs
        there = derivatives_at(check.case, evaluate, check.weights(choice), beside, lines)
        if there is None:
            return np.zeros(len(lines))
        slopes.append(there[1].value.sum(axis=0))
    return np.nan_to_num(np.abs(np.array(slopes[1:]) - slopes[0]).max(axis=0))


def unseen(check: Check, row: Row, method: str) -> Row:
    """The row, undecided if the differences' rounding is larger than its gradient.

    A gradient far below those of other tensors may be mere rounding, which changes at random when
    the inputs change a little. Then it is right. Otherwise the differences have to show it to three
    digits. A gradient of zeros is hidden if long steps change the outputs, but short ones do not.
    """
    overall = max(check.largest["all"].values(), default=0.0)
    eps = float(np.finfo(np.float64).eps)
    if row.status != "ok" or row.upstream != "all" or not row.size or check.eps > EXACT or (
            COARSE * check.largest["all"][row.name] > eps * IN_FLOAT64.all * overall):
        return row
    v = np.random.default_rng(7).normal(size=row.shape or ())
    line = Line({row.name: v}, row.name)
    numeric = check.through(check.along([line], method), "all")
    value, error = abs(float(numeric.value[0])), SAFETY * float(numeric.error[0])
    slopes = _slopes_beside(check, row.name, v)
    if not slopes.any():
        hidden = value <= error and _moves_at_last(check, line)
    elif not np.ptp(slopes) < ALIKE_RATIO * np.abs(slopes).min():
        return row
    else:
        hidden = not value or error > COARSE * value
    if hidden:
        return replace(row, status="undecided", hints=(HIDDEN,))
    check.apart.add(row.name)
    word = compare_line(check, "all", line, method).words[0]
    return replace(row, status="wrong") if word == "wrong" else row


def _slopes_beside(check: Check, name: str, v: np.ndarray) -> np.ndarray:
    """The analytic derivatives along v at the inputs and at points nearby; NaN where the code does
    not take them."""
    rng, slopes = np.random.default_rng(4), []
    for distance in (0.0, *[NEARBY] * RUNS):
        beside = moved(check.evaluate.inputs, distance, rng)
        try:
            slopes.append(float((gradients_at(check.case, beside, check.upstream)[name] * v).sum()))
        except Exception:  # the code may not take these inputs
            slopes.append(np.nan)
    return np.array(slopes)


def _moves_at_last(check: Check, line: Line) -> bool:
    """Whether a long step changes the outputs a little, and by more than rounding: steps of about
    the same length change them by about as much."""
    probe = Probe(check.evaluate, check.upstream, line)
    size = sum(float(np.abs(weight * base).sum())
               for base, weight in zip(probe.base, probe.weights, strict=True))
    rounding = float(np.finfo(np.float64).eps) * size
    for step in LONG:
        outputs = zip(probe(step * probe.unit * ABOUT), probe.base, probe.weights, strict=True)
        changes = np.sum([(out - base) @ weight for out, base, weight in outputs], axis=0)
        change = float(np.abs(changes).min())
        if np.ptp(changes) < ALIKE_CHANGE * change and FEW * rounding < change < LITTLE * size:
            return True
    return False


def observe_noise(evaluate: Evaluator, line: Line, loud: float = LOUD) -> None:
    """Estimate the rounding of outputs if it is more than `loud` times eps, `Evaluator.noise`.

    At the smallest spacing at which anything changes, third differences consist of rounding only.
    They are taken on each side of the point, and the smaller of the two sides counts: a kink or a
    jump is not rounding. Values that float32 can represent count as rounded to float32.
    """
    _, unit, near = line.scales(evaluate.inputs)
    near = min(unit, 256 * near)  # small inputs stay in their domain
    for spacing in [*(h * near for h in SPACINGS), *(h * unit for h in SPACINGS[1:])]:
        outputs = evaluate.along(line, spacing * BESIDE)
        if any(all((np.ptp(side, axis=0) > 0).any() for side in (values[:8], values[8:]))
               for values in outputs.values()):
            break
    for name, values in outputs.items():
        level = np.maximum(_third(values), _spacing_of_float32(values))
        size = loud * np.finfo(np.float64).eps * np.abs(values[:8]).max(axis=0)
        if (level > size).any():
            level = np.where(level > size, _without_curvature(evaluate, line, spacing, name, level),
                             0.0)
            if (level > size).any():
                evaluate.noise[name] = np.where(level > size, level, 0.0)
                chaotic = level > CHAOTIC * np.abs(values).max(axis=0)
                if chaotic.any():  # rounding changes it as much as long steps do
                    far = np.ptp(evaluate.along(line, near / 2**13 * BESIDE)[name], axis=0)
                    evaluate.noise[name][chaotic & (level > CHAOTIC * far)] = np.inf


def _third(values: np.ndarray) -> np.ndarray:
    """The size (size,) of the third differences of values at BESIDE, on the quieter side."""
    return np.minimum(*(np.sqrt((np.diff(side, 3, axis=0) ** 2).mean(axis=0) / 20)
                        for side in (values[:8], values[8:])))


def _without_curvature(
    evaluate: Evaluator, line: Line, spacing: float, name: str, level: np.ndarray
) -> np.ndarray:
    """The rounding of an output, where `level` may be its curvature: this falls with the third
    power of the spacing. Rounding stays until nothing changes."""
    levels, least = [level], FINER * np.finfo(np.float64).eps * line.scales(evaluate.inputs)[0]
    while len(levels) < DEEPEST and levels[-1].any() and spacing > least:
        spacing /= FINER
        levels.append(_third(evaluate.along(line, spacing * BESIDE)[name]))
    with np.errstate(all="ignore"):
        falls = np.array(levels)[:-1] / np.array(levels)[1:] / FINER**3
    cubic = np.abs(np.log2(falls)) < CUBIC
    smooth = (cubic[1:] & cubic[:-1]).any(axis=0)
    return np.where(smooth, np.min(levels, axis=0), level)


def _spacing_of_float32(values: np.ndarray) -> np.ndarray:
    """The float32 rounding (size,) of values (n, size) that differ and that float32 can represent;
    0 for other values."""
    with np.errstate(over="ignore", invalid="ignore"):
        single = values.astype(np.float32)
    held = (single == values).all(axis=0) & (np.ptp(values, axis=0) > 0)
    return np.where(held, np.spacing(np.abs(single[0])).astype(float) / 3, 0.0)


def _neighbours(inputs: Arrays, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Inputs whose entries are the next larger or smaller number, or the same number, at random."""
    beside = {}
    for name, x in inputs.items():
        next_to = np.nextafter(x, rng.choice([-np.inf, np.inf], x.shape).astype(x.dtype))
        beside[name] = np.where((rng.random(x.shape) < 0.75) & (x != 0), next_to, x)
    return beside
