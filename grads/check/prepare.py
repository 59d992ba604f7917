"""Prepares a check: the outputs, the analytic gradients, and faults other than wrong values.

The function and its backward are run several times on copies. This finds code that writes into its
arguments, random results, a backward that is not linear in the upstream gradient, and a cache that
does not survive another run, before anything is differentiated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from grads.check.analytic import (
    Kept,
    dense,
    differing,
    host,
    validate_gradients,
    validate_upstream,
)
from grads.check.case import Case
from grads.check.comparison import EXACT, Check
from grads.check.evaluate import Evaluator
from grads.check.precision import rounding_of
from grads.check.result import Finding
from grads.check.state import STATELESS
from grads.check.watch import Watch

CONSTANT = 1e-4  # fraction of the largest gradient that may not depend on the upstream gradient
# Factors of the upstream gradient. A backward may iterate to an absolute tolerance: with small ones
# it is less exact, and with very large ones it may not end.
SCALES = (-(2.0**6), 2.0**-6)
SCALES_OF_HALF = (-(2.0**4), 2.0**-4)  # the same in float16
FURTHER = (2.0**-30, -(2.0**-31), 2.0**7)  # factors that show how it is not linear
ROUNDINGS = 64  # by which two runs may differ: sums over a set come in any order
STEP = 0.25  # relative change of the inputs of another run
ALIASED = Finding("aliased", "cache", "another run of the forward changes the gradients of this "
                  "one: its cache shares a buffer")
Arrays = Mapping[str, np.ndarray]
# Gradients of the outputs, or a function of the outputs that returns them; None: random gradients
Upstream = Arrays | Callable[[dict[str, np.ndarray]], Arrays] | None


def prepared(
    case: Case, wanted: Sequence[str], upstream: Upstream, alone: bool, watch: Watch,
    rng: np.random.Generator, findings: list[Finding],
) -> Check | None:
    """The check with its analytic gradients; None if nothing can be compared. Faults other than
    wrong values are appended to `findings`. Inputs without a gradient are held constant, and those
    of them that are wanted are named in `findings`."""
    exact = _copies(case.inputs, np.float64)
    outputs = outputs_of(case, exact, findings)
    if findings:
        return None
    d_out = dict((upstream(outputs) if callable(upstream) else upstream)
                 or {k: rng.normal(size=out.shape) for k, out in outputs.items()})
    if upstream is not None:
        validate_upstream(d_out, exact)
    try:
        analytic = gradients_of(case, d_out, alone, findings)
    except NoGradient as error:
        known = [name for name in wanted if name not in error.names]
        check = prepared(without(case, error.names), known, upstream, alone, watch, rng, findings)
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
    inputs = _copies(exact)
    try:
        outputs = {name: np.array(host(out)) for name, out in case.outputs(inputs).items()}
    except Exception as error:
        _blame_empty_inputs(exact, error)
        raise
    again = {name: host(out) for name, out in case.outputs(_copies(exact)).items()}
    for name, out in outputs.items():
        if out.dtype.kind not in "fiub":
            raise ValueError(f"forward: expected real numbers in output {name!r}, got {out.dtype}")
    findings += [Finding("mutated", name, "the function writes into its input")
                 for name in differing(inputs, exact)]
    findings += [Finding("not finite", name, "the output is NaN or infinite")
                 for name, out in outputs.items() if not np.isfinite(out).all()]
    findings += [Finding("random", name, "two runs of the function differ: freeze its random "
                         "numbers (a dropout mask, a seed)") for name in differing(again, outputs)
                 if not _rounded(again[name], outputs[name])]
    return outputs


def _blame_empty_inputs(inputs: Arrays, error: Exception) -> None:
    """Raise ValueError if an input without entries may be why the function fails."""
    for name in [name for name, value in inputs.items() if not value.size]:
        raise ValueError(f"inputs: expected entries in {name!r}, got shape {inputs[name].shape}, "
                         f"for which the function fails: {error}") from error


def gradients_of(
    case: Case, upstream: Arrays, alone: bool, findings: list[Finding]
) -> dict[str, Arrays]:
    """The analytic gradients: through all outputs together, and through each of several outputs."""
    inputs, d_outputs = _copies(case.inputs), _copies(upstream, case.dtype)
    gradients = case.gradients(inputs, d_outputs)
    missing = [name for name in case.inputs if gradients.get(name) is None]
    if not case.fixed and 0 < len(missing) < len(case.inputs) and (
            gradients.keys() <= case.inputs.keys()):
        raise NoGradient(missing)
    analytic = {"all": _written_out(case, gradients)}
    findings += [Finding("mutated", name, "the backward writes into the input")
                 for name in differing(inputs, case.inputs)]
    findings += [Finding("mutated", f"d{name}", "the backward writes into the upstream gradient")
                 for name in differing(d_outputs, _copies(upstream, case.dtype))]
    for name in upstream if alone and len(upstream) > 1 else ():
        d_outputs = _copies({name: upstream[name]}, case.dtype)
        analytic[name] = _written_out(case, case.gradients(_copies(case.inputs), d_outputs))
    return analytic


def _written_out(case: Case, gradients: Mapping[str, Any]) -> Arrays:
    return {name: dense(d, name, case.inputs) for name, d in gradients.items()}


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


def _copies(arrays: Arrays, dtype: Any = None) -> dict[str, np.ndarray]:
    return {name: np.array(a, dtype) for name, a in arrays.items()}


def _unequal(actual: Arrays, expected: Arrays) -> list[str]:
    """The names of the arrays that differ by more than rounding."""
    return [name for name in differing(actual, expected)
            if not _rounded(actual[name], expected[name])]


@np.errstate(all="ignore")
def _rounded(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays differ by a few roundings of their largest entry at most."""
    eps = np.finfo(b.dtype).eps if b.dtype.kind in "fc" else 0.0
    few = np.abs(a - b) <= ROUNDINGS * eps * np.abs(b[np.isfinite(b)]).max(initial=0.0)
    return bool((few | (a == b) | (np.isnan(a) & np.isnan(b))).all())


