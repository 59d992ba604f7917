"""Mistakes of a backward pass, as operators over its syntax tree.

An operator takes a place in a function and yields mistaken replacements for it. It does not change
index arithmetic, shapes, dtypes, integer constants and error messages. The only indices that are
changed are time steps, halves and masks.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from grads.verification.mutation.syntax import (
    SHAPES,
    Facts,
    Place,
    called,
    facts_of,
    is_index,
    parse,
    places,
)


class Site(NamedTuple):
    """A change of a function."""

    first: int  # line of the changed statement's beginning, counted from 1 in the function's source
    last: int
    operator: str
    old: str
    new: str
    source: str  # of the whole function, changed


def sites(source: str, operators: Collection[str] | None = None) -> list[Site]:
    """All different changes of a function's `source`, by all or by some operators."""
    definition = parse(source)
    changes, seen = [], {ast.unparse(definition)}
    for place in list(places(definition, definition, False, facts_of(definition))):
        for name in OPERATORS if operators is None else operators:
            for node in list(OPERATORS[name](place)):
                old, new = _text(place.node), _text(node)
                place.put(node)
                changed = ast.unparse(ast.fix_missing_locations(definition))
                place.put(place.node)
                if changed not in seen:
                    seen.add(changed)
                    changes.append(Site(*_lines(place), name, old, new, changed))
    return changes


def _text(node: ast.AST) -> str:
    """The text of a node on one line. Of a compound statement: its first line."""
    return " ".join(ast.unparse(ast.fix_missing_locations(node)).partition(":\n")[0].split())


def _lines(place: Place) -> tuple[int, int]:
    """The first and the last line of the statement. In a compound statement: of the place."""
    node = place.node if hasattr(place.statement, "body") else place.statement
    if not hasattr(node, "lineno"):
        node = place.statement
    return node.lineno, node.end_lineno or node.lineno


# --- the operators --------------------------------------------------------------------------------

SIGNS = {ast.Add: ast.Sub, ast.Sub: ast.Add}
CALLED_SIGNS = {"add": "subtract", "subtract": "add"}
BOUNDARIES = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
SYMMETRIC = {"multiply", "add", "maximum", "minimum", "max", "min", "isinstance", "result_type",
             "zip"}
ARRAYS = (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.BinOp, ast.UnaryOp)
MODULES = ("xp", "np")
SUMS = ("sum", "mean", "max", "concatenate", "stack")
PRODUCTS = ("matmul", "dot", "product")


def sign(p: Place) -> Iterator[ast.AST]:
    """a - b for a + b, -= for +=, x for -x."""
    n = p.node
    if isinstance(n, ast.BinOp) and type(n.op) in SIGNS and _counts(p):
        yield ast.BinOp(n.left, SIGNS[type(n.op)](), n.right)
    elif isinstance(n, ast.AugAssign) and type(n.op) in SIGNS and not _is_number(n.value):
        yield ast.AugAssign(n.target, SIGNS[type(n.op)](), n.value)
    elif isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.USub) and _counts(p):
        yield n.operand
    elif called(n) in CALLED_SIGNS and isinstance(n.func, ast.Attribute):
        yield _call(n, function=CALLED_SIGNS[called(n)])


def dropped_term(p: Place) -> Iterator[ast.AST]:
    """a or b for a + b."""
    n = p.node
    if isinstance(n, ast.BinOp) and isinstance(n.op, (ast.Add, ast.Sub, ast.BitOr)) and _counts(p):
        yield from (n.left, n.right)
    elif called(n) in ("add", "subtract") and len(n.args) >= 2:
        yield from (_call(n, k, ast.Constant(0.0)) for k in range(2))


def dropped_factor(p: Place) -> Iterator[ast.AST]:
    """a or b for a * b."""
    n = p.node
    if isinstance(n, ast.BinOp) and isinstance(n.op, (ast.Mult, ast.Div)) and _counts(p):
        yield n.left
        if isinstance(n.op, ast.Mult):
            yield n.right
    elif called(n) in ("multiply", "divide") and len(n.args) >= 2:
        yield from (_call(n, k, ast.Constant(1.0)) for k in range(2))


def slope(p: Place) -> Iterator[ast.AST]:
    """u - u^2 for 1 - u^2 and the other way round."""
    n = p.node
    if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Sub) and _counts(p):
        if not isinstance(n.left, ast.Constant):
            yield ast.BinOp(ast.Constant(1.0), n.op, n.right)
        elif isinstance(n.right, ast.BinOp):
            yield ast.BinOp(n.right.left, n.op, n.right)
    elif called(n) == "subtract" and not isinstance(n.args[0], ast.Constant):
        yield _call(n, 0, ast.Constant(1.0))


def product_for_sum(p: Place) -> Iterator[ast.AST]:
    """add for multiply, in calls."""
    if called(p.node) == "multiply" and isinstance(p.node.func, ast.Attribute):
        yield _call(p.node, function="add")


