"""Directions that cross kinks: what brings the kinks is left out, and the rest is compared.

Along a direction through a kink there is no derivative: complex step finds the slope of one side of
it, Ridders' differences the mean of both, and a right gradient need be neither. Kinks of several
entries even cancel in part, so that differences look smooth. So a direction that is wrong is
halved down to an entry; if the function has a kink there, the entry is left out, with all of the
same value (zeros before a ReLU), and the direction is taken again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from grads.check.case import Case
from grads.check.directions import Analytic, Arrays, Line, Slope, bisect, slopes
from grads.check.evaluate import Evaluator
from grads.check.kinks import find_kink
from grads.check.report import Row

MOST = 48  # kinks along a direction, of different values, that are left out


class Cleared(NamedTuple):
    """A direction without the entries that bring a kink, and what was found along it."""

    line: Line
    slope: Slope
    kinks: tuple[tuple[str, int], ...]  # tensor and flat position; of one value the first
    entry: tuple[str, int] | None  # where it is wrong although there is no kink, if it is

    @property
    def crossed(self) -> bool:
        """Whether it is wrong and was not cleared of all kinks."""
        return self.slope.status == "wrong" and self.entry is None


def cleared(
    case: Case, evaluate: Evaluator, analytic: Analytic, upstream: Arrays, choice: str, line: Line,
    method: str,
) -> Cleared:
    """The direction after all entries that make it wrong by a kink are left out."""
    slope = _slope(evaluate, analytic, upstream, choice, line, method)
    weights = {name: d for name, d in upstream.items() if choice in ("all", name)}
    kinks: list[tuple[str, int]] = []
    while slope.status == "wrong" and len(kinks) < MOST:
        at = bisect(evaluate, analytic, upstream, choice, line.direction, method)
        if find_kink(evaluate, evaluate.inputs, weights, *at, case.decisions) is None:
            return Cleared(line, slope, tuple(kinks), at)
        kinks.append(at)
        line = _without(line, evaluate, *at)
        if not any(v.any() for v in line.direction.values()):
            slope = slope._replace(status="inconclusive", error=0.0)
            break
        slope = _slope(evaluate, analytic, upstream, choice, line, method)
    return Cleared(line, slope, tuple(kinks), None)


def _slope(
    evaluate: Evaluator, analytic: Analytic, upstream: Arrays, choice: str, line: Line, method: str
) -> Slope:
    return slopes(evaluate, {choice: analytic[choice]}, upstream, [line.direction], method
                  )[choice][0]


def _without(line: Line, evaluate: Evaluator, name: str, entry: int) -> Line:
    """The line that does not move the entries of this value."""
    x = evaluate.inputs[name]
    still = np.where(x == x.reshape(-1)[entry], 0.0, line.direction[name])
    return line._replace(direction={**line.direction, name: still})


def decided(
    case: Case, evaluate: Evaluator, analytic: Analytic, upstream: Arrays, choice: str, line: Line,
    methods: Sequence[str],
) -> tuple[str, tuple[str, ...]]:
    """What all methods together say of a direction that one of them found wrong: its status, and
    the hint that belongs to it."""
    found = [cleared(case, evaluate, analytic, upstream, choice, line, method)
             for method in methods]
    if all(one.entry for one in found):
        return "wrong", ()
    if any(one.entry for one in found):
        return "disagree", (f"along a random direction {' and '.join(methods)} disagree",)
    if any(one.crossed for one in found):
        return "disagree", (f"a random direction crosses more than {MOST} kinks: nothing is "
                            "decided there; check at other values",)
    return "inconclusive", ("random directions cross kinks; beside them the gradient is right",)


def judged(
    row: Row, case: Case, evaluate: Evaluator, analytic: Analytic, upstream: Arrays,
    lines: Sequence[Line], methods: tuple[str, ...],
) -> Row:
    """A row that is wrong along directions, as all methods together see it."""
    if row.status != "wrong":
        return row
    order = ("wrong", "disagree", "inconclusive")
    own = [line for line in lines if line.row == row.name]
    wrong = [line for line, slope in zip(own, slopes(
        evaluate, {row.upstream: analytic[row.upstream]}, upstream,
        [line.direction for line in own], methods[0])[row.upstream], strict=True)
        if slope.status == "wrong"]
    status, hints = min((decided(case, evaluate, analytic, upstream, row.upstream, line, methods)
                         for line in wrong), key=lambda one: order.index(one[0]))
    return replace(row, status=status, hints=hints)
