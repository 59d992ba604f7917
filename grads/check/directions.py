"""Random directions: one derivative that depends on all entries of a tensor.

The derivative along a direction v is the sum of gradient * v, so that a wrong entry shows in nearly
every direction. A tensor is checked along a few of them and for one entry. The entries that make a
direction wrong are found by halving it.

Along a direction through a kink there is no derivative: complex step gives the slope of one side,
Ridders' differences the mean of both, and a right gradient need be neither. An entry with a kink is
left out of the direction, with all of the same value (zeros before a ReLU), and the rest is
compared again.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from grads.check.comparison import COARSE, Check, Compared, index_of
from grads.check.diagnosis.places import place
from grads.check.evaluate import Line, entry_line
from grads.check.kinks import find_kink, find_kink_along
from grads.check.other_inputs import slopes_at
from grads.check.precision import EXACT
from grads.check.report import BAD, Row

DIRECTIONS = 2  # a tensor
NEARBY = 1e-3  # relative distance of points where a small tensor's gradient is compared, too
AT_ONCE = 1e-6  # likewise, where gradients may be given as arrays, the same at all points
ALIKE_RATIO = 0.1  # numbers alike differ by less than this part of themselves
APART = 1e8  # ratio of entries too different for one common step
TOGETHER = "all tensors"  # the name of rows for directions over all tensors
HALVINGS = 64  # most parts of a line that are halved to locate wrong entries
LOCATED = 16  # most wrong entries that are located
PIECES = 512  # most pieces of a line
SMALL = 1e-11  # part of the largest gradient from which on eight roundings of it hide errors
MOST = 48  # most kinks along a direction, of different values, that are left out

Arrays = Mapping[str, np.ndarray]
Entry = tuple[str, int]  # tensor and flat position
STATUS = {"right": "ok", "coarse": "inconclusive", "wrong": "wrong"}


class Failed(NamedTuple):
    """A line along which a gradient is not right."""

    choice: str  # of upstream gradients
    line: Line
    method: str  # that found it
    word: str  # "wrong" or "coarse"


# --- lines ----------------------------------------------------------------------------------------


def lines_of(gradients: Arrays, names: Sequence[str], rng: np.random.Generator) -> list[Line]:
    """One entry and DIRECTIONS random directions of each tensor; all entries of a tiny one."""
    lines = []
    for name in names:
        gradient = gradients[name].reshape(-1)
        few = gradient.size <= 1 + DIRECTIONS
        entries = range(gradient.size) if few else [_nonzero_entry(gradient, rng)]
        lines += [entry_line(gradients, name, entry, name) for entry in entries]
        lines += [Line({name: rng.normal(size=gradients[name].shape)}, name)
                  for _ in range(0 if few else DIRECTIONS)]
    return lines


def _nonzero_entry(gradient: np.ndarray, rng: np.random.Generator) -> int:
    """An entry whose gradient is not zero, if there is one."""
    significant = np.flatnonzero(gradient)
    return int(rng.choice(significant if significant.size else gradient.size))


def lines_together(
    inputs: Arrays, names: Sequence[str], rng: np.random.Generator, number: int = DIRECTIONS,
    relative: bool = False,
) -> list[Line]:
    """Directions over all tensors at once; `relative` to the entries' own sizes, so that short
    steps along them meet no kink."""
    sizes = _sizes(inputs, names)
    if relative and any(inputs[name].any() for name in names):
        sizes = {name: np.abs(inputs[name]) for name in names}
    return [Line({name: rng.normal(size=inputs[name].shape) * sizes[name] for name in names},
                 TOGETHER) for _ in range(number)]


def _sizes(inputs: Arrays, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The scale of a direction for each entry: 1 for all, or the entry's own size where sizes
    differ so much that no common step suits all entries."""
    sizes = {name: np.abs(inputs[name]).astype(np.float64) for name in names}
    sizes = {name: np.where(size > 0, size, 1.0) for name, size in sizes.items()}
    every = np.concatenate([size.reshape(-1) for size in sizes.values()] or [np.ones(1)])
    if every.size and every.max() > APART * every.min():
        return sizes
    return {name: np.ones_like(size) for name, size in sizes.items()}


# --- checks along them ----------------------------------------------------------------------------


