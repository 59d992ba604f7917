"""A line of a user's own code as trees (`grads.stepper.explorer.expand`), so that the page can put
numbers into it.

Here are the shapes that NumPy gives, which a page does not know: a vector is a column, `x.dot(W)`
of a vector x is (x.T @ W).T, and an array of more axes has its last one as columns. Beside the
trees of `expand` there are

    ["v", [rows, columns], numbers, name]          numbers that no tensor of the page has
    ["g", tree, [rows, columns], entries, width]   entries (flat, row by row) of a tree so wide
    ["total" | "largest", tree]                    of each row
    ["where", tree, tree, tree]
    ["max" | "min" | ">" | "<" | ..., left, right] of each element; of a comparison 1 or 0

Functions of the file are put in their place, where they are assignments and a return.
"""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from grads.check.substitution import attributes_of
from grads.stepper.explorer.expand import OPERATORS, Tree
from grads.stepper.explorer.tensors import Table, flat
from grads.stepper.trace import Origin, Step
from grads.stepper.tracing.derivations import Run
from grads.stepper.tracing.entries import positions
from grads.stepper.tracing.pairing import root_of
from grads.stepper.tracing.record import belongs
from grads.stepper.tracing.syntax import chain_of
from grads.stepper.tracing.values import KEEP

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


class Shaped(NamedTuple):
    """A tree with the shape that NumPy gives."""

    tree: Tree
    shape: tuple[int, ...]


