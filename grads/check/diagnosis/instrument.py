"""Runs a user's functions with a hook at every expression, so that one of them can be changed.

A hook gets the number of the expression and its value, and returns the value to go on with. The
functions themselves are not changed: their code objects are exchanged for the time of a run.
"""

from __future__ import annotations

import ast
import copy
import gc
import linecache
import math
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import accumulate
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import numpy as np

from grads.check.continuation.namespace import is_users_module

HOOK = "_gradient_check_hook_"
LOOP = "_gradient_check_loop_"  # is called in every iteration of a loop, and by every function
LOOPS = 100_000  # most of these calls in a run
INSIDE = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<module>")  # no functions
LEAST = 500  # of these calls that a changed function may have
OFTEN = 50  # calls between two looks at the clock
ORDINALS = ("first", "second", "third", *(f"{k}th" for k in range(4, 100)))

Hook = Callable[[int, Any], Any]


class Site(NamedTuple):
    """An expression in a function of the user's."""

    function: Any
    node: ast.expr
    root: int  # the number of the largest expression around it
    text: str  # its source
    inside_index: bool

    @property
    def line(self) -> int:
        """Its line in the file."""
        return self.node.lineno


class Source(NamedTuple):
    """A function of the user's, and its syntax tree."""

    function: Any
    tree: ast.FunctionDef

    def compiled(self, tree: ast.FunctionDef) -> CodeType:
        """The code of a changed tree, with the outer variables of the function."""
        code = self.function.__code__
        outer = ast.parse(f"def outer({', '.join(code.co_freevars)}):\n    pass").body[0]
        assert isinstance(outer, ast.FunctionDef)
        tree = copy.copy(tree)
        tree.name = "inner"  # a function that calls itself means the global or outer variable
        outer.body = [tree]
        module = ast.fix_missing_locations(ast.Module([outer], []))
        with warnings.catch_warnings(action="ignore"):
            made: Any = compile(module, code.co_filename, "exec", dont_inherit=True)
        for name in ("outer", tree.name):
            made = next(c for c in made.co_consts if isinstance(c, CodeType) and c.co_name == name)
        if made.co_freevars != code.co_freevars:
            raise ValueError("the outer variables are others")
        return made


class _Hooks(ast.NodeTransformer):
    """Passes every expression of a function through the hook."""

    def __init__(self, function: Any, sites: list[Site]) -> None:
        self.function, self.sites, self.root, self.index = function, sites, -1, False

    def indices(self, node: ast.expr) -> Any:
        """An index with hooks."""
        outer, self.index = self.index, True
        changed = self.visit(node)
        self.index = outer
        return changed

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, (ast.JoinedStr, ast.arguments)):
            return node
        if isinstance(node, ast.Lambda):
            outer, self.root = self.root, -1
            node.body = self.visit(node.body)
            self.root = outer
            return node
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            node.slice = self.indices(node.slice)
            return node
        if isinstance(node, ast.If) and any(isinstance(inner, ast.Break) for inner in node.body):
            node.body = [self.visit(inner) for inner in node.body]  # not when an iteration ends
            return node
        if not isinstance(node, ast.expr) or isinstance(node, (
                ast.Tuple, ast.List, ast.Starred, ast.Slice, ast.Dict)) or not isinstance(
                    getattr(node, "ctx", ast.Load()), ast.Load):
            return self.generic_visit(node)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == LOOP:
            return node
        number, root = len(self.sites), self.root
        self.sites.append(Site(
            self.function, node, number if root < 0 else root, ast.unparse(node), self.index))
        self.root = number if root < 0 else root
        changed: Any = copy.deepcopy(node)
        if isinstance(changed, ast.Call):  # not the function that is called, but its object
            if isinstance(changed.func, ast.Attribute):
                changed.func.value = self.visit(changed.func.value)
            changed.args = [self.visit(a) for a in changed.args]
            changed.keywords = [self.visit(a) for a in changed.keywords]
        elif isinstance(changed, ast.Subscript):
            changed.value, changed.slice = self.visit(changed.value), self.indices(changed.slice)
        elif not isinstance(changed, ast.Attribute) or not isinstance(changed.value, ast.Name) or (
                changed.attr == "T"):
            changed = self.generic_visit(changed)
        self.root = root
        return ast.Call(ast.Name(HOOK, ast.Load()), [ast.Constant(number), changed], [])


