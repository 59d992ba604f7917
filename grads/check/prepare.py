"""Prepares a check: the outputs, the analytic gradients, and faults other than wrong values.

The function and its backward are run several times on copies. This finds code that writes into its
arguments, random results, a backward that is not linear in the upstream gradient, and a cache that
does not survive another run, before anything is differentiated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from grads.check.analytic import (
    Kept,
    copies,
    differing,
    gradients_at,
    host,
    unequal,
    validate_gradients,
    validate_upstream,
    written_out,
)
from grads.check.case import Case
from grads.check.comparison import EXACT, Check
from grads.check.evaluate import Evaluator
from grads.check.precision import rounding_of
from grads.check.result import Finding
from grads.check.state import STATELESS, State
from grads.check.upstreams import linearity_findings
from grads.check.watch import Watch

STEP = 0.25  # relative change of the inputs of another run
ALIASED = Finding("aliased", "cache", "another run of the forward changes the gradients of this "
                  "one: its cache shares a buffer")
ALIKE = ("each run starts from the same variables and attributes: the function counts its calls, "
         "or changes them otherwise")
Arrays = Mapping[str, np.ndarray]
# Gradients of the outputs, or a function of the outputs that returns them; None: random gradients
Upstream = Arrays | Callable[[dict[str, np.ndarray]], Arrays] | None


def prepared(
    case: Case, state: State, wanted: Sequence[str], upstream: Upstream, alone: bool, watch: Watch,
    rng: np.random.Generator, findings: list[Finding],
) -> Check | None:
    """The check with its analytic gradients; None if nothing can be compared.

    Faults other than wrong values are appended to `findings`. Inputs without a gradient are held
    constant, and those of them that are wanted are named in `findings`. If two runs differ, but not
    if each starts from `state`, as where the code counts its calls, all runs start from it.
    """
    prepare = partial(_prepared, wanted=wanted, upstream=upstream, alone=alone, watch=watch,
                      rng=rng)
    check, found = prepare(case, findings=findings), list[Finding]()
    if not is_random(findings):
        return check
    alike = prepare(_rewound(case, state), findings=found)
    if is_random(found):
        return check
    findings[:] = found
    if alike is not None:
        alike.notes.append(ALIKE)
    return alike


def is_random(findings: Sequence[Finding]) -> bool:
    """Whether two runs were found to differ."""
    return any(finding.kind == "random" for finding in findings)


def _rewound(case: Case, state: State) -> Case:
    """The case with runs that start from the state; gradients that are a function of their own do
    so if they differ from run to run, too."""

    def afresh(function: Callable[..., Any], *arguments: Any) -> Any:
        state.rewind()
        return function(*arguments)

    vjp = case.vjp
    if case.cacheless:
        first, second = (written_out(case, vjp({}, copies(case.inputs))) for _ in range(2))
        vjp = partial(afresh, vjp) if unequal(second, first) else vjp
    return replace(case, forward=partial(afresh, case.forward), vjp=vjp)


def _prepared(
    case: Case, wanted: Sequence[str], upstream: Upstream, alone: bool, watch: Watch,
    rng: np.random.Generator, findings: list[Finding],
) -> Check | None:
    """As `prepared`, with runs that start from whatever the run before has left."""
    exact = copies(case.inputs, np.float64)
    outputs = outputs_of(case, exact, findings)
    if findings:
        return None
    d_out = dict((upstream(outputs) if callable(upstream) else upstream)
                 or {k: rng.normal(size=out.shape) for k, out in outputs.items()})
    if upstream is not None:
        validate_upstream(d_out, exact)
    try:
        analytic = gradients_of(case, d_out, alone, findings, wanted)
    except NoGradient as error:
        known = [name for name in wanted if name not in error.names]
        check = _prepared(without(case, error.names), known, upstream, alone, watch, rng, findings)
        findings += [Finding("unchecked", name, "it has no gradient; if that is meant, check "
                             f"names={known}, or give it as a default argument")
                     for name in wanted if name in error.names]
        return check
    validate_gradients(case.inputs, analytic["all"])
    if not findings and not case.cacheless:
        findings += (linearity_findings(case, d_out, analytic["all"])
                     or cache_findings(case, d_out, analytic["all"]))
    check = Check(case, Evaluator(case.outputs, exact, outputs=outputs), analytic, d_out, watch)
    check.eps = max(float(np.finfo(x.dtype).eps) for x in case.inputs.values())
    if np.finfo(case.dtype).eps > EXACT:
        check.rounding = rounding_of(case, d_out, analytic["all"])
    return check


def outputs_of(case: Case, exact: Arrays, findings: list[Finding]) -> dict[str, np.ndarray]:
    """The outputs. Appends a finding if they are not finite, if two runs differ, or if the function
    writes into its inputs."""
    inputs = copies(exact)
    try:
        outputs = {name: np.array(host(out)) for name, out in case.outputs(inputs).items()}
    except Exception as error:
        _blame_empty_inputs(exact, error)
        raise
    again = {name: host(out) for name, out in case.outputs(copies(exact)).items()}
    for name, out in outputs.items():
        if out.dtype.kind not in "fiub":
            raise ValueError(f"forward: expected real numbers in output {name!r}, got {out.dtype}")
    findings += [Finding("mutated", name, "the function writes into its input")
                 for name in differing(inputs, exact)]
    findings += [Finding("not finite", name, "the output is NaN or infinite")
                 for name, out in outputs.items() if not np.isfinite(out).all()]
    findings += [Finding("random", name, "two runs of the function differ: freeze its random "
                         "numbers (a dropout mask, a seed)") for name in unequal(again, outputs)]
    return outputs


def _blame_empty_inputs(inputs: Arrays, error: Exception) -> None:
    """Raise ValueError if an input without entries may be why the function fails."""
    for name in [name for name, value in inputs.items() if not value.size]:
        raise ValueError(f"inputs: expected entries in {name!r}, got shape {inputs[name].shape}, "
                         f"for which the function fails: {error}") from error


def gradients_of(
    case: Case, upstream: Arrays, alone: bool, findings: list[Finding], wanted: Sequence[str]
) -> dict[str, Arrays]:
    """The analytic gradients: through all outputs together, and through each of several outputs.
    Raises NoGradient if some are missing, of arrays only if they are not wanted."""
    inputs, d_outputs = copies(case.inputs), copies(upstream, case.dtype)
    gradients = case.gradients(inputs, d_outputs)
    missing = [name for name in case.inputs if gradients.get(name) is None]
    if 0 < len(missing) < len(case.inputs) and gradients.keys() <= case.inputs.keys() and not (
            case.fixed and {*missing} & {*wanted}):
        raise NoGradient(missing)
    analytic = {"all": written_out(case, gradients)}
    findings += [Finding("mutated", name, "the backward writes into the input")
                 for name in differing(inputs, case.inputs)]
    findings += [Finding("mutated", f"d{name}", "the backward writes into the upstream gradient")
                 for name in differing(d_outputs, copies(upstream, case.dtype))]
    for name in upstream if alone and len(upstream) > 1 else ():
        analytic[name] = gradients_at(case, case.inputs, copies({name: upstream[name]}, case.dtype))
    return analytic


class NoGradient(ValueError):
    """The backward returns gradients of some inputs only. Attributes: names of the others."""

    def __init__(self, names: list[str]) -> None:
        super().__init__(f"gradients: expected one of {', '.join(names)}, got None")
        self.names = names


def without(case: Case, names: Sequence[str]) -> Case:
    """The case of the other inputs: these are held constant."""
    held = {name: case.inputs[name] for name in names}
    inputs = {name: x for name, x in case.inputs.items() if name not in held}

    def every(a: Mapping[str, Any]) -> dict[str, Any]:
        return {name: a[name] if name in a else held[name].copy() for name in case.inputs}

    def vjp(d: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        gradients = case.vjp(d, every(cache) if case.cacheless else cache)
        return {name: gradient for name, gradient in gradients.items() if name not in held}

    return replace(case, inputs=inputs, forward=lambda a: case.forward(every(a)), vjp=vjp)


# --- does the cache survive? ----------------------------------------------------------------------


def cache_findings(case: Case, upstream: Arrays, gradients: Arrays) -> list[Finding]:
    """Faults of a cache that a single forward and backward do not show.

    Arguments: upstream gradients by output; gradients, the result of one backward for them. Neither
    a second forward with other inputs nor a second backward on the same cache may change these
    gradients.
    """
    outputs, cache = case.forward(copies(case.inputs))
    kept = list(_arrays(cache.cache if isinstance(cache, Kept) else cache))
    if not kept:
        return []
    before = [np.array(array) for array in kept]
    with np.errstate(all="ignore"):
        try:
            case.forward({name: value + np.asarray(STEP * (1 + np.abs(value)), value.dtype)
                          for name, value in case.inputs.items()})
        except Exception:  # the other inputs may be invalid for it
            pass
    changed = not all(np.array_equal(array, old, equal_nan=array.dtype.kind in "fc")
                      for array, old in zip(kept, before, strict=True))
    first = _backward(case, upstream, outputs, cache)
    if changed and unequal(first, gradients):
        return [ALIASED]
    try:
        again = _backward(case, upstream, outputs, cache)
    except Exception as error:
        return [Finding("cache", "backward", "a second call of the backward on the same cache "
                        f"fails, {type(error).__name__}: {error}: it changes its cache")]
    names = unequal(again, first)
    if names and all(np.allclose(again[name], 2 * first[name]) for name in names):
        return [Finding("cache", f"d{name}", "the second is twice the first when the backward is "
                        "called again: is it not set to zero before it is added to?")
                for name in names]
    return [Finding("cache", "backward", "a second call of the backward on the same cache gives "
                    "something else: it changes its cache")] if names else []


def _backward(case: Case, upstream: Arrays, outputs: Mapping[str, Any], cache: Any) -> Arrays:
    """The gradients from this cache."""
    d_outputs = {name: np.array(upstream.get(name, np.zeros(np.shape(out))), case.dtype)
                 for name, out in outputs.items()}
    return copies(written_out(case, case.vjp(d_outputs, cache)))


def _arrays(cache: Any) -> Iterator[np.ndarray]:
    """The arrays of a cache: itself, or those inside a tuple, list, mapping or object."""
    pending, seen = [cache], set()
    while pending:
        value = pending.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, np.ndarray):
            yield value
        elif isinstance(value, (tuple, list)):
            pending += value
        elif isinstance(value, Mapping):
            pending += value.values()
        elif not isinstance(value, STATELESS) and not callable(value):
            pending += [*getattr(value, "__dict__", {}).values(), *(
                getattr(value, name, None) for name in getattr(type(value), "__slots__", ()))]


# --- padding --------------------------------------------------------------------------------------


def padding_findings(
    gradients: Arrays, zeros: Arrays, vanish: bool, wanted: Sequence[str]
) -> list[Finding]:
    """A finding for a gradient that is not exactly zero where `zeros` is true, and, unless it may
    vanish, for a gradient that is zero everywhere else."""
    findings = []
    for name in wanted:
        gradient = gradients[name]
        padding = zeros.get(name, np.zeros(gradient.shape, dtype=bool))
        if gradient[padding].any():
            index = tuple(int(i) for i in np.argwhere(padding & (gradient != 0))[0])
            findings.append(Finding("padding", f"d{name}", "expected exact zeros where the input "
                                    f"cannot matter, got {gradient[index]:.6g} at {index}"))
        if not vanish and not padding.all() and not gradient[~padding].any():
            findings.append(Finding("vanishing", f"d{name}", "expected a gradient, got zeros"))
    return findings
