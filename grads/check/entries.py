"""Compares the entries of a tensor that failed along a direction: which are wrong, and why?

All entries of a small tensor are differentiated by the first, most exact method. Of a larger tensor
it differentiates the entries to which halving the direction has led, the rows and columns through
the worst of them, and a sample of every block, so that the diagnosis (`grads.check.diagnosis`) sees
patterns. `grads.check.tensor_rows` makes the rows of the report.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from grads.check.analyticity import real_direction, second_direction
from grads.check.case import Labels
from grads.check.comparison import COARSE, Check, index_of
from grads.check.diagnosis.elsewhere import Probe
from grads.check.differentiate import Numeric
from grads.check.directions import (
    TOGETHER,
    Failed,
    along_directions,
    compare_line,
    lines_together,
)
from grads.check.evaluate import NotAnalytic
from grads.check.halving import (
    LOCATED,
    Cleared,
    cleared,
    joint_rows,
    narrowed,
    refined,
    with_all_methods,
)
from grads.check.kinked_entries import Estimates
from grads.check.kinks import find_kink
from grads.check.precision import is_ill_conditioned
from grads.check.result import BAD, Row
from grads.check.tensor_rows import Examined, led_to, row_of_tensor
from grads.check.watch import TimeUp, unconfirmed

ALL = 1024  # entries that are differentiated if directions have too few digits; by complex step 16
# times as many
MOST = 320  # entries that are differentiated for the diagnosis if several tensors are wrong
LEAST = 64  # of each of them
LOCATE_ONE = 32  # entries of a sample for each wrong entry that is located
LINES = 8  # most lines along which wrong entries and kinks are located
FEW = 6  # entries that are all wrong where a mistake is everywhere
SLIGHT = 1e-5  # relative error along a line; that of an ill-conditioned function may be rounding
SHARE = 4  # one entry in 4 of a sample is chosen at random


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
    coarse = {bad.line.row for bad in single}
    single = refined(check, single)
    in_pieces = coarse - {bad.line.row for bad in single}  # which have three digits
    rows = [replace(row, status="ok", inconclusive=0, floor=COARSE)
            if row.name in in_pieces else row for row in check.rows]
    sampled = how.sample is not None
    diagnosed = bool(how.diagnosis) or sampled
    if not diagnosed:
        wrong = {(bad.choice, bad.line.row) for bad in single if bad.word == "wrong"}
        rows = [replace(row, status="wrong") if (row.upstream, row.name) in wrong else row
                for row in rows]
        rows = [with_all_methods(check, row, [*single, *joint], methods) for row in rows]
    doubted = {bad.line.row for bad in single if diagnosed or _is_slight(check, bad, methods[0])}
    chosen = [name for name in names if sampled or name in doubted]
    if chosen or diagnosed:
        sample = how.sample or min(how.diagnosis or LEAST, max(LEAST, MOST // max(1, len(chosen))))
        rows = merged(rows, check_entries(check, chosen, methods, sample, single, rng,
                                          all_methods=sampled, diagnosed=diagnosed))
    if joint and not any(row.status in BAD for row in rows):
        rows += joint_rows(check, joint, methods)
    return rows


def _is_slight(check: Check, bad: Failed, method: str) -> bool:
    """Whether a gradient is so slightly wrong along a line that its entries may be right."""
    return bool(compare_line(check, bad.choice, bad.line, method).relative[0] < SLIGHT)


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


def check_entries(
    check: Check, names: Sequence[str], methods: Sequence[str], sample: int | None,
    failed: Sequence[Failed], rng: np.random.Generator, *, all_methods: bool = False,
    diagnosed: bool = True,
) -> list[Row]:
    """A row for every tensor, and one for every output alone through which a tensor is wrong.

    Arguments: names of the tensors; methods that suit the function, the most exact method first;
    sample, the number of entries of a larger tensor, None for all; failed, the lines along which a
    gradient was not right; all_methods, whether each entry is differentiated by all methods;
    diagnosed, whether the rows say what is wrong.
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
    rows, method = [], "complex" if check.evaluate.complex_step else "central"
    probe = Probe(check.case, check.evaluate, method) if diagnosed else None
    for choice in check.analytic:
        for name in names:
            row = row_of_tensor(check, choice, name, examined, methods, probe)
            rows += [row] if choice == "all" or row.status in BAD else []
    if check.watch.stopped:
        return [replace(row, status="unfinished") if row.status in ("ok", "inconclusive")
                and row.checked < examined[row.name].planned else row for row in rows]
    bad = {(row.name, row.upstream) for row in rows if row.status in BAD}
    try:
        rows += [led_to(check, methods, choice, line) for name in names
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
    most = LOCATED if at_random else max(1, min(LOCATED, sample // LOCATE_ONE))
    where = choose(gradient, check.case.labels.get(name), share, rng)
    doubtful: list[tuple[str, Cleared]] = []
    lines = sorted(failed, key=lambda bad: bad.word)[::-1]  # wrong ones, then coarse ones
    spread = [] if at_random or not lines else _wrong_everywhere(check, name, lines[0], where)
    for bad in lines[:0 if spread else LINES]:
        if bad.line.entry is not None:
            where = np.union1d(where, [bad.line.entry])
            continue
        if any(choice == bad.choice and known.entries for choice, known in doubtful):
            continue  # another line has led to wrong entries
        result = cleared(check, bad.choice, bad.line, bad.method, most)
        led_to = [entry for _, entry in (*result.kinks, *result.entries)]
        where = np.union1d(where, np.array(led_to, np.int64))
        doubtful += [(bad.choice, result)] * (result.word == "wrong")
    located = [entry for _, result in doubtful for _, entry in result.entries]
    for entry in dict.fromkeys(spread + located):
        for line in _through(entry, gradient.shape):
            if len(where) + len(line) <= sample:
                where = np.union1d(where, line)
    return where, doubtful


def _wrong_everywhere(check: Check, name: str, bad: Failed, where: np.ndarray) -> list[int]:
    """A few of the positions, if all of them are wrong, and not at a kink: then halving a direction
    would only cost time."""
    few = where[:: -(-len(where) // FEW)]
    result = check.at_limits(bad.choice, name, few, check.at(name, few, bad.method))
    weights = check.weights(bad.choice)
    everywhere = len(few) > FEW // 2 and (result.words == "wrong").all() and find_kink(
        check.evaluate, check.evaluate.inputs, weights, name, int(few[0])) is None
    return few.tolist() if everywhere else []


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
