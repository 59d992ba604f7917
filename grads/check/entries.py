"""Differentiation entry by entry, by several methods: all entries of a tensor, or a sample.

A check continues with it if a direction is wrong: the diagnosis (`grads.check.diagnosis`) needs the
derivatives of single entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from grads.check.case import Case, Labels
from grads.check.comparison import Numbers, compare_case, index_of
from grads.check.crossing import Cleared, cleared, decided
from grads.check.diagnosis.places import place
from grads.check.differentiate import Numeric, at_entries
from grads.check.directions import (
    Analytic,
    Arrays,
    Line,
    Slope,
    lines_of,
    lines_together,
    slopes,
)
from grads.check.evaluate import Evaluator
from grads.check.report import BAD, Row
from grads.check.stopped import uncovered
from grads.check.watch import TimeUp


def check_entries(
    case: Case, evaluate: Evaluator, analytic: Analytic, upstream: Arrays, names: Sequence[str],
    methods: Sequence[str], sample: int | None, rng: np.random.Generator,
) -> list[Row]:
    """A row for every tensor, one for every tensor that is wrong for one output alone.

    Arguments: methods that suit the function, the first of which is used along directions; sample,
    how many entries of a larger tensor, None for all.
    """
    places = {name: choose(analytic["all"][name], case.labels.get(name), sample, rng)
              for name in names}
    try:
        lines, found, wrong = _directions(case, evaluate, analytic, upstream, names, places,
                                          methods[0], rng)
    except TimeUp:
        return [uncovered(name, "all", analytic["all"][name].shape) for name in names]
    planned = {name: len(where) for name, where in places.items()}
    places, estimates = _estimates(evaluate, upstream, places, methods)
    numbers = Numbers(analytic, dict.fromkeys(methods, places), estimates, upstream)
    rows = [_along(row, lines, found) for row in compare_case(case, evaluate, numbers)]
    if evaluate.watch.stopped:
        return [replace(row, status="unfinished") if row.status in ("ok", "inconclusive")
                and row.checked < planned[row.name] else row for row in rows]
    bad = {(row.name, row.upstream) for row in rows if row.status in BAD}
    try:
        rows += [_led_to(case, evaluate, analytic, upstream, methods, choice, one)
                 for choice, one in wrong
                 if one.entry is None or (one.entry[0], choice) not in bad]
    except TimeUp:
        pass
    return rows


def _led_to(
    case: Case, evaluate: Evaluator, analytic: Analytic, upstream: Arrays, methods: Sequence[str],
    choice: str, one: Cleared,
) -> Row:
    """The row of a wrong direction for which bisection found no entry that is wrong alone: where
    several tensors meet in one kink, it may take all of them to cross it."""
    known = [one.entry] if one.entry else [*one.kinks]
    name = known[-1][0] if known else next(iter(one.line.direction))
    shape, slope = evaluate.inputs[name].shape, one.slope
    status, hints = decided(case, evaluate, analytic, upstream, choice, one.line, methods)
    at = index_of(known[-1][1], shape) if known else ()
    return Row(
        name, "direction", shape, 0, 1, 0, {"directions": slope.error}, status, at,
        place(case.labels.get(name), at) if known else "a random direction",
        slope.analytic, slope.numeric,
        hints or ("a random direction is wrong; halving it led to this entry",))


def _directions(
    case: Case, evaluate: Evaluator, analytic: Analytic, upstream: Arrays, names: Sequence[str],
    places: dict[str, np.ndarray], method: str, rng: np.random.Generator,
) -> tuple[list[Line], dict[str, list[Slope]], list[tuple[str, Cleared]]]:
    """The directions of sampled tensors, cleared of kinks, their slopes, and the directions that
    are still wrong; the entries found by bisection are added to `places`."""
    part = [name for name in names if len(places[name]) < analytic["all"][name].size]
    lines = [line for line in lines_of(analytic["all"], part, rng) if line.entry is None]
    lines += lines_together(evaluate.inputs, names, rng) if part and len(names) > 1 else []
    found = slopes(evaluate, analytic, upstream, [line.direction for line in lines], method)
    wrong: list[tuple[str, Cleared]] = []
    for choice, every in found.items():
        for k, line in enumerate(lines):
            if every[k].status == "ok":
                continue
            one = cleared(case, evaluate, analytic, upstream, choice, line, method)
            every[k] = one.slope
            for name, entry in (*one.kinks, *([one.entry] if one.entry else [])):
                places[name] = np.union1d(places[name], [entry])
            if one.slope.status == "wrong":
                wrong.append((choice, one))
    return lines, found, wrong


def _estimates(
    evaluate: Evaluator, upstream: Arrays, places: dict[str, np.ndarray], methods: Sequence[str]
) -> tuple[dict[str, np.ndarray], dict[str, dict[str, Numeric]]]:
    """The derivatives at the positions by all methods; of fewer positions if the time is up."""
    done: dict[str, list[np.ndarray]] = {name: [] for name in places}
    found: dict[str, dict[str, list[Numeric]]] = {
        method: {name: [] for name in places} for method in methods}
    total, watch = sum(map(len, places.values())), evaluate.watch
    try:
        for name, where in places.items():
            for part in watch.parts(where):
                made = {method: at_entries(evaluate, evaluate.inputs, upstream, {name: part},
                                           method)[name] for method in methods}
                done[name].append(part)
                for method, numeric in made.items():
                    found[method][name].append(numeric)
                watch.tell("entries", sum(len(p) for ps in done.values() for p in ps), total)
    except TimeUp:
        pass
    nothing = Numeric(*(np.zeros((len(upstream), 0)) for _ in range(3)))
    return ({name: np.concatenate([np.zeros(0, np.int64), *parts]) for name, parts in done.items()},
            {method: {name: Numeric(*(np.concatenate(some, axis=1)
                                      for some in zip(nothing, *several, strict=True)))
                      for name, several in tensors.items()} for method, tensors in found.items()})


def _along(row: Row, lines: Sequence[Line], found: dict[str, list[Slope]]) -> Row:
    """A sampled tensor's row with the results of its directions."""
    errors = [slope.error for line, slope in zip(lines, found["all"], strict=True)
              if line.row == row.name and row.upstream == "all"]
    if not errors:
        return row
    return replace(row, directions=len(errors),
                   errors={**row.errors, "directions": float(np.max(errors))})


def choose(
    gradient: np.ndarray, labels: Labels | None, sample: int | None, rng: np.random.Generator
) -> np.ndarray:
    """Flat positions to check, ascending: all, or a sample stratified over the tensor's blocks.

    Each block gives an equal share, half of it from entries whose gradient is not zero.
    """
    positions = np.arange(gradient.size)
    if sample is None or gradient.size <= sample:
        return positions
    grid = positions.reshape(gradient.shape)
    strata = [grid[block.where].reshape(-1) for block in labels.blocks] if labels else []
    strata = [stratum for stratum in strata if stratum.size] or [positions]
    share, kept = -(-sample // len(strata)), []
    for stratum in strata:
        nonzero = rng.permutation(stratum[gradient.reshape(-1)[stratum] != 0])[: (share + 1) // 2]
        rest = rng.permutation(np.setdiff1d(stratum, nonzero))[: share - len(nonzero)]
        kept += [nonzero, rest]
    return np.unique(np.concatenate(kept))