# --- linear in the upstream gradient? -----------------------------------------------------------


@np.errstate(all="ignore")
def linearity_findings(case: Case, upstream: Arrays, gradients: Arrays) -> list[Finding]:
    """Faults of a backward that show with other upstream gradients: it must be linear in them, and
    two runs must give the same. Small and large ones show what is dropped and what is clipped."""
    scales = SCALES_OF_HALF if case.dtype == np.float16 else SCALES
    if any(differing(_scaled(case, upstream, gradients, factor), gradients) for factor in scales):
        return _faults_of_scaling(case, upstream, gradients, scales)
    return []


def _faults_of_scaling(
    case: Case, upstream: Arrays, gradients: Arrays, scales: tuple[float, float]
) -> list[Finding]:
    """What makes gradients differ from those for multiples of the upstream gradients."""
    again = _scaled(case, upstream, gradients, 1.0)
    if random := _unequal(again, gradients):
        return [Finding("random", f"d{name}", "two runs of the backward differ") for name in random]
    dtype = None
    if case.dtype != np.float64:  # where little underflows
        try:
            gradients, dtype = _scaled(case, upstream, gradients, 1.0, np.float64), np.float64
        except Exception:  # the code may insist on its dtype
            pass
    factors = (*scales, -0.5, 0.0, *FURTHER)
    scaled = [_scaled(case, upstream, gradients, factor, dtype) for factor in factors]
    said: dict[str, list[str]] = {}
    for name, gradient in gradients.items():
        message = _nonlinear(gradient, *(there[name] for there in scaled))
        said.setdefault(message, []).append(f"d{name}")
    return [Finding("upstream", ", ".join(tensors), message)
            for message, tensors in said.items() if message]


def _scaled(
    case: Case, upstream: Arrays, gradients: Arrays, factor: float, dtype: Any = None
) -> Arrays:
    """The gradients for `factor` times the upstream gradients, divided by `factor`, a power of 2,
    so that rounding does not change."""
    d_outputs = {name: np.array(factor * d, dtype)
                 for name, d in _copies(upstream, case.dtype).items()}
    again = _written_out(case, case.gradients(_copies(case.inputs, dtype), d_outputs))
    return {name: again[name] / (factor or 1.0) if name in again
            else np.zeros_like(gradient)  # a gradient may be missing at zero upstream
            for name, gradient in gradients.items()}