class Line:
    """Makes the trees of one line.

    Arguments: operand, from the text of a variable to its tensor or numbers, shaped, None where
    there is none; value, from a name to its number or array, as it stands in an index (LookupError
    where it has none); functions, those of the file.
    """

    def __init__(self, operand: Callable[[str], Shaped | None], value: Callable[[str], Any],
                 functions: Mapping[str, Any]) -> None:
        self.operand, self.value, self.functions = operand, value, functions
        self.depth = 0

    def trees(self, text: str, before: Shaped | None, shapes: list[tuple[int, ...] | None],
              whole: bool) -> list[Tree | None]:
        """The tree of each target; before, the variable before `x += e`; shapes, of the targets;
        whole, whether all of x is the target of `x[k] += e`."""
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
        """A tree; None where a part of it is no arithmetic."""
        try:
            return make().tree
        except Exception:  # whatever a user's line has that no tree says
            return None

    def target(self, side: ast.expr, shape: tuple[int, ...] | None) -> Shaped:
        """The tree of what a target gets, in its shape, or one number for all of it."""
        found = self.of(side)
        return found if shape is None else broadcast(found, shape)

    def augmented(self, node: ast.AugAssign, before: Shaped, whole: bool) -> Shaped:
        """`x += e`; of `x[k] += e`, where all of x is the target, the entries k."""
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
        """The tree of an expression; LookupError where a part of it is no arithmetic."""
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
            found = self.of(node.operand)
            return Shaped(["neg", found.tree], found.shape) if isinstance(
                node.op, ast.USub) else found
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return elementwise(COMPARED[type(node.ops[0])], self.of(node.left),
                               self.of(node.comparators[0]))
        if isinstance(node, ast.Subscript):
            found, index = self.of(node.value), self.index(node.slice)
            return moved(found, lambda entries: entries[index])
        if isinstance(node, ast.Attribute) and node.attr == "T":
            return moved(self.of(node.value), np.transpose)
        if isinstance(node, ast.Name):
            return constant(self.value(node.id), node.id)
        if isinstance(node, ast.Call):
            return self.call(node)
        if isinstance(node, (ast.List, ast.Tuple)):
            return joined([moved(self.of(one), lambda entries: entries[None])
                           for one in node.elts], 0)
        raise LookupError(written)

    def index(self, node: ast.expr) -> Any:
        """The value of an index; LookupError where it is computed by something else."""
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
        """The tree of a call: of NumPy, of a method of an array, of a function of the file."""
        function, given = node.func, list(node.args)
        name = getattr(function, "attr", getattr(function, "id", ""))
        if isinstance(function, ast.Name) and name in self.functions:
            return self.inlined(self.functions[name], node)
        if isinstance(function, ast.Attribute) and not (
                isinstance(function.value, ast.Name) and function.value.id in (
                    "np", "numpy", "math", "xp")):
            given = [function.value, *given]  # a method
        how = {one.arg: one.value for one in node.keywords if one.arg}
        if name in REDUCED and (len(given) == 1 or isinstance(function, ast.Attribute)):
            return self.reduced(name, given, how)
        if name in MOVED:
            rest = [self.index(one) for one in given[1:]]
            named = {key: self.index(one) for key, one in how.items()}
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
        return self.elements(name, [self.of(one) for one in given])

    def elements(self, name: str, given: list[Shaped]) -> Shaped:
        """The tree of a function of each element."""
        if name in FUNCTIONS and len(given) == 1:
            return Shaped(["f", FUNCTIONS[name], given[0].tree], given[0].shape)
        if name in PAIRS and len(given) == 2:
            return elementwise(PAIRS[name], *given)
        if name in ("dot", "matmul"):
            return product(*given)
        if name == "outer":
            a, b = (moved(one, np.ravel) for one in given)
            return Shaped(["@", a.tree, ["T", b.tree]], a.shape + b.shape)
        if name in COPIES:
            return given[0]
        if name in ("square", "negative", "reciprocal"):
            return {"square": lambda x: elementwise("**", x, Shaped(["n", 2], ())),
                    "negative": lambda x: Shaped(["neg", x.tree], x.shape),
                    "reciprocal": lambda x: elementwise("/", Shaped(["n", 1], ()), x)}[name](
                        given[0])
        if name == "clip":
            return elementwise("min", elementwise("max", *given[:2]), given[2])
        if name == "where" and len(given) == 3:
            shape = np.broadcast_shapes(*(one.shape for one in given))
            return Shaped(["where", *(broadcast(one, shape).tree for one in given)], shape)
        raise LookupError(name)

    def stacked(self, name: str, given: list[ast.expr], how: dict[str, ast.expr]) -> Shaped:
        """The tree of arrays joined."""
        elements = given[0].elts if isinstance(given[0], (ast.List, ast.Tuple)) else given
        parts = [self.of(one) for one in elements]
        axis = self.index(how["axis"]) if "axis" in how else (
            self.index(given[1]) if len(given) > 1 and parts is not given else 0)
        if name == "stack":
            parts = [moved(one, lambda entries: np.expand_dims(entries, axis)) for one in parts]
        elif name == "vstack":
            parts = [moved(one, np.atleast_2d) for one in parts]
        elif name == "hstack":
            axis = 0 if len(parts[0].shape) == 1 else 1
        return joined(parts, axis)

    def reduced(self, name: str, given: list[ast.expr], how: dict[str, ast.expr]) -> Shaped:
        """The tree of a sum, mean or largest element."""
        of = self.of(given[0])
        axis = self.index(how["axis"]) if "axis" in how else (
            self.index(given[1]) if len(given) > 1 else None)
        keep = "keepdims" in how and bool(self.index(how["keepdims"]))
        shape = np.sum(np.empty(of.shape), axis=axis, keepdims=keep).shape
        axes = range(len(of.shape)) if axis is None else [
            one % len(of.shape) for one in np.atleast_1d(axis)]
        last = [one for one in range(len(of.shape)) if one not in axes] + [*axes]
        count = int(np.prod([of.shape[one] for one in axes]))
        flattened = moved(of, lambda entries: np.transpose(entries, last).reshape(-1, count))
        tree: Tree = [REDUCED[name], flattened.tree]
        if name == "mean":
            tree = ["/", tree, ["n", count]]
        found = Shaped(tree, (flattened.shape[0],))
        return moved(found, lambda entries: entries.reshape(shape))

    def inlined(self, function: Any, node: ast.Call) -> Shaped:
        """The tree of a call of a function that assigns names and returns an expression."""
        if not isinstance(function, FunctionType) or self.depth > DEEP:
            raise LookupError(ast.unparse(node))
        made = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        assert isinstance(made, ast.FunctionDef)
        bound = inspect.signature(function).bind(
            *(self.of(one) for one in node.args),
            **{one.arg: self.of(one.value) for one in node.keywords if one.arg})
        names: dict[str, Shaped] = dict(bound.arguments)
        inner = Line(names.get, self.value, self.functions)
        inner.depth = self.depth + 1
        for statement in made.body:
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                names[statement.targets[0].id] = inner.of(statement.value)
            elif isinstance(statement, ast.Return) and statement.value is not None:
                return inner.of(statement.value)
            elif not isinstance(statement, ast.Expr):
                break
        raise LookupError(ast.unparse(node))


class Index:
    """Gives back what it is indexed with."""

    def __getitem__(self, index: Any) -> Any:
        return index


# --- shapes ---------------------------------------------------------------------------------------


def sides(shape: tuple[int, ...]) -> tuple[int, int]:
    """The rows and columns in which the page has an array."""
    if len(shape) < 2:
        return (*shape, 1)[0], 1
    return int(np.prod(shape[:-1])), shape[-1]


def constant(value: Any, name: str) -> Shaped:
    """Numbers that no tensor has. LookupError for anything else."""
    numbers = np.asarray(value)
    if numbers.dtype.kind not in "fiub" or numbers.size > KEEP:
        raise LookupError(name)
    return Shaped(["v", list(sides(numbers.shape)), flat(numbers), name], numbers.shape)


