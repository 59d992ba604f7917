"""Halves a direction along which a gradient is wrong, to find the wrong entries.

Along a direction through a kink there is no derivative. The complex step gives the slope of one
side, Ridders' differences give the mean of both sides, and a right gradient may differ from both.
An entry with a kink is left out of the direction, together with all entries of the same value
(zeros before a ReLU), and the remaining direction is compared again.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from grads.check.comparison import COARSE, SAFETY, Check, Compared
from grads.check.diagnosis.elsewhere import right_beside
from grads.check.directions import Arrays, Failed, check_lines, compare_line, row_of
from grads.check.evaluate import Line
from grads.check.kinks import find_kink, find_kink_along
from grads.check.precision import rounding_of_inputs
from grads.check.result import BAD, Row

SLIGHT = 5  # if wrong entries agree to 5 digits, the function may be an iteration
HALVINGS = 32  # most parts of a line that are halved to locate wrong entries
LOCATED = 8  # most wrong entries that are located
PIECES = 4096  # most pieces of a line
ALIKE = (0.5, 1.0)  # sizes of a piece's entries
MOST = 48  # most kinks along a direction, of different values, that are left out

Entry = tuple[str, int]  # tensor and flat position


def refined(check: Check, failed: Sequence[Failed]) -> list[Failed]:
    """The lines that fail. A line with fewer than three digits is cut into pieces first: errors add
    up over fewer entries there, so the pieces have three digits."""
    failing = []
    for bad in failed:
        ends = _ends_of_pieces(check, bad)
        for low, high in pairwise(ends):
            piece = _balanced(_between(bad.line, low, high), check.analytic[bad.choice], bad.method)
            failing += check_lines(check, [piece], bad.method)[1]
        failing += [] if ends else [bad]
    return failing


def _ends_of_pieces(check: Check, bad: Failed) -> Sequence[int]:
    """Where to cut a line that has fewer than three digits, so that its pieces have three; empty if
    they would be too many."""
    choice, line, method, word = bad
    if word != "coarse" or line.entry is not None or not check.largest[choice][line.row]:
        return []
    size, enough = line.direction[line.row].size, COARSE * check.largest[choice][line.row]
    cut = _balanced(line, check.analytic[choice], method)
    number = 3 * (float(compare_line(check, choice, cut, method).limit[0]) / enough) ** 2
    if not number < min(PIECES, size / 2):
        return []
    return np.linspace(0, size, 2 + int(number)).astype(int).tolist()


def _balanced(line: Line, gradients: Arrays, method: str) -> Line:
    """The line with other signs, so that little is left of the sum of gradient * v, and so little
    of its rounding: the products alternate in the order of their sizes. None of them is far larger
    than the others. For differences it is the line itself, which may cross a kink."""
    if method != "complex":
        return line
    (name, v), = line.direction.items()
    v = np.clip(np.abs(v), *ALIKE) * (v != 0)
    products = (gradients[name] * v).reshape(-1)
    where = np.flatnonzero(products)
    order = where[np.argsort(-np.abs(products[where]))]
    signs = np.ones(products.size)
    signs[order] = np.sign(products[order]) * (-1.0) ** np.arange(order.size)
    return line._replace(direction={name: v * signs.reshape(v.shape)})


def narrowed(check: Check, joint: Sequence[Failed], known: Collection[str]) -> list[Failed]:
    """The failing lines of single tensors, from failing lines over several tensors.

    Arguments: joint, the lines over several tensors; known, tensors that are known to fail and are
    left out.
    """
    failing = []
    for choice, line, method, _ in joint:
        parts = [Line({name: v}, name) for name, v in line.direction.items() if name not in known]
        failing += [bad for bad in check_lines(check, parts, method)[1] if bad.choice == choice]
    return failing


# --- the entries that are wrong -------------------------------------------------------------------


def wrong_entries(check: Check, choice: str, line: Line, method: str, most: int) -> list[Entry]:
    """The entries that make a line wrong, the worst first: at least one, at most `most`.

    Bisection leads to the first entry: of two halves, the half with the larger error is taken. It
    needs 2 log2(n) derivatives for n entries. Then other wrong parts are halved, the part with the
    largest error first.
    """
    ends = np.cumsum([v.size for v in line.direction.values()])
    entries: list[Entry] = []
    parts: list[tuple[float, int, int]] = []  # the wrong parts: minus the error, start, end
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
        results = [check.along_limits(choice, half, numeric, k) for k, half in enumerate(lines)]
        gaps = [float(abs(result.analytic[0] - result.numeric[0])) for result in results]
        if not entries:
            larger = int(gaps[1] > gaps[0] or np.isnan(gaps[1]))
            low, high = halves.pop(larger)
            gaps, results = [gaps[1 - larger]], [results[1 - larger]]
        for half, gap, result in zip(halves, gaps, results, strict=True):
            if result.words[0] == "wrong":
                heapq.heappush(parts, (-np.inf if np.isnan(gap) else -gap, *half))
        if entries:
            if not parts:
                return entries
            _, low, high = heapq.heappop(parts)
    return entries


def _between(line: Line, low: int, high: int) -> Line:
    """The line restricted to entries low to high of all its tensors, concatenated."""
    kept, start = {}, 0
    for name, v in line.direction.items():
        kept_part = np.zeros_like(v)
        where = slice(max(low - start, 0), max(high - start, 0))
        kept_part.reshape(-1)[where] = v.reshape(-1)[where]
        if where.start < min(where.stop, v.size):
            kept[name] = kept_part
        start += v.size
    return line._replace(direction=kept)


class Cleared(NamedTuple):
    """A line without the entries that have a kink, and the result along it."""

    line: Line
    word: str
    result: Compared
    kinks: tuple[Entry, ...]  # of entries with equal values, the first
    entries: tuple[Entry, ...]  # entries that are wrong and have no kink


def cleared(
    check: Check, choice: str, line: Line, method: str, most: int = 1
) -> Cleared:
    """The line without the entries that make it wrong or uncertain by a kink. At most `most` wrong
    entries are located."""
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
    """The line without the entry, and without all entries of the same value."""
    x = inputs[name]
    still = np.where(x == x.reshape(-1)[entry], 0.0, line.direction[name])
    return line._replace(direction={**line.direction, name: still})


# --- by all methods together ----------------------------------------------------------------------


def decided(
    check: Check, choice: str, line: Line, methods: Sequence[str]
) -> tuple[str, tuple[str, ...]]:
    """The status of a line that one method found wrong, by all methods together, and its hints."""
    weights = check.weights(choice)
    if find_kink_along(check.evaluate, weights, line.direction) is None:
        results = [compare_line(check, choice, line, method) for method in methods]
        words = {result.words[0] for result in results}
        errors = [result.relative[0] for result in results if result.words[0] == "wrong"]
        with np.errstate(all="ignore"):
            digits = int(min(-np.log10(max(errors)), 15)) if errors and max(errors) > 0 else 0
        agreed = (slightly_wrong(digits),) * (SLIGHT <= digits)
        if words == {"wrong"}:
            return "wrong", agreed
        if methods[0] == "complex" and all(other.words[0] != "wrong" for other in results[1:]):
            change = rounding_of_inputs(check, choice, [line])
            if abs(results[0].analytic - results[0].numeric) <= SAFETY * change:
                return "ok", ()
        return ("disagree", (_apart(methods), *agreed)) if "right" in words else ("wrong", agreed)
    doubtful = [result for method in methods
                if (result := cleared(check, choice, line, method)).word == "wrong"]
    if not doubtful or all(right_beside(check, weights, name) for name in line.direction):
        return "inconclusive", ("random directions cross kinks; beside them the gradient is right",)
    alone = [_only(result.line, *result.entries[0]) for result in doubtful if result.entries]
    if any(all(compare_line(check, choice, entry, method).words[0] == "wrong"
               for method in methods) for entry in alone):
        return "wrong", ()
    return "disagree", (_apart(methods) if alone else "a random direction crosses kinks that "
                        "cannot be told apart: nothing is decided there; check at other values",)


def slightly_wrong(digits: int) -> str:
    """The hint on a gradient that agrees to most digits."""
    return (f"agrees to {digits} digits: a rounded constant, an epsilon, or an iteration to a "
            f"tolerance? rtol=1e-{digits - 1}")


def _apart(methods: Sequence[str]) -> str:
    return f"along a random direction {' and '.join(methods)} disagree"


def with_all_methods(check: Check, row: Row, failed: Sequence[Failed], methods: Sequence[str]
                     ) -> Row:
    """The row with its status by all methods together, if one method found it wrong."""
    order = ("wrong", "disagree", "inconclusive", "ok")
    lines = [bad.line for bad in failed if bad.word == "wrong"
             and (bad.choice, bad.line.row) == (row.upstream, row.name)]
    if row.status != "wrong" or len(methods) < 2 or not lines:
        return row
    status, hints = min((decided(check, row.upstream, line, methods) for line in lines),
                        key=lambda pair: order.index(pair[0]))
    return replace(row, status=status, hints=hints)


def joint_rows(check: Check, joint: Sequence[Failed], methods: Sequence[str]) -> list[Row]:
    """The rows of lines over all tensors that are wrong, although no tensor is wrong alone and no
    kink explains it."""
    rows = []
    for choice, line, method, word in joint:
        status, hints = decided(check, choice, line, methods) if word == "wrong" else ("ok", ())
        if status in BAD:
            row = row_of(check, line.row, choice, method, [(
                line, compare_line(check, choice, line, method))])
            rows.append(replace(row, status=status, hints=hints))
    return rows
