"""Records the functions that belong to backward passes, and the lines that each check runs.

The checks run once under a tracer, so that no list has to be maintained.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np

from grads.check.report import Report
from grads.verification.mutation.injection import find
from grads.verification.mutation.operators import OPERATORS, sites
from grads.verification.mutation.syntax import called, names_in, parse

ROOT = Path(__file__).parents[3]
PRODUCT = ("backend", "lstm", "attention", "nmt")
BACKWARD, FORWARD = ("backward", "gradient"), ("forward", "loss")
IN_FORWARD = ("loop",)  # operators for a forward pass: blocks that are not reached


Numbers = Mapping[str, np.ndarray]


class Check(NamedTuple):
    """A check that must detect a mistake."""

    name: str
    numbers: Callable[[], Numbers]  # the outputs and gradients that it compares, computed once
    run: Callable[..., Report] | None = None  # differentiates; None: only these numbers are right


class Mutant(NamedTuple):
    """A change of a function of the product."""

    name: str  # `function: old -> new`, numbered if a function has several changes of this name
    function: str  # dotted path
    operator: str
    file: str
    lines: range  # of the changed statement, in the file
    source: str  # of the whole function, changed

    @property
    def package(self) -> str:
        """The package of the function."""
        return self.function.partition(".")[0]


class Recording(NamedTuple):
    """The functions, lines and numbers of the checks."""

    functions: dict[str, set[str]]  # dotted path -> passes in which it ran: backward, forward, ""
    lines: list[set[tuple[str, int]]]  # of each check: file and line
    seconds: list[float]  # of each check, once, under the tracer
    numbers: list[Numbers]  # of each check


def record(checks: Sequence[Check], root: Path = ROOT,
           packages: Sequence[str] = PRODUCT) -> Recording:
    """Compute the numbers of every check once, under a tracer."""
    tracer = Tracer(tuple(f"{root / package}/" for package in packages))
    recording = Recording({}, [], [], [])
    for check in checks:
        tracer.lines = set()
        start = time.process_time()
        with poisoned():
            recording.numbers.append(tracer.run(check.numbers))
        recording.seconds.append(time.process_time() - start)
        recording.lines.append({(code.co_filename, line) for code, line in tracer.lines})
    for code, passes in tracer.passes.items():
        path = f"{tracer.modules[code]}.{code.co_qualname}"
        if _is_function(path, code):
            recording.functions.setdefault(path, set()).update(passes)
    return recording


def _is_function(path: str, code: CodeType) -> bool:
    """Whether the code is that of a function written with `def`, which its path finds."""
    if "<" in path:
        return False
    try:
        return find(path).__code__ is code
    except ValueError:
        return False


class Tracer:
    """Records the functions and lines of some files, and inside which pass they run.

    A pass begins at a function with its name. All functions that it calls belong to the pass.
    """

    def __init__(self, files: tuple[str, ...]) -> None:
        self.files = files
        self.lines: set[tuple[CodeType, int]] = set()
        self.passes: dict[CodeType, set[str]] = {}
        self.modules: dict[CodeType, str] = {}
        self._others: set[CodeType] = set()
        self._inside = [""]

    def run(self, act: Callable[[], Any]) -> Any:
        """Call `act` under the tracer."""
        before = sys.gettrace()
        sys.settrace(self._call)
        try:
            return act()
        finally:
            sys.settrace(before)
            self._inside = [""]

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if code in self._others:
            return None
        if code not in self.passes:
            if not code.co_filename.startswith(self.files):
                self._others.add(code)
                return None
            self.modules[code] = frame.f_globals["__name__"]
            self.passes[code] = set()
        inside = _pass_named(code.co_name) or self._inside[-1]
        self.passes[code].add(inside)
        self._inside.append(inside)
        return self._line

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self.lines.add((frame.f_code, frame.f_lineno))
        elif event == "return":
            self._inside.pop()
        return self._line


@functools.cache
def _pass_named(name: str) -> str:
    """The pass that a function's name tells; "" if it tells none."""
    name = name.lower()
    for name_of_pass, words in (("backward", BACKWARD), ("forward", FORWARD)):
        if any(word in name for word in words):
            return name_of_pass
    return ""


@contextmanager
def poisoned() -> Iterator[None]:
    """Context that fills new memory with NaN, so that missing writes are detected."""
    before = np.empty, np.empty_like

    def filled(array: Any) -> Any:
        if array.dtype.kind in "fc":
            array.fill(np.nan)
        elif array.dtype == np.uint8:  # raw memory: all bits set are a NaN of any width
            array.fill(255)
        return array

    numpy: Any = np
    numpy.empty = lambda *args, **how: filled(before[0](*args, **how))
    numpy.empty_like = lambda *args, **how: filled(before[1](*args, **how))
    try:
        yield
    finally:
        numpy.empty, numpy.empty_like = before


# --- mutants --------------------------------------------------------------------------------------


def mutants(functions: dict[str, set[str]]) -> list[Mutant]:
    """All changes of the functions, by path and place."""
    changes: list[Mutant] = []
    for path, passes in sorted(functions.items()):
        operators = operators_for(path, passes)
        lines, start = inspect.getsourcelines(find(path))
        file, names = find(path).__code__.co_filename, Counter[str]()
        for site in sites("".join(lines), operators) if operators else []:
            name = f"{path}: {site.old} -> {site.new}"
            names[name] += 1
            name += f" ({names[name]})" * (names[name] > 1)
            changes.append(Mutant(name, path, site.operator, file,
                                range(start + site.first - 1, start + site.last), site.source))
    return changes


def operators_for(path: str, passes: set[str]) -> list[str]:
    """The operators for a function: all, only those for loops, or none.

    A function gets all operators if it runs in backward passes only, or if it runs in both passes
    and goes through blocks or writes into arrays. A function of forward passes gets those for
    loops.
    """
    passes = passes - {""}
    named = _pass_named(path.rpartition(".")[2])
    if not passes:
        return []
    if passes == {"backward"} or named == "backward":
        return list(OPERATORS)
    definition = parse(inspect.getsource(find(path)))
    nodes = list(ast.walk(definition))
    if any(isinstance(n, ast.Raise) for n in nodes):  # a check of arguments
        return []
    loops = any(isinstance(n, (ast.For, ast.While, ast.comprehension)) for n in nodes)
    if named != "forward" and ((loops and "backward" in passes) or _writes(definition)):
        return list(OPERATORS)
    return list(IN_FORWARD) if loops else []


def _writes(definition: ast.FunctionDef) -> bool:
    """Whether a function writes into an argument, or into any array in a loop."""
    arguments = {a.arg for a in ast.walk(definition.args) if isinstance(a, ast.arg)} - {"self"}
    in_loops = {n for body in ast.walk(definition) if isinstance(body, (ast.For, ast.While))
                for n in ast.walk(body)}
    for n in ast.walk(definition):
        targets: list[Any] = []
        if isinstance(n, ast.Call):
            targets = [k.value for k in n.keywords if k.arg == "out"]
            targets += n.args[:1] if called(n) == "copyto" else []
        elif isinstance(n, (ast.Assign, ast.AugAssign)):
            targets = n.targets if isinstance(n, ast.Assign) else [n.target]
        for target in targets:
            into = isinstance(target, ast.Subscript) or isinstance(n, (ast.AugAssign, ast.Call))
            if into and (n in in_loops or names_in(target) & arguments):
                return True
    return False
