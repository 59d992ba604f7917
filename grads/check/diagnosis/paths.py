"""Finds the expression of the user's forward whose part of a wrong gradient is wrong.

The function is differentiated with an expression held constant. The difference from the function's
derivative is the part that comes through this expression. If the error of the gradient is the same
multiple of this part at several points and along several directions, the expression is named.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Iterator, Mapping
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np

from grads.check.analytic import copies, gradients_at
from grads.check.diagnosis.candidates import kind
from grads.check.diagnosis.elsewhere import NEAR, POINTS, Probe
from grads.check.diagnosis.evidence import Array, Evidence
from grads.check.diagnosis.instrument import Hooked, called, sources_of
from grads.check.differentiate import derivatives
from grads.check.evaluate import Evaluator, Line
from grads.check.other_inputs import moved

SECONDS = 1.0  # of CPU, for all tensors of a check
MOST = 250  # evaluations
SLIGHT = 1e-3  # from 1: a multiple that names no path, but a rounded number
ALIKE = 1e-6  # relative difference of multiples that count as equal
ROUNDING = {"complex": 1e-12}  # of a derivative, relative to its terms; of other methods
ROUNDING_OF_DIFFERENCES = 1e-8
# multiples that have a name, the likeliest first
SAID = ((0.0, "lacks what comes through {}: is this path forgotten?"),
        (-1.0, "has the wrong sign in what comes through {}"),
        (2.0, "has twice what comes through {}"), (0.5, "has half of what comes through {}"))

Arrays = Mapping[str, Array]


class Sample(NamedTuple):
    """A point, a direction of the tensor there, and the gradient along it."""

    inputs: Arrays
    direction: Array
    values: dict[int, list[Any]]  # of the expressions, in the order of their evaluation
    error: float  # of the analytic gradient along the direction
    slope: float  # the right derivative
    rounding: float


def path(probe: Probe, evidence: Evidence, plain: bool) -> str | None:
    """The phrase on the expression whose part of a gradient is wrong; None if there is none.

    Argument: plain, whether the gradient is zero or a multiple of the right one. A multiple is then
    an accident, as 0.2 for p and q with p + 5 q = 0, unless the path is forgotten.
    """
    codes = called(lambda: probe.case.outputs(copies(probe.evaluate.inputs)))
    hooked = Hooked(sources_of(codes))
    if probe.stop is None:
        probe.stop = time.process_time() + SECONDS
    if not hooked.sites or time.process_time() > probe.stop:
        return None
    most = probe.evaluate.evaluations + MOST
    samples = [_sample(probe, evidence, hooked, k) for k in range(POINTS)]
    phrases: dict[int, str] = {}
    for number in samples[0].values:
        if time.process_time() > probe.stop or probe.evaluate.evaluations > most or 0 in phrases:
            break
        multiple = None if isinstance(hooked.sites[number].node, ast.Constant) else _multiple(
            probe, evidence, hooked, number, samples)
        if multiple is not None and abs(multiple - 1) > SLIGHT:
            other = len(SAID) + (multiple < 0), (
                f"is wrong only in what comes through {{}}: it has {multiple:.6g} times that")
            rank, said = next(((k, said) for k, (value, said) in enumerate(SAID)
                               if abs(multiple - value) < ALIKE), other)
            if not plain or not rank:
                phrases.setdefault(rank, said.format(hooked.name(number)))
    return phrases[min(phrases)] if phrases else None


def _sample(probe: Probe, evidence: Evidence, hooked: Hooked, number: int) -> Sample:
    """A sample; the first is at the inputs themselves."""
    rng = np.random.default_rng(number)
    inputs = moved(probe.evaluate.inputs, NEAR if number else 0.0, rng)
    v = rng.normal(size=inputs[evidence.name].shape)
    values: dict[int, list[Any]] = {}

    def record(k: int, value: Any) -> Any:
        if kind(value) == "f":
            values.setdefault(k, []).append(np.array(value))
        return value

    with hooked.hook(record):
        probe.case.outputs(copies(inputs))
    terms = v * gradients_at(probe.case, inputs, evidence.upstream)[evidence.name]
    slope, size = _slope(probe, evidence, inputs, v)
    rounding = ROUNDING.get(probe.method, ROUNDING_OF_DIFFERENCES)
    return Sample(inputs, v, values, float(terms.sum()) - slope, slope,
                  rounding * (float(np.abs(terms).sum()) + size))


def _slope(
    probe: Probe, evidence: Evidence, inputs: Arrays, v: Array
) -> tuple[float, float]:
    """The derivative along a direction, and the size of its terms."""
    evaluator = Evaluator(probe.case.outputs, inputs, outputs=probe.evaluate.outputs)
    numeric = derivatives(evaluator, evidence.upstream, [Line({evidence.name: v})], probe.method)
    probe.evaluate.evaluations += evaluator.evaluations
    return float(numeric.value.sum()), float(numeric.scale.sum())


def _multiple(
    probe: Probe, evidence: Evidence, hooked: Hooked, number: int, samples: list[Sample]
) -> float | None:
    """How many times the gradient has what comes through an expression; None if its error is no
    multiple of that."""
    multiples: list[float] = []
    for sample in samples:
        held = cycle(sample.values.get(number, []))

        def hold(k: int, value: Any, held: Iterator[Any] = held) -> Any:
            kept = k == number and isinstance(value, (float, complex, np.ndarray, np.generic))
            return next(held) if kept else value

        try:
            with hooked.hook(hold):
                slope, size = _slope(probe, evidence, sample.inputs, sample.direction)
        except Exception:  # another branch
            return None
        through = sample.slope - slope
        rounding = sample.rounding + ROUNDING.get(probe.method, ROUNDING_OF_DIFFERENCES) * size
        if not min(abs(through), abs(slope)) > 1e3 * rounding:
            return None  # nothing comes through it, or everything
        multiples.append(1 + sample.error / through)
        if abs(multiples[-1] - multiples[0]) > ALIKE * max(1, abs(multiples[0])) + (
                rounding / abs(through)):
            return None
    return multiples[0]
