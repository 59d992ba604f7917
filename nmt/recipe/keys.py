"""The keys that a recipe may have, from the dataclasses of its sections."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from itertools import accumulate
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from nmt.console.messages import nearest
from nmt.models.registry import MODELS
from nmt.recipe import DEFAULT_ARCHITECTURE, kind_of

ARCHITECTURE = "model.architecture"  # the only key that is no field: it decides the model's fields


class Key(NamedTuple):
    """A value that a recipe may give."""

    type: Any  # as jsonargparse reads it
    written: str  # the type in messages, such as `int | null`
    default: Any
    section: type  # the dataclass that declares the key


def keys_of(architecture: str) -> Mapping[str, Key]:
    """All keys of the recipes of an architecture, by dotted name, in their order."""
    return _keys_of(architecture, MODELS[architecture].config)


@cache
def _keys_of(architecture: str, config: type) -> Mapping[str, Key]:
    """The keys of an architecture whose model section has this class."""
    kind, keys = kind_of(architecture), dict[str, Key]()
    for name, key in _keys(kind, dataclasses.MISSING, "", {"model": config}):
        if name.startswith("model.") and ARCHITECTURE not in keys:
            keys[ARCHITECTURE] = Key(str, "str", DEFAULT_ARCHITECTURE, kind)
        keys[name] = key
    return keys


def sections_of(keys: Collection[str]) -> set[str]:
    """The dotted names of the sections of keys."""
    return {section for key in keys
            for section in accumulate(key.split(".")[:-1], lambda outer, name: f"{outer}.{name}")}


_hints = cache(get_type_hints)  # section -> the types of its fields


def subsections(section: type, chosen: Mapping[str, type] | None) -> dict[str, type]:
    """The fields of a section whose types are sections (dataclasses) themselves: field -> type.

    chosen: field -> type, for fields whose type depends on the architecture.
    """
    hints = {**_hints(section), **(chosen or {})}
    return {field.name: hints[field.name] for field in dataclasses.fields(section)
            if dataclasses.is_dataclass(hints[field.name])}


def default_of(field: dataclasses.Field[Any], owner: Any, kind: type | None) -> Any:
    """A field's default, from `owner` or else from the field itself; MISSING if there is none.

    owner: the default of the field's section, or MISSING. kind: the class that the default must be
    an instance of, or None.
    """
    default, make = field.default, field.default_factory
    if owner is not dataclasses.MISSING:
        default = getattr(owner, field.name)
    elif callable(make):
        default = make()
    return default if kind is None or isinstance(default, kind) else dataclasses.MISSING


def problem(key: str, architecture: str) -> str:
    """The message for an unknown key: other architectures that have it, and the nearest known key.
    """
    keys = keys_of(architecture)
    architectures = [name for name in MODELS
                     if key in {*keys_of(name), *sections_of(keys_of(name))}]
    hint = f" to the architecture {architecture}, but to {', '.join(architectures)}" \
        if architectures else ""
    return f"'{key}' is not known{hint}{nearest(key, [*sections_of(keys), *keys])}"


def _keys(
    section: type, default: Any, prefix: str, chosen: Mapping[str, type] | None = None
) -> Iterator[tuple[str, Key]]:
    """The keys of a section and of the sections in it."""
    hints, inner = _hints(section), subsections(section, chosen)
    for field in dataclasses.fields(section):
        name, kind = prefix + field.name, inner.get(field.name)
        value = default_of(field, default, kind)
        if kind is not None:
            yield from _keys(kind, value, f"{name}.")
        else:
            hint = hints[field.name]
            yield name, Key(hint, _written(hint, str(field.type)), value, section)


def _written(hint: Any, annotation: str) -> str:
    """A type in the words of YAML, as in `int | null`."""
    if get_origin(hint) is Literal:
        return " | ".join(map(repr, get_args(hint)))
    return annotation.replace("None", "null")