def assignment(p: Place) -> Iterator[ast.AST]:
    """= for += and *=, += for =."""
    n = p.node
    if isinstance(n, ast.AugAssign) and not _is_number(n.value):
        target: Any = n.target
        if isinstance(target, ast.Name):
            target = ast.Subscript(ast.Name(target.id, ast.Load()), ast.Constant(...), ast.Store())
        yield ast.Assign([target], n.value)
    elif isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Subscript):
        if not isinstance(n.targets[0].slice, (ast.JoinedStr, ast.Constant)):
            yield ast.AugAssign(n.targets[0], ast.Add(), n.value)


def dropped_statement(p: Place) -> Iterator[ast.AST]:
    """pass for what writes: a call, an assignment in place, another value for a name."""
    if _can_drop(p.node, p.facts):
        yield ast.Pass()


def _can_drop(n: Any, facts: Facts) -> bool:
    if isinstance(n, ast.Expr):
        return isinstance(n.value, ast.Call)
    if isinstance(n, ast.Assign):
        target = n.targets[0]
        again = isinstance(target, ast.Name) and facts.bound[target.id] < n.lineno
        return again or isinstance(target, (ast.Subscript, ast.Attribute))
    return isinstance(n, ast.AugAssign) and not _is_number(n.value)


def wrong_time(p: Place) -> Iterator[ast.AST]:
    """x[t - 1] for x[t], x[t] for x[t + 1]; the states in the order of time for the reverse."""
    n = p.node
    if p.in_index and isinstance(p.parent, (ast.Subscript, ast.Tuple)):
        if isinstance(n, ast.Name) and n.id in p.facts.steps:
            yield ast.BinOp(n, ast.Sub(), ast.Constant(1))
        elif isinstance(n, ast.BinOp) and isinstance(n.left, ast.Name) \
                and n.left.id in p.facts.steps:
            yield n.left
    elif called(n) == "reversed":
        yield n.args[0]


def swapped_names(p: Place) -> Iterator[ast.AST]:
    """Another name that the same call or loop assigns: a gate for a gate, a step for the next."""
    n = p.node
    if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id in p.facts.partners:
        yield ast.Name(p.facts.partners[n.id], ast.Load())


def swapped_arguments(p: Place) -> Iterator[ast.AST]:
    """f(b, a) for f(a, b), b @ a for a @ b, two results in the wrong order."""
    n = p.node
    if isinstance(n, ast.BinOp) and isinstance(n.op, ast.MatMult):
        yield ast.BinOp(n.right, n.op, n.left)
    elif isinstance(n, ast.Call) and called(n) not in SYMMETRIC | SHAPES and not p.in_index:
        for args in _exchanged(n.args, p.facts):
            yield ast.Call(n.func, args, n.keywords)
    elif isinstance(n, ast.Tuple) and isinstance(p.parent, ast.Return):
        for elements in _exchanged(n.elts, p.facts):
            yield ast.Tuple(elements, n.ctx)


def _exchanged(parts: Sequence[ast.expr], facts: Facts) -> Iterator[list[ast.expr]]:
    """The expressions with two neighbours exchanged, if both could be arrays."""
    for k, pair in enumerate(pairwise(parts)):
        if all(isinstance(operand, ARRAYS) and not is_index(operand, facts.sizes)
               and ast.unparse(operand) not in MODULES for operand in pair):
            yield [*parts[:k], pair[1], pair[0], *parts[k + 2 :]]


def transpose(p: Place) -> Iterator[ast.AST]:
    """x for x.T; in products also x.T for x."""
    n = p.node
    if isinstance(n, ast.Attribute) and n.attr == "T":
        yield n.value
    elif called(n) == "transpose" and isinstance(n.func, ast.Attribute):
        yield n.func.value
    elif _is_operand(p):
        yield ast.Attribute(n, "T", ast.Load())


def _is_operand(p: Place) -> bool:
    """Whether the place is a factor of a matrix product."""
    if isinstance(p.parent, ast.BinOp):
        return isinstance(p.parent.op, ast.MatMult) and p.field in ("left", "right")
    return p.field == "args" and called(p.parent) in PRODUCTS and (p.number or 0) < 2


def mask(p: Place) -> Iterator[ast.AST]:
    """The mask inverted or left out."""
    n = p.node
    if isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.Invert):
        yield n.operand
    elif called(n) == "where" and len(n.args) == 3:
        yield from n.args[1:]
    for k, keyword in enumerate(n.keywords if isinstance(n, ast.Call) else []):
        if keyword.arg == "where":
            other_keywords = [*n.keywords[:k], *n.keywords[k + 1 :]]
            yield ast.Call(n.func, n.args, other_keywords)
            inverted = ast.keyword("where", ast.UnaryOp(ast.Invert(), keyword.value))
            yield ast.Call(n.func, n.args, [*other_keywords, inverted])


