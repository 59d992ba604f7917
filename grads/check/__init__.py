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

from grads.check.analytic import gradients_case, pair_case, validate_inputs, wanted_names
from grads.check.case import Case, Labels
from grads.check.comparison import Check, largest_of
from grads.check.differentiate import AMPLIFIES
from grads.check.differentiate import METHODS as DERIVATIVES
from grads.check.directions import Failed, along_directions, lines_together
from grads.check.evaluate import NotAnalytic
from grads.check.iterations import iterations_undecided
from grads.check.jacobians import jacobian as jacobian
from grads.check.precision import observe_noise, unseen
from grads.check.prepare import Upstream, padding_findings, prepared
from grads.check.report import Report
from grads.check.result import Finding, Row
from grads.check.state import State, findings_elsewhere, special
from grads.check.watch import TimeUp, Watch, unconfirmed, unfinished

METHODS = {"both": ("complex", "ridders"), **{name: (name,) for name in DERIVATIVES}}
STREAM = 0x6772616473  # "grads" in hexadecimal: separates our random numbers from the user's
SAMPLE = 256  # entries of a larger tensor that are differentiated for the diagnosis


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
    case, d_out = gradients_case(f, inputs, gradients, upstream, labels or {}, how.get("names"))
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
    return check_case(pair_case(forward, backward, inputs, labels or {}, how.get("names")), **how)


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
    diagnosis: int = SAMPLE  # entries of a larger wrong tensor that are compared for the diagnosis,
    # fewer of each if many tensors are wrong; 0: no diagnosis
    rtol: float = 0.0  # relative error that is allowed in addition to rounding

    def __post_init__(self) -> None:
        if self.method is not None and self.method not in METHODS:
            raise ValueError(f"method: expected one of {', '.join(METHODS)}, got {self.method!r}")
        for name, count in (("sample", self.sample), ("diagnosis", self.diagnosis)):
            if isinstance(count, float) or (count is not None and count < 0):
                raise ValueError(f"{name}: expected a number of entries, got {count!r}")
        if not 0 <= self.rtol < 1:
            raise ValueError(f"rtol: expected a number between 0 and 1, got {self.rtol!r}")


def check_case(
    case: Case, *, rng: np.random.Generator | None = None, names: Sequence[str] | None = None,
    upstream: Upstream = None, alone: bool = True, vanish: bool = True,
    empty: bool = False, title: str = "gradient check", time_limit: float | None = None,
    watch: Watch | None = None, state: State | None = None, **extent: Any,
) -> Report:
    """Check the gradients of one case.

    Arguments: rng, for upstream gradients, samples and directions (None: seed 0); names of the
    inputs to check, None for all; upstream, the gradients of the outputs, or a function that
    returns them from the outputs, None for random gradients; alone, whether each output is also
    given one alone; vanish, whether a gradient may be zero everywhere; empty, whether all tensors
    may have no entries; time_limit in seconds, after which the report says what was covered; watch,
    instead of a time limit; state of the user's code, if it is not that of the case's functions;
    extent, the fields of `Extent`. Raises ValueError for invalid ones.

    What is passed in, and what the code may have changed, is restored. The check also finds code
    that writes into its arguments, runs that differ, and padding (`case.zeros`) with a gradient.
    """
    for name in sorted(extent.keys() - Extent.__dataclass_fields__):
        raise ValueError(f"{name}: there is no such argument (random numbers: rng=...)")
    how, watch = Extent(**extent), watch or Watch(time_limit)
    # Not the numbers of a user's generator: an upstream gradient must not equal an input.
    rng = np.random.default_rng([STREAM, 0 if rng is None else int(rng.integers(2**32))])
    validate_inputs(case.inputs)
    wanted = list(case.inputs) if names is None else wanted_names(case.inputs, names)
    state = state or State(case.forward, case.vjp)
    case = replace(case, inputs={name: np.array(x) for name, x in case.inputs.items()})
    case = watch.watched(case) if watch.active else case
    findings: list[Finding] = []
    rows: list[Row] = []
    check = None
    try:
        check = prepared(case, state, wanted, upstream, alone, watch, rng, findings)
        if check is None:
            return Report([], findings, title, seconds=watch.seconds)
        wanted = [name for name in wanted if name in check.case.inputs]  # which have gradients
        check.rtol = how.rtol
        if (case.zeros or not vanish) and not findings:
            findings += padding_findings(check.analytic["all"], case.zeros, vanish, wanted)
        rows = _rows(check, wanted, how, METHODS[how.method or "both"], rng)
        if not check.evaluate.complex_step:
            rows = [unseen(check, row, METHODS[how.method or "both"][-1]) for row in rows]
        if any(row.status in ("wrong", "disagree") for row in rows):
            rows = iterations_undecided(check, rows)
        if watch.stopped:
            raise TimeUp
        at = special(check.evaluate.inputs)
        if (at or state.mutable) and not findings and all(row.status == "ok" for row in rows):
            findings += findings_elsewhere(check, wanted, state.mutable, at)
    except TimeUp:
        return unfinished(title, watch, rows, {name: case.inputs[name] for name in wanted},
                          findings, check)
    finally:
        state.restore()
    compares = any(d.size for d in check.upstream.values()) and any(row.compares for row in rows)
    if not compares and not (empty and not any(row.size for row in rows)):
        findings.append(Finding("nothing", title, "nothing was compared; a check of nothing fails"))
    return Report(rows, findings, title, tuple(check.upstream), check.evaluate.evaluations,
                  watch.seconds, tuple(_notes(check, rows)))


