"""Rewrites a function so that each of its assignments passes through a listener.

`h[t] = rnn(v[t], h[t - 1], T, b)` becomes `h[t] = frame.assign(site, rnn(...), ((t,),))`, and each
local variable on the right passes through `frame.read`. The user's file stays as it is: the copy
exists in memory, with the file's name and line numbers, in a copy of its module's namespace.

Generators, coroutines, classes and lambdas are not rewritten.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from grads.stepper.tracing.source import Source, equations
from grads.stepper.tracing.syntax import (
    Pattern,
    Written,
    as_list,
    as_load,
    as_store,
    chain_of,
    index_tuples,
    is_generator,
    is_load,
    is_reversed,
    is_settled,
    is_simple,
    names_of,
    parameters_of,
    pattern,
    rooted,
    statements,
    stored_names,
    width,
)

FRAME = "_frame_"  # the local name of the listener's frame in a rewritten function
RETURNED = "return"  # the name of what an expression behind `return` makes
LISTENER = "_listener_"  # the global name of the listener


class Loop(NamedTuple):
    """A loop of the source."""

    name: str  # its index, or "iteration" where it has none and iterations are counted
    counted: bool
    outer: tuple[int, ...]  # numbers of the loops around it


class Site(NamedTuple):
    """A place in the source that calls the listener."""

    kind: str  # "call" | "assign" | "return"
    function: str
    file: str
    line: int
    end_line: int
    text: str
    comment: str
    equations: tuple[str, ...]
    targets: tuple[Pattern, ...]  # several for `a = b = value`
    loops: tuple[int, ...]  # numbers of the loops around it, outermost first
    chains: range  # numbers of the variables its right-hand side reads
    augmented: bool  # `x += e`


class Chain(NamedTuple):
    """A variable as an expression reads it: `h[t - 1]` is ("h", ("[",), "h[t - 1]")."""

    name: str
    parts: tuple[str, ...]
    text: str
    loops: tuple[int, ...]


class Rewriter(ast.NodeTransformer):
    """Rewrites one function and appends to `sites`, `chains` and `loops`.

    Arguments: source and function, its text and name; names, the variables of the functions around
    it; returns, whether a returned expression is recorded like an assignment; own_code, whether the
    function is a user's.
    """

    def __init__(self, source: Source, sites: list[Site], chains: list[Chain], loops: list[Loop],
                 function: str, names: frozenset[str], returns: bool = False,
                 own_code: bool = False) -> None:
        self.source, self.sites, self.chains, self.loops = source, sites, chains, loops
        self.function, self.names, self.returns = function, names, returns
        self.own_code = own_code
        self.local: set[str] = set()  # names that are assigned in this function
        self.around: tuple[int, ...] = ()  # loops around the statement being rewritten

    def rewrite(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """The function with its parameters and body passing through a frame, which is entered and
        left."""
        if is_generator(node):
            return node
        self.local = names_of(node)
        self.names = self.names | self.local
        parameters = parameters_of(node)
        targets: Pattern = tuple(Written(name, (), name) for name in parameters)
        site = self.site("call", node, (targets,), len(self.chains))
        body = [new for old in node.body for new in as_list(self.visit(old))]
        names = "".join(f"{name}, " for name in parameters)
        enter = statements(f"{FRAME} = {LISTENER}.enter({site})", node)
        if names:
            enter += statements(f"({names}) = {FRAME}.entered({site}, ({names}))", node)
        leave = statements(f"{FRAME}.leave()", node)
        node.body = [*enter, ast.Try(body=body, handlers=[], orelse=[], finalbody=leave)]
        node.returns = None
        for argument in ast.walk(node.args):
            if isinstance(argument, ast.arg):
                argument.annotation = None
        return node

    def site(self, kind: str, node: ast.stmt | ast.expr, targets: tuple[Pattern, ...],
             start: int, augmented: bool = False) -> int:
        """Add a place of the source and return its number. Its right-hand side has the chains from
        `start`."""
        text, comment = self.source.statement(node)
        self.sites.append(Site(
            kind, self.function, self.source.file, node.lineno, node.end_lineno or node.lineno,
            text, comment, equations(comment), targets, self.around,
            range(start, len(self.chains)), augmented))
        return len(self.sites) - 1

    # --- statements

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        inner = Rewriter(self.source, self.sites, self.chains, self.loops, node.name,
                         frozenset(self.names), own_code=self.own_code)
        return inner.rewrite(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        start, value = len(self.chains), self.visit(node.value)
        return self.assignment(node, node.targets, value, start)

    def assignment(self, node: ast.stmt, targets: list[ast.expr], value: ast.expr, start: int,
                   augmented: bool = False) -> ast.stmt:
        """The statement `targets = value`, recorded."""
        changing = stored_names(targets)
        patterns = tuple(pattern(target, changing) for target in targets)
        indices = [index for target in targets for index in index_tuples(target, changing)]
        site = self.site("assign", node, patterns, start, augmented)
        value = self.recorded("assign", site, value, ast.Tuple(elts=indices, ctx=ast.Load()))
        return ast.copy_location(ast.Assign(targets=targets, value=value), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is None:
            return node
        plain = ast.Assign(targets=[node.target], value=node.value)
        return self.visit_Assign(ast.copy_location(plain, node))

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST | list[ast.stmt]:
        """The statement `x += e` as written, followed by recording x. For `x[a:b] += e` the entire
        array is recorded."""
        start = len(self.chains)
        node.value = self.visit(node.value)
        target = as_store(node.target)
        if not is_settled(target):
            chain = chain_of(target)
            if chain is None or chain[0].id not in self.local:
                return node
            target = as_store(chain[0])
        return [node, self.assignment(node, [target], as_load(target), start, augmented=True)]

    def visit_Expr(self, node: ast.Expr) -> ast.AST | list[ast.stmt]:
        """A call as a statement. In a user's function, `x.append(e)` and `np.add.at(x, k, e)` are
        recorded as assignments to the last entry and to x."""
        start, target = len(self.chains), self.written_by(node.value) if self.own_code else None
        node.value = self.visit(node.value)
        if target is None:
            return node
        return [node, self.assignment(node, [target], as_load(target), start, augmented=True)]

    def written_by(self, value: ast.expr) -> ast.expr | None:
        """The variable that a call writes into; None if it is unknown or not local."""
        function = getattr(value, "func", None)
        if not isinstance(value, ast.Call) or not isinstance(function, ast.Attribute):
            return None
        place, appends = function.value, function.attr == "append"
        written = place if appends else next(
            (keyword.value for keyword in value.keywords if keyword.arg == "out"),
            value.args[0] if function.attr == "at" and value.args else None)
        if not isinstance(written, ast.Name) or written.id not in self.local:
            return None
        text = f"{written.id}[len({written.id}) - 1]" if appends else written.id
        return as_store(ast.copy_location(ast.parse(text, mode="eval").body, value))

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.AST:
        start, value = len(self.chains), self.visit(node.value)
        site = self.site("assign", node, (pattern(node.target),), start)
        indices = ast.Tuple(elts=index_tuples(node.target), ctx=ast.Load())
        node.value = self.recorded("assign", site, value, indices)
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        if node.value is None:
            return node
        start = len(self.chains)
        named = self.returned(node.value) if self.returns else None
        value = self.visit(node.value)
        if named is not None:
            site = self.site("assign", node, (named,), start)
            nothing = index_tuples(ast.Tuple(elts=[ast.Name("_")] * width(named)))
            value = self.recorded("assign", site, value, ast.Tuple(nothing, ast.Load()))
        site = self.site("return", node, (Written("return", (), "return"),), start)
        node.value = self.recorded("returned", site, value)
        return node

    def returned(self, value: ast.expr) -> Pattern | None:
        """Names for the values of a return statement; None if they are variables already."""
        parts = value.elts if isinstance(value, ast.Tuple) else [value]
        if all(chain_of(returned) for returned in parts) or any(
                isinstance(returned, ast.Starred) for returned in parts):
            return None
        names = [RETURNED] if len(parts) == 1 else [
            f"{RETURNED} {k}" for k in range(1, len(parts) + 1)]
        targets = tuple(Written(name, (), name) for name in names)
        return targets if isinstance(value, ast.Tuple) else targets[0]

    def visit_For(self, node: ast.For) -> ast.AST:
        counted = next((child.id for child in ast.walk(node.target)
                        if isinstance(child, ast.Name)), None)
        calls = {child.id for child in ast.walk(node.iter) if isinstance(child, ast.Name)}
        index = counted if calls & {"range", "enumerate"} else None
        if index is None:
            node.iter = self.counted_down(node.iter)
        return self.loop(node, index)

    def counted_down(self, iterable: ast.expr) -> ast.expr:
        """What the next loop is over, recorded where it is reversed: its iterations are counted
        down, so that they have the numbers of the forward's."""
        if is_reversed(iterable):
            return self.recorded("counted_down", len(self.loops), iterable)
        if isinstance(iterable, ast.Call):  # zip(reversed(xs), ys)
            iterable.args = [self.counted_down(argument) for argument in iterable.args]
        return iterable

    def visit_While(self, node: ast.While) -> ast.AST:
        return self.loop(node, None)

    def loop(self, node: ast.For | ast.While, index: str | None) -> ast.AST:
        """The loop with every iteration recorded."""
        number = len(self.loops)
        self.loops.append(Loop(index or "iteration", index is None, self.around))
        self.around = (*self.around, number)
        body = [new for old in node.body for new in as_list(self.visit(old))]
        self.around = self.around[:-1]
        node.orelse = [new for old in node.orelse for new in as_list(self.visit(old))]
        node.body = [*statements(f"{FRAME}.iteration({number}, {index})", node), *body]
        return node

    # --- expressions

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self.read(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return self.read(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        return self.read(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """The call with its operands recorded. A function's name is not an operand; a method's
        object is."""
        if isinstance(node.func, ast.Attribute):
            node.func.value = self.visit(node.func.value)
        elif not isinstance(node.func, ast.Name):
            node.func = self.visit(node.func)
        node.args = [self.visit(argument) for argument in node.args]
        for keyword in node.keywords:
            keyword.value = self.visit(keyword.value)
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        node.body = [new for old in node.body for new in as_list(self.visit(old))]
        node.orelse = [new for old in node.orelse for new in as_list(self.visit(old))]
        return node

    def read(self, node: ast.expr) -> ast.expr:
        """A local variable, or an entry of it, passed through the frame."""
        chain = chain_of(node)
        if chain is None or not is_simple(chain[2]) or not is_load(node):
            if isinstance(node, (ast.Attribute, ast.Subscript)):
                node.value = self.visit(node.value)
            return node
        name, parts, indices = chain
        if name.id not in self.names:
            return node
        number = len(self.chains)
        self.chains.append(Chain(name.id, parts, ast.unparse(node), self.around))
        read = rooted(node, self.recorded("read", number, ast.Name(name.id, ast.Load())))
        if not parts:
            return read
        values = ast.Tuple(elts=[as_load(index) for index in indices], ctx=ast.Load())
        return self.recorded("item", number, read, values)

    # --- pieces

    def recorded(self, hook: str, number: int, *arguments: ast.expr) -> ast.expr:
        """The expression `_frame_.hook(number, ...)`."""
        function = ast.Attribute(value=ast.Name(FRAME, ast.Load()), attr=hook, ctx=ast.Load())
        return ast.Call(func=function, args=[ast.Constant(number), *arguments], keywords=[])