def other_half(p: Place) -> Iterator[ast.AST]:
    """[H:] and [-H:] for [:H], [1:] for [:-1], and so on."""
    n = p.node
    if not isinstance(n, ast.Slice):
        return
    if n.step is not None:
        if isinstance(n.lower, ast.Constant) and isinstance(n.lower.value, int):
            yield ast.Slice(ast.Constant(1 - n.lower.value), n.upper, n.step)
        elif isinstance(n.step, ast.UnaryOp):
            yield ast.Slice(n.lower, n.upper, n.step.operand)
    elif n.lower is None and n.upper is not None:
        yield from (ast.Slice(n.upper), ast.Slice(_negative(n.upper)))
    elif n.upper is None and n.lower is not None:
        yield from (ast.Slice(None, n.lower), ast.Slice(None, _negative(n.lower)))


def _negative(node: ast.expr) -> ast.expr:
    """-x for x, x for -x."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return node.operand
    return ast.UnaryOp(ast.USub(), node)


def axis(p: Place) -> Iterator[ast.AST]:
    """The sum over another axis, or the first element in place of the sum."""
    n = p.node
    for k, keyword in enumerate(n.keywords if called(n) in SUMS else []):
        if keyword.arg == "axis":
            before = ast.literal_eval(keyword.value)
            after = ast.Constant({0: 1, -1: -2}.get(before, 0) if isinstance(before, int) else 0)
            yield ast.Call(n.func, n.args, [
                *n.keywords[:k], ast.keyword("axis", after), *n.keywords[k + 1 :]])
            if called(n) == "sum" and len(n.keywords) == 1:
                yield ast.Call(ast.Attribute(n.func.value, "take", ast.Load()),
                               [*n.args, ast.Constant(0)], n.keywords)


def loop(p: Place) -> Iterator[ast.AST]:
    """Only the first iteration of a loop, all iterations but the last, or `while` only once."""
    if p.field == "iter" and isinstance(p.parent, (ast.For, ast.comprehension)):
        iterations = ast.Call(ast.Name("list", ast.Load()), [p.node], [])
        for end in (1, -1):
            yield ast.Subscript(iterations, ast.Slice(None, ast.Constant(end)), ast.Load())
    elif p.field == "test" and isinstance(p.parent, ast.While):
        yield ast.Constant(False)


def branch(p: Place) -> Iterator[ast.AST]:
    """A condition that is always or never true, half of it, or its boundary moved by one."""
    n = p.node
    if p.field == "test" and isinstance(p.parent, (ast.If, ast.IfExp)):
        yield ast.Constant(True)
        only = p.parent.body if isinstance(p.parent, ast.If) and not p.parent.orelse else []
        if not (len(only) == 1 and _can_drop(only[0], p.facts)):  # `dropped_statement` does it
            yield ast.Constant(False)
    if isinstance(n, ast.BoolOp) and _is_condition(p):
        for k in range(len(n.values)):
            remaining = [*n.values[:k], *n.values[k + 1 :]]
            yield remaining[0] if len(remaining) == 1 else ast.BoolOp(n.op, remaining)
    elif isinstance(n, ast.Compare) and type(n.ops[0]) in BOUNDARIES:
        yield ast.Compare(n.left, [BOUNDARIES[type(n.ops[0])]()], n.comparators)


def _is_condition(p: Place) -> bool:
    """Whether a place is the condition of a branch, or part of it."""
    return p.field == "test" or isinstance(p.parent, (ast.BoolOp, ast.UnaryOp))


def aliasing(p: Place) -> Iterator[ast.AST]:
    """x for x.copy(), x *= y for x = x * y."""
    n = p.node
    if called(n) == "copy" and isinstance(n.func, ast.Attribute) and not n.args:
        yield n.func.value
    elif isinstance(n, ast.Assign) and isinstance(n.value, ast.BinOp):
        target = n.targets[0]
        if isinstance(target, ast.Name) and isinstance(n.value.left, ast.Name) \
                and n.value.left.id == target.id:
            yield ast.AugAssign(target, n.value.op, n.value.right)


def _counts(p: Place) -> bool:
    """Whether an operation is arithmetic on values and not on indices."""
    return not p.in_index and not is_index(p.node, p.facts.sizes)


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def _call(n: Any, number: int | None = None, argument: Any = None, function: str = "") -> ast.Call:
    """A call with another argument, or of another function of the same module."""
    args = list(n.args)
    if number is not None:
        args[number] = argument
    func = ast.Attribute(n.func.value, function, ast.Load()) if function else n.func
    return ast.Call(func, args, n.keywords)


OPERATORS: dict[str, Callable[[Place], Iterator[ast.AST]]] = {
    operator.__name__.replace("_", " "): operator for operator in (
        sign, dropped_term, dropped_factor, slope, product_for_sum, assignment, dropped_statement,
        wrong_time, swapped_names, swapped_arguments, transpose, mask, other_half, axis, loop,
        branch, aliasing)
}
