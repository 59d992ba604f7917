"""Reads the syntax of targets and operands: `h`, `h[t]`, `trace.h[t][L]` and tuples of these."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

SIMPLE = (ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Tuple, ast.operator, ast.unaryop,
          ast.expr_context, ast.Subscript, ast.Attribute)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


class Written(NamedTuple):
    """A target as the source writes it: `h[t]` is ("h", ("[",), "h[t]")."""

    name: str
    parts: tuple[str, ...]  # ".T" for an attribute, "[" for an index whose value is passed
    text: str


class Star(NamedTuple):
    """`*rest` in a tuple of targets."""

    target: Pattern


Pattern = Written | Star | tuple["Pattern", ...]


# --- the names of a function --------------------------------------------------------------------


def is_generator(node: ast.FunctionDef) -> bool:
    """Whether a function yields. Generators are not rewritten."""
    return any(isinstance(child, (ast.Yield, ast.YieldFrom)) for child in walk_own(node))


def walk_own(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function itself.

    The nodes of inner functions, lambdas and classes are left out, and so are the variables of
    comprehensions.
    """
    waiting = [node]
    for node in waiting:
        for child in ast.iter_child_nodes(node):
            if isinstance(node, ast.comprehension) and child is node.target:
                continue
            yield child
            if not isinstance(child, SCOPES):
                waiting.append(child)


def parameters_of(node: ast.FunctionDef) -> list[str]:
    """The names of a function's parameters, in order."""
    a = node.args
    named = [*a.posonlyargs, *a.args, *([a.vararg] if a.vararg else []), *a.kwonlyargs,
             *([a.kwarg] if a.kwarg else [])]
    return [argument.arg for argument in named]


def names_of(node: ast.FunctionDef) -> set[str]:
    """The local variables of a function: its parameters and every name assigned outside
    comprehensions."""
    stored = {child.id for child in walk_own(node)
              if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store)}
    return stored | set(parameters_of(node))


# --- chains: h, h[t], trace.h[t][L] -------------------------------------------------------------


def chain_of(node: ast.expr) -> tuple[ast.Name, tuple[str, ...], list[ast.expr]] | None:
    """The name, parts and index expressions of `name`, `name[i]` or `name.x[i]`; None for anything
    else."""
    if isinstance(node, ast.Name):
        return node, (), []
    if not isinstance(node, (ast.Attribute, ast.Subscript)):
        return None
    inner = chain_of(node.value)
    if inner is None:
        return None
    name, parts, indices = inner
    if isinstance(node, ast.Attribute):
        return name, (*parts, f".{node.attr}"), indices
    return name, (*parts, "["), [*indices, node.slice]


def is_simple(nodes: Sequence[ast.expr]) -> bool:
    """Whether index expressions may be evaluated twice: names, constants, arithmetic and len()."""
    return all(isinstance(child, SIMPLE) or is_length(child)
               for node in nodes for child in ast.walk(node))


def is_reversed(node: ast.expr) -> bool:
    """Whether an expression is reversed(...) or ...[::-1]."""
    return (isinstance(node, ast.Call) and ast.unparse(node.func) == "reversed") or (
        isinstance(node, ast.Subscript) and ast.unparse(node.slice) == "::-1")


def is_length(node: ast.AST) -> bool:
    """Whether an expression is len(...)."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len"


# --- targets ------------------------------------------------------------------------------------


def stored_names(targets: Sequence[ast.expr]) -> frozenset[str]:
    """The plain names among targets. An index that reads such a name changes during the
    assignment."""
    return frozenset(child.id for target in targets for child in ast.walk(target)
                     if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store))


def is_settled(target: ast.expr, changing: frozenset[str] = frozenset()) -> bool:
    """Whether a target's indices can be evaluated beforehand. If not, its text identifies it."""
    chain = chain_of(target)
    return chain is not None and is_simple(chain[2]) and changing.isdisjoint(
        child.id for index in chain[2] for child in ast.walk(index) if isinstance(child, ast.Name))


def pattern(node: ast.expr, changing: frozenset[str] = frozenset()) -> Pattern:
    """A target, or a tuple of targets, as a pattern."""
    if isinstance(node, (ast.Tuple, ast.List)):
        return tuple(pattern(element, changing) for element in node.elts)
    if isinstance(node, ast.Starred):
        return Star(pattern(node.value, changing))
    text, chain = ast.unparse(node), chain_of(node)
    if chain is None or not is_settled(node, changing):
        return Written(text, (), text)
    return Written(chain[0].id, chain[1], text)


def index_tuples(target: ast.expr, changing: frozenset[str] = frozenset()) -> list[ast.expr]:
    """A tuple of index values for each target of a pattern, in the order of the source."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return [index for element in target.elts for index in index_tuples(element, changing)]
    if isinstance(target, ast.Starred):
        return index_tuples(target.value, changing)
    chain = chain_of(target)
    indices = chain[2] if chain is not None and is_settled(target, changing) else []
    return [ast.Tuple(elts=[as_load(index) for index in indices], ctx=ast.Load())]


def width(pattern: Pattern) -> int:
    """The number of targets in a pattern."""
    if isinstance(pattern, (Written, Star)):
        return 1
    return sum(width(inner) for inner in pattern)


# --- copies -------------------------------------------------------------------------------------


def as_list(new: Any) -> list[ast.stmt]:
    """The statements that a visit returned, as a list."""
    return new if isinstance(new, list) else [new]


def as_load(node: ast.expr) -> ast.expr:
    """A copy of an expression, for reading."""
    return _with_context(node, ast.Load())


def as_store(node: ast.expr) -> ast.expr:
    """A copy of an expression, for assigning."""
    return _with_context(node, ast.Store())


def _with_context(node: ast.expr, context: ast.expr_context) -> ast.expr:
    copied = copy.deepcopy(node)
    if hasattr(copied, "ctx"):
        copied.ctx = context
    return copied


def is_load(node: ast.expr) -> bool:
    """Whether an expression is read, and not assigned or deleted."""
    return isinstance(getattr(node, "ctx", None), ast.Load)


def statements(code: str, near: ast.AST) -> list[ast.stmt]:
    """Parsed statements, placed at the position of another node."""
    parsed = ast.parse(code).body
    for statement in parsed:
        for child in ast.walk(statement):
            ast.copy_location(child, near)
    return parsed


def rooted(node: ast.expr, root: ast.expr) -> ast.expr:
    """The expression `name[i].x` with another expression in place of its name."""
    if isinstance(node, ast.Name):
        return root
    assert isinstance(node, (ast.Attribute, ast.Subscript))
    node.value = rooted(node.value, root)
    return node
