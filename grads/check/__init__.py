"""Gradient checks: hand-written gradients against numerical differentiation of the function itself.

The idea on one page: grads/check/simple.py.

Two methods differentiate the function. The complex step is exact to machine precision, but needs a
function that can be continued to complex arguments (`grads.check.continuation`). It is used for
each tensor, along two random directions and for one entry. Ridders' extrapolated central
differences are less exact, estimate their own error, and work for any smooth function. They are
used along one direction over all tensors, to confirm the complex step. If a gradient is wrong, its
entries are differentiated one by one by both methods, and the report names the kind of mistake. If
the two methods disagree, the result is undecided. The upstream gradients are random. They are
given to all outputs together and to each output alone: this catches a backward that forgets one.

    check_pair(forward, backward, [x, W, b]).raise_if_wrong()       # forward -> outputs, cache
    check_gradients(loss, {"W": W, "b": b}, {"W": dW, "b": db})     # analytic, at these inputs

`check_gradients` and `check_pair` make a `grads.check.case.Case`; `check_case` checks it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import backend
from grads.check.analytic import (
    gradients_case,
    pair_case,
    validate_inputs,
)
from grads.check.case import Case, Labels
from grads.check.comparison import Check
from grads.check.differentiate import along, real_direction, second_direction
from grads.check.directions import (
    TOGETHER,
    Failed,
    check_lines,
    joint_rows,
    lines_of,
    lines_together,
    narrowed,
    refined,
    set_apart,
    with_all_methods,
)
from grads.check.evaluate import Evaluator, Line, NotAnalytic
from grads.check.jacobians import jacobian as jacobian
from grads.check.kinks import find_kink_along
from grads.check.precision import coarse_outputs, observe_noise
from grads.check.prepare import Upstream, prepared, wanted_names
from grads.check.report import Report
from grads.check.result import BAD, HEADINGS, Finding, Row
from grads.check.state import State, kept_findings, special
from grads.check.stopped import completed, covered, merged, unconfirmed
from grads.check.watch import PART, TimeUp, Watch

METHODS = {
    "both": ("complex", "ridders"), "complex": ("complex",), "ridders": ("ridders",),
    "central": ("central",), "forward": ("forward",),
}
STREAM = 0x6772616473  # "grads" in hexadecimal: separates our random numbers from the user's
SAMPLE = 256  # entries of a larger tensor that are differentiated for the diagnosis

Arrays = dict[str, np.ndarray]


def check_gradients(
    f: Callable[..., Any], inputs: Any, gradients: Any, *, upstream: Any = None,
    labels: Mapping[str, Labels] | None = None, **how: Any,
) -> Report:
    """Check analytic gradients of `f`.

    Arguments: f, called `f(*inputs)`, or `f(inputs)` if inputs is a mapping; inputs, real arrays in
    a sequence or a mapping; gradients of f, or of sum(upstream * f) if f is no scalar: arrays in
    the form of inputs, or a function of the inputs that returns them; upstream, in the form of f's
    result; labels, what the axes of inputs count, for the diagnosis; the other arguments of
    `check_case`. A gradient may be sparse: an object with `.dense()`, or (ids, rows), where ids may
    repeat. Returns the report. Raises ValueError naming an invalid argument.
    """
    case, d_out = gradients_case(f, inputs, gradients, upstream, labels or {})
    return check_case(case, upstream=d_out, alone=False, **how)


def check_pair(
    forward: Callable[..., Any], backward: Callable[..., Any], inputs: Any, *,
    labels: Mapping[str, Labels] | None = None, **how: Any,
) -> Report:
    """Check a backward pass: `forward(*inputs) -> outputs, cache`, `backward(d_outputs, cache)`.

    Outputs may be an array, or arrays in a tuple, list or mapping. The backward gets upstream
    gradients in the same form, and returns gradients in the form of inputs: a sequence in their
    order, or a mapping by name. The other arguments, the result and the errors are those of
    `check_gradients`.
    """
    return check_case(pair_case(forward, backward, inputs, labels or {}), **how)


@dataclass(frozen=True)
class Extent:
    """What is differentiated, and by which methods. Raises ValueError for invalid fields.

    By default, the complex step differentiates each tensor along two random directions and for one
    entry, and Ridders' differences differentiate all tensors together along one direction. If the
    two methods differ, because the function is not analytic or has a kink, both are applied to the
    entries.
    """

    every_entry: bool = False  # all entries of each tensor; by both methods unless one is given
    sample: int | None = None  # entries of each larger tensor, in addition to its directions
    together: bool = False  # directions over all tensors at once and no entry: for large models
    method: str | None = None  # both, complex, ridders, central, forward; None: as above
    diagnosis: int = SAMPLE  # entries of a larger tensor for the diagnosis; 0: none
    steps: bool = False  # errors by step size of one entry of each tensor, for the page
    rtol: float = 0.0  # relative error that is allowed in addition to rounding

    def __post_init__(self) -> None:
        if self.method is not None and self.method not in METHODS:
            raise ValueError(f"method: expected one of {', '.join(METHODS)}, got {self.method!r}")
        if not 0 <= self.rtol < 1:
            raise ValueError(f"rtol: expected a number between 0 and 1, got {self.rtol!r}")

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods that may be used, the preferred method first."""
        return METHODS[self.method or "both"]