def check_lines(check: Check, lines: Sequence[Line], method: str) -> tuple[list[Row], list[Failed]]:
    """A row for every tensor, one for every tensor that is wrong for one output alone, and the
    lines along which a gradient is not right."""
    rows: list[Row] = []
    failed: list[Failed] = []
    numeric = check.along(lines, method)
    for choice in check.analytic:
        results = [(line, check.along_limits(choice, line, numeric.at(k)))
                   for k, line in enumerate(lines)]
        failed += [Failed(choice, line, method, result.words[0]) for line, result in results
                   if result.words[0] != "right"]
        for name in dict.fromkeys(line.row for line in lines):
            row = _row(check, name, choice, method, [(line, result) for line, result in results
                                                     if line.row == name])
            rows += [row] if choice == "all" or row.status == "wrong" else []
    return rows, failed


def refined(check: Check, failed: Sequence[Failed]) -> list[Failed]:
    """The lines that fail, those with fewer than three digits cut into pieces that have them: an
    error adds up over fewer entries there."""
    found = []
    for bad in failed:
        choice, line, method, word = bad
        result = compare_line(check, choice, line, method) if word == "coarse" else None
        if result is None or line.entry is not None or not check.largest[choice][line.row]:
            found.append(bad)
            continue
        size = line.direction[line.row].size
        number = 2 * (float(result.limit[0]) / (COARSE * check.largest[choice][line.row])) ** 2
        if not number < min(PIECES, size / 2):
            found.append(bad)
            continue
        ends = np.linspace(0, size, 2 + int(number)).astype(int)
        pieces = [_between(line, low, high) for low, high in pairwise(ends)]
        found += check_lines(check, pieces, method)[1]
    return found


def narrowed(check: Check, joint: Sequence[Failed], known: Collection[str]) -> list[Failed]:
    """The tensors that make lines over several tensors fail, by the line's part in each; without
    those that are known to fail."""
    found = []
    for choice, line, method, _ in joint:
        parts = [Line({name: v}, name) for name, v in line.direction.items() if name not in known]
        found += [bad for bad in check_lines(check, parts, method)[1] if bad.choice == choice]
    return found


def compare_line(check: Check, choice: str, line: Line, method: str) -> Compared:
    """One line compared with its derivative by a method."""
    return check.along_limits(choice, line, check.along([line], method))


def _row(
    check: Check, name: str, choice: str, method: str, results: Sequence[tuple[Line, Compared]]
) -> Row:
    """The row of one tensor's lines; its worst entry is that of the worst line, or of an entry if
    all are right."""
    order = ("wrong", "coarse", "right")
    line, result = min(results, key=lambda pair: (order.index(pair[1].words[0]),
                                                  pair[0].entry is None))
    inputs = check.evaluate.inputs
    shape = inputs[name].shape if name in inputs else None
    at = () if line.entry is None or shape is None else index_of(line.entry, shape)
    said = place(check.case.labels.get(name), at) if line.entry is not None else (
        "a random direction")
    entries = [result.relative[0] for line, result in results if line.entry is not None]
    others = [result.relative[0] for line, result in results if line.entry is None]
    status, analytic, value = (
        STATUS[result.words[0]], float(result.analytic[0]), float(result.numeric[0]))
    still = shape is not None and not value and not analytic and status == "ok" and (
        inputs[name].size > 0)
    return Row(
        name, choice, shape, len(entries), len(others),
        sum(result.words[0] == "coarse" for _, result in results),
        {kind: float(np.max(errors)) for kind, errors in (
            (method, entries), ("directions", others)) if errors},
        status, at, said, analytic, value, ("zero everywhere, numerically too",) * still,
        floor=_floor(check, name, choice, results))


def _floor(check: Check, name: str, choice: str, results: Sequence[tuple[Line, Compared]]) -> float:
    """The error of an entry that may pass along random directions, as a part of the largest
    gradient."""
    own = check.largest[choice].get(name, 0.0)
    limits = [float(result.limit[0]) for line, result in results if line.entry is None] or [
        float(result.limit[0]) for _, result in results]
    return max(limits) / own if own else 0.0