def _nonlinear(
    gradient: np.ndarray, large: np.ndarray, small: np.ndarray, half: np.ndarray, zero: np.ndarray,
    tiny: np.ndarray, tinier: np.ndarray, larger: np.ndarray,
) -> str:
    """How a gradient depends on the upstream gradient; "" if linearly.

    Arguments: gradient; the others, the gradients from SCALES, -1/2, 0 and FURTHER times the
    upstream gradient, divided by these factors.
    """
    largest = np.abs(gradient).max(initial=0.0)

    def alike(a: np.ndarray, b: np.ndarray | float) -> bool:
        return bool((np.abs(a - b) <= CONSTANT * largest).all())

    if not np.isfinite(zero).all():  # a right backward may divide by its upstream
        zero = np.zeros_like(zero)
    finite = [there for there in (large, small, half) if np.isfinite(there).all()]
    if not np.isfinite(gradient).all() or (
            all(alike(there, gradient) for there in finite) and alike(zero, 0.0)):
        return ""
    if alike(zero, gradient):
        return "it ignores the upstream gradient"
    if alike(half + 3 * zero, gradient) and not alike(zero, 0.0):
        return "something is added to it that does not depend on the upstream gradient"
    if alike(half, 1.5 * tiny - gradient / 2) and not alike(half, gradient):
        return ("it is quadratic in the upstream gradient: is that squared, or a gradient used "
                "where a value belongs?")
    if alike(-half, gradient):
        return "it loses the sign of the upstream gradient"
    if alike(zero, 0.0) and alike(tiny, tinier) and not alike(tiny, 0.0) and not (
            alike(larger, gradient)):
        return (f"the backward {_clipping(FURTHER[2] * larger)}; a gradient is linear in the "
                "upstream gradient")
    if alike(large, larger) and not alike(large, 0.0):
        return ("the backward drops small upstream gradients, or small gradients, or iterates to "
                "an absolute tolerance")
    return "it is not linear in the upstream gradient, as any gradient is"


def _clipping(gradient: np.ndarray) -> str:
    """What a backward does to large gradients. Arguments: a gradient for a large upstream."""
    sizes, counts = np.unique(np.abs(gradient), return_counts=True)
    if len(sizes) and counts[-1] > max(1, gradient.size // 2):  # they are equal
        return f"clips this gradient at {sizes[-1]:.6g}"
    return "clips or squashes its upstream gradient, or this gradient"


# --- does the cache survive? ----------------------------------------------------------------------


def cache_findings(case: Case, upstream: Arrays, gradients: Arrays) -> list[Finding]:
    """Faults of a cache that a single forward and backward do not show.

    Arguments: upstream gradients by output; gradients, the result of one backward for them. Neither
    a second forward with other inputs nor a second backward on the same cache may change these
    gradients.
    """
    outputs, cache = case.forward(_copies(case.inputs))
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
    if changed and _unequal(first, gradients):
        return [ALIASED]
    try:
        again = _backward(case, upstream, outputs, cache)
    except Exception as error:
        return [Finding("cache", "backward", "a second call of the backward on the same cache "
                        f"fails, {type(error).__name__}: {error}: it changes its cache")]
    names = differing(again, first)
    return _second_call(names, again, first) if names else []


def _backward(case: Case, upstream: Arrays, outputs: Mapping[str, Any], cache: Any) -> Arrays:
    """The gradients from this cache."""
    d_outputs = {name: np.array(upstream.get(name, np.zeros(np.shape(out))), case.dtype)
                 for name, out in outputs.items()}
    return _copies(_written_out(case, case.vjp(d_outputs, cache)))


def _second_call(names: Sequence[str], again: Arrays, first: Arrays) -> list[Finding]:
    """The findings on gradients that a second call of the backward changes."""
    names = [name for name in names if not _rounded(again[name], first[name])]
    if not names:
        return []
    if all(np.allclose(again[name], 2 * first[name]) for name in names):
        return [Finding("cache", f"d{name}", "the second is twice the first when the backward is "
                        "called again: is it not set to zero before it is added to?")
                for name in names]
    return [Finding("cache", "backward", "a second call of the backward on the same cache gives "
                    "something else: it changes its cache")]


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


# --- names and padding ----------------------------------------------------------------------------


def wanted_names(inputs: Arrays, names: Sequence[str] | None) -> list[str]:
    """The names of the inputs to check. Raises ValueError for an unknown name."""
    for name in names or []:
        if name not in inputs:
            raise ValueError(f"names: expected some of {', '.join(inputs)}, got {name!r}")
    return list(inputs if names is None else names)


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
