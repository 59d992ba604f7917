"""Compares the entries of a tensor that failed along a direction: which are wrong, and why?

All entries of a small tensor are differentiated by the first, most exact method. Of a larger tensor
it differentiates the entries to which halving the direction has led, the rows and columns through
the worst of them, and a sample of every block, so that the diagnosis (`grads.check.diagnosis`) sees
patterns. A second method confirms a few of the wrong entries. If it does not, it is applied to all
entries that are not right. Each of these is examined for a kink, where there is no derivative; the
report says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from grads.check.case import Labels
from grads.check.comparison import SAFETY, Check, Compared, contradictory, index_of, largest_of
from grads.check.diagnosis.diagnose import diagnose
from grads.check.diagnosis.elsewhere import Probe
from grads.check.diagnosis.evidence import Evidence
from grads.check.diagnosis.places import place
from grads.check.differentiate import Numeric, real_direction, second_direction
from grads.check.directions import (
    LOCATED,
    NOTHING,
    TOGETHER,
    Cleared,
    Failed,
    along_directions,
    cleared,
    decided,
    joint_rows,
    lines_together,
    narrowed,
    refined,
    with_all_methods,
)
from grads.check.evaluate import NotAnalytic
from grads.check.kinked_entries import Estimates, kinks_of
from grads.check.other_inputs import rounding_alone
from grads.check.precision import is_ill_conditioned
from grads.check.result import BAD, ErrorMap, Row
from grads.check.watch import UNSURE, TimeUp, unconfirmed, uncovered

ALL = 1024  # entries that are differentiated if directions have too few digits; by complex step 16
# times as many
LINES = 8  # most lines along which wrong entries and kinks are located
SHARE = 4  # one entry in 4 of a sample is chosen at random
CONFIRMED = 4  # wrong entries of a tensor that a second method confirms
UNSURE_SHARE = 4  # if one entry in 4 has fewer than three digits, the tensor is undecided
SLIGHT = 5  # if wrong entries agree to 5 digits, the function may be an iteration
SPREAD = 100  # ratio of the errors of entries that converge at different rates
ITERATED = 1e-6  # relative difference of two methods up to which both confirm a gradient
ROUNDED = ("fewer than three digits can be had here: the gradient's own rounding is that large (a "
           "saturated function, an ill-conditioned matrix?)")
UNDECIDED = "fewer than three digits can be had here: the function is computed in low precision"
NAMES = {frozenset({"right"}): "ok", frozenset({"right", "coarse"}): "coarse",
         frozenset({"coarse"}): "inconclusive", frozenset({"right", "wrong"}): "disagree"}


def doubted_rows(
    check: Check, wanted: Sequence[str], names: Sequence[str], how: Any, methods: Sequence[str],
    failed: list[Failed], rng: np.random.Generator,
) -> list[Row]:
    """The rows where a line failed, or entries are to be differentiated one by one.

    Arguments: wanted, the tensors; names of those with entries; how, a `grads.check.Extent`; failed
    lines. Raises NotAnalytic if the complex step does not suit the function.
    """
    if names and methods[0] == "complex":
        _validate_complex_step(check, names, methods, rng)
    if how.every_entry:
        return check_entries(check, wanted, methods, None, (), rng, all_methods=True)
    if failed and is_ill_conditioned(check):
        failed = along_directions(check, names, how, methods, rng)
    joint = [bad for bad in failed if bad.line.row == TOGETHER]
    single = [bad for bad in failed if bad.line.row != TOGETHER]
    single += narrowed(check, joint, {bad.line.row for bad in single})
    single = refined(check, single)
    sampled, rows = how.sample is not None, check.rows
    if how.diagnosis or sampled:
        chosen = [name for name in names
                  if sampled or any(bad.line.row == name for bad in single)]
        rows = merged(rows, check_entries(check, chosen, methods, how.sample or how.diagnosis,
                                          single, rng, all_methods=sampled))
    else:
        rows = [with_all_methods(check, row, failed, methods) for row in rows]
    if joint and not any(row.status in BAD for row in rows):
        rows += joint_rows(check, joint, methods)
    return rows


def _validate_complex_step(
    check: Check, names: Sequence[str], methods: Sequence[str], rng: np.random.Generator
) -> None:
    """Raise NotAnalytic if the complex step does not suit the function."""
    evaluate = check.evaluate
    line = lines_together(evaluate.inputs, names, rng, 1, True)[0]
    slope = check.along([line], "complex")
    why = second_direction(evaluate, check.upstream, line, slope)
    if not np.isfinite(slope.value).all():
        why = "f: what is finite for real arguments is not for complex ones"
    elif len(methods) == 1 and not why:
        why = real_direction(evaluate, check.upstream, line, slope)
    if why:
        raise NotAnalytic(why)


class Examined(NamedTuple):
    """The entries of a tensor that were differentiated."""

    where: np.ndarray  # flat positions
    estimates: Estimates
    planned: int  # how many entries were to be differentiated
    doubtful: list[tuple[str, Cleared]]  # choice, and a line that is wrong without kinks
    coarse: bool  # whether lines through other entries have fewer than three digits


def check_entries(
    check: Check, names: Sequence[str], methods: Sequence[str], sample: int | None,
    failed: Sequence[Failed], rng: np.random.Generator, *, all_methods: bool = False,
) -> list[Row]:
    """A row for every tensor, and one for every output alone through which a tensor is wrong.

    Arguments: names of the tensors; methods that suit the function, the most exact method first;
    sample, the number of entries of a larger tensor, None for all; failed, the lines along which a
    gradient was not right; all_methods, whether each entry is differentiated by all methods.
    """
    examined: dict[str, Examined] = {}
    for name in names:
        lines = [bad for bad in failed if name in bad.line.direction and bad.line.row == name]
        two_methods = all_methods or any(bad.method != methods[0] for bad in lines)
        try:
            where, doubtful = _chosen(check, name, sample, lines, rng, at_random=all_methods)
        except TimeUp:
            where, doubtful = np.zeros(0, np.int64), []
        estimates = _estimates(check, name, where, methods if two_methods else methods[:1])
        coarse = any(bad.word == "coarse" for bad in lines) and len(where) < (
            check.evaluate.inputs[name].size)
        examined[name] = Examined(next(iter(estimates.values()))[0], estimates, len(where),
                                  doubtful, coarse)
    rows = []
    for choice in check.analytic:
        for name in names:
            row = _row(check, choice, name, examined, methods)
            rows += [row] if choice == "all" or row.status in BAD else []
    if check.watch.stopped:
        return [replace(row, status="unfinished") if row.status in ("ok", "inconclusive")
                and row.checked < examined[row.name].planned else row for row in rows]
    bad = {(row.name, row.upstream) for row in rows if row.status in BAD}
    try:
        rows += [_led_to(check, methods, choice, line) for name in names
                 for choice, line in examined[name].doubtful if (name, choice) not in bad]
    except TimeUp:
        pass
    return rows


def merged(rows: Sequence[Row], by_entries: Sequence[Row]) -> list[Row]:
    """The rows of a check along directions. A tensor whose entries were differentiated has the row
    of its entries instead, unless that covers fewer entries."""
    entries = {row.name: row for row in by_entries if row.upstream == "all"}
    first = [_both(row, entries.pop(row.name)) if row.name in entries else row for row in rows
             if row.upstream == "all" and (row.shape is not None or row.status == "ok")]
    return [*first, *entries.values(), *(row for row in by_entries if row.upstream != "all")]


def _both(row: Row, entries: Row) -> Row:
    """The row of a tensor's entries with the results of its directions."""
    if entries.status == "unfinished" and entries.checked <= row.checked:
        return unconfirmed(row)
    errors = {kind: error for kind, error in row.errors.items() if kind == "directions"}
    return replace(entries, directions=row.directions, errors={**entries.errors, **errors})


