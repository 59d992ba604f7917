"""The change of one place in the backward's text that makes a wrong gradient right.

The text of the user's functions is changed in one place at a time, as a person would mend it: a
sign, a transpose, an index, `+=` for `=`, another variable, a factor. The changed function runs in
the place of its own; where all gradients become right, here and at another point, the change is the
diagnosis. Nothing is left changed.
"""

from __future__ import annotations

import ast
import contextlib
import dis
import inspect
import io
import textwrap
import time
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from grads.check.analytic import dense
from grads.check.comparison import Check
from grads.check.other_inputs import slopes_at
from grads.check.precision import EXACT
from grads.check.state import is_own

SECONDS = 0.3  # of processor time that is spent on changes
MOST = 200  # functions and objects that are searched for the user's functions
SHORT = 64  # characters of a statement that is shown in whole
MOVED = 1e-2  # relative distance of the other point
CLOSE, CLOSE_32 = 1e-6, 1e-3  # relative error of a gradient that is right

Arrays = dict[str, np.ndarray]
Known = Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]]  # flat positions, values, limits

CALLS = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_GLOBAL", "CALL", "PRECALL", "PUSH_NULL", "KW", "JUMP",
         "FOR_ITER", "POP_JUMP", "CACHE", "EXTENDED_ARG")
PLAIN = (ast.Assign, ast.AugAssign, ast.Return, ast.Expr)  # statements of one line
OTHER: dict[type, list[type]] = {
         ast.Add: [ast.Sub], ast.Sub: [ast.Add], ast.Mult: [ast.Div, ast.Add, ast.MatMult],
         ast.Div: [ast.Mult], ast.MatMult: [ast.Mult], ast.BitAnd: [ast.BitOr],
         ast.BitOr: [ast.BitAnd], ast.Gt: [ast.Lt, ast.GtE], ast.Lt: [ast.Gt, ast.LtE],
         ast.GtE: [ast.LtE, ast.Gt], ast.LtE: [ast.GtE, ast.Lt], ast.Eq: [ast.NotEq]}
ALIKE = (("sin", "cos"), ("sinh", "cosh", "tanh"), ("exp", "log", "log1p", "expm1"),
         ("sqrt", "square"), ("sum", "mean"), ("max", "min"), ("maximum", "minimum"),
         ("argmax", "argmin"), ("convolve", "correlate"), ("convolve2d", "correlate2d"),
         ("fft", "ifft"), ("rfft", "irfft"), ("zeros_like", "ones_like"), ("tril", "triu"))
SLOPES = ("{0} * {1}", "{0} / {1}", "{0} * (1 - {1} ** 2)", "{0} * {1} * (1 - {1})",
          "{0} * (1 - {1})", "{0} * ({1} > 0)", "{0} * {1} ** 2", "{0} / {1} ** 2",
          "{0} / len({1})", "{0} * len({1})", "{0} / {1}.shape[-1]", "{0} / {1}.size",
          "{0} + {1}", "{0} - {1}", "{0} * np.sign({1})", "{0} * np.exp({1})", "{0} * {1}[:, None]",
          "{0} / {1}[:, None]")
WRAPPED = ("{}.T", "-{}", "{} * 2", "{} / 2", "1 - {}", "{}[::-1]", "{} ** 2", "{}.sum(axis=0)",
           "{}.sum(axis=1)", "{}.mean()", "{} - {}.mean(axis=0)", "np.exp({})", "np.log({})",
           "np.cos({})", "np.sign({})", "np.abs({})", "np.sqrt({})", "np.tanh({})",
           "{}.swapaxes(-1, -2)", "({} + {}.T)", "~{}", "np.conj({})")
TERMS = ("{0} + {1} @ {2}", "{0} + {1} @ {2}.T", "{0} + {1}.T @ {2}", "{0} + {1} * {2}",
         "{0} + {2}.T @ {1}", "{0} + {2} @ {1}", "{0} - {1} * {2}", "{0} + np.outer({1}, {2})")


class Change(NamedTuple):
    """One change of a function's tree: a node, or a statement, in the place of another."""

    rank: int  # likely changes come first
    holder: Any  # a node, or a list of nodes
    key: Any  # its field, or index
    new: Callable[[], ast.AST]
    statement: ast.stmt


# --- the search -----------------------------------------------------------------------------------


