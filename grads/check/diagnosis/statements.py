"""Changes of a statement or an operation in a user's function, such as `+=` for `=`."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations
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
    """y @ x for x @ y, y - x for x - y, y / x for x / y."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.MatMult, ast.Sub, ast.Div)):
        return ast.BinOp(node.right, node.op, node.left)
    return None


def _exchanged(i: int, j: int, node: Any) -> Any:
    """[..., y, ..., x, ...] for [..., x, ..., y, ...], of elements or arguments i and j."""
    field = "args" if isinstance(node, ast.Call) else "elts"
    values = list(getattr(node, field, ()))
    if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load) or len(values) <= j:
        return None
    values[i], values[j] = values[j], values[i]
    new = copy.copy(node)
    setattr(new, field, values)
    return new


def _summed(node: ast.AST) -> Any:
    """x.sum(axis=0) for x[k]."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Load) or isinstance(
            node.slice, (ast.Slice, ast.Tuple)):
        return None
    call: Any = ast.parse("x.sum(axis=0)", mode="eval").body
    call.func.value = node.value
    return call


def _scattered(node: ast.AST) -> Any:
    """The sum of the rows x with equal indices k, for x[k]."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Load) or not isinstance(
            node.slice, (ast.Name, ast.Attribute)):
        return None
    k, x = ast.unparse(node.slice), ast.unparse(node.value)
    return ast.parse(f"(np.arange(len({x}[{k}]))[:, None] == {k}) @ {x}", mode="eval").body


def _outer(node: ast.AST) -> Any:
    """x.T @ y, a sum over all rows, for np.outer(x[k], y[k])."""
    if not isinstance(node, ast.Call) or ast.unparse(node.func) != "np.outer" or not all(
            isinstance(factor, ast.Subscript) for factor in node.args):
        return None
    x, y = (ast.unparse(factor.value) for factor in node.args if isinstance(factor, ast.Subscript))
    return ast.parse(f"{x}.T @ {y}", mode="eval").body


def _repeated(node: ast.AST) -> Any:
    """np.repeat(x, n, axis=-1) for np.tile(x, n)."""
    if not isinstance(node, ast.Call) or ast.unparse(node.func) != "np.tile":
        return None
    repeat = ast.parse("np.repeat", mode="eval").body
    return ast.Call(repeat, node.args, [ast.keyword("axis", ast.Constant(-1))])


def _from_the_start(node: ast.AST) -> Any:
    """k for -1 - k."""
    return node.right if isinstance(node, ast.BinOp) and (
        isinstance(node.op, ast.Sub) and ast.unparse(node.left) == "-1") else None


def _with_cross_terms(node: Any) -> Any:
    """p * (d - (p * d).sum(axis=-1, keepdims=True)), of a softmax, for p * (1 - p) * d."""
    factors: list[str] = []
    left = node
    while isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mult):
        factors.insert(0, ast.unparse(left.right))
        left = left.left
    factors.insert(0, ast.unparse(left))
    p = next((p for p in factors if f"1 - {p}" in factors), None)
    if p is None or len(factors) < 3:
        return None
    factors.remove(p)
    factors.remove(f"1 - {p}")
    d = " * ".join(f"({factor})" for factor in factors)
    new = f"{p} * ({d} - ({p} * {d}).sum(axis=-1, keepdims=True))"
    return ast.parse(new, mode="eval").body


def _from_the_end(node: ast.AST) -> Any:
    """np.flip(np.cumsum(np.flip(x, a), a), a) for np.cumsum(x, a)."""
    if not isinstance(node, ast.Call) or ast.unparse(node.func) != "np.cumsum":
        return None
    flip: Any = ast.parse("np.flip", mode="eval").body
    inner = ast.Call(flip, node.args, node.keywords)
    total = ast.Call(node.func, [inner, *node.args[1:]], node.keywords)
    return ast.Call(flip, [total, *node.args[1:]], node.keywords)


def _other_axis(node: ast.AST) -> Any:
    """x.sum(axis=1, keepdims=True) for x.sum(axis=0), and the reverse."""
    if not isinstance(node, ast.Call) or [key.arg for key in node.keywords] != ["axis"]:
        return None
    axis = ast.unparse(node.keywords[0].value)
    if axis not in "01":
        return None
    return ast.Call(node.func, node.args, [
        ast.keyword("axis", ast.Constant(1 - int(axis))),
        ast.keyword("keepdims", ast.Constant(True))])


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


CHANGES: tuple[Callable[[Any], Any], ...] = (
    _left_out, _accumulated, _assigned, _scaled, _added_at, _swapped, _other_end, _renamed, _summed,
    _scattered, _with_cross_terms, _from_the_end, _from_the_start, _other_axis, _outer, _repeated,
    *(partial(_exchanged, i, j) for i, j in combinations(range(4), 2)),
)
