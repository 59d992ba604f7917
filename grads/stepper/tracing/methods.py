"""Finds the methods of a user's classes that can be followed, and installs the rewritten ones.

The forward may create an object that the backward uses, and both functions are rewritten
separately. So the class itself is kept, and has the rewritten methods only while a program runs.
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
    """The methods that can be followed, each with its class.

    Such a method is written in the class with def. It has no decorator that replaces it, and uses
    no name that Python changes (`self.__x`).
    """
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
    """Context: the classes have the rewritten copies of their methods."""
    for method, kind in methods.items():
        setattr(kind, method.__name__, copies[method])
    try:
        yield
    finally:
        for method, kind in methods.items():
            setattr(kind, method.__name__, method)
