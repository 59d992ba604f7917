"""The methods of a user's classes: which are followed, and how a class gets the rewritten ones.

An object may be made by the forward and used by the backward, which are rewritten separately. So
the class itself is kept, and has rewritten methods only while a program runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import FunctionType, ModuleType


def classes_of(module: ModuleType) -> list[type]:
    """The classes that a file defines."""
    return [one for one in vars(module).values()
            if isinstance(one, type) and one.__module__ == module.__name__]


def methods_of(classes: Iterable[type]) -> dict[FunctionType, type]:
    """The methods that can be followed, each with its class: written in it with def, without
    decorators that replace them or names that Python changes (`self.__x`)."""
    return {one: kind for kind in classes for name, one in vars(kind).items()
            if isinstance(one, FunctionType) and one.__qualname__ == f"{kind.__qualname__}.{name}"
            and one.__code__.co_name == name and not hasattr(one, "__wrapped__")
            and not one.__code__.co_filename.startswith("<")
            and not any(used.startswith(f"_{kind.__name__.lstrip('_')}__")
                        for used in one.__code__.co_names)}


@contextmanager
def installed(methods: Mapping[FunctionType, type], copies: Mapping[FunctionType, FunctionType]
              ) -> Iterator[None]:
    """Context: the classes have the copies of their methods."""
    for one, kind in methods.items():
        setattr(kind, one.__name__, copies[one])
    try:
        yield
    finally:
        for one, kind in methods.items():
            setattr(kind, one.__name__, one)
