"""Keeps the values of a trace: the arrays inside nested containers, copied, and cut if large.

A leaf is an array, a number, or a container that holds neither (such as the token ids of a
sentence). The path to a leaf is a tuple of steps: a `Field` for a field or an attribute, anything
else for a key or an index.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from numbers import Integral, Number
from typing import Any, NamedTuple

import numpy as np

from grads.check.nesting import fields_of, is_branch, with_values
from grads.stepper.tracing.syntax import Pattern, Star, Written

KEEP = 4096  # numbers of one array that a trace keeps
DEPTH = 12  # containers inside containers that are searched

Path = tuple[Any, ...]


class Field(str):
    """The name of a field, as a step of a path."""


class Kept(NamedTuple):
    """The value of a leaf at the time of an assignment."""

    value: Any  # array copied, number, string, container of plain values; a description otherwise
    shape: tuple[int, ...] | None  # of an array or a number, in full
    sliced: bool  # whether `value` holds only the first entries of each axis


# --- leaves -------------------------------------------------------------------------------------


def is_array(value: Any) -> bool:
    """Whether a value is an array of NumPy, or of a module that behaves like it."""
    return hasattr(value, "shape") and hasattr(value, "dtype")


def is_named(value: Any) -> bool:
    """Whether a value is a NamedTuple or a dataclass."""
    return fields_of(value) is not value


def is_plain(value: Any, depth: int = DEPTH) -> bool:
    """Whether a container holds no array and no fraction at any depth."""
    if is_branch(value):
        return not depth or all(is_plain(entry, depth - 1) for _, entry in items(value))
    return not is_array(value) and not isinstance(value, (float, complex))


def items(value: Any) -> Iterator[tuple[Any, Any]]:
    """The entries of a container, each with the step of a path that leads to it."""
    if isinstance(value, Mapping):
        yield from value.items()
    elif is_named(value):
        yield from ((Field(name), entry) for name, entry in fields_of(value).items())
    elif isinstance(value, (list, tuple)):
        yield from enumerate(value)


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every leaf of a value, with its path."""
    if isinstance(value, np.ndarray) or not is_branch(value) or (
            len(path) > DEPTH or is_plain(value)):
        yield path, value
        return
    for step, inner in items(value):
        yield from leaves(inner, (*path, step))


def at(value: Any, path: Path) -> Any:
    """The entry of a value at a path."""
    for step in path:
        value = getattr(value, step) if isinstance(step, Field) else value[step]
    return value


def changed(value: Any, path: Path, change: Callable[[Any], Any]) -> Any:
    """A copy of nested containers with the entry at one path changed. The original stays as it
    is."""
    if not path:
        return change(value)
    step, rest = path[0], path[1:]
    if isinstance(step, Field):
        return with_values(value, {name: changed(entry, rest, change) if name == step else entry
                                   for name, entry in fields_of(value).items()})
    if isinstance(value, Mapping):
        return {**value, step: changed(value[step], rest, change)}
    parts = [changed(entry, rest, change) if i == step else entry for i, entry in enumerate(value)]
    return parts if isinstance(value, list) else tuple(parts)


def text_of(path: Path) -> str:
    """A path as text, as it is written behind a name: [2].T['W_e']."""
    return "".join(map(part_text, path)) if path else ""


def part_text(step: Any) -> str:
    """One step of a path as text."""
    if isinstance(step, Field):
        return f".{step}"
    if isinstance(step, tuple):
        return f"[{', '.join(index_text(index) for index in step)}]"
    return f"[{index_text(step)}]"


def index_text(index: Any) -> str:
    """A key or an index as text."""
    if isinstance(index, slice):
        ends = ["" if end is None else str(end) for end in (index.start, index.stop)]
        return ":".join([*ends, *([] if index.step is None else [str(index.step)])])
    if isinstance(index, Integral) and not isinstance(index, bool):
        return str(int(index))
    return "..." if is_array(index) or index is Ellipsis else repr(index)


