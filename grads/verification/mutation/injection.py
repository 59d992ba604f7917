"""Replaces a function temporarily by a changed function."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import FunctionType
from typing import Any

from grads.verification.mutation.syntax import parse

PARTS = ("__code__", "__defaults__", "__kwdefaults__")  # attributes that follow from the source


@contextmanager
def injected(path: str, source: str) -> Iterator[None]:
    """Context in which the function at a dotted path has another source.

    The function's code is changed in place, so that it changes also for modules that have imported
    or stored the function. This is not thread-safe. Raises ValueError if the path names no Python
    function, if the source is not a function, or if it needs other outer variables.
    """
    function = find(path)
    changed = compiled(function, source)
    before = {attribute: getattr(function, attribute) for attribute in PARTS}
    try:
        for attribute in PARTS:
            setattr(function, attribute, getattr(changed, attribute))
        yield
    finally:
        for attribute, value in before.items():
            setattr(function, attribute, value)


@contextmanager
def replaced(path: str, old: str, new: str) -> Iterator[None]:
    """Context in which `old` is replaced by `new` in the source of the function at a dotted path.

    Raises ValueError unless `old` occurs exactly once, and the errors of `injected`.
    """
    source = textwrap.dedent(inspect.getsource(find(path)))
    if source.count(old) != 1:
        raise ValueError(f"{path}: expected {old!r} exactly once, found it "
                         f"{source.count(old)} times")
    with injected(path, source.replace(old, new)):
        yield


def find(path: str) -> FunctionType:
    """The function, method or property at a dotted path, without decorators that keep
    `__wrapped__`. Raises ValueError if there is none.
    """
    parts = path.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            target: Any = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            target = getattr(target, name, None)
        target = getattr(target, "fget", getattr(target, "__func__", target))
        target = inspect.unwrap(target) if callable(target) else target
        if isinstance(target, FunctionType):
            return target
        break
    raise ValueError(f"function: expected the path of a Python function, got {path!r}")


def compiled(function: FunctionType, source: str) -> FunctionType:
    """The function of a source, compiled in the place of another function."""
    outer = function.__code__.co_freevars
    scope = dict(function.__globals__)
    module = _enclosed(parse(source), outer)
    exec(compile(module, "<mutant>", "exec", ANNOTATIONS, dont_inherit=True), scope)
    changed = scope["_enclosing"](*outer)
    if changed.__code__.co_freevars != outer:
        raise ValueError(f"source: expected {function.__qualname__} to use its outer variables "
                         f"{outer} still")
    return changed


ANNOTATIONS = annotations.compiler_flag  # as every module of the product has them


def _enclosed(definition: ast.FunctionDef, outer: tuple[str, ...]) -> ast.Module:
    """`def _enclosing(*outer): <definition>; return it`, so that outer variables stay outer."""
    definition.name = "_mutant"  # a recursive call still finds the outer function
    tree = ast.parse(f"def _enclosing({', '.join(outer)}):\n    return _mutant")
    enclosing = tree.body[0]
    assert isinstance(enclosing, ast.FunctionDef)
    enclosing.body.insert(0, definition)
    return ast.fix_missing_locations(tree)