def gathered(found: Shaped, entries: np.ndarray) -> Shaped:
    """Some entries of a tree, by their flat positions."""
    tree, width, places = found.tree, sides(found.shape)[1], entries.ravel()
    if tree[0] == "g":
        tree, places, width = tree[1], np.array(tree[3], int)[places], tree[4]
    return Shaped(["g", tree, list(sides(entries.shape)), places.tolist(), width], entries.shape)


def moved(found: Shaped, change: Callable[[np.ndarray], np.ndarray]) -> Shaped:
    """A tree whose entries are elsewhere; the tree itself where none is."""
    before = np.arange(int(np.prod(found.shape))).reshape(found.shape)
    entries = np.asarray(change(before))
    if sides(entries.shape) == sides(found.shape) and np.array_equal(
            entries.ravel(), before.ravel()):
        return Shaped(found.tree, entries.shape)
    if len(found.shape) == 2 and np.array_equal(entries, before.T):
        return Shaped(["T", found.tree], entries.shape)
    return gathered(found, entries)


def broadcast(found: Shaped, shape: tuple[int, ...]) -> Shaped:
    """A tree in a larger shape; a number stays one."""
    if found.shape == () or found.shape == shape:
        return found
    return moved(found, lambda entries: np.broadcast_to(entries, shape))


def elementwise(kind: str, left: Shaped, right: Shaped) -> Shaped:
    """An operation on each element."""
    shape = np.broadcast_shapes(left.shape, right.shape)
    return Shaped([kind, broadcast(left, shape).tree, broadcast(right, shape).tree], shape)


def product(left: Shaped, right: Shaped) -> Shaped:
    """A matrix product, of vectors too. LookupError for more than two axes."""
    if not left.shape or not right.shape:
        return elementwise("*", left, right)
    if max(len(left.shape), len(right.shape)) > 2:
        raise LookupError("@")
    tree: Tree = ["@", left.tree if len(left.shape) == 2 else ["T", left.tree], right.tree]
    if (len(left.shape), len(right.shape)) == (1, 2):
        tree = ["T", tree]
    return Shaped(tree, left.shape[:-1] + right.shape[1:])


def joined(parts: list[Shaped], axis: int) -> Shaped:
    """Trees one after another along an axis."""
    axis %= len(parts[0].shape)
    total = sum(one.shape[axis] for one in parts)
    shape = (*parts[0].shape[:axis], total, *parts[0].shape[axis + 1:])
    if len(shape) > 2:
        raise LookupError("stack")
    return Shaped(["stack", axis, [one.tree for one in parts]], shape)


# --- what the names of a line stand for -----------------------------------------------------------


