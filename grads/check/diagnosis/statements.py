"""Changes of a statement or an operation in a user's function, such as `+=` for `=`."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any

from grads.check.diagnosis.changes import (
    CHANGES,
    EVERYWHERE,
    other_function,
    other_text,
    paired,
)
from grads.check.diagnosis.instrument import LOOP, Source, ordinal, pasted

MOST_NAMES = 8  # of a statement

Changes = Callable[[ast.AST, Any], Iterator[ast.AST]]  # of a parent and a node


def changed_statements(
    sources: Sequence[Source], forwards: Sequence[Source], lines: Container[int]
) -> Iterator[tuple[Source, Callable[[], str]]]:
    """Functions with one changed statement, and what says the phrase on it.

    Arguments: forwards, the functions whose statements may be missing or changed in `sources`;
    lines, which may change.
    """
    for source, changes in ((each, changes) for each in sources
                            for changes in (_changes(each, forwards), _throughout)):
        for parent in list(ast.walk(source.tree)):
            for field, value in ast.iter_fields(parent):
                for k, node in enumerate(value if isinstance(value, list) else [value]):
                    if not any(line in lines for line in _lines(node)):
                        continue
                    for new in changes(parent, node):
                        ast.copy_location(new, node)
                        _put(parent, field, k, new)
                        yield source, partial(_said_of, source, node, new)
                        _put(parent, field, k, node)


def _lines(node: Any) -> range:
    """The lines of a node; none if it has no place, or a header's body."""
    return range(getattr(node, "lineno", 0), (getattr(node, "end_lineno", 0) or -1) + 1)


def _changes(source: Source, forwards: Sequence[Source]) -> Changes:
    """What returns the nodes that may be in place of a node of a function."""
    others = [other for other in forwards if other.function is not source.function]
    calls = {inner.func.id for other in [*others, source] for inner in ast.walk(other.tree)
             if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name)} - {LOOP}
    idle = sorted(unused(source.tree))
    arguments = [inner.arg for inner in ast.walk(source.tree.args) if isinstance(inner, ast.arg)]
    words = {inner.value for other in others for inner in ast.walk(other.tree)
             if isinstance(inner, ast.Constant) and isinstance(inner.value, str)}
    words |= {key.arg or "" for other in others for inner in ast.walk(other.tree)
              if isinstance(inner, ast.Call) and ast.unparse(inner.func) == "dict"
              for key in inner.keywords}
    operations: list[Callable[[Any], Any]] = [
        *CHANGES, *(partial(other_function, name) for name in sorted(calls)),
        *(partial(paired, name) for name in idle),
        *(partial(other_text, word) for word in sorted(words))]

    def changes(parent: ast.AST, node: Any) -> Iterator[ast.AST]:
        for operation in operations:
            if (new := operation(node)) is not None:
                if isinstance(new, ast.AugAssign) and ast.unparse(new.target) in arguments:
                    new = ast.Assign([new.target], ast.BinOp(  # arguments stay as they are
                        ast.Name(ast.unparse(new.target), ast.Load()), new.op, new.value))
                yield new
        if isinstance(parent, ast.For) and node is parent.iter:
            yield ast.parse(f"list({ast.unparse(node)})[::-1]", mode="eval").body

    return changes


def _throughout(parent: ast.AST, statement: Any) -> Iterator[ast.AST]:
    """A statement, or one of several values, with a change everywhere in it, or with two variables
    exchanged."""
    if not isinstance(statement, (ast.Assign, ast.AugAssign, ast.Return)) and not (
            isinstance(parent, ast.Tuple) and isinstance(statement, (ast.BinOp, ast.UnaryOp))):
        return
    for change in EVERYWHERE:
        visitor = _Everywhere(change)
        new = visitor.visit(copy.deepcopy(statement))
        if visitor.count > 1:
            yield new
    names = sorted({node.id for node in ast.walk(statement) if isinstance(node, ast.Name)
                    and isinstance(node.ctx, ast.Load)} - {"np"})
    for first, second in combinations(names[:MOST_NAMES], 2):
        yield _Exchanged({first: second, second: first}).visit(copy.deepcopy(statement))


class _Everywhere(ast.NodeTransformer):
    """A change of each node that it fits."""

    def __init__(self, change: Callable[[Any], Any]) -> None:
        self.change, self.count = change, 0

    def visit(self, node: ast.AST) -> Any:
        """The node, changed."""
        node = self.generic_visit(node)
        new = self.change(node)
        self.count += new is not None
        return node if new is None else new


class _Exchanged(ast.NodeTransformer):
    """Other names of variables that are read."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """The variable, with its other name."""
        return ast.Name(self.names.get(node.id, node.id), node.ctx) if isinstance(
            node.ctx, ast.Load) else node


def unused(tree: ast.FunctionDef) -> set[str]:
    """The variables and arguments that a function does not read."""
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    known = {node.id for node in names if isinstance(node.ctx, ast.Store)} | {
        node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    return known - {node.id for node in names if isinstance(node.ctx, ast.Load)}


def literals(sources: Sequence[Source]) -> list[float]:
    """The numbers in functions, and zero."""
    numbers = (node.value for source in sources for node in ast.walk(source.tree)
               if isinstance(node, ast.Constant))
    known = [number for number in numbers if isinstance(number, (int, float))
             and not isinstance(number, bool)]
    return [*dict.fromkeys([0, *known])]


def _put(parent: ast.AST, field: str, k: int, node: ast.AST) -> None:
    """Put a node into a tree."""
    value = getattr(parent, field)
    if isinstance(value, list):
        value[k] = node
    else:
        setattr(parent, field, node)


def _said_of(source: Source, node: Any, new: ast.AST) -> str:
    """The phrase on a changed statement."""
    old, text = (ast.unparse(ast.fix_missing_locations(n)) for n in (node, new))
    return (f"is right without `{old}` in line {node.lineno}" if text == "pass" else
            f"is right with `{pasted(source.function, node, text)}` in place of "
            f"{ordinal(source.function, node)}`{old}` in line {node.lineno}")
