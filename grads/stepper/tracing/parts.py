"""Gives a name to every part of a function's expressions, so that a trace records the values.

`h[t] = np.tanh(x[t] @ W.T + b)` becomes `h[t] = np.tanh((_part_2 := (_part_0 := x[t]) @ ...))`. A
user's `dz` is often the gradient of the argument of tanh, which no variable holds.
"""

from __future__ import annotations

import ast

from grads.stepper.tracing.syntax import chain_of, names_of

PART = "_part_"
WRAPPED = (ast.BinOp, ast.UnaryOp, ast.Call, ast.Subscript, ast.Attribute, ast.Name)


class Parts(ast.NodeTransformer):
    """Names the parts of one function's expressions. The source text of each part is appended to
    `texts`; the number in its name is its place there."""

    def __init__(self, node: ast.FunctionDef, texts: list[str]) -> None:
        self.node, self.names, self.texts = node, names_of(node), texts

    def named(self) -> ast.FunctionDef:
        """The function with named parts."""
        self.generic_visit(self.node)
        return self.node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        node.value = self.inside(node.value)  # the whole has the target's name
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        node.value = self.expression(node.value)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.value = None if node.value is None else self.inside(node.value)
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        node.value = None if node.value is None else self.expression(node.value)
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        node.value = self.inside(node.value)
        return node

    # --- expressions

    def expression(self, node: ast.expr) -> ast.expr:
        """An expression with names for itself and its parts, as far as they depend on variables."""
        chain = chain_of(node)
        if not isinstance(node, WRAPPED) or (chain and chain[0].id not in self.names):
            return self.inside(node)
        text, value = ast.unparse(node), node if chain else self.inside(node)
        self.texts.append(text)
        name = ast.Name(f"{PART}{len(self.texts) - 1}", ast.Store())
        named = ast.NamedExpr(target=name, value=value)
        for child in (named, name):
            ast.copy_location(child, node)
        return named

    def inside(self, node: ast.expr) -> ast.expr:
        """An expression with names for its parts only."""
        if isinstance(node, ast.BinOp):
            node.left, node.right = self.expression(node.left), self.expression(node.right)
        elif isinstance(node, ast.UnaryOp):
            node.operand = self.expression(node.operand)
        elif isinstance(node, (ast.Tuple, ast.List)):
            node.elts = [element if isinstance(element, ast.Starred) else self.expression(element)
                         for element in node.elts]
        elif isinstance(node, ast.IfExp):
            node.body, node.orelse = self.expression(node.body), self.expression(node.orelse)
        elif isinstance(node, ast.Call):
            node.args = [argument if isinstance(argument, ast.Starred)
                         else self.expression(argument)
                         for argument in node.args]
            if isinstance(node.func, ast.Attribute) and chain_of(node.func) is None:
                node.func.value = self.expression(node.func.value)
        elif isinstance(node, (ast.Subscript, ast.Attribute)) and chain_of(node) is None:
            node.value = self.expression(node.value)
        return node