def set_apart(check: Check, names: Sequence[str]) -> set[str]:
    """Tensors whose gradients are so much smaller than others' that these would hide any error, and
    which are wrong by more than rounding."""
    largest = check.largest["all"]
    least = max(largest.values(), default=0.0) * SMALL
    if check.evaluate.eps > EXACT:
        return set()
    return {name for name in names if largest[name] < least and _wrong_alike(check, name)}


def _wrong_alike(check: Check, name: str) -> bool:
    """Whether a tensor's gradient is wrong in the same way at three points: along a direction the
    numerical derivative is about the same, and the analytic one has the same ratio to it, which is
    not 1. Rounding, of either, is another at each."""
    rng, slopes = np.random.default_rng(4), []
    inputs, near = check.evaluate.inputs, AT_ONCE if check.case.cacheless else NEARBY
    v = rng.normal(size=inputs[name].shape)
    for distance in (0.0, near, near):
        beside = {key: x * (1 + distance * rng.normal(size=x.shape)) if x.dtype.kind == "f" else x
                  for key, x in inputs.items()}
        found = slopes_at(check.case, check.evaluate, check.upstream, beside, {name: v}, "complex")
        if found is None:
            return False
        slopes.append((float(found[0].sum()), float(found[1].value.sum())))
    analytic, numeric = np.array(slopes).T  # (3,)
    if not numeric.all() or np.ptp(numeric) > ALIKE_RATIO * np.abs(numeric).min():
        return False
    ratios = analytic / numeric
    return bool(np.ptp(ratios) < ALIKE_RATIO * np.abs(ratios - 1).min())


# --- the entries that are wrong -------------------------------------------------------------------


def wrong_entries(check: Check, choice: str, line: Line, method: str, most: int) -> list[Entry]:
    """The entries that make a line wrong, the worst first: at least one, at most `most`.

    The larger error of two halves leads to the first entry, as in bisection: 2 log2(n) derivatives
    for n entries. Then other parts that are wrong are halved, that with the largest error first.
    """
    ends = np.cumsum([v.size for v in line.direction.values()])
    entries: list[Entry] = []
    parts: list[tuple[float, int, int]] = []  # minus the error, from, to: those that are wrong
    low, high = 0, int(ends[-1])
    for _ in range(max(HALVINGS, high.bit_length())):
        while high - low == 1:
            k = int(np.searchsorted(ends, low, side="right"))
            entries.append((list(line.direction)[k], low - (int(ends[k - 1]) if k else 0)))
            if len(entries) == most or not parts:
                return entries
            _, low, high = heapq.heappop(parts)
        middle = (low + high) // 2
        halves = [(low, middle), (middle, high)]
        lines = [_between(line, *half) for half in halves]
        numeric = check.along(lines, method)
        found = [check.along_limits(choice, half, numeric.at(k)) for k, half in enumerate(lines)]
        gaps = [float(abs(result.analytic[0] - result.numeric[0])) for result in found]
        if not entries:
            larger = int(gaps[1] > gaps[0] or np.isnan(gaps[1]))
            low, high = halves.pop(larger)
            gaps, found = [gaps[1 - larger]], [found[1 - larger]]
        for half, gap, result in zip(halves, gaps, found, strict=True):
            if result.words[0] == "wrong":
                heapq.heappush(parts, (-np.inf if np.isnan(gap) else -gap, *half))
        if entries:
            if not parts:
                return entries
            _, low, high = heapq.heappop(parts)
    return entries


def _between(line: Line, low: int, high: int) -> Line:
    """The line, zero except for entries low to high of all its tensors, concatenated."""
    kept, start = {}, 0
    for name, v in line.direction.items():
        here = np.zeros_like(v)
        where = slice(max(low - start, 0), max(high - start, 0))
        here.reshape(-1)[where] = v.reshape(-1)[where]
        if where.start < min(where.stop, v.size):
            kept[name] = here
        start += v.size
    return line._replace(direction=kept)


class Cleared(NamedTuple):
    """A line without the entries that have a kink, and the result along it."""

    line: Line
    word: str
    result: Compared
    kinks: tuple[Entry, ...]  # for equal values, the first
    entries: tuple[Entry, ...]  # that are wrong without a kink

    @property
    def crosses(self) -> bool:
        """Whether it is wrong and has kinks that no single entry causes, or too many."""
        return self.word == "wrong" and not self.entries