# --- which entries --------------------------------------------------------------------------------


def _chosen(
    check: Check, name: str, sample: int | None, failed: Sequence[Failed],
    rng: np.random.Generator, *, at_random: bool,
) -> tuple[np.ndarray, list[tuple[str, Cleared]]]:
    """The flat positions to differentiate, and the lines that are wrong without kinks."""
    gradient = check.analytic["all"][name]
    if any(bad.word == "coarse" for bad in failed):
        sample = max(sample, ALL * (1 if check.evaluate.noise else 16)) if sample else sample
    if sample is None or gradient.size <= sample:
        return np.arange(gradient.size), []
    unfinite = np.flatnonzero(~np.isfinite(gradient))
    if len(unfinite):
        return unfinite[:sample], []
    share = sample if at_random else sample // SHARE
    where = choose(gradient, check.case.labels.get(name), share, rng)
    doubtful: list[tuple[str, Cleared]] = []
    lines = sorted(failed, key=lambda bad: bad.word)[::-1]  # wrong ones, then coarse ones
    for bad in lines[:LINES]:
        if bad.line.entry is not None:
            where = np.union1d(where, [bad.line.entry])
            continue
        if any(choice == bad.choice and known.entries for choice, known in doubtful):
            continue  # another line has led to wrong entries
        result = cleared(check, bad.choice, bad.line, bad.method, LOCATED)
        led_to = [entry for _, entry in (*result.kinks, *result.entries)]
        where = np.union1d(where, np.array(led_to, np.int64))
        doubtful += [(bad.choice, result)] * (result.word == "wrong")
    for entry in dict.fromkeys(entry for _, result in doubtful for _, entry in result.entries):
        for line in _through(entry, gradient.shape):
            if len(where) + len(line) <= sample:
                where = np.union1d(where, line)
    return where, doubtful


