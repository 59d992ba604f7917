"""Random directions: one derivative that depends on all entries of a tensor.

The derivative along a direction v is the sum of gradient * v, so a wrong entry shows in nearly
every direction. A tensor is checked along two directions and for one entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from grads.check.comparison import EXACT, Check, Compared, index_of
from grads.check.diagnosis.places import place
from grads.check.evaluate import Line, entry_line
from grads.check.kinks import find_kink_along
from grads.check.other_inputs import derivatives_at, moved
from grads.check.result import HEADINGS, Row
from grads.check.watch import PART, Watch

DIRECTIONS = 2  # per tensor
NEARBY = 1e-3  # relative distance of points where a small tensor's gradient is compared, too
AT_ONCE = 1e-6  # the same if gradients may be given as arrays, which are equal at all points
ALIKE_RATIO = 0.1  # similar numbers differ by less than this fraction of themselves
APART = 1e8  # ratio of entries too different for one common step
TOGETHER = "all tensors"  # the name of rows for directions over all tensors
SMALL = 1e-11  # fraction of the largest gradient below which eight roundings of it hide errors

Arrays = Mapping[str, np.ndarray]
NOTHING = "zero everywhere, numerically too"
STATUS = {"right": "ok", "coarse": "inconclusive", "wrong": "wrong"}


class Failed(NamedTuple):
    """A line along which a gradient is wrong or too uncertain."""

    choice: str  # of upstream gradients
    line: Line
    method: str  # that found it
    word: str  # "wrong" or "coarse"


# --- lines ----------------------------------------------------------------------------------------


def lines_of(gradients: Arrays, names: Sequence[str], rng: np.random.Generator) -> list[Line]:
    """One entry and DIRECTIONS random directions of each tensor; all entries of a tiny one.

    The entry is one whose gradient is not zero, if there is such an entry.
    """
    lines = []
    for name in names:
        gradient = gradients[name].reshape(-1)
        few = gradient.size <= 1 + DIRECTIONS
        nonzero = np.flatnonzero(gradient)
        entries = range(gradient.size) if few else [
            int(rng.choice(nonzero if nonzero.size else gradient.size))]
        lines += [entry_line(gradients, name, entry, name) for entry in entries]
        lines += [Line({name: rng.normal(size=gradients[name].shape)}, name)
                  for _ in range(0 if few else DIRECTIONS)]
    return lines


def lines_together(
    inputs: Arrays, names: Sequence[str], rng: np.random.Generator, number: int = DIRECTIONS,
    relative: bool = False,
) -> list[Line]:
    """Random directions over all tensors at once.

    They are scaled by the entries' sizes if `relative`, so that short steps along them meet no
    kink, or if the sizes differ so much that no common step suits all entries.
    """
    sizes = {name: np.abs(inputs[name]).astype(np.float64) for name in names}
    if not (relative and any(size.any() for size in sizes.values())):
        sizes = {name: np.where(size > 0, size, 1.0) for name, size in sizes.items()}
        every = np.concatenate([size.reshape(-1) for size in sizes.values()] or [np.ones(1)])
        if not (every.size and every.max() > APART * every.min()):
            sizes = {name: np.ones_like(size) for name, size in sizes.items()}
    return [Line({name: rng.normal(size=inputs[name].shape) * sizes[name] for name in names},
                 TOGETHER) for _ in range(number)]


# --- checks along them ----------------------------------------------------------------------------


def along_directions(
    check: Check, names: Sequence[str], how: Any, methods: Sequence[str],
    rng: np.random.Generator,
) -> list[Failed]:
    """The lines that fail: of each tensor by the first method, and of all tensors together by the
    second. Updates `check.rows`. Arguments: how, a `grads.check.Extent`."""
    largest = check.largest["all"].values()
    if methods[0] == "complex" and min(largest) < SMALL * max(largest):
        check.apart = set_apart(check, names)
    lines = (lines_together(check.evaluate.inputs, names, rng) if how.together
             else lines_of(check.analytic["all"], names, rng))
    check.rows = []
    failed: list[Failed] = []
    for batch in _batches(check.watch, lines) if check.watch.active else [lines]:
        rows, bad = check_lines(check, batch, methods[0])
        check.rows, failed = check.rows + rows, failed + bad
    if len(methods) > 1 and names:
        together = lines_together(check.evaluate.inputs, names, rng, 1)
        rows, bad = check_lines(check, together, methods[1])
        if bad:
            rows, bad = _beside_kinks(check, together[0], methods[1], rng, rows, bad)
            check.left_out(methods[1], np.array([rows[0].numeric]))
        check.confirmed = [] if bad else [
            f"{HEADINGS[methods[1]]} along a direction over all tensors: "
            f"{rows[0].errors['directions']:.1e}"]
        failed += bad
    return failed


def _batches(watch: Watch, lines: list[Line]) -> Iterator[list[Line]]:
    """The lines of one tensor after the other if the function is slow; all at once otherwise."""
    tensors = dict.fromkeys(line.row for line in lines)
    if watch.run_time * len(lines) < PART:
        yield lines
        return
    for k, name in enumerate(tensors, 1):
        yield [line for line in lines if line.row == name]
        watch.tell("tensors", k, len(tensors))


def check_lines(check: Check, lines: Sequence[Line], method: str) -> tuple[list[Row], list[Failed]]:
    """The rows, and the lines along which a gradient is not right.

    There is a row for every tensor, and a further row for an output alone through which a tensor is
    wrong.
    """
    rows: list[Row] = []
    failed: list[Failed] = []
    numeric = check.along(lines, method)
    for choice in check.analytic:
        results = [(line, check.along_limits(choice, line, numeric, k))
                   for k, line in enumerate(lines)]
        failed += [Failed(choice, line, method, result.words[0]) for line, result in results
                   if result.words[0] != "right"]
        for name in dict.fromkeys(line.row for line in lines):
            row = row_of(check, name, choice, method, [(line, result) for line, result in results
                                                     if line.row == name])
            rows += [row] if choice == "all" or row.status == "wrong" else []
    return rows, failed


def _beside_kinks(
    check: Check, line: Line, method: str, rng: np.random.Generator, rows: list[Row],
    failed: list[Failed],
) -> tuple[list[Row], list[Failed]]:
    """The rows and what fails along a direction with shorter steps, if the line has no kink. The
    longer steps may cross some."""
    if find_kink_along(check.evaluate, check.upstream, line.direction) is not None:
        return rows, failed
    return check_lines(check, lines_together(
        check.evaluate.inputs, [*line.direction], rng, 1, True), method)


def compare_line(check: Check, choice: str, line: Line, method: str) -> Compared:
    """The comparison along one line with the derivative by a method."""
    return check.along_limits(choice, line, check.along([line], method))


def row_of(
    check: Check, name: str, choice: str, method: str, results: Sequence[tuple[Line, Compared]]
) -> Row:
    """The row of one tensor's lines. Its worst entry is that of the worst line. If all lines are
    right, it is an entry that was compared alone."""
    order = ("wrong", "coarse", "right")
    line, result = min(results, key=lambda pair: (order.index(pair[1].words[0]),
                                                  pair[0].entry is None))
    x, word = check.evaluate.inputs.get(name), result.words[0]
    at = () if line.entry is None or x is None else index_of(line.entry, x.shape)
    said = "a random direction" if line.entry is None else (
        place(check.case.labels.get(name), at) if word != "right" else str(at))
    analytic, value = float(result.analytic[0]), float(result.numeric[0])
    still = word == "right" and x is not None and x.size > 0 and not value and not analytic
    entries = [result for line, result in results if line.entry is not None]
    directions = [result for line, result in results if line.entry is None]
    largest = check.largest[choice].get(name, 0.0)
    limits = [float(result.limit[0]) for result in directions or entries]
    return Row(
        name, choice, None if x is None else x.shape, len(entries), len(directions),
        sum(result.words[0] == "coarse" for _, result in results),
        {kind: float(np.max([result.relative[0] for result in kept])) for kind, kept in (
            (method, entries), ("directions", directions)) if kept},
        STATUS[word], at, said, analytic, value, (NOTHING,) * still,
        floor=max(limits) / largest if largest else 0.0)


def set_apart(check: Check, names: Sequence[str]) -> set[str]:
    """The tensors that are wrong by more than rounding, but have gradients so small that the
    rounding of other tensors would hide the error."""
    largest = check.largest["all"]
    least = max(largest.values(), default=0.0) * SMALL
    if check.eps > EXACT:
        return set()
    return {name for name in names if largest[name] < least and _wrong_alike(check, name)}


def _wrong_alike(check: Check, name: str) -> bool:
    """Whether a tensor's gradient is wrong in the same way at three points.

    Along a direction, the numerical derivative must be about the same at all points, and so must
    the ratio of the analytic derivative to it, which is not 1. Rounding differs from point to
    point.
    """
    rng, slopes = np.random.default_rng(4), []
    inputs, near = check.evaluate.inputs, AT_ONCE if check.case.cacheless else NEARBY
    v = rng.normal(size=inputs[name].shape)
    for distance in (0.0, near, near):
        there = derivatives_at(check.case, check.evaluate, check.upstream,
                               moved(inputs, distance, rng), [Line({name: v})])
        if there is None:
            return False
        slopes.append((float((there[0][name] * v).sum()), float(there[1].value.sum())))
        if not slopes[-1][1]:
            return False
    analytic, numeric = np.array(slopes).T  # (3,)
    if np.ptp(numeric) > ALIKE_RATIO * np.abs(numeric).min():
        return False
    ratios = analytic / numeric
    return bool(np.ptp(ratios) < ALIKE_RATIO * np.abs(ratios - 1).min())