def check_case(
    case: Case, *, rng: np.random.Generator | None = None, names: Sequence[str] | None = None,
    upstream: Upstream = None, alone: bool = True, vanish: bool = True,
    empty: bool = False, title: str = "gradient check", time_limit: float | None = None,
    watch: Watch | None = None, **extent: Any,
) -> Report:
    """Check the gradients of one case.

    Arguments: rng, which gives the seed of upstream gradients, samples and directions (None: seed
    0); names of the inputs to check, None for all; upstream, the gradients of the outputs, or a
    function that returns them from the outputs, None for random gradients; alone, whether each
    output is also given an upstream gradient alone; vanish, whether a gradient may be zero
    everywhere; empty, whether all tensors may have no entries; time_limit in seconds, after which
    the check ends and reports what it has covered (a running call of the function is finished);
    watch, instead of a time limit; extent, the fields of `Extent`. Returns the report. Raises
    ValueError for invalid arguments.

    Nothing passed in is modified. The attributes of a layer, and other things that the code may
    have changed, are restored afterwards. The check also finds a function or a backward that writes
    into its arguments, two runs that differ, and padding (`case.zeros`) whose gradient is not
    exactly zero.
    """
    state = State(case.forward, case.vjp)
    case = replace(case, inputs={name: np.array(x) for name, x in case.inputs.items()})
    try:
        return _checked(case, state, rng, names, upstream, alone, vanish, empty, title,
                        watch or Watch(time_limit), Extent(**extent))
    finally:
        state.restore()


def _checked(
    case: Case, state: State, rng: np.random.Generator | None, names: Sequence[str] | None,
    upstream: Upstream, alone: bool, vanish: bool, empty: bool, title: str, watch: Watch,
    how: Extent,
) -> Report:
    """The report of `check_case`, which restores the code's state afterwards."""
    # An upstream gradient equal to an input would confirm a backward that mistakes one for the
    # other. So our numbers differ from those of a user's generator with a small seed.
    rng = np.random.default_rng([STREAM, 0 if rng is None else int(rng.integers(2**32))])
    validate_inputs(case.inputs)
    case, wanted = watch.watched(case), wanted_names(case.inputs, names)
    findings: list[Finding] = []
    rows: list[Row] = []
    notes: tuple[str, ...] = ()
    ready = None
    try:
        with backend.using("numpy"):
            ready = prepared(case, upstream, alone, vanish, wanted, watch, rng, findings)
            if ready is None:
                return Report([], findings, title)
            ready.evaluate.rtol = how.rtol
            check = Check(case, *ready)
            methods, notes = _suitable(*ready, how, rng)
            try:
                rows, note = _rows_by(check, wanted, how, methods, rng)
            except NotAnalytic as error:  # along another direction than the first
                ready.evaluate.complex_step = False
                methods, notes = _without_complex(how, str(error))
                rows, note = _rows_by(check, wanted, how, methods, rng)
            notes += note
            if not findings and all(row.status == "ok" for row in rows):
                findings += kept_findings(case, ready.evaluate, ready.upstream, wanted,
                                          state.mutable)
            if how.steps:
                from grads.check.step_sizes import with_steps

                rows = [with_steps(row, ready.evaluate, ready.upstream,
                                   ready.analytic["all"][row.name]) if row.shape is not None
                        else row for row in rows]
    except TimeUp:
        pass
    evaluations = ready.evaluate.evaluations if ready else 0
    outputs = tuple(ready.upstream) if ready else ()
    if watch.stopped:
        rows = completed(rows, case.inputs, wanted)
        return Report(rows, findings, title, outputs, evaluations, watch.seconds, notes,
                      covered(rows, watch))
    if ready and case.fixed and all(row.status == "ok" for row in rows):
        if values := ", ".join(special(ready.evaluate.inputs).values()):
            notes += (f"{values}: what is right only there passes; check at other values, too",)
    floor, name = max(((row.floor, row.name) for row in rows), default=(0.0, ""))
    if floor:
        notes += (f"noise floor: an error below {floor:.0e} of the largest gradient of {name} "
                  "would not be seen",)
    upstream = ready.upstream if ready else {}
    compared = any(d.size for d in upstream.values()) and any(row.compares for row in rows)
    if not compared and not (empty and not any(row.size for row in rows)):
        findings.append(Finding("nothing", title, "nothing was compared; a check of nothing fails"))
    return Report(rows, findings, title, outputs, evaluations, watch.seconds, notes)


