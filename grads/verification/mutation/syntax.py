"""Reads functions as syntax trees: their places, and the roles of their names."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple


class Facts(NamedTuple):
    """The roles of a function's names."""

    sizes: frozenset[str]  # dimensions
    steps: frozenset[str]  # loop variables and whole-number arguments
    partners: dict[str, str]  # name -> the next name assigned by the same call or loop
    bound: dict[str, int]  # name -> line of its first assignment; arguments: 0


class Place(NamedTuple):
    """A node and its position in the tree."""

    node: Any
    parent: Any
    field: str
    number: int | None  # in the parent's list
    statement: ast.stmt
    in_index: bool
    facts: Facts

    def put(self, node: ast.AST) -> None:
        """Replace the node."""
        if self.number is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.number] = node


def parse(source: str) -> ast.FunctionDef:
    """The definition of a function, without decorators and docstring.

    Raises ValueError where the source is not that of a `def`.
    """
    definition = ast.parse(textwrap.dedent(source)).body[0]
    if not isinstance(definition, ast.FunctionDef):
        raise ValueError(f"source: expected a function written with def, got {source[:40]!r}")
    definition.decorator_list.clear()
    if ast.get_docstring(definition, clean=False) is not None and len(definition.body) > 1:
        del definition.body[0]
    return definition


SKIPPED = (ast.Raise, ast.Assert, ast.JoinedStr, ast.arguments)
SHAPES = {  # calls whose arguments say shapes, dtypes and devices
    "reshape", "empty", "empty_like", "zeros", "zeros_like", "ones", "full", "astype", "range",
    "array_module", "broadcast_to", "arange"}


def places(node: Any, statement: Any, in_index: bool, facts: Facts) -> Iterator[Place]:
    """All places below a node that could be changed, in the order of the source."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "ctx") or (
                field in ("args", "keywords") and called(node) in SHAPES):
            continue
        inside = in_index or (field == "slice" and isinstance(node, ast.Subscript))
        for number, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or isinstance(child, SKIPPED) or _is_check(child):
                continue
            inner_statement = child if isinstance(child, ast.stmt) else statement
            yield Place(child, node, field, number, inner_statement, inside, facts)
            yield from places(child, inner_statement, inside, facts)


def _is_check(node: ast.AST) -> bool:
    """Whether a statement only raises an error."""
    return isinstance(node, ast.If) and all(isinstance(n, ast.Raise) for n in node.body)


def called(node: Any) -> str:
    """The last part of the name of the called function; "" if the node is not a call."""
    function = node.func if isinstance(node, ast.Call) else None
    return getattr(function, "attr", getattr(function, "id", ""))


def names_in(node: ast.AST) -> set[str]:
    """The names that occur in an expression."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def facts_of(definition: ast.FunctionDef) -> Facts:
    """The roles of names, from assignments, loops and arguments."""
    arguments = [*definition.args.posonlyargs, *definition.args.args, *definition.args.kwonlyargs]
    steps = {a.arg for a in arguments if a.annotation and ast.unparse(a.annotation) == "int"}
    sizes: set[str] = set()
    partners: dict[str, str] = {}
    bound = {a.arg: 0 for a in arguments}
    for node in ast.walk(definition):
        if isinstance(node, (ast.For, ast.comprehension)):
            steps |= _stored(node.target)
            partners |= _circle(node.target)
        elif isinstance(node, ast.Assign):
            for target, value in _pairs(node.targets[0], node.value):
                bound |= {name: min(bound.get(name, node.lineno), node.lineno)
                          for name in _stored(target)}
                if is_index(value, sizes):
                    sizes |= _stored(target)
                elif isinstance(value, (ast.Call, ast.GeneratorExp)):
                    partners |= _circle(target)
    return Facts(frozenset(sizes), frozenset(steps), partners, bound)


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """Each target with its value; a, b = c, d has two of them."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return list(zip(target.elts, value.elts, strict=False))
    return [(target, value)]


def is_index(node: Any, sizes: Collection[str]) -> bool:
    """Whether an expression is about shapes only, made of sizes and whole numbers."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int)
    if isinstance(node, ast.Name):
        return node.id in sizes
    if isinstance(node, ast.Attribute):
        return node.attr in ("shape", "size", "ndim")
    if isinstance(node, ast.Subscript):
        return is_index(node.value, sizes)
    if called(node) == "len":
        return True
    if isinstance(node, ast.Call) and called(node) not in ("min", "max"):
        return False
    parts = [getattr(node, field, None) for field in ("left", "right", "operand")]
    parts = [*filter(None, parts), *getattr(node, "elts", []), *getattr(node, "args", [])]
    return bool(parts) and all(is_index(operand, sizes) for operand in parts)


def _stored(target: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(target)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _circle(target: ast.AST) -> dict[str, str]:
    """Each name of a flat tuple with the next name."""
    parts = [n for n in getattr(target, "elts", []) if isinstance(n, ast.Name) and n.id != "_"]
    names = [n.id for n in parts]
    return {a: b for a, b in zip(names, names[1:] + names[:1], strict=True) if a != b}
