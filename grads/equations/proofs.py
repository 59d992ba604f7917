"""What proves a line of the source: the gradient checks that execute it, the tests that name it.

`executed_by` runs every entry of the catalogue, forward and backward, and notes the lines that it
executes. `KnownTests` reads the tests: a test proves a function whose name it uses, by itself or
through the helpers and constants of test modules. What no test names is proved by the tests that
name its callers.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from grads.equations.citations import PACKAGES
from grads.verification import catalogue, derivations
from grads.verification.cases import model_case
from grads.verification.rules import gradients_of

Lines = Mapping[str, set[int]]  # file, relative to the repository -> numbers of executed lines


# --- gradient checks ----------------------------------------------------------------------------


def executed(act: Callable[[], object], root: Path) -> Lines:
    """The lines of files under `root` that run while `act` does."""
    lines: dict[str, set[int]] = defaultdict(set)
    inside, before = f"{root}/", sys.gettrace()

    def enter(frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(inside):
            return None
        seen = lines[frame.f_code.co_filename.removeprefix(inside)]
        seen.add(frame.f_code.co_firstlineno)

        def step(frame: FrameType, event: str, _: Any) -> Any:
            seen.add(frame.f_lineno)
            return step

        return step

    sys.settrace(enter)
    try:
        act()
    finally:
        sys.settrace(before)
    return lines


def executed_by(root: Path) -> Mapping[str, Lines]:
    """For each configuration of the catalogue, by name, the lines that its check executes."""
    made = {entry.name: derivations.make_case(entry) for entry in derivations.entries()}
    made |= {entry.name.partition(";")[0]: model_case(catalogue.drawn(entry))
             for entry in catalogue.entries("tiny") if entry.shape == "ragged"}
    return {name: executed(partial(gradients_of, case), root) for name, case in made.items()}


# --- tests --------------------------------------------------------------------------------------


class Uses(NamedTuple):
    """What a piece of a test module refers to."""

    symbols: set[str]  # dotted: product functions, modules, and names of test modules
    attributes: set[str]  # every x in `something.x`


class KnownTests:
    """The tests of a repository, and the functions of its source that they name."""

    def __init__(self, root: Path) -> None:
        """Reads every module under `root`'s tests and packages.

        Tests directly in tests/grads are about the tools, not about what the tools look at.
        """
        self._reach: dict[str, Uses] = {}  # path::test -> all it refers to
        pieces: dict[str, Uses] = {}
        for path in sorted((root / "tests").rglob("*.py")):
            for name, uses in _read_module(path, path.stem):
                is_test = name.startswith("test_") and path.name.startswith("test_") \
                    and path.parent != root / "tests" / "grads"
                key = f"{path.relative_to(root).as_posix()}::{name}" if is_test else ""
                pieces[key or f"{path.stem}.{name}"] = uses
        for name in pieces:
            if "::" in name:
                self._reach[name] = _closure(name, pieces)
        self._source = {(module, name): uses for package in PACKAGES
                        for path in sorted((root / package).rglob("*.py"))
                        for module in [".".join(path.relative_to(root).with_suffix("").parts)]
                        for name, uses in _read_module(path, module)}

    def naming(self, module: str, name: str) -> list[str]:
        """`path::test` of the tests that name a function or method; else one of its callers."""
        todo, done = [(module, name)], {(module, name)}
        while todo:
            found = [test for test, uses in self._reach.items()
                     if any(_names(uses, *function) for function in todo)]
            if found:
                return found
            callers = [caller for caller, uses in self._source.items()
                       if any(_calls(caller, uses, *function) for function in todo)]
            todo = [caller for caller in callers if caller not in done]
            done |= set(todo)
        return []


def _calls(caller: tuple[str, str], uses: Uses, module: str, name: str) -> bool:
    """Whether a function of the source refers to another one, or a method to one of its class."""
    outer, _, method = name.partition(".")
    if caller == (module, name):
        return False
    if method and caller[0] == module and caller[1].startswith(f"{outer}."):
        return method in uses.attributes
    return _names(uses, module, name)


def _names(uses: Uses, module: str, name: str) -> bool:
    """Whether a function or method is among what a test refers to."""
    outer, _, method = name.partition(".")
    if f"{module}.{outer}" in uses.symbols:
        return not method or method in uses.attributes
    return module in uses.symbols and name in uses.attributes


def _closure(start: str, pieces: Mapping[str, Uses]) -> Uses:
    """What a piece refers to, and what the pieces of test modules among it refer to."""
    symbols, attributes, todo, done = set[str](), set[str](), [start], {start}
    while todo:
        uses = pieces[todo.pop()]
        symbols |= uses.symbols
        attributes |= uses.attributes
        new = {symbol for symbol in uses.symbols if symbol in pieces} - done
        todo += new
        done |= new
    return Uses(symbols, attributes)


def _read_module(path: Path, module: str) -> Iterator[tuple[str, Uses]]:
    """The functions, methods and constants of a module, and what each refers to."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    bound = dict(_imports(ast.walk(tree)))
    named = [(name, node) for node in tree.body for name in _defined(node)]
    bound |= {name: f"{module}.{name}" for name, _ in named}
    for name, node in named:
        yield name, _uses(node, bound)
        if isinstance(node, ast.ClassDef):
            yield from ((f"{name}.{method.name}", _uses(method, bound)) for method in node.body
                        if isinstance(method, ast.FunctionDef))


def _defined(node: ast.stmt) -> list[str]:
    """The names that a statement of a module defines."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [child.id for target in node.targets for child in ast.walk(target)
                if isinstance(child, ast.Name)]
    return [node.target.id] if isinstance(node, ast.AnnAssign) \
        and isinstance(node.target, ast.Name) else []


def _imports(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """Local name and dotted meaning of everything imported."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}")
                        for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.asname or alias.name.partition(".")[0],
                         alias.name if alias.asname else alias.name.partition(".")[0])
                        for alias in node.names)


def _uses(node: ast.AST, bound: Mapping[str, str]) -> Uses:
    """The symbols and attributes in a statement."""
    symbols, attributes = set[str](), set[str]()
    for child in ast.walk(node):
        if isinstance(child, ast.Name) and child.id in bound:
            symbols.add(bound[child.id])
        elif isinstance(child, ast.Attribute):
            attributes.add(child.attr)
            chain = _chain(child, bound)
            symbols |= {chain} if chain else set()
    return Uses(symbols, attributes)


def _chain(node: ast.expr, bound: Mapping[str, str]) -> str | None:
    """`lstm.lstm.lstm_forward` of an attribute of an imported module."""
    if isinstance(node, ast.Name):
        return bound.get(node.id)
    if isinstance(node, ast.Attribute):
        inner = _chain(node.value, bound)
        return f"{inner}.{node.attr}" if inner else None
    return None
