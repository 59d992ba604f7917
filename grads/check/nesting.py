"""Names for arrays in nested tuples, lists and mappings, as users keep parameters and outputs.

A name is the path to an array: {"encoder": {"W": W}, "out": [V, c]} has "encoder.W", "out.0" and
"out.1".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


def is_branch(value: Any) -> bool:
    """Whether a value holds others: all mappings, tuples and lists do."""
    return isinstance(value, (Mapping, list, tuple))


def holds_arrays(value: Any) -> bool:
    """Whether an input holds others; a list of numbers is an array itself."""
    if isinstance(value, (list, tuple)):
        return any(isinstance(part, np.ndarray) or holds_arrays(part) for part in value)
    return isinstance(value, Mapping)


def flatten(value: Any, prefix: str = "", branch: Callable[[Any], bool] = is_branch
            ) -> dict[str, Any]:
    """Name -> leaf; a single leaf without a name is called `prefix`, or "f"."""
    if not branch(value):
        return {prefix or "f": value}
    return {name: leaf for key, part in _parts(value)
            for name, leaf in flatten(part, _inside(prefix, key), branch).items()}


def like(value: Any, leaves: Mapping[str, Any], prefix: str = "",
         branch: Callable[[Any], bool] = is_branch) -> Any:
    """The inverse of `flatten`: leaves in the form of `value`."""
    if not branch(value):
        return leaves[prefix or "f"]
    made = {key: like(part, leaves, _inside(prefix, key), branch) for key, part in _parts(value)}
    if isinstance(value, Mapping):
        return made
    return type(value)(*made.values()) if hasattr(value, "_fields") else type(value)(made.values())


def same_form(found: Any, inputs: Any) -> bool:
    """Whether mappings and lists of gradients have the form of an input that is no array; of a list
    of numbers, its shape."""
    if not is_branch(inputs):
        return not is_branch(found) and (isinstance(inputs, np.ndarray) or np.ndim(found) == 0)
    if isinstance(inputs, Mapping):
        return isinstance(found, Mapping) and found.keys() == inputs.keys() and all(
            same_form(found[key], part) for key, part in inputs.items())
    return isinstance(found, (list, tuple)) and len(found) == len(inputs) and all(
        map(same_form, found, inputs))


def matched(found: Any, inputs: Any, prefix: str = "") -> dict[str, Any]:
    """Gradients in the form of nested inputs, by name.

    Raises ValueError where the forms differ; a name that is missing is left out.
    """
    if not holds_arrays(inputs):
        return {prefix: found}
    if isinstance(inputs, Mapping) != isinstance(found, Mapping) or not is_branch(found):
        kind = "a mapping" if isinstance(inputs, Mapping) else "a sequence"
        raise ValueError(f"gradients: expected {kind} for {prefix!r}, as in the inputs, got "
                         f"{type(found).__name__}")
    if not isinstance(inputs, Mapping) and len(found) != len(inputs):
        raise ValueError(f"gradients: expected {len(inputs)} for {prefix!r}, got {len(found)}")
    own = dict(_parts(inputs))
    return {name: leaf for key, part in _parts(found) for name, leaf in (
        matched(part, own[key], _inside(prefix, key)) if key in own
        else {_inside(prefix, key): part}).items()}


def _parts(value: Any) -> list[tuple[Any, Any]]:
    """The parts with their keys or numbers."""
    return list(value.items() if isinstance(value, Mapping) else enumerate(value))


def _inside(prefix: str, key: Any) -> str:
    return f"{prefix}.{key}" if prefix else str(key)
