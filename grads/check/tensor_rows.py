"""The row of a tensor whose entries were differentiated: its status, its hints and the diagnosis.

A second method confirms a few of the wrong entries. If it does not, it is applied to all entries
that are not right. Each of these is examined for a kink, where there is no derivative; the report
says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from grads.check.comparison import (
    EXACT,
    SAFETY,
    Check,
    Compared,
    contradictory,
    index_of,
    largest_of,
)
from grads.check.diagnosis.diagnose import diagnose
from grads.check.diagnosis.elsewhere import Probe
from grads.check.diagnosis.evidence import Evidence
from grads.check.diagnosis.places import place
from grads.check.differentiate import Numeric
from grads.check.directions import NOTHING
from grads.check.evaluate import entry_line
from grads.check.halving import SLIGHT, Cleared, decided, slightly_wrong
from grads.check.kinked_entries import Estimates, kinks_of
from grads.check.other_inputs import rounding_alone
from grads.check.precision import rounding_of_inputs
from grads.check.result import ErrorMap, Row
from grads.check.watch import UNSURE, TimeUp, uncovered

CONFIRMED = 4  # wrong entries of a tensor that a second method confirms
UNSURE_SHARE = 4  # if one entry in 4 has fewer than three digits, the tensor is undecided
SPREAD = 100  # ratio of the errors of entries that converge at different rates
ITERATED = 1e-6  # relative difference of two methods up to which both confirm a gradient
ROUNDED = ("fewer than three digits can be had here: the gradient's own rounding is that large (a "
           "saturated function, an ill-conditioned matrix?)")
UNDECIDED = "fewer than three digits can be had here: the function is computed in low precision"
UNSETTLED = "fewer than three digits can be had here: differences settle at no step"
OFFSET = (f"{UNSETTLED}. Are the inputs large beside the changes that matter, as epoch seconds "
          "are? Subtract the offset first")
LARGE = 1e3  # inputs that may have an offset
NAMES = {frozenset({"right"}): "ok", frozenset({"right", "coarse"}): "coarse",
         frozenset({"coarse"}): "inconclusive", frozenset({"right", "wrong"}): "disagree"}


class Examined(NamedTuple):
    """The entries of a tensor that were differentiated."""

    where: np.ndarray  # flat positions
    estimates: Estimates
    planned: int  # how many entries were to be differentiated
    doubtful: list[tuple[str, Cleared]]  # choice, and a line that is wrong without kinks
    coarse: bool  # whether lines through other entries have fewer than three digits


def row_of_tensor(
    check: Check, choice: str, name: str, examined: Mapping[str, Examined],
    methods: Sequence[str], probe: Probe | None,
) -> Row:
    """The row of a tensor for one choice. It is unfinished if the time ends before kinks are ruled
    out. Arguments: probe, for the diagnosis; None: there is none."""
    where, shape = examined[name].where, check.evaluate.inputs[name].shape
    if check.watch.stopped and not len(where):
        return uncovered(name, choice, shape)
    try:
        return _compared_row(check, choice, name, examined, methods, probe)
    except TimeUp:
        return uncovered(name, choice, shape, len(where), (UNSURE,))


def _compared_row(
    check: Check, choice: str, name: str, examined: Mapping[str, Examined],
    methods: Sequence[str], probe: Probe | None,
) -> Row:
    """The row, after a second method has confirmed the first, with kinks and diagnosis."""
    where, estimates = examined[name].where, examined[name].estimates
    gradient, labels = check.analytic[choice][name], check.case.labels.get(name)
    if methods[1:] and methods[1] not in estimates and name not in check.apart:
        _confirm(check, choice, name, estimates, methods[1])
    compared = {method: check.at_limits(choice, name, at, numeric)
                for method, (at, numeric) in estimates.items()}
    status = _statuses(check, choice, name, estimates, compared)
    hints, kinked = kinks_of(check, choice, name, estimates, status)
    first = next(iter(compared.values()))
    bad = where[~np.isfinite(gradient.reshape(-1)[where])].tolist()
    status |= dict.fromkeys(bad, "wrong")
    rounded = rounding_alone(check, choice, name, first, where, status) if not bad else False
    worst = next((k for k in ("wrong", "disagree", "inconclusive") if k in status.values()), "ok")
    unsure = sum(word == "inconclusive" for word in status.values()) - len(set(kinked))
    at = bad[0] if bad else _worst_entry(estimates, compared, status, worst)
    diagnosis = []
    if worst == "wrong" and not bad and probe is not None:
        allowed = np.full(gradient.size, np.nan)
        allowed[where] = first.limit
        kinks = [k for k, word in status.items() if word == "inconclusive"]
        diagnosis = _diagnosis(check, choice, name, examined, allowed, kinks, probe)
    if bad:
        hints = [f"not finite at {index_of(bad[0], gradient.shape)}"]
    elif worst == "inconclusive" and UNSURE_SHARE * unsure >= len(where):
        worst = "undecided"
        exact = check.eps < EXACT and not check.evaluate.in_float32()
        settles = OFFSET if largest_of(check.evaluate.inputs[name]) > LARGE else UNSETTLED
        hints = [ROUNDED if rounded else settles if exact else UNDECIDED, *hints]
    elif worst in ("ok", "inconclusive") and examined[name].coarse and choice == "all":
        worst = "undecided"
        hints = ["fewer than three digits can be had along directions (float32?), and only "
                 f"{len(where)} of {gradient.size} entries were compared (every_entry=True: all)"]
    elif worst in ("wrong", "disagree") and (agreed := _agreed([*compared.values()])):
        known = [hint for hint in diagnosis if "`" in hint] if worst == "wrong" else []
        hints = [*(known or [slightly_wrong(agreed)]), *hints]
    elif worst == "wrong":
        hints = [*diagnosis, *hints]
    elif worst == "disagree":
        hints = [_disagreement(estimates, check, choice, at), *hints]
    elif not hints and gradient.size and not gradient.any() and not first.numeric.any():
        hints = [NOTHING]
    index = () if at is None else index_of(at, gradient.shape)
    numeric = first.numeric[where == at]
    return Row(
        name, choice, gradient.shape, len(where), 0,
        sum(word == "inconclusive" for word in status.values()),
        {method: float(result.relative[np.isfinite(result.numeric)].max(initial=0.0))
         for method, result in compared.items() if not check.left_out(method, result.numeric)},
        worst, index, place(labels, index), 0.0 if at is None else float(gradient.reshape(-1)[at]),
        float(numeric[0]) if len(numeric) else 0.0, tuple(hints), ErrorMap(
            where, first.relative, np.array([status[int(k)] for k in where], object),
            next(iter(estimates)), labels.axes if labels else ()))


@np.errstate(all="ignore")
def _agreed(results: Sequence[Compared]) -> int:
    """The number of digits to which a slightly wrong gradient agrees, 0 if it is no iteration's.

    The error of an iteration is in most entries, or its sizes differ widely, since each entry
    converges at its own rate. Arguments: results of the methods.
    """
    compared = max(results, key=lambda result: (result.words == "wrong").sum())
    gap, wrong = np.abs(compared.analytic - compared.numeric), compared.words == "wrong"
    largest = float(np.abs(compared.numeric).max(initial=0.0))
    digits = -np.log10(gap.max(initial=0.0) / largest)
    iterated = 2 * wrong.sum() >= len(gap) or (
        gap[wrong].max(initial=0.0) > SPREAD * gap[wrong].min(initial=np.inf))
    return int(digits) if iterated and SLIGHT <= digits < np.inf else 0


def _confirm(check: Check, choice: str, name: str, estimates: Estimates, method: str) -> None:
    """Differentiate the worst entries by a second method, too. If it does not confirm that they are
    wrong, differentiate all entries that are not right. Updates `estimates`."""
    ((where, numeric),) = estimates.values()
    result = check.at_limits(choice, name, where, numeric)
    order = np.argsort(-np.nan_to_num(result.excess, nan=np.inf), kind="stable")
    bad = where[order[result.words[order] != "right"]]
    for at in (bad[:CONFIRMED], np.sort(bad)):
        if len(at) > len(estimates.get(method, ((), ()))[0]):
            estimates[method] = (at, check.at(name, at, method))
            compared = check.at_limits(choice, name, *estimates[method])
            if (compared.words == "wrong").all() and not _apart(
                    check, choice, name, estimates).size:
                return


def _apart(check: Check, choice: str, name: str, estimates: Estimates) -> np.ndarray:
    """The flat positions at which two methods contradict each other, whatever the gradient is."""
    if len(estimates) < 2:
        return np.zeros(0, np.int64)
    (where, first), (again, second) = estimates.values()
    order = np.argsort(where)
    rows = order[np.searchsorted(where, again, sorter=order)]
    first = check.through(Numeric(*(values[:, rows] for values in first)), choice)
    largest = max(check.largest[choice][name], largest_of(first.value))
    return again[contradictory(first, check.through(second, choice), largest,
                               max(check.largest[choice].values()))]


def _statuses(
    check: Check, choice: str, name: str, estimates: Estimates, compared: Mapping[str, Compared]
) -> dict[int, str]:
    """Flat position -> the status by all methods together, before the search for kinks.

    If two methods contradict each other, nothing is certainly wrong. An uncertain method may reject
    a gradient, but cannot confirm it. A gradient is "coarse" if one method confirms it and another
    is too uncertain.
    """
    said: dict[int, list[str]] = {}
    for method, (where, _) in estimates.items():
        for position, word in zip(where.tolist(), compared[method].words, strict=True):
            said.setdefault(position, []).append(word)
    status = {position: NAMES.get(frozenset(words), "wrong") for position, words in said.items()}
    status |= dict.fromkeys(_apart(check, choice, name, estimates).tolist(), "disagree")
    doubtful = {position: word for position, word in status.items()
                if word == "disagree" or {"wrong", "coarse"} == set(said[position])}
    near = _near_enough(check, choice, name, estimates, doubtful) if doubtful else set()
    return status | dict.fromkeys(near, "right")


def _near_enough(
    check: Check, choice: str, name: str, estimates: Estimates, doubtful: Mapping[int, str]
) -> set[int]:
    """The flat positions at which the gradient is right as far as can be known.

    If two methods disagree, but agree to most digits, and the gradient is as near to both as these
    are to each other, a function that iterates to a tolerance is right. So is a gradient that is as
    near to the complex step as the last bits of the inputs allow. Arguments: doubtful, the statuses
    of the flat positions.
    """
    first, second = (dict(zip(where.tolist(), check.through(numeric, choice).value, strict=True))
                     for where, numeric in estimates.values())
    common = first.keys() & second.keys()
    apart = max(abs(first[k] - second[k]) for k in common)
    largest = max(check.largest[choice][name], largest_of(np.array([*first.values()])))
    if not apart <= ITERATED * largest:
        return set()
    gradient, places = check.analytic[choice][name].reshape(-1), sorted(doubtful.keys() & common)
    lines = [entry_line(check.evaluate.inputs, name, k) for k in places]
    inexact = rounding_of_inputs(check, choice, lines) if check.evaluate.complex_step else (
        np.zeros(len(places)))
    gaps = [(abs(gradient[k] - first[k]), abs(gradient[k] - second[k])) for k in places]
    return {k for k, gap, change in zip(places, gaps, inexact, strict=True)
            if gap[0] <= SAFETY * change
            or (doubtful[k] == "disagree" and max(gap) <= SAFETY * apart)}


def _worst_entry(
    estimates: Estimates, compared: Mapping[str, Compared], status: Mapping[int, str], worst: str
) -> int | None:
    """The flat position with the largest error among the entries of the row's status, or among
    all entries: those of a row that is right may be right in several ways."""
    best, chosen = -1.0, None
    fits = {worst} if worst in status.values() else {*status.values()}
    for method, (where, _) in estimates.items():
        for position, excess in zip(where.tolist(), compared[method].excess, strict=True):
            if status[position] in fits and (excess > best or np.isnan(excess)):
                best, chosen = float(excess), position
    return chosen


def _disagreement(estimates: Estimates, check: Check, choice: str, at: int | None) -> str:
    """The sentence that says how the methods disagree about an entry."""
    said = [f"{method} {value:.9g}" for method, (where, numeric) in estimates.items()
            for value in check.through(numeric, choice).value[where == at]]
    return (f"the methods disagree: {', '.join(said)}; the function computes something else with "
            "complex numbers, or is noisy: nothing is decided")


def _diagnosis(
    check: Check, choice: str, name: str, examined: Mapping[str, Examined], allowed: np.ndarray,
    kinks: list[int], probe: Probe,
) -> list[str]:
    """The diagnosis of the mistake, and on how many entries it rests. Entries at kinks are left
    out."""
    inputs, gradients = check.evaluate.inputs, check.analytic[choice]

    def numeric(tensor: str) -> np.ndarray:
        if tensor not in examined:  # its directions were right
            return gradients[tensor]
        where, numbers = next(iter(examined[tensor].estimates.values()))
        full = np.full(inputs[tensor].size, np.nan)
        full[where] = check.through(numbers, choice).value
        full[kinks if tensor == name else []] = np.nan
        return full.reshape(inputs[tensor].shape)

    other_gradients = {tensor: numeric(tensor) for tensor in gradients if tensor != name}
    evidence = Evidence(
        name, gradients[name], numeric(name), allowed.reshape(inputs[name].shape),
        check.case.labels.get(name), inputs, other_gradients, check.upstream,
        check.evaluate.outputs)
    if choice != "all" and probe.mended and name in probe.mended:  # already explained
        return []
    try:
        hints = diagnose(evidence, probe if choice == "all" else None)
    except TimeUp:  # the gradient is wrong, whatever the mistake
        return []
    checked, size = len(examined[name].where), inputs[name].size
    return hints + [f"this rests on {checked} of {size} entries (every_entry=True: on all)"] * (
        bool(hints) and checked < size)


def led_to(check: Check, methods: Sequence[str], choice: str, result: Cleared) -> Row:
    """The row of a wrong direction in which halving has found no entry that is wrong alone.

    If several tensors meet in one kink, it may take all of them to cross it.
    """
    known = [*result.kinks, *result.entries[:1]]
    name = known[-1][0] if known else next(iter(result.line.direction))
    shape = check.evaluate.inputs[name].shape
    status, hints = decided(check, choice, result.line, methods)
    at = index_of(known[-1][1], shape) if known else ()
    return Row(
        name, "direction", shape, 0, 1, 0, {"directions": float(result.result.relative[0])}, status,
        at, place(check.case.labels.get(name), at) if known else "a random direction",
        float(result.result.analytic[0]), float(result.result.numeric[0]),
        hints or ("a random direction is wrong; halving it led to this entry",))