class Operands:
    """The tensors and numbers behind the names of a user's lines.

    Arguments: run, its traces; table, of the page's tensors.
    """

    def __init__(self, run: Run, table: Table) -> None:
        self.run, self.table = run, table
        self.functions = {name: one for space in run.forward.program.namespaces.values()
                          for name, one in space.items() if isinstance(one, FunctionType)}
        self.objects = dict(objects_in(run.example.arguments))
        self.made: dict[str, dict[tuple[int, str], list[Origin]]] = {}
        self.parts: dict[str, dict[tuple[int, str], list[tuple[Origin, str]]]] = {}
        for name, trace in table.traces.items():
            found = self.made[name] = defaultdict(list)
            parts = self.parts[name] = defaultdict(list)
            for step in trace.steps:
                for i, target in enumerate(step.targets if step.kind != "return" else ()):
                    found[step.frame, target.name].append((step.number, i))
                    if "[" in target.name:
                        parts[step.frame, root_of(target.name)].append(
                            ((step.number, i), target.name))

    def trees(self, name: str, step: Step) -> list[Tree | None]:
        """The tree of each target of a step."""
        reads = self.reads(name, step)

        def operand(text: str) -> Shaped | None:
            origin = reads.get(text) or self.latest(name, step, text)
            if origin is not None and self.table.traces[name].target(origin).shape is not None:
                return self.now(name, step, origin, text)
            return self.held(name, step, text)

        def value(text: str) -> Any:
            loops = dict(step.own_loops)
            if text in loops:
                return loops[text]
            origin = self.latest(name, step, text)
            if origin is not None and not self.table.traces[name].target(origin).sliced:
                return self.table.traces[name].target(origin).value
            return self.globals(name, step)[text]

        shapes = [target.shape for target in step.targets]
        augmented = self.table.traces[name].program.sites[step.site].augmented
        return Line(operand, value, self.functions).trees(
            step.text, self.before(name, step) if augmented else None, shapes,
            "[" not in step.targets[0].written)

    def reads(self, name: str, step: Step) -> dict[str, Origin]:
        """Where each variable that a step read was assigned: for `p[y, 0]` that of `p`, unless an
        entry of its own was."""
        trace, found = self.table.traces[name], {}
        for read in step.reads:
            if len(read.origins) == 1:
                node: ast.expr = ast.parse(read.written.removesuffix(".T"), mode="eval").body
                known, whole = read.name.removesuffix(".T"), trace.target(read.origins[0]).name
                while belongs(known, whole) and known != whole and isinstance(node, ast.Subscript):
                    node, known = node.value, known.rpartition("[")[0]
                found[ast.unparse(node)] = read.origins[0]
        return found

    def before(self, name: str, step: Step) -> Shaped | None:
        """The variable before `x += e`: the longest name that an array has, and its entries."""
        written, wanted = step.targets[0].written, step.targets[0].name
        known = wanted
        while (origin := self.latest(name, step, known)) is None or (
                known != wanted and self.table.traces[name].target(origin).shape is None):
            if "[" not in known:
                return None
            known = known.rpartition("[")[0]
        root = known.partition("[")[0]
        whole = self.latest(name, step, root)  # an array, whose entries were set before
        if whole is not None and self.table.traces[name].target(whole).shape:
            origin, known = whole, root
        found = self.now(name, step, origin, written if known == wanted else known)
        places = None if found is None else positions(wanted[len(known):], found.shape)
        return None if found is None or places is None else moved(
            found, lambda entries: entries.ravel()[places])

    def now(self, name: str, step: Step, origin: Origin, text: str) -> Shaped | None:
        """An array as a step reads it, with the entries that were set since it was assigned."""
        trace = self.table.traces[name]
        target, frame = trace.target(origin), trace.steps[origin[0]].frame
        found = self.tensor(self.table.find(name, origin), text)
        if found is None or not target.shape:
            return found
        entries, parts = np.arange(int(np.prod(target.shape))).reshape(target.shape), [found]
        for part, known in self.parts[name].get((frame, root_of(target.name)), ()):
            if origin < part < (step.number, 0) and belongs(known, target.name) and (
                    known != target.name):
                places = positions(known[len(target.name):], target.shape)
                set_to = self.tensor(self.table.find(name, part), known)
                if places is not None and set_to is not None:
                    start = sum(int(np.prod(one.shape)) for one in parts)
                    entries.flat[places] = start + np.arange(places.size).reshape(places.shape)
                    parts.append(set_to)
        return found if len(parts) == 1 else gathered(
            joined([moved(one, np.ravel) for one in parts], 0), entries)

    def latest(self, name: str, step: Step, text: str) -> Origin | None:
        """Where a variable of a step's function was assigned last before the step."""
        made = self.made[name].get((step.frame, text), [])
        place = bisect_left(made, (step.number, 0))
        return made[place - 1] if place else None

    def tensor(self, number: int, text: str) -> Shaped | None:
        """A tensor of the page; None where it is no array or not whole."""
        shape = self.table.entries[number]["shape"]
        if shape is None or "full_shape" in self.table.entries[number]:
            return None
        return Shaped(["t", number, text], tuple(shape))

    def globals(self, name: str, step: Step) -> Mapping[str, Any]:
        """The global variables of a step's function."""
        return self.table.traces[name].program.function_at(step.file, step.line).__globals__

    def held(self, name: str, step: Step, text: str) -> Shaped | None:
        """The numbers of a global variable, or of what an object holds."""
        found = chain_of(ast.parse(text, mode="eval").body)
        if found is None:
            return None
        root, parts, indices = found
        owner = self.table.traces[name].calls[step.frame].owner
        value = self.objects.get(owner or 0) if root.id == "self" else (
            self.globals(name, step).get(root.id))
        keys = iter(indices)
        for part in parts:
            key = next(keys) if part == "[" else None
            if isinstance(key, ast.Constant) and isinstance(value, Mapping):
                value = value[key.value]
            elif key is None and not isinstance(value, np.ndarray):
                value = getattr(value, part[1:], None)
            else:
                return None
        return constant(value, text) if isinstance(value, (np.ndarray, float)) else None


def objects_in(value: Any, depth: int = DEEP) -> Iterator[tuple[int, Any]]:
    """The objects among values, and those that they hold, by id()."""
    inner = list(attributes_of(value).values()) if hasattr(value, "__dict__") else list(
        value.values() if isinstance(value, Mapping) else value) if isinstance(
            value, (Mapping, list, tuple)) else []
    yield id(value), value
    for one in inner if depth else ():
        yield from objects_in(one, depth - 1)