def _through(entry: int, shape: tuple[int, ...]) -> list[np.ndarray]:
    """The flat positions of the rows, columns and so on through an entry."""
    grid, at = np.arange(np.prod(shape)).reshape(shape), index_of(entry, shape)
    return [np.moveaxis(grid, axis, -1)[at[:axis] + at[axis + 1:]] for axis in range(len(shape))]


def choose(
    gradient: np.ndarray, labels: Labels | None, sample: int, rng: np.random.Generator
) -> np.ndarray:
    """Flat positions to check, ascending: a sample stratified over the tensor's blocks.

    Each block gives the same number of entries. Half of them have a gradient that is not zero.
    """
    positions = np.arange(gradient.size)
    grid = positions.reshape(gradient.shape)
    strata = [grid[block.where].reshape(-1) for block in labels.blocks] if labels else []
    strata = [stratum for stratum in strata if stratum.size] or [positions]
    share, kept = -(-sample // len(strata)), []
    for stratum in strata:
        nonzero = rng.permutation(stratum[gradient.reshape(-1)[stratum] != 0])[: (share + 1) // 2]
        remaining = rng.permutation(np.setdiff1d(stratum, nonzero))[: share - len(nonzero)]
        kept += [nonzero, remaining]
    return np.unique(np.concatenate(kept))


def _estimates(check: Check, name: str, where: np.ndarray, methods: Sequence[str]) -> Estimates:
    """The derivatives at the positions. If the time is up, only at the first of them."""
    nothing = Numeric(*(np.zeros((len(check.upstream), 0)) for _ in range(3)))
    made: dict[str, list[Numeric]] = {method: [nothing] for method in methods}
    covered = 0
    try:
        for positions in check.watch.parts(where):
            by_method = {method: check.at(name, positions, method) for method in methods}
            for method, numeric in by_method.items():
                made[method].append(numeric)
            covered += len(positions)
            check.watch.tell(f"entries of {name}", covered, len(where))
    except TimeUp:
        pass
    return {method: (where[:covered], Numeric(*(np.concatenate(parts, axis=1) for parts in zip(
        *several, strict=True)))) for method, several in made.items()}


# --- the row of a tensor --------------------------------------------------------------------------


def _row(
    check: Check, choice: str, name: str, examined: Mapping[str, Examined],
    methods: Sequence[str],
) -> Row:
    """The row of a tensor for one choice. It is unfinished if the time ends before kinks are ruled
    out."""
    where, shape = examined[name].where, check.evaluate.inputs[name].shape
    if check.watch.stopped and not len(where):
        return uncovered(name, choice, shape)
    try:
        return _compared_row(check, choice, name, examined, methods)
    except TimeUp:
        return uncovered(name, choice, shape, len(where), (UNSURE,))


def _compared_row(
    check: Check, choice: str, name: str, examined: Mapping[str, Examined],
    methods: Sequence[str],
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
    if bad:
        hints = [f"not finite at {index_of(bad[0], gradient.shape)}"]
    elif worst == "inconclusive" and UNSURE_SHARE * unsure >= len(where):
        worst = "undecided"
        hints = [ROUNDED if rounded else UNDECIDED, *hints]
    elif worst in ("ok", "inconclusive") and examined[name].coarse and choice == "all":
        worst = "undecided"
        hints = ["fewer than three digits can be had along directions (float32?), and only "
                 f"{len(where)} of {gradient.size} entries were compared (every_entry=True: all)"]
    elif worst in ("wrong", "disagree") and (agreed := _agreed([*compared.values()])):
        hints = [f"agrees to {agreed} digits: does the function iterate to a tolerance? "
                 f"rtol=1e-{agreed - 1}", *hints]
    elif worst == "wrong":
        allowed = np.full(gradient.size, np.nan)
        allowed[where] = first.limit
        kinks = [k for k, word in status.items() if word == "inconclusive"]
        hints = [*_diagnosis(check, choice, name, examined, allowed, kinks), *hints]
    elif worst == "disagree":
        hints = [_disagreement(estimates, check, choice, at), *hints]
    elif gradient.size and not gradient.any() and not first.numeric.any():
        hints = [NOTHING]
    index = () if at is None else index_of(at, gradient.shape)
    numeric = first.numeric[where == at]
    return Row(
        name, choice, gradient.shape, len(where), 0,
        sum(word == "inconclusive" for word in status.values()),
        {method: float(result.relative.max(initial=0.0)) for method, result in compared.items()},
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
    doubtful = {position for position, word in status.items() if word == "disagree"}
    near = _near_enough(check, choice, name, estimates) if doubtful else set()
    return status | dict.fromkeys(doubtful & near, "right")


def _near_enough(check: Check, choice: str, name: str, estimates: Estimates) -> set[int]:
    """The flat positions at which the gradient is as near to both methods as these are to each
    other, if they agree to most digits: a function that iterates to a tolerance is right there."""
    first, second = (dict(zip(where.tolist(), check.through(numeric, choice).value, strict=True))
                     for where, numeric in estimates.values())
    common = first.keys() & second.keys()
    apart = max(abs(first[k] - second[k]) for k in common)
    largest = max(check.largest[choice][name], largest_of(np.array([*first.values()])))
    if apart > ITERATED * largest:
        return set()
    gradient = check.analytic[choice][name].reshape(-1)
    return {k for k in common if max(abs(gradient[k] - first[k]), abs(gradient[k] - second[k]))
            <= SAFETY * apart}


def _worst_entry(
    estimates: Estimates, compared: Mapping[str, Compared], status: Mapping[int, str], worst: str
) -> int | None:
    """The flat position with the largest error among the entries of the row's status."""
    best, chosen = -1.0, None
    for method, (where, _) in estimates.items():
        for position, excess in zip(where.tolist(), compared[method].excess, strict=True):
            if status[position] == worst and (excess > best or np.isnan(excess)):
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
    kinks: list[int],
) -> list[str]:
    """The diagnosis of the mistake, and on how many entries it rests. Entries at kinks are left
    out."""
    inputs, gradients = check.evaluate.inputs, check.analytic

    def numeric(tensor: str, upstream_choice: str) -> np.ndarray:
        if tensor not in examined:  # its directions were right
            return gradients[upstream_choice][tensor]
        where, numbers = next(iter(examined[tensor].estimates.values()))
        full = np.full(inputs[tensor].size, np.nan)
        full[where] = check.through(numbers, upstream_choice).value
        full[kinks if tensor == name else []] = np.nan
        return full.reshape(inputs[tensor].shape)

    alone = {output: (gradients[output][name], numeric(name, output))
             for output in check.upstream if output in gradients}
    other_gradients = {tensor: numeric(tensor, choice)
                       for tensor in gradients[choice] if tensor != name}
    evidence = Evidence(
        name, gradients[choice][name], numeric(name, choice), allowed.reshape(inputs[name].shape),
        check.case.labels.get(name), alone if choice == "all" else {}, inputs, check.case.labels,
        check.case.facts, other_gradients, check.upstream, check.evaluate.outputs)
    probe = Probe(check.case, check.evaluate,
                  "complex" if check.evaluate.complex_step else "central")
    try:
        hints = diagnose(evidence, probe if choice == "all" else None)
    except TimeUp:  # the gradient is wrong, whatever the mistake
        return []
    checked, size = len(examined[name].where), inputs[name].size
    return hints + [f"this rests on {checked} of {size} entries (every_entry=True: on all)"] * (
        bool(hints) and checked < size)


def _led_to(check: Check, methods: Sequence[str], choice: str, result: Cleared) -> Row:
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
