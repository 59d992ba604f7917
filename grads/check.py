"""Gradient checks: hand-written gradients against numerical differentiation of the function itself.

Complex step is the first opinion: exact to machine precision, where the function is analytic.
Ridders' extrapolated central differences are the second: less exact, with an error estimate, and
they ask nothing of the function. Each sees what the other cannot; where they disagree the report
says so. Upstream gradients are random, on every output together and on each alone, so that a
backward that forgets one of them is caught.

    check_pair(forward, backward, [x, W, b]).raise_if_wrong()       # forward -> outputs, cache
    check_gradients(loss, {"W": W, "b": b}, {"W": dW, "b": db})     # claimed at these inputs

Three doors, one check: `check_case` takes a `grads.case.Case`, which the other two make.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import backend
from grads.case import Case, Labels
from grads.checking.claims import (
    claimed_case,
    dense,
    host,
    pair_case,
    same_bits,
    validate_gradients,
    validate_inputs,
)
from grads.checking.differentiate import Numeric, at_entries
from grads.checking.directions import check_directions
from grads.checking.evaluate import Evaluator, NotAnalytic
from grads.checking.judge import Numbers, judge
from grads.report import Finding, Report

OPINIONS = {
    "both": ("complex", "ridders"), "complex": ("complex",), "ridders": ("ridders",),
    "central": ("central",), "forward": ("forward",),
}
SAMPLE = 1024  # tensors with more entries are sampled, and probed along random directions

Arrays = dict[str, np.ndarray]


def check_gradients(
    f: Callable[..., Any], inputs: Any, gradients: Any, *, upstream: Any = None,
    labels: Mapping[str, Labels] | None = None, winners: Callable[..., Any] | None = None,
    **how: Any,
) -> Report:
    """Check gradients that somebody claims for `f`.

    Arguments: f, called `f(*inputs)`, or `f(inputs)` where inputs is a mapping; inputs, real
    arrays, as a sequence or a mapping; gradients, in the same form, of f if f is a scalar, of
    sum(upstream * f) otherwise: arrays, or a function of the inputs that returns them; upstream,
    in the form of f's result; labels, what the axes of inputs count, for the diagnosis; winners,
    called like f, the discrete decisions that f takes (an argmax, where a ReLU is open), for
    kinks; the rest as in `check_case`. A gradient may be sparse: anything with `.dense()`, or
    (ids, rows), where ids may repeat. Returns the report. Raises ValueError naming the argument
    that makes no sense.
    """
    case, d_out = claimed_case(f, inputs, gradients, upstream, labels or {}, winners)
    return check_case(case, upstream=d_out, alone=False, **how)


def check_pair(
    forward: Callable[..., Any], backward: Callable[..., Any], inputs: Any, *,
    labels: Mapping[str, Labels] | None = None, winners: Callable[..., Any] | None = None,
    **how: Any,
) -> Report:
    """Check a backward pass: `forward(*inputs) -> outputs, cache`, `backward(d_outputs, cache)`.

    Arguments: outputs may be an array, or arrays in a tuple, list or mapping; backward gets
    upstream gradients in the same form, and returns gradients in the form of inputs (a sequence
    in their order, or a mapping by name). The rest as in `check_gradients`.
    """
    return check_case(pair_case(forward, backward, inputs, labels or {}, winners), **how)


def check_case(
    case: Case, *, method: str = "both", sample: int | None = SAMPLE, second: int | None = None,
    rng: np.random.Generator | None = None, names: Sequence[str] | None = None,
    upstream: Mapping[str, np.ndarray] | None = None, alone: bool = True, vanish: bool = True,
    empty: bool = False, title: str = "gradient check",
) -> Report:
    """Check one case: its values, and what goes with them.

    Arguments: method "both", "complex", "ridders", "central" or "forward"; sample, how many
    entries of a larger tensor are differentiated (stratified over its blocks, half of them where
    the gradient is not zero), None for all; second, the same for the second opinion; rng draws
    upstream gradients, samples and directions, seed 0 if None; names, which inputs to check, None
    for all; upstream, gradients of the outputs, None for random ones; alone, whether each output
    is also given an upstream gradient alone; vanish, whether a gradient may be zero throughout;
    empty, whether all tensors may be without entries.
    Nothing passed in is modified. Raises ValueError on arguments that make no sense.

    Beside the values it is found out whether the function or its backward writes into what it is
    given, whether two runs differ, whether padding has exactly zero gradient (`case.zeros`).
    """
    if method not in OPINIONS:
        raise ValueError(f"method: expected one of {', '.join(OPINIONS)}, got {method!r}")
    start, rng = time.perf_counter(), rng or np.random.default_rng(0)
    validate_inputs(case.inputs)
    findings: list[Finding] = []
    with backend.using("numpy"):
        exact = {name: np.array(value, np.float64) for name, value in case.inputs.items()}
        outputs = _outputs(case, exact, findings)
        if findings:
            return Report([], findings, title)
        d_out = dict(upstream or {k: rng.normal(size=out.shape) for k, out in outputs.items()})
        claims = _claims(case, d_out, alone, findings)
        wanted = _wanted(case.inputs, names)
        if not findings:
            _zeros(claims["all"], case.zeros, vanish, wanted, findings)
        evaluate = Evaluator(case.forward, exact)
        places = {name: choose(claims["all"][name], case.labels.get(name), sample, rng)
                  for name in wanted}
        numbers, notes = _differentiate(evaluate, d_out, claims, places, OPINIONS[method], second,
                                        rng)
        rows = check_directions(case, evaluate, numbers, judge(case, evaluate, numbers), rng)
    nothing = not any(row.checked > row.inconclusive for row in rows)
    if nothing and not (empty and not any(row.size for row in rows)):
        findings.append(Finding("nothing", title, "nothing was compared; a check of nothing fails"))
    return Report(rows, findings, title, tuple(d_out), evaluate.evaluations,
                  time.perf_counter() - start, notes)


# --- running what is checked --------------------------------------------------------------------


def _outputs(case: Case, exact: Arrays, findings: list[Finding]) -> Arrays:
    """The outputs, once the function is known to be finite, deterministic and without a trace."""
    given = {name: value.copy() for name, value in exact.items()}
    outputs = {name: host(out) for name, out in case.forward(given).items()}
    for name in same_bits(given, exact):
        findings.append(Finding("mutated", name, "the function writes into its input"))
    again = {name: host(out) for name, out in case.forward(
        {name: value.copy() for name, value in exact.items()}).items()}
    for name, out in outputs.items():
        if not np.isfinite(out).all():
            findings.append(Finding("not finite", name, "the output is NaN or infinite"))
    for name in same_bits(again, outputs):
        findings.append(Finding("random", name, "two runs of the function differ: freeze its "
                                                "random numbers (a dropout mask, a seed)"))
    if not outputs:
        findings.append(Finding("nothing", "outputs", "the function returns nothing"))
    return outputs


def _claims(
    case: Case, upstream: Mapping[str, np.ndarray], alone: bool, findings: list[Finding]
) -> dict[str, Arrays]:
    """The analytic gradients: of all outputs together, and of each alone if there are several."""
    choices = {"all": dict(upstream)}
    if alone and len(upstream) > 1:
        choices |= {name: {name: d_out} for name, d_out in upstream.items()}
    dtype = next(iter(case.inputs.values())).dtype
    claims: dict[str, Arrays] = {}
    for choice, d_outputs in choices.items():
        inputs = {name: np.array(value) for name, value in case.inputs.items()}
        given = {name: np.array(d, dtype) for name, d in d_outputs.items()}
        found = case.backward(inputs, given)
        claims[choice] = {name: dense(d, name, case.inputs) for name, d in found.items()}
        if choice == "all":
            for name in same_bits(inputs, case.inputs):
                findings.append(Finding("mutated", name, "the backward writes into the input"))
            for name in same_bits(given, {k: np.array(d, dtype) for k, d in d_outputs.items()}):
                findings.append(Finding("mutated", f"d{name}",
                                        "the backward writes into the upstream gradient"))
            again = {name: dense(d, name, case.inputs)
                     for name, d in case.backward(inputs, given).items()} if not findings else {}
            for name in same_bits(again, claims[choice]) if again else []:
                findings.append(Finding("random", f"d{name}", "two runs of the backward differ"))
    validate_gradients(case.inputs, claims["all"])
    return claims


def _wanted(inputs: Arrays, names: Sequence[str] | None) -> list[str]:
    """Which inputs are checked."""
    for name in names or []:
        if name not in inputs:
            raise ValueError(f"names: expected some of {', '.join(inputs)}, got {name!r}")
    return list(inputs if names is None else names)


def _zeros(
    gradients: Arrays, zeros: Mapping[str, np.ndarray], vanish: bool, wanted: Sequence[str],
    findings: list[Finding],
) -> None:
    """Exactly zero where an input cannot matter, and elsewhere not altogether zero."""
    for name in wanted:
        gradient = gradients[name]
        dead = zeros.get(name, np.zeros(gradient.shape, dtype=bool))
        if gradient[dead].any():
            index = tuple(int(i) for i in np.argwhere(dead & (gradient != 0))[0])
            findings.append(Finding("padding", f"d{name}", "expected exact zeros where the input "
                                    f"cannot matter, got {gradient[index]:.6g} at {index}"))
        if not vanish and not dead.all() and not gradient[~dead].any():
            findings.append(Finding("vanishing", f"d{name}", "expected a gradient, got zeros"))


# --- numerical differentiation ------------------------------------------------------------------


def _differentiate(
    evaluate: Evaluator, upstream: dict[str, np.ndarray], claims: dict[str, Arrays],
    where: dict[str, np.ndarray], methods: tuple[str, ...], second: int | None,
    rng: np.random.Generator,
) -> tuple[Numbers, tuple[str, ...]]:
    """All opinions at the chosen places; where no complex step is possible, the others only."""
    opinions: dict[str, dict[str, Numeric]] = {}
    places: dict[str, dict[str, np.ndarray]] = {}
    notes: list[str] = []
    for method in methods:
        few = opinions and second is not None
        places[method] = {name: np.sort(rng.permutation(found)[:second]) if few else found
                          for name, found in where.items()}
        try:
            opinions[method] = at_entries(evaluate, evaluate.inputs, upstream, places[method],
                                          method)
        except NotAnalytic as error:
            del places[method]
            if len(methods) == 1:
                raise ValueError(f"method: expected one that suits the function, got {method!r}: "
                                 f"{error}") from error
            notes.append(f"no complex step: {error}")
    return Numbers(claims, places, opinions, upstream), tuple(notes)


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
