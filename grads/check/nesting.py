"""Names for arrays in nested tuples, lists and mappings, as users keep parameters and outputs.

A name is the path to an array: {"encoder": {"W": W}, "out": [V, c]} has "encoder.W", "out.0" and
"out.1". A NamedTuple or a dataclass has the names of its fields.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np


def parameters_of_call(call: Callable[..., Any]) -> list[inspect.Parameter]:
    """The positional parameters of a function; none for a built-in function without a signature."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def fields_of(value: Any) -> Any:
    """The fields of a NamedTuple or a dataclass, as a mapping; another value as it is."""
    if is_dataclass(type(value)):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    is_named = isinstance(value, tuple) and hasattr(value, "_fields")
    return dict(zip(value._fields, value, strict=True)) if is_named else value


def is_container(value: Any) -> bool:
    """Whether a value is a mapping, a tuple or a list."""
    return isinstance(value, (Mapping, list, tuple))


def is_branch(value: Any) -> bool:
    """Whether a value holds other values: whether it is a container or a dataclass."""
    return isinstance(value, (Mapping, list, tuple)) or is_dataclass(type(value))


def holds_arrays(value: Any) -> bool:
    """Whether an input holds other arrays. A list of numbers is an array itself."""
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return any(isinstance(inner, np.ndarray) or holds_arrays(inner) for inner in value)
    return is_branch(value)


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
    return with_values(value, made)


def with_values(value: Any, made: dict[Any, Any]) -> Any:
    """A mapping, a sequence or a dataclass with other values inside."""
    if isinstance(value, Mapping):
        return made
    if isinstance(value, (list, tuple)):
        spread = hasattr(value, "_fields")
        return type(value)(*made.values()) if spread else type(value)(made.values())
    changed = copy.copy(value)
    for key, inner in made.items():
        object.__setattr__(changed, key, inner)
    return changed


def same_form(gradients: Any, inputs: Any) -> bool:
    """Whether gradients have the form of inputs: the same mappings and lists of arrays. Some may be
    missing."""
    leaves, expected = flatten(gradients), flatten(inputs)
    return leaves.keys() <= expected.keys() and all(
        isinstance(expected[name], np.ndarray) or np.ndim(d) == 0 for name, d in leaves.items())


def matched(gradients: Any, inputs: Any, prefix: str = "") -> dict[str, Any]:
    """Gradients in the form of nested inputs, by name. A name that is missing is left out.

    None has no gradients inside. Raises ValueError if the forms differ.
    """
    if not holds_arrays(inputs):
        return {prefix: gradients}
    if gradients is None:
        return {}
    inner_inputs, gradients = dict(items_of(inputs)), fields_of(gradients)
    named, in_order = isinstance(fields_of(inputs), Mapping), isinstance(gradients, (list, tuple))
    if in_order and isinstance(inputs, (list, tuple)) and len(gradients) == len(inputs):
        gradients = dict(zip(inner_inputs, gradients, strict=True))
    elif not (named and isinstance(gradients, Mapping)):
        kind = "a mapping" if named else len(inputs)
        got = len(gradients) if in_order else type(gradients).__name__
        raise ValueError(f"gradients: expected {kind} for {prefix!r}, as in the inputs, got {got}")
    return {name: leaf for key, inner in gradients.items() for name, leaf in (
        matched(inner, inner_inputs[key], _path(prefix, key)) if key in inner_inputs
        else {_path(prefix, key): inner}).items()}


def items_of(value: Any) -> list[tuple[Any, Any]]:
    """The values inside a mapping, a sequence or a dataclass, with their keys, numbers or names."""
    value = fields_of(value)
    return list(value.items() if isinstance(value, Mapping) else enumerate(value))


def _path(prefix: str, key: Any) -> str:
    return f"{prefix}.{key}" if prefix else str(key)