def in_words(value: Any) -> str:
    """A kept value that is not an array, in words: "score general, window global, D 10", or, with
    numbers as keys, "1: 13, 2: 48"."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}{'' if isinstance(key, str) else ':'} {in_words(entry)}"
                         for key, entry in value.items()) or "empty"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(in_words, value)) or "empty"
    return str(value)


# --- copies -------------------------------------------------------------------------------------


def keep(value: Any, limit: int = KEEP) -> Kept:
    """A copy of a leaf as it is now, with at most `limit` numbers."""
    if is_array(value):
        first = beginning(value, value.shape, limit)
        return Kept(np.array(first), tuple(value.shape), first.size < value.size)
    if isinstance(value, Number):
        return Kept(value, (), False)
    if value is None or isinstance(value, str):
        return Kept(value, None, False)
    if isinstance(value, (Mapping, list, tuple)) and is_plain(value):
        return Kept(_plain(value, limit), None, len(value) > limit)
    if isinstance(value, range):
        return Kept(_plain(list(value[:limit]), limit), None, len(value) > limit)
    return Kept(f"<{type(value).__name__}>", None, False)


def shortened(kept: Kept, limit: int) -> Kept:
    """The value that `keep` would have kept with a smaller limit."""
    if kept.shape is None or not is_array(kept.value):
        shorter = keep(kept.value, limit)
        return shorter._replace(sliced=kept.sliced or shorter.sliced)
    first = beginning(kept.value, kept.shape, limit)
    return kept._replace(value=first, sliced=kept.sliced or first.size < kept.value.size)


def beginning(values: Any, shape: Sequence[int], limit: int) -> Any:
    """The first numbers along each axis of an array of this shape, at most `limit` of them.

    Argument values: the array, or what was kept of it with a larger limit.
    """
    if math.prod(shape) <= limit:
        return values
    side = max(1, int(limit ** (1 / sum(n > 1 for n in shape))))
    return values[tuple(slice(0, side) for _ in shape)]


def _plain(value: Any, limit: int) -> Any:
    """A copy of the first entries of a container of plain values."""
    if isinstance(value, Mapping) or is_named(value):
        return {key: _plain(entry, limit) for key, entry in islice(items(value), limit)}
    if isinstance(value, (list, tuple)):
        return [_plain(entry, limit) for entry in islice(value, limit)]
    return keep(value).value


def memory_of(value: Any) -> tuple[Any, ...] | None:
    """A key that all views of the same memory share; None if it cannot be determined."""
    if isinstance(value, np.ndarray):
        if not value.size:
            return None
        strides = [(n, s) for n, s in zip(value.shape, value.strides, strict=True) if n > 1]
        return value.__array_interface__["data"][0], value.dtype.str, *strides
    return (id(value),) if isinstance(value, np.generic) else None


# --- targets ------------------------------------------------------------------------------------


class Binding(NamedTuple):
    """A target of an assignment with the value that it gets."""

    target: Written
    path: Path | None  # its place in the value assigned; None for what a starred target gathers
    value: Any


def unpack(target: Pattern, value: Any, path: Path = ()) -> tuple[Any, list[Binding] | None]:
    """Unpacks an assigned value over a pattern of targets, as Python does.

    Returns the value, with iterators made into tuples, and a binding for each target. The bindings
    are None if the value does not fit; the assignment itself then raises Python's error.
    """
    if isinstance(target, Written):
        return value, [Binding(target, path, value)]
    assert not isinstance(target, Star)
    star = next((i for i, pattern in enumerate(target) if isinstance(pattern, Star)), None)
    try:
        parts = list(value if star is not None else islice(value, len(target) + 1))
    except TypeError:
        return value, None
    surplus = len(parts) - len(target)  # how many the starred target gets beyond one
    if surplus < -1 or (star is None and surplus):
        return tuple(parts), None
    targets: list[Binding] = []
    for i, pattern in enumerate(target):
        if isinstance(pattern, Star):
            if isinstance(pattern.target, Written):
                targets.append(Binding(pattern.target, None, parts[i : i + surplus + 1]))
            continue
        j = i if star is None or i < star else i + surplus
        parts[j], inner = unpack(pattern, parts[j], (*path, j))
        if inner is None:
            return tuple(parts), None
        targets += inner
    return tuple(parts), targets