def _rows_by(
    check: Check, names: Sequence[str], how: Extent, methods: Sequence[str],
    rng: np.random.Generator,
) -> tuple[list[Row], tuple[str, ...]]:
    """The rows of the report, and a note on the second method.

    Directions come first: each tensor by the first method, then all tensors together by the second
    method. Only tensors that fail are differentiated entry by entry.
    """
    if how.every_entry:
        from grads.check.entries import check_entries

        return check_entries(check, names, methods, None, (), rng, all_methods=True), ()
    names = [name for name in names if check.analytic["all"][name].size]
    if methods[0] == "complex":
        check.apart = set_apart(check, names)
    lines = (lines_together(check.evaluate.inputs, names, rng) if how.together
             else lines_of(check.analytic["all"], names, rng))
    rows: list[Row] = []
    failed: list[Failed] = []
    notes: tuple[str, ...] = ()
    try:
        for batch in _batches(lines, check.evaluate.watch):
            made, bad = check_lines(check, batch, methods[0])
            rows, failed = rows + made, failed + bad
            check.evaluate.watch.tell("tensors", len(rows), len(names))
        if len(methods) > 1 and names:
            together, beside = (lines_together(check.evaluate.inputs, names, rng, 1, relative)
                                for relative in (False, True))
            (probe, *_), bad = check_lines(check, together, methods[1])
            if bad and find_kink_along(check.evaluate, check.upstream,
                                       together[0].direction) is None:
                (probe, *_), bad = check_lines(check, beside, methods[1])
            notes = (f"{HEADINGS[methods[1]]} along a direction over all tensors: "
                     f"{probe.error:.1e}",) * (not bad)
            failed += bad
        if failed or how.sample is not None:
            rows = _with_entries(check, names, how, methods, rng, rows, failed)
    except TimeUp:
        rows = [unconfirmed(row) for row in rows]
    return rows, notes if all(row.status == "ok" for row in rows) else ()


def _with_entries(
    check: Check, names: Sequence[str], how: Extent, methods: Sequence[str],
    rng: np.random.Generator, rows: list[Row], failed: list[Failed],
) -> list[Row]:
    """The rows. Tensors that are not right along a direction are compared entry by entry."""
    joint = [bad for bad in failed if bad.line.row == TOGETHER]
    single = [bad for bad in failed if bad.line.row != TOGETHER]
    single += narrowed(check, joint, {bad.line.row for bad in single})
    single = refined(check, single)
    sampled = how.sample is not None
    if how.diagnosis or sampled:
        from grads.check.entries import check_entries

        chosen = [name for name in names
                  if sampled or any(bad.line.row == name for bad in single)]
        rows = merged(rows, check_entries(check, chosen, methods, how.sample or how.diagnosis,
                                          single, rng, all_methods=sampled))
    else:
        rows = [with_all_methods(check, row, failed, methods) for row in rows]
    if joint and not any(row.status in BAD for row in rows):
        rows += joint_rows(check, joint, methods)
    return rows


def _batches(lines: list[Line], watch: Watch) -> list[list[Line]]:
    """All lines in one batch. If progress of a slow function is watched, a batch for each tensor.
    """
    if not watch.active or watch.run_time * len(lines) < PART:
        return [lines]
    return [[line for line in lines if line.row == name]
            for name in dict.fromkeys(line.row for line in lines)]


def _suitable(
    evaluate: Evaluator, analytic: Mapping[str, Arrays], upstream: Arrays, how: Extent,
    rng: np.random.Generator,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The methods that suit the function, and a note if the complex step does not."""
    if not any(value.size for value in analytic["all"].values()):
        return how.methods, ()
    direction = lines_together(evaluate.inputs, list(analytic["all"]), rng, 1, True)[0].direction
    if how.methods[0] != "complex":
        evaluate.complex_step = False
        observe_noise(evaluate, direction)
        return how.methods, ()
    try:
        slope = along(evaluate, evaluate.inputs, upstream, [direction], "complex")
        why = second_direction(evaluate, upstream, direction, slope)
        if not np.isfinite(slope.value).all():
            why = "f: what is finite for real arguments is not for complex ones"
        elif how.method == "complex" and not why:
            why = real_direction(evaluate, upstream, direction, slope)
    except NotAnalytic as error:
        why = str(error)
    if why or coarse_outputs(evaluate):
        observe_noise(evaluate, direction)
    evaluate.complex_step = not why
    return _without_complex(how, why) if why else (how.methods, ())


def _without_complex(how: Extent, why: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The methods without the complex step, and a note. Raises ValueError if none is left."""
    if len(how.methods) == 1:
        raise ValueError(f"method: expected one that suits the function, got 'complex': {why}")
    return how.methods[1:], (f"no complex step: {why}; Ridders alone decides",)
