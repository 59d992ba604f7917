"""Changes of a statement or an operation in a user's function, such as `+=` for `=`."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence
from typing import Any

from grads.check.diagnosis.instrument import LOOP, Source

OTHERS = {"sum": "mean", "mean": "sum", "max": "min", "min": "max", "sin": "cos", "cos": "sin",
          "argmax": "argmin", "argmin": "argmax", "tril": "triu", "triu": "tril"}


def changed_statements(sources: Sequence[Source]) -> Iterator[tuple[Source, str]]:
    """Functions with one changed statement, and the phrase on it."""
    for source in sources:
        for parent in list(ast.walk(source.tree)):
            for field, value in ast.iter_fields(parent):
                for k, node in enumerate(value if isinstance(value, list) else [value]):
                    for change in CHANGES if isinstance(node, ast.AST) else ():
                        if (new := change(node)) is None:
                            continue
                        ast.copy_location(new, node)
                        _put(parent, field, k, new)
                        yield source, _said_of(node, new)
                        _put(parent, field, k, node)


def _put(parent: ast.AST, field: str, k: int, node: ast.AST) -> None:
    """Put a node into a tree."""
    value = getattr(parent, field)
    if isinstance(value, list):
        value[k] = node
    else:
        setattr(parent, field, node)


def _said_of(node: Any, new: ast.AST) -> str:
    """The phrase on a changed statement."""
    old, text = (ast.unparse(ast.fix_missing_locations(n)) for n in (node, new))
    return (f"is right without `{old}` in line {node.lineno}" if text == "pass" else
            f"is right with `{text}` in place of `{old}` in line {node.lineno}")


# --- the new node, or None ------------------------------------------------------------------------


def _accumulated(node: ast.AST) -> Any:
    """x += y for x = y."""
    if not isinstance(node, ast.Assign) or isinstance(node.targets[0], ast.Tuple):
        return None
    target: Any = node.targets[0]
    return ast.AugAssign(target, ast.Add(), node.value)


def _scaled(node: ast.AST) -> Any:
    """x[k] *= y for x[k] = y."""
    if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Subscript):
        return None
    return ast.AugAssign(node.targets[0], ast.Mult(), node.value)


def _assigned(node: ast.AST) -> Any:
    """x = y for x += y."""
    return ast.Assign([node.target], node.value) if isinstance(node, ast.AugAssign) else None


def _added_at(node: Any) -> Any:
    """np.add.at(x, k, y) for x[k] += y or x[k] = y."""
    target = node.target if isinstance(node, ast.AugAssign) else node.targets[0] if isinstance(
        node, ast.Assign) else None
    ufuncs: dict[type, str] = {ast.Sub: "subtract", ast.Add: "add"}
    ufunc = ufuncs.get(type(getattr(node, "op", ast.Add())))
    if not isinstance(target, ast.Subscript) or ufunc is None:
        return None
    call: Any = ast.parse(f"np.{ufunc}.at(x, np.s_[0], y)").body[0]
    call.value.args[0] = copy.deepcopy(target.value)
    call.value.args[1].slice = target.slice
    call.value.args[2] = node.value
    return call


def _left_out(node: ast.AST) -> Any:
    """Nothing for a statement."""
    return ast.Pass() if isinstance(node, (ast.Assign, ast.AugAssign, ast.Expr)) and (
        LOOP not in ast.dump(node)) else None


def _swapped(node: ast.AST) -> Any:
    """y @ x for x @ y, f(y, x) for f(x, y), where(c, y, x) for where(c, x, y)."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.MatMult, ast.Sub, ast.Div)):
        return ast.BinOp(node.right, node.op, node.left)
    if isinstance(node, ast.Call) and len(node.args) == 2:
        return ast.Call(node.func, node.args[::-1], node.keywords)
    if isinstance(node, ast.Call) and len(node.args) == 3:
        return ast.Call(node.func, [node.args[0], *node.args[:0:-1]], node.keywords)
    return None


def _other_end(node: ast.AST) -> Any:
    """[:-k] for [k:], and [k:] for [:-k]."""
    if not isinstance(node, ast.Slice) or node.step or bool(node.lower) == bool(node.upper):
        return None
    ends = [end.operand if isinstance(end, ast.UnaryOp) else end and ast.UnaryOp(ast.USub(), end)
            for end in (node.upper, node.lower)]
    return ast.Slice(*ends)


def _renamed(node: ast.AST) -> Any:
    """np.sum(x) for np.mean(x), and others."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and (
            node.func.attr in OTHERS):
        return ast.Call(ast.Attribute(node.func.value, OTHERS[node.func.attr], ast.Load()),
                        node.args, node.keywords)
    return None


CHANGES = (_left_out, _accumulated, _assigned, _scaled, _added_at, _swapped, _other_end, _renamed)
