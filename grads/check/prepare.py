"""Prepares a check: the outputs, the analytic gradients, and faults other than wrong values.

The function and its backward are run twice on copies. This finds code that writes into its
arguments, and random results, before anything is differentiated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from grads.check.analytic import (
    dense,
    host,
    same_bits,
    validate_gradients,
    validate_upstream,
)
from grads.check.cache import cache_findings
from grads.check.case import Case
from grads.check.evaluate import Evaluator
from grads.check.precision import rounding_of
from grads.check.result import Finding
from grads.check.watch import Watch

CONSTANT = 1e-4  # fraction of the largest gradient that may not depend on the upstream gradient
Arrays = dict[str, np.ndarray]
# Gradients of the outputs, or a function of the outputs that returns them; None: random gradients
Upstream = Mapping[str, np.ndarray] | Callable[[Arrays], Mapping[str, np.ndarray]] | None


class Ready(NamedTuple):
    """A prepared check: the function, its analytic gradients, and the upstream gradients."""

    evaluate: Evaluator
    analytic: dict[str, Arrays]  # by choice of upstream gradients
    upstream: Arrays


def prepared(
    case: Case, upstream: Upstream, alone: bool, vanish: bool,
    wanted: Sequence[str], watch: Watch, rng: np.random.Generator, findings: list[Finding],
) -> Ready | None:
    """The prepared check; None if nothing can be compared. Faults other than wrong values are
    appended to `findings`."""
    exact = {name: np.array(value, np.float64) for name, value in case.inputs.items()}
    outputs = outputs_of(case, exact, findings)
    if findings:
        return None
    d_out = dict((upstream(outputs) if callable(upstream) else upstream)
                 or {k: rng.normal(size=out.shape) for k, out in outputs.items()})
    validate_upstream(d_out, exact)
    analytic = gradients_of(case, d_out, alone, findings)
    if not findings:
        findings += cache_findings(case, d_out, analytic["all"])
    if not findings:
        _zeros(analytic["all"], case.zeros, vanish, wanted, findings)
    evaluate = Evaluator(case.outputs, exact, outputs=outputs, watch=watch)
    evaluate.rounding = rounding_of(case, d_out, analytic["all"])
    evaluate.eps = max(float(np.finfo(value.dtype).eps) for value in case.inputs.values())
    return Ready(evaluate, analytic, d_out)


def outputs_of(case: Case, exact: Arrays, findings: list[Finding]) -> Arrays:
    """The outputs. Appends a finding if they are not finite, if two runs differ, or if the function
    writes into its inputs."""
    copies = {name: value.copy() for name, value in exact.items()}
    try:
        outputs = {name: np.array(host(out)) for name, out in case.outputs(copies).items()}
    except Exception as error:
        for name in [name for name, value in exact.items() if not value.size]:
            raise ValueError(f"inputs: expected entries in {name!r}, got shape "
                             f"{exact[name].shape}, for which the function fails: {error}"
                             ) from error
        raise
    for name in same_bits(copies, exact):
        findings.append(Finding("mutated", name, "the function writes into its input"))
    again = {name: host(out) for name, out in case.outputs(
        {name: value.copy() for name, value in exact.items()}).items()}
    for name, out in outputs.items():
        if out.dtype.kind not in "fiub":
            raise ValueError(f"forward: expected real numbers in output {name!r}, got {out.dtype}")
        if not np.isfinite(out).all():
            findings.append(Finding("not finite", name, "the output is NaN or infinite"))
    for name in same_bits(again, outputs):
        findings.append(Finding("random", name, "two runs of the function differ: freeze its "
                                                "random numbers (a dropout mask, a seed)"))
    if not outputs:
        findings.append(Finding("nothing", "outputs", "the function returns nothing"))
    return outputs


def gradients_of(
    case: Case, upstream: Mapping[str, np.ndarray], alone: bool, findings: list[Finding]
) -> dict[str, Arrays]:
    """The analytic gradients: through all outputs together, and through each of several outputs."""
    choices = {"all": dict(upstream)}
    if alone and len(upstream) > 1:
        choices |= {name: {name: d_out} for name, d_out in upstream.items()}
    dtype = next(iter(case.inputs.values())).dtype
    analytic: dict[str, Arrays] = {}
    for choice, d_outputs in choices.items():
        inputs = {name: np.array(value) for name, value in case.inputs.items()}
        d_copies = {name: np.array(d, dtype) for name, d in d_outputs.items()}
        gradients = case.gradients(inputs, d_copies)
        analytic[choice] = {name: dense(d, name, case.inputs) for name, d in gradients.items()}
        if choice == "all":
            for name in same_bits(inputs, case.inputs):
                findings.append(Finding("mutated", name, "the backward writes into the input"))
            for name in same_bits(d_copies, {k: np.array(d, dtype) for k, d in d_outputs.items()}):
                findings.append(Finding("mutated", f"d{name}",
                                        "the backward writes into the upstream gradient"))
            if not findings:
                findings += _upstream_findings(case, d_copies, analytic[choice])
    validate_gradients(case.inputs, analytic["all"])
    return analytic


def _upstream_findings(
    case: Case, upstream: Mapping[str, np.ndarray], gradients: Arrays
) -> list[Finding]:
    """Faults of a backward that show with other upstream gradients: it must be linear in them, and
    two runs must give the same."""

    def scaled(factor: float, dtype: Any = None) -> Arrays:
        """The gradients for `factor` times the upstream gradients, divided by `factor`, a power of
        2, so that rounding does not change."""
        inputs = {name: np.array(x, dtype) for name, x in case.inputs.items()}
        d_outputs = {name: np.array(factor * d, dtype) for name, d in upstream.items()}
        again = case.gradients(inputs, d_outputs)
        return {name: dense(again[name], name, case.inputs) / (factor or 1.0) if name in again
                else np.zeros_like(gradient)  # of a layer that has no more to say without upstream
                for name, gradient in gradients.items()}

    if case.cacheless:
        return []
    with np.errstate(all="ignore"):
        half, zero, dtype = scaled(-0.5), scaled(0.0), None
        differ = same_bits(half, gradients)
        if random := same_bits(scaled(1.0), gradients) if differ else []:
            return [Finding("random", f"d{name}", "two runs of the backward differ")
                    for name in random]
        if differ and next(iter(upstream.values())).dtype != np.float64:  # where little underflows
            try:
                half, gradients = scaled(-0.5, np.float64), scaled(1.0, np.float64)
                differ, dtype = same_bits(half, gradients), np.float64
            except Exception:  # the code may insist on its dtype
                pass
        names = [name for name in gradients if name in differ or zero[name].any()]
        small = tuple(scaled(factor, dtype) for factor in (2.0**-30, -(2.0**-31)) if names)
        said: dict[str, list[str]] = {}
        for name in names:
            message = _nonlinear(gradients[name], half[name], zero[name],
                                 *(gradient[name] for gradient in small))
            said.setdefault(message, []).append(f"d{name}")
    return [Finding("upstream", ", ".join(tensors), message)
            for message, tensors in said.items() if message]


def _nonlinear(
    gradient: np.ndarray, half: np.ndarray, zero: np.ndarray, small: np.ndarray,
    smaller: np.ndarray,
) -> str:
    """How a gradient depends on the upstream gradient; "" if linearly.

    Arguments: gradient; half, zero, small and smaller, the gradients from -1/2, 0, 2^-30 and -2^-31
    times the upstream gradient, divided by these factors.
    """
    largest = np.abs(gradient).max(initial=0.0)

    def alike(a: np.ndarray, b: np.ndarray | float) -> bool:
        return bool((np.abs(a - b) <= CONSTANT * largest).all())

    if not np.isfinite(zero).all():  # a right one may divide by it
        zero = np.zeros_like(zero)
    if not np.isfinite(gradient).all() or (alike(half, gradient) and alike(zero, 0.0)):
        return ""
    if alike(zero, gradient):
        return "it ignores the upstream gradient"
    if alike(half + 3 * zero, gradient):
        return "something is added to it that does not depend on the upstream gradient"
    if alike(zero, 0.0) and alike(half, 1.5 * small - gradient / 2):
        return ("it is quadratic in the upstream gradient: is that squared, or a gradient used "
                "where a value belongs?")
    if alike(-half, gradient):
        return "it loses the sign of the upstream gradient"
    if alike(zero, 0.0) and alike(small, smaller) and not alike(small, 0.0):
        return ("it is linear in small upstream gradients only: are they clipped, or squashed? "
                "Check without that, or with smaller ones")
    return "it is not linear in the upstream gradient, as any gradient is"


def wanted_names(inputs: Arrays, names: Sequence[str] | None) -> list[str]:
    """The names of the inputs to check. Raises ValueError for an unknown name."""
    for name in names or []:
        if name not in inputs:
            raise ValueError(f"names: expected some of {', '.join(inputs)}, got {name!r}")
    return list(inputs if names is None else names)


def _zeros(
    gradients: Arrays, zeros: Mapping[str, np.ndarray], vanish: bool, wanted: Sequence[str],
    findings: list[Finding],
) -> None:
    """Append a finding for a gradient that is not exactly zero where `zeros` is true, and, unless
    it may vanish, for a gradient that is zero everywhere else."""
    for name in wanted:
        gradient = gradients[name]
        padding = zeros.get(name, np.zeros(gradient.shape, dtype=bool))
        if gradient[padding].any():
            index = tuple(int(i) for i in np.argwhere(padding & (gradient != 0))[0])
            findings.append(Finding("padding", f"d{name}", "expected exact zeros where the input "
                                    f"cannot matter, got {gradient[index]:.6g} at {index}"))
        if not vanish and not padding.all() and not gradient[~padding].any():
            findings.append(Finding("vanishing", f"d{name}", "expected a gradient, got zeros"))
