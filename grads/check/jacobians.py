"""The Jacobian of a small function, to print: every derivative, as exact as possible."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from grads.check.analytic import name_inputs, validate_inputs
from grads.check.differentiate import Numeric, at_entries, derivatives
from grads.check.evaluate import Evaluator, Line, NotAnalytic
from grads.check.nesting import flatten

LARGEST = 1_000_000  # derivatives: more are not read by anyone
AGREES = 1e-6  # relative difference from Ridders' along a direction, beside its own error


def jacobian(f: Callable[..., Any], inputs: Any) -> Any:
    """The derivatives of every element of f with respect to every entry of its inputs.

    The complex step differentiates, and Ridders' differences confirm it along one direction. If f
    is not analytic, Ridders' differences are used for all entries. Arguments: f and inputs as in
    `check_gradients`. Returns a float64 array, of the shape of f's output followed by the input's
    shape. If there are several inputs, returns such arrays by the name of the input; if there are
    several outputs, by the name of the output, and then of the input. Raises ValueError for invalid
    inputs, or if there are more than a million derivatives.
    """
    named, form = name_inputs(f, inputs)
    validate_inputs(named)
    shapes: dict[str, tuple[int, ...]] = {}

    def elements(a: dict[str, Any]) -> dict[str, Any]:
        outputs = flatten(form.call(f, a))
        shapes.update((name, np.shape(out)) for name, out in outputs.items())
        return {f"{name} {k}": x for name, out in outputs.items()
                for k, x in enumerate(np.ravel(out))}

    by_input = _derivatives(Evaluator(elements, named))
    rows = np.cumsum([0, *(np.prod(shape, dtype=int) for shape in shapes.values())])
    by_output = {name: {key: J[start:stop].reshape(*shape, *np.shape(named[key]))
                        for key, J in by_input.items()}
                 for (name, shape), start, stop in zip(
                     shapes.items(), rows, rows[1:], strict=False)}
    return _unwrapped({name: _unwrapped(parts) for name, parts in by_output.items()})


def _derivatives(evaluate: Evaluator) -> dict[str, Any]:
    """The derivatives (elements, entries) by the name of an input."""
    count = len(evaluate.outputs) * sum(x.size for x in evaluate.inputs.values())
    if count > LARGEST:
        raise ValueError(f"inputs: expected at most {LARGEST:,} derivatives, got {count:,}")
    upstream = {name: np.ones(()) for name in evaluate.outputs}
    entries = {name: np.arange(x.size) for name, x in evaluate.inputs.items()}

    def by(method: str) -> dict[str, Any]:
        numbers = at_entries(evaluate, {}, upstream, entries, method)
        return {name: numeric.value for name, numeric in numbers.items()}

    try:
        exact = by("complex")
    except NotAnalytic:
        return by("ridders")
    rng = np.random.default_rng(0)
    v = {name: rng.normal(size=x.shape) for name, x in evaluate.inputs.items()}
    confirmed = _agree(exact, v, derivatives(evaluate, upstream, [Line(v)], "ridders"))
    return exact if confirmed else by("ridders")


def _agree(exact: Mapping[str, Any], v: Mapping[str, Any], ridders: Numeric) -> bool:
    """Whether the exact derivatives, multiplied by a direction, are the derivatives along it."""
    products = sum(J @ v[name].reshape(-1) for name, J in exact.items())
    allowed = ridders.error[:, 0] + AGREES * ridders.scale[:, 0]
    return bool((np.abs(products - ridders.value[:, 0]) <= allowed).all())


def _unwrapped(mapping: dict[str, Any]) -> Any:
    """The value of a mapping that has only one; otherwise the mapping."""
    return next(iter(mapping.values())) if len(mapping) == 1 else mapping