def _notes(check: Check, rows: Sequence[Row]) -> list[str]:
    """The notes on what confirms the result, and on what this check would not have seen."""
    notes = [*check.notes]
    if all(row.status == "ok" for row in rows):
        notes += check.confirmed
        if check.case.fixed and (values := ", ".join(special(check.evaluate.inputs).values())):
            notes += [f"{values}: what is right only there passes; check at other values, too"]
    floor, name = max(((row.floor, row.name) for row in rows), default=(0.0, ""))
    if floor:
        notes.append(f"noise floor: an error below {floor:.0e} of the largest gradient of {name} "
                     "would not be seen")
    return notes


def _rows(
    check: Check, wanted: Sequence[str], how: Extent, methods: Sequence[str],
    rng: np.random.Generator,
) -> list[Row]:
    """The rows of the report.

    If all directions are right by two methods, these suit the function, and that is all. Otherwise,
    tensors are differentiated entry by entry, if the methods suit. If the complex step does not,
    Ridders' differences alone decide.
    """
    names = [name for name in wanted if check.analytic["all"][name].size]
    check.evaluate.complex_step = methods[0] == "complex"
    if names and (not check.evaluate.complex_step or check.evaluate.in_float32()):
        observe_noise(check.evaluate,
                      lines_together(check.evaluate.inputs, names, rng, 1, True)[0])
    failed: list[Failed] = []
    try:
        failed = [] if how.every_entry else along_directions(check, names, how, methods, rng)
        if failed or how.every_entry or how.sample is not None or methods == ("complex",):
            from grads.check.entries import doubted_rows

            return doubted_rows(check, wanted, names, how, methods, failed, rng)
    except NotAnalytic as error:
        return _by_differences(check, wanted, how, methods, failed, rng, error)
    except TimeUp:
        return [unconfirmed(row) for row in check.rows]
    return check.rows


def _by_differences(
    check: Check, wanted: Sequence[str], how: Extent, methods: Sequence[str],
    failed: Sequence[Failed], rng: np.random.Generator, error: NotAnalytic,
) -> list[Row]:
    """The rows of a function that the complex step does not suit. Raises ValueError if there is no
    other method."""
    if len(methods) == 1:
        raise ValueError("method: expected one that suits the function, got 'complex': "
                         f"{error}") from error
    if str(error) == AMPLIFIES and all(bad.method != "complex" for bad in failed):
        from grads.check.tensor_rows import LARGE, OFFSET

        large = any(largest_of(x) > LARGE for x in check.evaluate.inputs.values())
        hint = f"the complex step confirms it, but differences cannot: {OFFSET if large else error}"
        return [replace(row, status="undecided", hints=(hint,)) for row in check.rows]
    check.notes.append(f"no complex step: {error}; Ridders alone decides")
    return _rows(check, wanted, how, methods[1:], rng)
