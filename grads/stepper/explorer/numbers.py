"""Turns a line of a user's own code into trees, so that the page can put numbers into it.

A page knows only matrices, so this module translates the shapes of NumPy: a vector is a column,
`x.dot(W)` with a vector x is (x.T @ W).T, and an array with more axes has its last axis as columns.
There are the trees of `grads.stepper.explorer.expand`, and

    ["v", [rows, columns], numbers, name]          numbers that are in no tensor of the page
    ["g", tree, [rows, columns], entries, width]   entries (flat indices) of a tree of this width
    ["total" | "largest", tree]                    of each row
    ["where", tree, tree, tree]
    ["max" | "min" | ">" | "<" | ..., left, right] elementwise; a comparison gives 1 or 0

A call of a function in the file is replaced by the function's body, if the body has only
assignments and a return.
"""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
from collections.abc import Callable, Mapping
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np

from grads.stepper.explorer.expand import OPERATORS, Tree
from grads.stepper.explorer.shaped import (
    Shaped,
    broadcast,
    constant,
    elementwise,
    gathered,
    joined,
    moved,
    product,
)

FUNCTIONS = {"exp": "exp", "log": "log", "tanh": "tanh", "sqrt": "sqrt", "abs": "abs",
             "absolute": "abs", "fabs": "abs", "sign": "sign", "sin": "sin", "cos": "cos",
             "log1p": "log1p", "expm1": "expm1"}
PAIRS = {"maximum": "max", "minimum": "min", "power": "**", "add": "+", "subtract": "-",
         "multiply": "*", "divide": "/", "max": "max", "min": "min"}
COMPARED = {ast.Gt: ">", ast.Lt: "<", ast.GtE: ">=", ast.LtE: "<=", ast.Eq: "==", ast.NotEq: "!="}
COPIES = {"copy", "array", "asarray", "float", "astype", "ascontiguousarray", "float64"}
MOVED = {"reshape", "ravel", "flatten", "squeeze", "transpose", "swapaxes", "expand_dims",
         "atleast_2d", "broadcast_to", "repeat", "flip"}  # the same numbers, at other places
FILLED = {"zeros": 0, "ones": 1, "zeros_like": 0, "ones_like": 1, "empty_like": 0, "empty": 0}
REDUCED = {"sum": "total", "mean": "total", "max": "largest", "amax": "largest"}
INDEX = (ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Tuple, ast.List, ast.Slice, ast.Call,
         ast.Attribute, ast.operator, ast.unaryop, ast.expr_context, ast.Subscript, ast.Compare,
         ast.cmpop)
PURE = {"len", "arange", "range", "int", "max", "min", "slice", "array"}  # calls in an index
DEEP = 6  # calls inside calls


