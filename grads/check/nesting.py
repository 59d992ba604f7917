"""Names for arrays in nested tuples, lists and mappings, as users keep parameters and outputs.

A name is the path to an array: {"encoder": {"W": W}, "out": [V, c]} has "encoder.W", "out.0" and
"out.1".
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


def parameters_of_call(call: Callable[..., Any]) -> list[inspect.Parameter]:
    """The positional parameters of a function; none for a built-in function without a signature."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def is_branch(value: Any) -> bool:
    """Whether a value holds other values: whether it is a mapping, a tuple or a list."""
    return isinstance(value, (Mapping, list, tuple))


def holds_arrays(value: Any) -> bool:
    """Whether an input holds other arrays. A list of numbers is an array itself."""
    if isinstance(value, (list, tuple)):
        return any(isinstance(inner, np.ndarray) or holds_arrays(inner) for inner in value)
    return isinstance(value, Mapping)


def flatten(value: Any, prefix: str = "", branch: Callable[[Any], bool] = is_branch
            ) -> dict[str, Any]:
    """Name -> leaf; a single leaf without a name is called `prefix`, or "f"."""
    if not branch(value):
        return {prefix or "f": value}
    return {name: leaf for key, inner in items_of(value)
            for name, leaf in flatten(inner, _path(prefix, key), branch).items()}


def like(value: Any, leaves: Mapping[str, Any], prefix: str = "",
         branch: Callable[[Any], bool] = is_branch) -> Any:
    """The inverse of `flatten`: leaves in the form of `value`."""
    if not branch(value):
        return leaves[prefix or "f"]
    made = {key: like(inner, leaves, _path(prefix, key), branch) for key, inner in items_of(value)}
    if isinstance(value, Mapping):
        return made
    return type(value)(*made.values()) if hasattr(value, "_fields") else type(value)(made.values())


def same_form(gradients: Any, inputs: Any) -> bool:
    """Whether gradients have the form of inputs: the same mappings and lists of arrays."""
    if not is_branch(inputs):
        return not is_branch(gradients) and (
            isinstance(inputs, np.ndarray) or np.ndim(gradients) == 0)
    if isinstance(inputs, Mapping):
        return isinstance(gradients, Mapping) and gradients.keys() == inputs.keys() and all(
            same_form(gradients[key], inner) for key, inner in inputs.items())
    return isinstance(gradients, (list, tuple)) and len(gradients) == len(inputs) and all(
        map(same_form, gradients, inputs))


def matched(gradients: Any, inputs: Any, prefix: str = "") -> dict[str, Any]:
    """Gradients in the form of nested inputs, by name. A name that is missing is left out.

    None has no gradients inside. Raises ValueError if the forms differ.
    """
    if not holds_arrays(inputs):
        return {prefix: gradients}
    if gradients is None:
        return {}
    if isinstance(inputs, Mapping) != isinstance(gradients, Mapping) or not is_branch(gradients):
        kind = "a mapping" if isinstance(inputs, Mapping) else "a sequence"
        raise ValueError(f"gradients: expected {kind} for {prefix!r}, as in the inputs, got "
                         f"{type(gradients).__name__}")
    if not isinstance(inputs, Mapping) and len(gradients) != len(inputs):
        raise ValueError(f"gradients: expected {len(inputs)} for {prefix!r}, got {len(gradients)}")
    inner_inputs = dict(items_of(inputs))
    return {name: leaf for key, inner in items_of(gradients) for name, leaf in (
        matched(inner, inner_inputs[key], _path(prefix, key)) if key in inner_inputs
        else {_path(prefix, key): inner}).items()}


def items_of(value: Any) -> list[tuple[Any, Any]]:
    """The values inside a mapping or a sequence, with their keys or numbers."""
    return list(value.items() if isinstance(value, Mapping) else enumerate(value))


def _path(prefix: str, key: Any) -> str:
    return f"{prefix}.{key}" if prefix else str(key)
