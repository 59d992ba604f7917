"""Directions that cross kinks: the entries with kinks are left out, and the rest is compared.

Along a direction through a kink there is no derivative: complex step gives the slope of one side,
Ridders' differences the mean of both, and a right gradient need be neither. Kinks of several
entries may partly cancel, so that differences look smooth. So a direction that is not right is
bisected down to an entry; if the function has a kink there, the entry is left out, with all of the
same value (zeros before a ReLU), and the direction is differentiated again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from grads.check.case import Case
from grads.check.diagnosis.elsewhere import right_nearby
from grads.check.directions import Analytic, Arrays, Line, Slope, bisect, slopes
from grads.check.evaluate import Evaluator
from grads.check.kinks import find_kink, find_kink_along
from grads.check.report import Row

MOST = 48  # most kinks along a direction, of different values, that are left out


class Cleared(NamedTuple):
    """A direction without the entries that have a kink, and the result along it."""

    line: Line
    slope: Slope
    kinks: tuple[tuple[str, int], ...]  # tensor and flat position; for equal values, the first
    entry: tuple[str, int] | None  # an entry that is wrong without a kink, if there is one

    @property
    def crosses(self) -> bool:
        """Whether it is wrong and has kinks that no single entry causes, or too many."""
        return self.slope.status == "wrong" and self.entry is None


def cleared(
    case: Case, evaluate: Evaluator, analytic: Analytic, upstream: Arrays, choice: str, line: Line,
    method: str,
) -> Cleared:
    """The direction without all entries that make it wrong, or uncertain, by a kink."""
    weights = {name: d for name, d in upstream.items() if choice in ("all", name)}
    kinks: list[tuple[str, int]] = []
    while True:
        slope = _slope(evaluate, analytic, upstream, choice, line, method)
        if slope.status == "ok" or len(kinks) == MOST:
            return Cleared(line, slope, tuple(kinks), None)
        crosses = find_kink_along(evaluate, weights, line.direction) is not None
        if not crosses and slope.status == "inconclusive":
            return Cleared(line, slope, tuple(kinks), None)
        at = bisect(evaluate, analytic, upstream, choice, line.direction, method)
        if find_kink(evaluate, evaluate.inputs, weights, *at) is None:
            alone = _slope(evaluate, analytic, upstream, choice, _only(line, *at), method)
            wrong = slope.status == "wrong" and (not crosses or alone.status == "wrong")
            return Cleared(line, slope, tuple(kinks), at if wrong else None)
        kinks.append(at)
        line = _without(line, evaluate, *at)


def _slope(
    evaluate: Evaluator, analytic: Analytic, upstream: Arrays, choice: str, line: Line, method: str
) -> Slope:
    return slopes(evaluate, {choice: analytic[choice]}, upstream, [line.direction], method
                  )[choice][0]


def _only(line: Line, name: str, entry: int) -> Line:
    """One entry of the line."""
    alone = np.zeros_like(line.direction[name])
    alone.reshape(-1)[entry] = line.direction[name].reshape(-1)[entry]
    return line._replace(direction={name: alone})


def _without(line: Line, evaluate: Evaluator, name: str, entry: int) -> Line:
    """The line that does not move the entries of this value."""
    x = evaluate.inputs[name]
    still = np.where(x == x.reshape(-1)[entry], 0.0, line.direction[name])
    return line._replace(direction={**line.direction, name: still})


def decided(
    case: Case, evaluate: Evaluator, analytic: Analytic, upstream: Arrays, choice: str, line: Line,
    methods: Sequence[str],
) -> tuple[str, tuple[str, ...]]:
    """The status by all methods together of a direction that one of them found wrong, and its
    hint."""
    weights = {name: d for name, d in upstream.items() if choice in ("all", name)}
    if find_kink_along(evaluate, weights, line.direction) is None:
        confirmed = any(_slope(evaluate, analytic, upstream, choice, line, method).status == "ok"
                        for method in methods)
        return ("disagree", (_apart(methods),)) if confirmed else ("wrong", ())
    found = [cleared(case, evaluate, analytic, upstream, choice, line, method)
             for method in methods]
    doubtful = [one for one in found if one.entry or one.crosses]
    if not doubtful or all(right_nearby(case, evaluate, weights, name) for name in line.direction):
        return "inconclusive", ("random directions cross kinks; beside them the gradient is right",)
    alone = [_only(line, *one.entry) for one in doubtful if one.entry]
    if any(all(_slope(evaluate, analytic, upstream, choice, entry, method).status == "wrong"
               for method in methods) for entry in alone):
        return "wrong", ()
    return "disagree", (_apart(methods) if alone else "a random direction crosses kinks that "
                        "cannot be told apart: nothing is decided there; check at other values",)


def _apart(methods: Sequence[str]) -> str:
    return f"along a random direction {' and '.join(methods)} disagree"


def with_all_methods(
    row: Row, case: Case, evaluate: Evaluator, analytic: Analytic, upstream: Arrays,
    lines: Sequence[Line], methods: tuple[str, ...],
) -> Row:
    """A row that is wrong along directions, with its status by all methods together."""
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