def cleared(
    check: Check, choice: str, line: Line, method: str, most: int = 1
) -> Cleared:
    """The line without all entries that make it wrong, or uncertain, by a kink; `most`, how many
    wrong entries are located."""
    evaluate, weights = check.evaluate, check.weights(choice)
    kinks: list[Entry] = []
    while True:
        result = compare_line(check, choice, line, method)
        word = result.words[0]
        if word == "right" or len(kinks) == MOST:
            return Cleared(line, word, result, tuple(kinks), ())
        crosses = find_kink_along(evaluate, weights, line.direction) is not None
        if not crosses and word == "coarse":
            return Cleared(line, word, result, tuple(kinks), ())
        entries = wrong_entries(check, choice, line, method, 1 if crosses else most)
        at = entries[0]
        if find_kink(evaluate, evaluate.inputs, weights, *at) is None:
            alone = compare_line(check, choice, _only(line, *at), method).words[0]
            wrong = word == "wrong" and (not crosses or alone == "wrong")
            return Cleared(line, word, result, tuple(kinks), tuple(entries) if wrong else ())
        kinks.append(at)
        line = _without(line, evaluate.inputs, *at)


def _only(line: Line, name: str, entry: int) -> Line:
    """One entry of the line."""
    alone = np.zeros_like(line.direction[name])
    alone.reshape(-1)[entry] = line.direction[name].reshape(-1)[entry]
    return line._replace(direction={name: alone})


def _without(line: Line, inputs: Arrays, name: str, entry: int) -> Line:
    """The line that does not move the entries of this value."""
    x = inputs[name]
    still = np.where(x == x.reshape(-1)[entry], 0.0, line.direction[name])
    return line._replace(direction={**line.direction, name: still})


# --- by all methods together ----------------------------------------------------------------------


def decided(
    check: Check, choice: str, line: Line, methods: Sequence[str]
) -> tuple[str, tuple[str, ...]]:
    """The status by all methods together of a line that one of them found wrong, and its hint."""
    from grads.check.diagnosis.elsewhere import right_nearby

    weights = check.weights(choice)
    if find_kink_along(check.evaluate, weights, line.direction) is None:
        confirmed = any(compare_line(check, choice, line, method).words[0] == "right"
                        for method in methods)
        return ("disagree", (_apart(methods),)) if confirmed else ("wrong", ())
    results = [(method, cleared(check, choice, line, method)) for method in methods]
    doubtful = [result for _, result in results if result.word == "wrong"]
    if not doubtful or all(right_nearby(check.case, check.evaluate, weights, name)
                           for name in line.direction):
        return "inconclusive", ("random directions cross kinks; beside them the gradient is right",)
    alone = [_only(result.line, *result.entries[0]) for result in doubtful if result.entries]
    if any(all(compare_line(check, choice, entry, method).words[0] == "wrong"
               for method in methods) for entry in alone):
        return "wrong", ()
    return "disagree", (_apart(methods) if alone else "a random direction crosses kinks that "
                        "cannot be told apart: nothing is decided there; check at other values",)


def _apart(methods: Sequence[str]) -> str:
    return f"along a random direction {' and '.join(methods)} disagree"


def with_all_methods(check: Check, row: Row, failed: Sequence[Failed], methods: Sequence[str]
                     ) -> Row:
    """A row that is wrong along directions, with its status by all methods together."""
    order = ("wrong", "disagree", "inconclusive")
    lines = [bad.line for bad in failed if bad.word == "wrong"
             and (bad.choice, bad.line.row) == (row.upstream, row.name)]
    if row.status != "wrong" or len(methods) < 2 or not lines:
        return row
    status, hints = min((decided(check, row.upstream, line, methods) for line in lines),
                        key=lambda pair: order.index(pair[0]))
    return replace(row, status=status, hints=hints)


def joint_rows(check: Check, joint: Sequence[Failed], methods: Sequence[str]) -> list[Row]:
    """The rows of lines over all tensors that are wrong though no tensor is, nor kinks explain
    it."""
    rows = []
    for choice, line, method, word in joint:
        status, hints = decided(check, choice, line, methods) if word == "wrong" else ("ok", ())
        if status in BAD:
            row = _row(check, line.row, choice, method, [(
                line, compare_line(check, choice, line, method))])
            rows.append(replace(row, status=status, hints=hints))
    return rows
