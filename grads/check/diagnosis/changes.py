"""Changes of a statement or an operation: each function returns the new node, or None."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from functools import partial
from itertools import combinations
from typing import Any

from grads.check.diagnosis.instrument import LOOP

OTHERS = {"sum": "mean", "mean": "sum", "max": "min", "min": "max", "sin": "cos", "cos": "sin",
          "argmax": "argmin", "argmin": "argmax", "tril": "triu", "triu": "tril"}


def _parsed(text: str) -> Any:
    """The expression of a text."""
    return ast.parse(text, mode="eval").body


def _accumulated(node: ast.AST) -> Any:
    """x += y for x = y."""
    if not isinstance(node, ast.Assign) or isinstance(node.targets[0], ast.Tuple):
        return None
    target: Any = node.targets[0]
    return ast.AugAssign(target, ast.Add(), node.value)


def _bare(node: ast.AST) -> Any:
    """x for f(x), x.f(), x.T and x[::-1]."""
    if isinstance(node, ast.Subscript) and "::-1" in ast.unparse(node.slice):
        return node.value
    if isinstance(node, ast.Attribute) and node.attr == "T" and isinstance(node.ctx, ast.Load):
        return node.value
    if not isinstance(node, ast.Call) or getattr(node.func, "id", "") == LOOP:
        return None
    if isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) != "np":
        return node.func.value
    return node.args[0] if node.args and not isinstance(node.args[0], ast.Starred) else None


def _added_at(node: Any) -> Any:
    """np.add.at(x, k, y) for x[k] += y or x[k] = y."""
    target = node.target if isinstance(node, ast.AugAssign) else node.targets[0] if isinstance(
        node, ast.Assign) else None
    ufuncs: dict[type, str] = {ast.Sub: "subtract", ast.Add: "add"}
    ufunc = ufuncs.get(type(getattr(node, "op", ast.Add())))
    if not isinstance(target, ast.Subscript) or ufunc is None:
        return None
    x, y = ast.unparse(target.value), ast.unparse(node.value)
    k = ast.unparse(ast.Subscript(_parsed("np.s_"), target.slice, ast.Load()))
    k = k if ":" in k else f"({k.removeprefix('np.s_[')[:-1]})"
    return ast.Expr(_parsed(f"np.{ufunc}.at({x}, {k}, {y})"))


def _left_out(node: ast.AST) -> Any:
    """Nothing for a statement."""
    return ast.Pass() if isinstance(node, (ast.Assign, ast.AugAssign, ast.Expr)) and (
        LOOP not in ast.dump(node)) else None


def _swapped(node: ast.AST) -> Any:
    """y @ x for x @ y, y - x for x - y, y / x for x / y."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.MatMult, ast.Sub, ast.Div)):
        return ast.BinOp(node.right, node.op, node.left)
    return None


def _operand(side: str, node: ast.AST) -> Any:
    """x, or y, for x * y and x + y; x for x / y and x - y."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, (
            ast.Mult, ast.Add) if side == "right" else (ast.Mult, ast.Add, ast.Div, ast.Sub)):
        return None
    return getattr(node, side)


def _right_of_difference(node: ast.AST) -> Any:
    """y for x - y."""
    return node.right if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) else None


def other_function(name: str, node: ast.AST) -> Any:
    """g(x) for f(x), if the functions call both."""
    if not isinstance(node, ast.Call) or getattr(node.func, "id", name) == name:
        return None
    return ast.Call(ast.Name(name, ast.Load()), node.args, node.keywords)


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
    """x.sum(axis=0) for x[k], x.sum(axis=1) for x[:, k]."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Load):
        return None
    indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    chosen = [k for k, index in enumerate(indices) if not (
        isinstance(index, ast.Slice) and ast.unparse(index) == ":")]
    if len(chosen) != 1 or isinstance(indices[chosen[0]], ast.Slice):
        return None
    return _parsed(f"({ast.unparse(node.value)}).sum(axis={chosen[0]})")


