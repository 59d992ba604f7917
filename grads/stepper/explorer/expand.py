"""Turns the right-hand sides of a statement into trees, so that the page can put numbers into them.

A tree is a list whose first item says what it is:

    ["t", tensor, name]               a tensor, given by its index
    ["n", number]
    ["+" | "-" | "*" | "/" | "**", left, right]     elementwise
    ["@", left, right]                a matrix product
    ["neg", tree]   ["T", tree]       minus; transposed
    ["f", function, tree]             elementwise; "g" and "g_prime" differ by quarter
    ["softmax", tree]                 of a column
    ["one_hot", tree]                 a column with a one in the row that the tree gives
    ["stack", axis, trees]            below each other (0) or side by side (1)
    ["at", tree, index, ...]          one element; its indices are trees
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

Tree = list[Any]

OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**", ast.MatMult: "@"}
FUNCTIONS = {"exp", "log", "sigm", "sigm_prime", "tanh", "tanh_prime", "g", "g_prime"}
STACKS = {"vstack": 0, "hstack": 1}


def expansions(text: str, reads: Mapping[str, int], count: int) -> list[Tree | None]:
    """The tree of the right-hand side for each target; None if it is more than arithmetic.

    Arguments: text, the statement; reads, the tensor of each name, as it is written; count, the
    number of targets.
    """
    try:
        statement = ast.parse(text.strip()).body[0]
    except SyntaxError:
        return [None] * count
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
        return [None] * count
    target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
    value = statement.value
    if isinstance(value, ast.Dict) and value.values:  # {**dh, l: new}: all others are as before
        return [_tree_or_none(value.values[-1], reads)] * count
    sides = [value]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        sides = list(value.elts)
    if len(sides) != count:
        return [None] * count
    return [_tree_or_none(side, reads) for side in sides]


def _tree_or_none(node: ast.expr, reads: Mapping[str, int]) -> Tree | None:
    """The tree of an expression; None for a bare name, and for an expression that is more than
    arithmetic."""
    try:
        tree = _tree(node, reads)
    except LookupError:
        return None
    return None if tree[0] == "t" else tree


def _tree(node: ast.expr, reads: Mapping[str, int]) -> Tree:
    """The tree of an expression. Raises LookupError if a part of it is not arithmetic."""
    written = ast.unparse(node)
    if isinstance(node, ast.Attribute) and node.attr == "T":
        return ["T", _tree(node.value, reads)]
    if isinstance(node, ast.Attribute) and node.attr == "shape":
        raise LookupError(written)  # a tensor's sizes are none of its numbers
    if written in reads:
        return ["t", reads[written], written]
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return ["n", node.value]
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return [OPERATORS[type(node.op)], _tree(node.left, reads), _tree(node.right, reads)]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return ["neg", _tree(node.operand, reads)]
    if isinstance(node, ast.Subscript):
        index = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return ["at", _tree(node.value, reads), *(_tree(place, reads) for place in index)]
    if isinstance(node, ast.Call) and not node.keywords:
        return _call(node, reads)
    raise LookupError(written)


def _call(node: ast.Call, reads: Mapping[str, int]) -> Tree:
    """The tree of a call of a helper of the derivations."""
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    first = node.args[0]
    if name in STACKS and isinstance(first, ast.List):
        return ["stack", STACKS[name], [_tree(element, reads) for element in first.elts]]
    if name == "one_hot":
        return ["one_hot", _tree(first, reads)]
    if name == "softmax":
        return ["softmax", _tree(first, reads)]
    if name == "softmax_grad":
        p, dp = (_tree(argument, reads) for argument in node.args)
        return ["-", ["*", p, dp], ["*", p, ["@", ["T", p], dp]]]
    if name in FUNCTIONS and len(node.args) == 1:
        return ["f", name, _tree(first, reads)]
    raise LookupError(name)
