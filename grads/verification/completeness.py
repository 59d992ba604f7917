"""Checks that every backward pass of the product runs in a check of its mutants."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pkgutil import walk_packages
from types import CodeType, FrameType, ModuleType
from typing import Any

from grads.verification.mutation.record import Check

PRODUCT = ("backend", "lstm", "attention", "nmt")
# tests compare each kernel there with the function that it replaces
FUSED = "backend.fused.", "attention.norm_kernels"


def product_modules() -> Iterator[ModuleType]:
    """Every module of the product packages."""
    for package in PRODUCT:
        root = import_module(package)
        yield root
        yield from (import_module(module.name)
                    for module in walk_packages(root.__path__, f"{package}.")
                    if not module.name.endswith("__main__") and not module.name.startswith(FUSED))


def backward_functions(modules: Iterable[ModuleType]) -> dict[CodeType, str]:
    """Every function and method in `modules` whose name ends in "backward": code -> full name."""
    return {inspect.unwrap(function).__code__: f"{module.__name__}.{function.__qualname__}"
            for module in modules for function in _functions(module, module.__name__)
            if function.__name__.endswith("backward")}


def _functions(scope: Any, module: str) -> Iterator[Any]:
    """The functions that a module or class defines, except those of protocols."""
    for member in vars(scope).values():
        if getattr(member, "__module__", None) != module:
            continue
        if inspect.isclass(member) and not getattr(member, "_is_protocol", False):
            yield from _functions(member, module)
        elif inspect.isfunction(member):
            yield member


def called_by(act: Callable[[], object]) -> set[CodeType]:
    """The code of every Python function that is called while `act` runs."""
    seen: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            seen.add(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(before)
    return seen


def never_run(modules: Iterable[ModuleType], checks: Iterable[Check]) -> list[str]:
    """The backward functions of `modules` that no check calls."""
    missing = backward_functions(modules)
    for check in checks:
        if missing:
            for code in called_by(check.numbers):
                missing.pop(code, None)
    return sorted(missing.values())