def mended(check: Check, known: Known) -> str:
    """The change that makes all gradients right, as a phrase on "it"; "" if none was found.

    Arguments: known, the derivatives of the tensors whose gradients are wrong.
    """
    case, end = check.case, time.process_time() + SECONDS
    forward = set(reached(case.forward))
    functions = [f for f in reached(case.vjp) if f not in forward]
    names = [name for f in (*forward, *functions) for name in f.__code__.co_names
             if isinstance(f.__globals__.get(name), (np.ndarray, list))]
    places = [(change, f, module) for f in functions if (module := module_of(f)) is not None
              for change in changes(module, names)]
    quiet = contextlib.redirect_stdout(io.StringIO())
    with quiet, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for change, f, module in sorted(places, key=lambda place: place[0].rank):
            if time.process_time() > end:
                break
            said = _tried(check, known, change, f, module)
            if said:
                return said
    return ""


def _tried(
    check: Check, known: Known, change: Change, f: types.FunctionType, module: ast.Module
) -> str:
    """The phrase on a change if it makes all gradients right, else ""."""
    code, old = f.__code__, _get(change.holder, change.key)
    new = change.new()
    if not hasattr(new, "lineno"):
        ast.fix_missing_locations(ast.copy_location(new, change.statement))
    _set(change.holder, change.key, new)
    try:
        f.__code__ = compiled(module, code)
        right = _right_here(check, known) and _right_elsewhere(check)
    except Exception:  # most changes do not fit
        return ""
    finally:
        f.__code__ = code
        _set(change.holder, change.key, old)
    return _said(change, old, new, code) if right else ""


def _said(change: Change, old: ast.AST, new: ast.AST, code: types.CodeType) -> str:
    """The phrase on a change: the statements where these are short, else what differs in them."""
    texts = []
    for node in (old, new):
        _set(change.holder, change.key, node)
        whole = node if old is change.statement else change.statement
        texts.append((ast.unparse(whole) if isinstance(whole, PLAIN) else "", ast.unparse(node)))
    _set(change.holder, change.key, old)
    short = all(0 < len(whole) <= SHORT for whole, _ in texts)
    before, after = (whole if short else part for whole, part in texts)
    line = code.co_firstlineno + change.statement.lineno - 1
    return f"is right with `{after}` in place of `{before}` in line {line} ({code.co_name})"


def _get(holder: Any, key: Any) -> Any:
    return holder[key] if isinstance(holder, list) else getattr(holder, key)


def _set(holder: Any, key: Any, node: Any) -> None:
    if isinstance(holder, list):
        holder[key] = node
    else:
        setattr(holder, key, node)


def _gradients(check: Check) -> Arrays:
    dtype = next(iter(check.case.inputs.values())).dtype
    found = check.case.gradients({key: np.array(x) for key, x in check.case.inputs.items()},
                                 {key: np.array(d, dtype) for key, d in check.upstream.items()})
    return {key: np.asarray(dense(d, key, check.case.inputs)) for key, d in found.items()}


def _close(check: Check) -> float:
    return CLOSE if check.evaluate.eps < EXACT else CLOSE_32


def _right_here(check: Check, known: Known) -> bool:
    """Whether the wrong gradients are right, and the others as they were."""
    found = _gradients(check)
    for name, before in check.analytic["all"].items():
        if found[name].shape != before.shape:
            return False
        if name in known:
            where, value, limit = known[name]
            gap = np.abs(found[name].reshape(-1)[where].astype(float) - value)
            right = gap <= 2 * limit
        else:
            right = np.abs(found[name] - before) <= _close(check) * np.abs(before).max(initial=0)
        if not right.all():
            return False
    return True


def _right_elsewhere(check: Check) -> bool:
    """Whether all gradients are right along a direction, for other upstream gradients, too, and at
    other inputs, where the code takes these."""
    rng, evaluate = np.random.default_rng(7), check.evaluate
    upstream = check.upstream if check.case.cacheless else {
        name: rng.normal(size=np.shape(d)) for name, d in check.upstream.items()}
    for moved in (0.0, MOVED):
        inputs = {name: x * (1 + moved * rng.normal(size=x.shape))
                  for name, x in evaluate.inputs.items()}
        v = {name: rng.normal(size=x.shape) for name, x in inputs.items()}
        found = slopes_at(check.case, evaluate, upstream, inputs, v,
                          "complex" if evaluate.complex_step else "ridders",
                          next(iter(check.case.inputs.values())).dtype)
        if found is None and moved:
            return True
        if found is None:
            return False
        terms, numeric = found
        slack = _close(check) * np.abs(terms).sum() + 10 * float(numeric.error.sum())
        if not abs(terms.sum() - numeric.value.sum()) <= slack:
            return False
    return True


# --- the user's functions -------------------------------------------------------------------------


