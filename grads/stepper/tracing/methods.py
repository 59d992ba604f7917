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
    return [value for value in vars(module).values()
            if isinstance(value, type) and value.__module__ == module.__name__]


def methods_of(classes: Iterable[type]) -> dict[FunctionType, type]:
    """The methods that can be followed, each with its class: written in it with def, without
    decorators that replace them or names that Python changes (`self.__x`)."""
    return {method: kind for kind in classes for name, method in vars(kind).items()
            if isinstance(method, FunctionType)
            and method.__qualname__ == f"{kind.__qualname__}.{name}"
            and method.__code__.co_name == name and not hasattr(method, "__wrapped__")
            and not method.__code__.co_filename.startswith("<")
            and not any(used.startswith(f"_{kind.__name__.lstrip('_')}__")
                        for used in method.__code__.co_names)}


@contextmanager
def installed(methods: Mapping[FunctionType, type], copies: Mapping[FunctionType, FunctionType]
              ) -> Iterator[None]:
    """Context: the classes have the copies of their methods."""
    for method, kind in methods.items():
        setattr(kind, method.__name__, copies[method])
    try:
        yield
    finally:
        for method, kind in methods.items():
            setattr(kind, method.__name__, method)