def _scattered(node: ast.AST) -> Any:
    """The sum of the rows x with equal indices k, for x[k]."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Load) or not isinstance(
            node.slice, (ast.Name, ast.Attribute)):
        return None
    k, x = ast.unparse(node.slice), ast.unparse(node.value)
    return _parsed(f"(np.arange(len({x}[{k}]))[:, None] == {k}) @ {x}")


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
    return _parsed(f"{p} * ({d} - ({p} * {d}).sum(axis=-1, keepdims=True))")


def _other_axis(node: ast.AST) -> Any:
    """x.sum(axis=1, keepdims=True) for x.sum(axis=0), and the reverse."""
    text = ast.unparse(node) if isinstance(node, ast.Call) and len(node.keywords) == 1 else ""
    call, axis = text[:-len("0)")], text[-len("0)"):]
    if not call.endswith(("(axis=", ", axis=")) or axis not in ("0)", "1)"):
        return None
    return _parsed(f"{call}{1 - int(axis[0])}, keepdims=True)")


def _other_end(node: ast.AST) -> Any:
    """[:-k] for [k:], and [k:] for [:-k]."""
    if not isinstance(node, ast.Slice) or node.step or bool(node.lower) == bool(node.upper):
        return None
    ends = [end.operand if isinstance(end, ast.UnaryOp) else end and ast.UnaryOp(ast.USub(), end)
            for end in (node.upper, node.lower)]
    return ast.Slice(*ends)


def _shifted(by: int, node: ast.AST) -> Any:
    """[k + 1:l + 1], or [k - 1:l - 1], for [k:l], if a bound is given and both are numbers."""
    if not isinstance(node, ast.Slice) or node.step or not (node.lower or node.upper):
        return None
    try:
        lower, upper = (0 if end is None else int(ast.literal_eval(end)) for end in (
            node.lower, node.upper))
    except (ValueError, TypeError):
        return None
    if not upper <= 0 <= lower or lower + by < 0 or upper + by > 0:
        return None  # the length would change
    return ast.Slice(*(ast.Constant(end + by) if end + by else None for end in (lower, upper)))


def _reshaped(k: int, node: ast.AST) -> Any:
    """x.reshape(..., b, a, ...).swapaxes(k, k + 1) for x.reshape(..., a, b, ...)."""
    if not isinstance(node, ast.Call) or getattr(node.func, "attr", "") != "reshape" or (
            len(node.args) <= k + 1):
        return None
    sizes = [*map(ast.unparse, node.args)]
    sizes[k:k + 2] = sizes[k + 1], sizes[k]
    return _parsed(f"{ast.unparse(node.func)}({', '.join(sizes)}).swapaxes({k}, {k + 1})")


def _from_the_end(node: ast.AST) -> Any:
    """np.cumsum(x[::-1])[::-1] for np.cumsum(x)."""
    if not isinstance(node, ast.Call) or not ast.unparse(node.func).endswith("cumsum") or (
            len(node.args) != 1):
        return None
    reverse = _parsed("x[::-1]").slice
    inner = ast.Subscript(node.args[0], reverse, ast.Load())
    return ast.Subscript(ast.Call(node.func, [inner], node.keywords), reverse, ast.Load())


def _matrix_product(node: ast.AST) -> Any:
    """x @ y for x * y, and x * y for x @ y."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.Mult, ast.MatMult)):
        return None
    other = ast.MatMult() if isinstance(node.op, ast.Mult) else ast.Mult()
    return ast.BinOp(node.left, other, node.right)


def paired(name: str | None, node: ast.AST) -> Any:
    """x[np.arange(len(x)), k] for x[:, k], with another k if a name is given."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Tuple) or (
            ast.unparse(node.slice.elts[0]) != ":" or len(node.slice.elts) != 2):
        return None
    if name is None and isinstance(node.slice.elts[1], (ast.Slice, ast.Constant)):
        return None
    x, k = ast.unparse(node.value), name or ast.unparse(node.slice.elts[1])
    new = _parsed(f"({x})[np.arange(len({x})), {k}]")
    new.ctx = node.ctx
    return new


def other_text(text: str, node: ast.AST) -> Any:
    """Another text."""
    return ast.Constant(text) if isinstance(node, ast.Constant) and isinstance(
        node.value, str) and node.value != text else None


def _renamed(minus: bool, node: ast.AST) -> Any:
    """np.sum(x) for np.mean(x), and others; with a minus for functions of an angle."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or (
            node.func.attr not in (("sin", "cos") if minus else OTHERS)):
        return None
    new = ast.Call(ast.Attribute(node.func.value, OTHERS[node.func.attr], ast.Load()),
                   node.args, node.keywords)
    return ast.UnaryOp(ast.USub(), new) if minus else new


CHANGES: tuple[Callable[[Any], Any], ...] = (
    _left_out, _accumulated, _added_at, _bare,
    *(partial(_operand, side) for side in ("left", "right")), _swapped, _other_end,
    *(partial(_renamed, minus) for minus in (False, True)), _summed, _scattered,
    _with_cross_terms, _other_axis,
    *(partial(_exchanged, i, j) for i, j in combinations(range(4), 2)),
    *(partial(_shifted, by) for by in (1, -1)), *(partial(_reshaped, k) for k in range(4)),
    _matrix_product, partial(paired, None), _from_the_end,
)
EVERYWHERE = (  # changes that are made to all nodes of a statement, too
    _other_end, partial(_shifted, 1), partial(_shifted, -1), _right_of_difference, _bare, _swapped)