def reached(function: Callable[..., Any]) -> list[types.FunctionType]:
    """The user's functions that a function calls by their names, or holds, itself included."""
    pending: list[Any] = [function]
    seen: set[int] = set()
    found: list[types.FunctionType] = []
    kinds: dict[type, None] = {}
    while pending and len(seen) < MOST:
        part = pending.pop(0)
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, partial):
            pending += [part.func, *part.args]
        elif isinstance(part, types.MethodType):
            kinds[type(part.__self__)] = None
            pending += [part.__func__, part.__self__]
        elif isinstance(part, types.FunctionType):
            for cell in part.__closure__ or ():
                with contextlib.suppress(ValueError):  # assigned later
                    pending.append(cell.cell_contents)
            if is_own(part):
                found.append(part)
                for name in part.__code__.co_names:
                    pending += [part.__globals__[name]] if name in part.__globals__ else []
                    pending += [getattr(kind, name) for kind in kinds
                                if isinstance(getattr(kind, name, None), types.FunctionType)]
        elif hasattr(part, "__dict__") and not isinstance(part, (type, types.ModuleType)):
            kinds |= {type(part): None} if is_own(type(part)) else {}
            pending += vars(part).values()
        elif isinstance(part, (list, tuple)) and len(part) < MOST:
            pending += part
    return found


def module_of(function: types.FunctionType) -> ast.Module | None:
    """The tree of a function's text, in a function with its free variables; None without the text,
    or with a loop that might not end."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, TypeError, SyntaxError, IndexError):
        return None
    if not isinstance(tree, ast.FunctionDef) or any(
            isinstance(node, (ast.While, ast.Yield, ast.Await)) for node in ast.walk(tree)):
        return None
    tree.decorator_list = []
    code = function.__code__
    free = [ast.arg(name) for name in code.co_freevars]
    outer = ast.FunctionDef("outer", ast.arguments([], free, None, [], [], None, []), [tree], [])
    module = ast.fix_missing_locations(ast.Module([outer], []))
    return module if same_code(compiled(module, code), code) else None


def compiled(module: ast.Module, like: types.CodeType) -> types.CodeType:
    """The code of the function in a module of `module_of`."""
    (outer,) = _inner(compile(module, like.co_filename, "exec"))
    return next(code for code in _inner(outer) if code.co_name == like.co_name)


def _inner(code: types.CodeType) -> list[types.CodeType]:
    return [part for part in code.co_consts if isinstance(part, types.CodeType)]


def same_code(one: types.CodeType, other: types.CodeType) -> bool:
    """Whether two codes are of the same text: the same steps, names and constants. (How a call is
    made depends on what stands around the function.)"""
    said = [([repr(c) for c in code.co_consts if not isinstance(c, types.CodeType)
              and "<locals>" not in repr(c)], code.co_names, code.co_freevars,
             [(step.opname, step.arg) for step in dis.get_instructions(code)
              if not step.opname.startswith(CALLS)]) for code in (one, other)]
    return said[0] == said[1] and all(map(same_code, _inner(one), _inner(other)))


# --- the changes ----------------------------------------------------------------------------------


def changes(tree: ast.AST, known: Sequence[str]) -> Iterator[Change]:
    """All changes of one place; known, names of other variables."""
    names = dict.fromkeys(
        [a.arg for a in ast.walk(tree) if isinstance(a, ast.arg)] + [
            node.id for node in ast.walk(tree)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)] + [*known])
    for holder in ast.walk(tree):
        for field in ("body", "orelse"):
            block = getattr(holder, field, None)
            for k, statement in enumerate(block if isinstance(block, list) else ()):
                if isinstance(statement, ast.FunctionDef):
                    continue
                for rank, other in _statements(statement):
                    yield Change(rank, block, k, partial(_itself, other), statement)
                for place, key, node, whole in _places(statement):
                    for rank, new in _expressions(node, list(names), whole):
                        yield Change(rank, place, key, new if callable(new) else partial(
                            _itself, new), statement)


def _itself(node: ast.AST) -> ast.AST:
    return node


def _places(statement: ast.stmt) -> Iterator[tuple[Any, Any, ast.expr, bool]]:
    """The expressions of a statement, without those of statements inside it: their holder and key
    there, and whether each is the whole of a value."""
    pending: list[tuple[Any, bool]] = [(statement, True)]
    while pending:
        holder, top = pending.pop(0)
        for field, value in ast.iter_fields(holder):
            if field in ("func", "annotation", "args") and isinstance(value, (
                    ast.Name, ast.arguments)):
                continue
            inside = value if isinstance(value, list) else [value]
            for k, node in enumerate(inside):
                if isinstance(node, (ast.expr, ast.keyword, ast.comprehension)):
                    whole = (top and field == "value") or isinstance(holder, ast.Tuple)
                    pending.append((node, whole and isinstance(node, ast.Tuple)))
                    if isinstance(node, ast.expr) and not isinstance(
                            getattr(node, "ctx", None), ast.Store):
                        at = (value, k) if isinstance(value, list) else (holder, field)
                        yield (*at, node, whole)


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Load(), lineno=1, col_offset=0, end_lineno=1, end_col_offset=0)


class _Filled(ast.NodeTransformer):
    """A pattern's tree, with nodes in the places of its names."""

    def __init__(self, parts: Sequence[ast.AST]) -> None:
        self.parts = {f"part{k}": part for k, part in enumerate(parts)}

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """The part of this name, or the name."""
        return self.parts.get(node.id, node)