class Line:
    """Makes the trees of one line.

    Arguments: operand, which maps the text of a variable to its tensor or numbers, with their
    shape, or to None; value, which maps a name in an index to its number or array and raises
    LookupError for an unknown name; functions, those of the file.
    """

    def __init__(self, operand: Callable[[str], Shaped | None], value: Callable[[str], Any],
                 functions: Mapping[str, Any]) -> None:
        self.operand, self.value, self.functions = operand, value, functions
        self.depth = 0

    def trees(self, text: str, before: Shaped | None, shapes: list[tuple[int, ...] | None],
              whole: bool) -> list[Tree | None]:
        """The tree of each target.

        Arguments: before, the old value of x in `x += e`; shapes, of the targets; whole, whether
        the target of `x[k] += e` is all of x.
        """
        try:
            statement = ast.parse(textwrap.dedent(text)).body[0]
        except SyntaxError:
            return [None] * len(shapes)
        if isinstance(statement, ast.AugAssign) and len(shapes) == 1 and before is not None:
            added: ast.AugAssign = statement
            return [self.attempt(lambda: self.augmented(added, before, whole))]
        value = getattr(statement, "value", None)
        if isinstance(statement, ast.Expr) and isinstance(value, ast.Call) and (
                ast.unparse(value.func).endswith(".append") and len(shapes) == 1):
            value = value.args[0]
            statement = ast.Return(value)
        if not isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Return)) or value is None:
            return [None] * len(shapes)
        sides = list(value.elts) if isinstance(value, ast.Tuple) and len(
            value.elts) == len(shapes) else [value] * len(shapes)
        if len(shapes) > 1 and sides[0] is sides[-1] and isinstance(
                getattr(statement, "targets", [None])[0], ast.Tuple):
            return [None] * len(shapes)  # a call that returns several
        return [self.attempt(partial(self.target, side, shape))
                for side, shape in zip(sides, shapes, strict=True)]

    def attempt(self, make: Callable[[], Shaped]) -> Tree | None:
        """The tree of an expression; None if a part of it is not arithmetic."""
        try:
            return make().tree
        except Exception:  # whatever a user's line has that no tree says
            return None

    def target(self, side: ast.expr, shape: tuple[int, ...] | None) -> Shaped:
        """The tree of a target's new value, in the target's shape."""
        tree = self.of(side)
        return tree if shape is None else broadcast(tree, shape)

    def augmented(self, node: ast.AugAssign, before: Shaped, whole: bool) -> Shaped:
        """The tree of `x += e`. For `x[k] += e`, where the target is all of x, only the entries at
        k change."""
        operator, added = OPERATORS[type(node.op)], self.of(node.value)
        if not isinstance(node.target, ast.Subscript) or not whole:
            return elementwise(operator, before, added)
        where = np.zeros(before.shape)
        entries = np.arange(where.size).reshape(where.shape)[self.index(node.target.slice)]
        where.flat[entries] = 1
        source = np.zeros(where.shape, int)
        size = int(np.prod(added.shape))
        source.flat[entries] = np.broadcast_to(
            np.arange(size).reshape(added.shape), entries.shape)
        changed = elementwise(operator, before, gathered(added, source))
        return Shaped(["where", constant(where, "").tree, changed.tree, before.tree], before.shape)

    # --- expressions

    def of(self, node: ast.expr) -> Shaped:
        """The tree of an expression. Raises LookupError if a part of it is not arithmetic."""
        written = ast.unparse(node)
        if not (isinstance(node, ast.Attribute) and node.attr == "T"):
            known = self.operand(written)
            if known is not None:
                return known
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return Shaped(["n", float(node.value)], ())
        if isinstance(node, ast.BinOp):
            left, right = self.of(node.left), self.of(node.right)
            if isinstance(node.op, ast.MatMult):
                return product(left, right)
            return elementwise(OPERATORS[type(node.op)], left, right)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            value = self.of(node.operand)
            return Shaped(["neg", value.tree], value.shape) if isinstance(
                node.op, ast.USub) else value
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return elementwise(COMPARED[type(node.ops[0])], self.of(node.left),
                               self.of(node.comparators[0]))
        if isinstance(node, ast.Subscript):
            value, index = self.of(node.value), self.index(node.slice)
            return moved(value, lambda entries: entries[index])
        if isinstance(node, ast.Attribute) and node.attr == "T":
            return moved(self.of(node.value), np.transpose)
        if isinstance(node, ast.Name):
            return constant(self.value(node.id), node.id)
        if isinstance(node, ast.Call):
            return self.call(node)
        if isinstance(node, (ast.List, ast.Tuple)):
            return joined([moved(self.of(element), lambda entries: entries[None])
                           for element in node.elts], 0)
        raise LookupError(written)

    def index(self, node: ast.expr) -> Any:
        """The value of an index. Raises LookupError if it cannot be computed from known names."""
        for child in ast.walk(node):
            if not isinstance(child, INDEX) or (isinstance(child, ast.Call) and getattr(
                    child.func, "attr", getattr(child.func, "id", "")) not in PURE):
                raise LookupError(ast.unparse(node))
        names = {child.id for child in ast.walk(node) if isinstance(child, ast.Name)} - {
            *PURE, "np", "numpy"}
        tree = ast.Expression(ast.Subscript(ast.Name("_", ast.Load()), node, ast.Load()))
        code = compile(ast.fix_missing_locations(copy.deepcopy(tree)), "", "eval")
        return eval(code, {"np": np, "numpy": np, "_": Index()}, {
            name: self.value(name) for name in names})

    def call(self, node: ast.Call) -> Shaped:
        """The tree of a call of NumPy, of an array's method, or of a function of the file."""
        function, given = node.func, list(node.args)
        name = getattr(function, "attr", getattr(function, "id", ""))
        if isinstance(function, ast.Name) and name in self.functions:
            return self.inlined(self.functions[name], node)
        if isinstance(function, ast.Attribute) and not (
                isinstance(function.value, ast.Name) and function.value.id in (
                    "np", "numpy", "math", "xp")):
            given = [function.value, *given]  # a method
        how = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
        if name in REDUCED and (len(given) == 1 or isinstance(function, ast.Attribute)):
            return self.reduced(name, given, how)
        if name in MOVED:
            rest = [self.index(argument) for argument in given[1:]]
            named = {key: self.index(argument) for key, argument in how.items()}
            rest = [tuple(rest)] if name in ("reshape", "transpose") and len(rest) > 1 else rest
            change = np.ravel if name == "flatten" else getattr(np, name)
            return moved(self.of(given[0]), lambda entries: change(entries, *rest, **named))
        if name in FILLED:
            shape = self.of(given[0]).shape if name.endswith("_like") else self.index(given[0])
            return Shaped(["n", FILLED[name]], tuple(np.atleast_1d(shape)) if not isinstance(
                shape, tuple) else shape)
        if name == "full":
            return Shaped(self.of(given[1]).tree, tuple(np.atleast_1d(self.index(given[0]))))
        if name in ("concatenate", "hstack", "vstack", "stack", "append"):
            return self.stacked(name, given, how)
        return self.elements(name, [self.of(argument) for argument in given])

    def elements(self, name: str, arguments: list[Shaped]) -> Shaped:
        """The tree of an elementwise function."""
        if name in FUNCTIONS and len(arguments) == 1:
            return Shaped(["f", FUNCTIONS[name], arguments[0].tree], arguments[0].shape)
        if name in PAIRS and len(arguments) == 2:
            return elementwise(PAIRS[name], *arguments)
        if name in ("dot", "matmul"):
            return product(*arguments)
        if name == "outer":
            a, b = (moved(factor, np.ravel) for factor in arguments)
            return Shaped(["@", a.tree, ["T", b.tree]], a.shape + b.shape)
        if name in COPIES:
            return arguments[0]
        if name in ("square", "negative", "reciprocal"):
            return {"square": lambda x: elementwise("**", x, Shaped(["n", 2], ())),
                    "negative": lambda x: Shaped(["neg", x.tree], x.shape),
                    "reciprocal": lambda x: elementwise("/", Shaped(["n", 1], ()), x)}[name](
                        arguments[0])
        if name == "clip":
            return elementwise("min", elementwise("max", *arguments[:2]), arguments[2])
        if name == "where" and len(arguments) == 3:
            shape = np.broadcast_shapes(*(argument.shape for argument in arguments))
            return Shaped(["where", *(broadcast(argument, shape).tree for argument in arguments)],
                          shape)
        raise LookupError(name)

    def stacked(self, name: str, given: list[ast.expr], how: dict[str, ast.expr]) -> Shaped:
        """The tree of concatenated arrays."""
        elements = given[0].elts if isinstance(given[0], (ast.List, ast.Tuple)) else given
        parts = [self.of(element) for element in elements]
        axis = self.index(how["axis"]) if "axis" in how else (
            self.index(given[1]) if len(given) > 1 and parts is not given else 0)
        if name == "stack":
            parts = [moved(piece, lambda entries: np.expand_dims(entries, axis)) for piece in parts]
        elif name == "vstack":
            parts = [moved(piece, np.atleast_2d) for piece in parts]
        elif name == "hstack":
            axis = 0 if len(parts[0].shape) == 1 else 1
        return joined(parts, axis)

    def reduced(self, name: str, arguments: list[ast.expr], how: dict[str, ast.expr]) -> Shaped:
        """The tree of a sum, a mean or a largest element."""
        of = self.of(arguments[0])
        axis = self.index(how["axis"]) if "axis" in how else (
            self.index(arguments[1]) if len(arguments) > 1 else None)
        keep = "keepdims" in how and bool(self.index(how["keepdims"]))
        shape = np.sum(np.empty(of.shape), axis=axis, keepdims=keep).shape
        axes = range(len(of.shape)) if axis is None else [
            number % len(of.shape) for number in np.atleast_1d(axis)]
        last = [number for number in range(len(of.shape)) if number not in axes] + [*axes]
        count = int(np.prod([of.shape[number] for number in axes]))
        flattened = moved(of, lambda entries: np.transpose(entries, last).reshape(-1, count))
        tree: Tree = [REDUCED[name], flattened.tree]
        if name == "mean":
            tree = ["/", tree, ["n", count]]
        reduced = Shaped(tree, (flattened.shape[0],))
        return moved(reduced, lambda entries: entries.reshape(shape))

    def inlined(self, function: Any, node: ast.Call) -> Shaped:
        """The tree of a call of a function that only assigns names and returns an expression."""
        if not isinstance(function, FunctionType) or self.depth > DEEP:
            raise LookupError(ast.unparse(node))
        definition = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        assert isinstance(definition, ast.FunctionDef)
        bound = inspect.signature(function).bind(
            *(self.of(argument) for argument in node.args),
            **{keyword.arg: self.of(keyword.value) for keyword in node.keywords if keyword.arg})
        names: dict[str, Shaped] = dict(bound.arguments)
        inner = Line(names.get, self.value, self.functions)
        inner.depth = self.depth + 1
        for statement in definition.body:
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                names[statement.targets[0].id] = inner.of(statement.value)
            elif isinstance(statement, ast.Return) and statement.value is not None:
                return inner.of(statement.value)
            elif not isinstance(statement, ast.Expr):
                break
        raise LookupError(ast.unparse(node))


class Index:
    """An object whose index is that index itself: `Index()[1:, 2]` is `(slice(1, None), 2)`."""

    def __getitem__(self, index: Any) -> Any:
        return index