def variables(frame: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The global and the local variables, inside a comprehension also those of its function."""
    local = dict(frame.f_locals)
    while frame.f_code.co_name in INSIDE and frame.f_back is not None:
        frame = frame.f_back
        local = frame.f_locals | local
    return frame.f_globals, local


def called(run: Callable[[], Any]) -> list[CodeType]:
    """The code of the user's functions that are called, in the order of their first call."""
    codes: dict[CodeType, None] = {}

    def profile(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code not in codes and code.co_name not in INSIDE and is_users_module(
                str(frame.f_globals.get("__name__", ""))):
            codes[code] = None

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(before)
    return list(codes)


def sources_of(codes: Sequence[CodeType]) -> list[Source]:
    """The functions of these codes with their trees, as far as their source is known."""
    known = {code for file in {code.co_filename for code in codes} for code in _codes_of_file(file)}
    order = {id(code): k for k, code in enumerate(codes) if code in known}
    functions = [f for f in gc.get_referrers(*codes) if isinstance(f, FunctionType)
                 and id(f.__code__) in order] if order else []
    sources = []
    for function in sorted(functions, key=lambda f: order[id(f.__code__)]):
        tree = tree_of(function.__code__)
        if tree is None:
            continue
        tree.decorator_list, tree.returns = [], None
        tree.args.defaults = []
        tree.args.kw_defaults = [None] * len(tree.args.kwonlyargs)
        for a in ast.walk(tree.args):
            if isinstance(a, ast.arg):
                a.annotation = None
        for loop in ast.walk(tree):
            if isinstance(loop, (ast.For, ast.While, ast.FunctionDef)):  # may not end, if changed
                call = ast.Call(ast.Name(LOOP, ast.Load()), [], [])
                loop.body.insert(0, ast.copy_location(ast.Expr(call), loop))
        sources.append(Source(function, ast.fix_missing_locations(tree)))
    return sources


def tree_of(code: CodeType) -> ast.FunctionDef | None:
    """The syntax tree of a function, or of a lambda as a function with a `return`."""
    positions = {*code.co_positions()}
    for node in _functions("".join(linecache.getlines(code.co_filename))):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name and (
                code.co_firstlineno in (node.lineno, *(d.lineno for d in node.decorator_list))):
            return copy.deepcopy(node)
        if isinstance(node, ast.Lambda) and code.co_name == "<lambda>" and (
                node.body.lineno, node.body.end_lineno, node.body.col_offset,
                node.body.end_col_offset) in positions:
            rule = copy.deepcopy(node)
            body = ast.copy_location(ast.Return(rule.body), rule.body)
            tree = ast.FunctionDef(code.co_name, rule.args, [body], [])
            return ast.fix_missing_locations(ast.copy_location(tree, rule))
    return None


def pasted(function: Any, node: Any, new: str) -> str:
    """New text for the place of a node in its file, in parentheses if it needs them there."""
    lines = [line.encode() for line in linecache.getlines(function.__code__.co_filename)]
    starts = [0, *accumulate(map(len, lines))]
    begin = starts[node.lineno - 1] + node.col_offset
    end = starts[node.end_lineno - 1] + node.end_col_offset
    trees = []
    for text in (new, f"({new})"):
        try:
            tree = ast.parse(b"".join(lines)[:begin] + text.encode() + b"".join(lines)[end:])
            trees.append(ast.dump(tree))
        except SyntaxError:  # of a statement in parentheses
            trees.append("")
    return new if trees[1] in ("", trees[0]) else f"({new})"


def ordinal(function: Any, node: Any) -> str:
    """ "the second ", if the text of a node stands elsewhere in its line, too, as a whole word."""
    line = linecache.getline(function.__code__.co_filename, node.lineno).encode()
    text = line[node.col_offset:node.end_col_offset]
    starts, ends = (re.match(rb"\w", end) for end in (text, text[::-1]))
    word = rb"(?<![\w.])" * bool(starts) + re.escape(text) + rb"(?!\w|\.\d)" * bool(ends)
    columns = [found.start() for found in re.finditer(word, line.partition(b"#")[0])]
    if node.end_lineno > node.lineno or len(columns) < 2 or node.col_offset not in columns:
        return ""
    return f"the {ORDINALS[columns.index(node.col_offset)]} "


@lru_cache(maxsize=8)  # files
def _functions(text: str) -> list[ast.AST]:
    """The syntax trees of all functions and lambdas of a file."""
    return [node for node in ast.walk(ast.parse(text))
            if isinstance(node, (ast.FunctionDef, ast.Lambda))]


def _codes_of_file(file: str) -> Iterator[CodeType]:
    """All codes of a file as it is now. The source of a function is known if its code is there."""
    try:
        with warnings.catch_warnings(action="ignore"):
            codes = [compile("".join(linecache.getlines(file)), file, "exec", dont_inherit=True)]
    except (SyntaxError, ValueError):
        return
    while codes:
        code = codes.pop()
        yield code
        codes += [c for c in code.co_consts if isinstance(c, CodeType)]


class Hooked:
    """Functions with a hook at every expression.

    Attributes: sites, their expressions by number; sources, the functions; trees, with the hooks.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources, self.sites, self.most = list(sources), list[Site](), LOOPS
        self.codes, self.trees = [], [copy.deepcopy(source.tree) for source in self.sources]
        for source, tree in zip(self.sources, self.trees, strict=True):
            hooks = _Hooks(source.function, self.sites)
            tree.body = [hooks.visit(statement) for statement in tree.body]
            self.codes.append(source.compiled(tree))

    def name(self, number: int, several: bool = False) -> str:
        """An expression in words: "the second `x` in line 9", and with `several` "every `x`"."""
        at = self.sites[number]
        which = "every " if several else ordinal(at.function, at.node)
        return f"{which}`{at.text}` in line {at.line}"

    @contextmanager
    def hook(self, hook: Hook, stop: float = math.inf) -> Iterator[None]:
        """Context: the functions call the hook, and fail if they run beyond the CPU seconds `stop`.
        With a later hook, they may have a few times as many iterations as with the first."""
        with exchanged([(source.function, code) for source, code in zip(
                self.sources, self.codes, strict=True)], hook, stop, self) as count:
            yield
        if self.most == LOOPS:
            self.most = min(LOOPS, 4 * count() + LEAST)


@contextmanager
def safe_views() -> Iterator[None]:
    """Context: views fail with which changed code may end the process: `as_strided` beyond the
    memory of its array, and matrices with three axes, for which NumPy reserves too little memory.
    """
    space = np.lib.stride_tricks.as_strided.__globals__
    interface_of = space["DummyArray"]

    def bounded(interface: dict[str, Any], base: Any = None) -> Any:
        owner = base
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        shape, strides, (start, _) = (interface[key] for key in ("shape", "strides", "data"))
        steps = strides or [base.itemsize * int(np.prod(shape[k + 1:])) for k in range(len(shape))]
        reach = [(n - 1) * step for n, step in zip(shape, steps, strict=True)]
        first, last = np.lib.array_utils.byte_bounds(owner)
        if start + sum(min(step, 0) for step in reach) < first or (
                start + sum(max(step, 0) for step in reach) + base.itemsize > last):
            raise ValueError("as_strided: a view that leaves the memory of its array")
        return interface_of(interface, base)

    part_of = np.matrix.__getitem__

    def part(matrix: Any, index: Any) -> Any:
        value = part_of(matrix, index)
        if np.ndim(value) > 2:
            raise IndexError("a matrix with more than two axes")
        return value

    space["DummyArray"], np.matrix.__getitem__ = bounded, part  # type: ignore[method-assign]
    try:
        yield
    finally:
        space["DummyArray"], np.matrix.__getitem__ = (  # type: ignore[method-assign]
            interface_of, part_of)


@contextmanager
def exchanged(
    codes: Sequence[tuple[Any, CodeType]], hook: Hook | None, stop: float, hooked: Hooked
) -> Iterator[Callable[[], int]]:
    """Context: the functions have other codes, which fail if they run beyond the CPU seconds
    `stop`, or have more than `hooked.most` iterations. It yields a function that counts these."""
    iterations = 0

    def count() -> None:
        nonlocal iterations
        iterations += 1
        late = iterations % OFTEN == 0 and time.process_time() > stop
        if late or iterations > hooked.most:
            raise RuntimeError("a loop does not end")

    before = [(function, function.__code__) for function, _ in codes]
    spaces = {id(function.__globals__): function.__globals__ for function, _ in codes}.values()
    outer = [{name: space.pop(name) for name in (HOOK, LOOP) if name in space} for space in spaces]
    try:
        for function, code in codes:
            function.__code__ = code
        for space in spaces:
            space[HOOK], space[LOOP] = hook, count
        yield lambda: iterations
    finally:
        for function, code in before:
            function.__code__ = code
        for space, held in zip(spaces, outer, strict=True):
            for name in (HOOK, LOOP):
                space.pop(name, None)
            space.update(held)