def _parsed(pattern: str, *parts: ast.AST) -> Any:
    names = (f"part{k}" for k in range(len(parts)))
    return _Filled(parts).visit(ast.parse(pattern.format(*names), mode="eval").body)


def _statements(statement: ast.stmt) -> Iterator[tuple[int, ast.stmt]]:
    """A statement's likely other forms: +=, -= and = exchanged, repeated indices added, a loop the
    other way round, nothing."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        if not isinstance(target, ast.Tuple):
            for sign in (ast.Add(), ast.Sub()):
                yield 0, ast.AugAssign(target, sign, statement.value)  # type: ignore[arg-type]
    elif isinstance(statement, ast.AugAssign):
        target = statement.target
        yield 1, ast.Pass()
        for op in OTHER.get(type(statement.op), ()):
            yield 0, ast.AugAssign(target, op(), statement.value)
        yield 1, ast.Assign([target], statement.value)
    elif isinstance(statement, ast.For):
        yield 1, ast.For(statement.target, _parsed("list({})[::-1]", statement.iter),
                         statement.body, statement.orelse)
        return
    else:
        return
    if isinstance(target, ast.Subscript):
        at = _parsed("np.add.at({0}, 0, {1})", target.value, statement.value)
        at.args[1] = target.slice
        yield 0, ast.Expr(at)


def _expressions(
    node: ast.expr, names: list[str], whole: bool
) -> Iterator[tuple[int, ast.expr | Callable[[], ast.expr]]]:
    """An expression's likely other forms, with their ranks."""
    if isinstance(node, ast.Constant):
        if type(node.value) in (int, float):
            n: Any = node.value
            numbers: list[Any] = [n + 1, n - 1, -n, 2 * n, n / 2, 1 - n, 3 * n, n / 3]
            yield from ((1, ast.Constant(m)) for m in dict.fromkeys(numbers) if m != n)
        return
    if isinstance(node, ast.Slice):
        return
    if isinstance(node, ast.BinOp):
        for op in OTHER.get(type(node.op), ()):
            yield 0, ast.BinOp(node.left, op(), node.right)
        yield 1, node.left
        yield 1, node.right
        yield 0, ast.BinOp(node.right, node.op, node.left)
    elif isinstance(node, ast.UnaryOp):
        yield 0, node.operand
    elif isinstance(node, ast.Compare):
        yield from ((0, ast.Compare(node.left, [op()], node.comparators))
                    for op in OTHER.get(type(node.ops[0]), ()))
    elif isinstance(node, ast.Attribute) and node.attr == "T":
        yield 0, node.value
    elif isinstance(node, ast.Subscript):
        yield 1, node.value
    elif isinstance(node, ast.Call):
        yield from ((1, new) for new in _calls(node))
    elif isinstance(node, ast.Name):
        if node.id in names:
            yield from ((2, _name(name)) for name in names if name != node.id)
            yield 1, _parsed("{} + 1", node)
            yield 1, _parsed("{} - 1", node)
        else:
            return
    if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.BinOp, ast.Call)):
        yield from ((3, partial(_parsed, form, node, node)) for form in WRAPPED)
        yield from ((2 if whole and form in SLOPES[:2] else 4 if whole else 5,
                     partial(_parsed, form, node, _name(name)))
                    for name in names for form in SLOPES if ast.unparse(node) != name or whole)
    if whole:
        yield from ((6, partial(_parsed, form, node, *map(_name, pair)))
                    for pair in permutations(names, 2)
                    if pair[0][0] == "d" and pair[1][0] != "d"
                    for form in TERMS)


def _calls(node: ast.Call) -> Iterator[ast.expr]:
    """A call's likely other forms: a function like it, two arguments exchanged, no call."""
    if isinstance(node.func, ast.Attribute):
        others = [other for alike in ALIKE if node.func.attr in alike for other in alike]
        for other in dict.fromkeys(others):
            if other != node.func.attr:
                yield ast.Call(ast.Attribute(node.func.value, other, ast.Load()), node.args,
                               node.keywords)
        if ast.unparse(node.func.value) not in ("np", "numpy"):
            yield node.func.value
    if len(node.args) > 1:
        yield ast.Call(node.func, [node.args[1], node.args[0], *node.args[2:]], node.keywords)
    yield from node.args[:2]
