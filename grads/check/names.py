"""Tells by its name, or by its shape, to which array a gradient belongs.

dW is the gradient of W. The name is the key of a mapping, or stands in a `return` statement. Names
are compared in lower case and without underscores.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from grads.check.nesting import flatten, is_branch

PATTERNS = ("d{}", "grad{}", "{}grad", "g{}", "{}gradient", "gradient{}", "delta{}", "nabla{}",
            "partial{}", "{}adj", "dloss{}",
            *(f"d{loss}d{{}}" for loss in ("l", "loss", "cost", "j", "e")))  # dL_dW, dloss_dW, ...
SHORT = {"weights": "w", "weight": "w", "biases": "b", "bias": "b"}  # dW is a gradient of weights
HOLDERS = ("params", "parameters")  # their gradients are in these:
OF_GRADIENTS = ("grads", "grad", "gradients")
TARGETS = ("t", "y", "target", "targets", "label", "labels", "y_true")  # rarely with a gradient
BEGINNING = re.compile("d|g[A-Z_]|grad")  # of the name of a gradient
UNCHANGED = ("copy", "astype", "reshape", "asarray", "array", "ascontiguousarray")  # d.copy()
CONTRACTIONS = ("dot", "outer", "einsum", "tensordot", "matmul")  # as X.T @ err
GRADIENT = "d ..."  # label of an expression; like the names of gradients it begins with d
Arrays = Mapping[str, Any]


class Display(NamedTuple):
    """The labels of the values in a list or tuple that a `return` statement shows, as (dW, db)."""

    whole: str  # the label of the list
    inside: list[Any]


@functools.cache
def plain(name: str) -> str:
    """A name in the form in which names are compared: in lower case, without underscores."""
    return name.lower().replace("_", "")


@functools.cache
def gradient_names(path: str) -> list[str]:
    """The plain names under which people keep the gradient of an array of this name or path."""
    head, dot, tail = plain(path).partition(".")
    inside = tail if dot and head in HOLDERS else head + dot + tail
    first, dot, tail = inside.partition(".")
    names = [pattern.format(stem) + dot + tail for stem in (first, SHORT.get(first, first))
             for pattern in PATTERNS]
    return [*(f"{holder}.{name}" for holder in OF_GRADIENTS for name in (inside, *names)), *names,
            *(f"{holder}.{tail}" for holder in OF_GRADIENTS if dot)]  # coef.W and grads.W


def source_of(gradient: str, names: Iterable[str], same_name: bool = False) -> str | None:
    """The array, among `names`, to which the name of a gradient belongs; None if there is none.

    Arguments: same_name, whether the gradient may have the name of the array itself.
    """
    return next((name for name in names for end in _ends(name) if plain(gradient) in [
        *gradient_names(end), f"{plain(end)}bar", *[plain(end)] * same_name]), None)


def _ends(path: str) -> list[str]:
    """A path, and its ends: a.b.c, b.c and c."""
    parts = path.split(".")
    return [".".join(parts[k:]) for k in range(len(parts))]


def named_gradients(
    parts: Sequence[Any], labels: Sequence[str], known: Arrays, inputs: Sequence[str] = (),
    same_name: bool = False,
) -> dict[str, Any]:
    """The gradients by name, from what a function returns: mappings, or arrays with labels.

    Gradients without a name are those of the inputs, in their order. If there are more of them than
    inputs, each belongs to the first array of the same shape, a list to the first list of the same
    shapes; beside gradients with a name, only those whose label begins as that of a gradient, since
    a loss may return a state, too, and none belongs to a target.

    Arguments: parts, what the function returns; labels of the parts, such as dW, or a `Display`;
    known, the arrays that may have gradients, arguments first; inputs, the names of arguments, if
    all parts are gradients; same_name, whether a label may be the name of the array.
    """
    by_name: dict[str, Any] = {}
    unnamed: list[tuple[str, Any]] = []
    for label, value in opened(parts, labels, [*inputs, *known], same_name):
        mapping = isinstance(value, Mapping)
        same = same_name or mapping
        for key, gradient in (flatten(value) if mapping else {label: value}).items():
            names = [name for name in (*inputs, *known) if not (mapping and name in by_name)]
            name = source_of(f"{label}.{key}", names, same) or source_of(key, names, same)
            if name is not None:
                by_name.setdefault(name, gradient)
            elif not mapping:
                unnamed.append((key, gradient))
    left = [name for name in inputs if name not in by_name]
    if len(unnamed) <= len(left):
        by_name |= dict(zip(left, [gradient for _, gradient in unnamed], strict=False))
    else:
        every = bool(inputs) or not by_name
        free = known if every else {name: a for name, a in known.items() if name not in TARGETS}
        for gradient in [gradient for key, gradient in unnamed if every or BEGINNING.match(key)]:
            by_name |= _of_same_shapes(gradient, free, by_name)
    return {name: gradient for name, gradient in by_name.items() if gradient is not None}


def opened(
    parts: Sequence[Any], labels: Sequence[Any], names: Sequence[str], same_name: bool
) -> Iterator[tuple[str, Any]]:
    """Pairs of a label and a part. A list or tuple whose labels tell arrays among `names` is given
    value by value."""
    for k, value in enumerate(parts):
        label = labels[k] if len(labels) == len(parts) else ""
        if isinstance(label, Display):
            inside = list(value) if isinstance(value, (list, tuple)) or (
                isinstance(value, np.ndarray) and value.ndim == 1) else []
            if len(inside) == len(label.inside) and any(
                    source_of(inner, names, same_name) for inner in all_labels(label.inside)):
                yield from opened(inside, label.inside, names, same_name)
                continue
            label = label.whole
        yield label, value


def all_labels(labels: Iterable[Any]) -> Iterator[str]:
    """The labels, and those inside a `Display`."""
    for label in labels:
        if isinstance(label, Display):
            yield label.whole
            yield from all_labels(label.inside)
        else:
            yield label


def _of_same_shapes(gradient: Any, known: Arrays, by_name: Arrays) -> dict[str, Any]:
    """A gradient, or the gradients in a list, by the names of arrays that have none yet.

    The arrays of a list have names such as W.0 and W.1. Targets come last.
    """
    free = {name: array for name, array in known.items() if name not in by_name}
    lists: dict[str, list[str]] = {}
    for name in free:
        stem, _, last = name.rpartition(".")
        lists.setdefault(stem if last.isdigit() else name, []).append(name)
    if isinstance(gradient, np.ndarray) and gradient.ndim == 1 and not any(
            np.shape(array) == gradient.shape for array in free.values()):
        gradient = [gradient[k, ...] for k in range(len(gradient))]  # of a list of numbers
    if isinstance(gradient, (list, tuple)):
        shapes = [None if is_branch(element) else np.shape(element) for element in gradient]
        for names in lists.values():
            if [np.shape(free[name]) for name in names] == shapes and names[0] not in lists:
                return dict(zip(names, gradient, strict=True))
    gradients: dict[str, Any] = {}
    for leaf in flatten([gradient]).values():
        fitting = sorted((name for name, array in free.items() if name not in gradients
                          and np.shape(array) == np.shape(leaf)), key=TARGETS.__contains__)
        gradients |= dict.fromkeys(fitting[:1], leaf)
    return gradients


def taken_by_shape(gradients: Iterable[str], known: Arrays, labels: Mapping[str, bool]
                   ) -> Iterator[str]:
    """The beginning of a note on each array whose gradient no label tells, if others have its
    shape.

    Arguments: labels, and whether each may be the name of the array itself.
    """
    told = {source_of(label, known, same) for label, same in labels.items()}
    for name in gradients:
        alike = [other for other, array in known.items()
                 if other != name and np.shape(array) == np.shape(known[name])]
        if alike and name not in told and "." not in name:
            yield f"{name}: its gradient was taken by its shape, also that of {', '.join(alike)}"


def returned_names(call: Callable[..., Any]) -> list[Any]:
    """The names in a function's last `return a, b`; `GRADIENT` for a product of matrices, and for
    an expression with a local variable whose name begins as that of a gradient; "" for another, a
    `Display` for a list or a tuple."""
    function = inspect.unwrap(getattr(call, "__func__", call))
    return _names_returned_by(getattr(function, "__code__", None))


@functools.cache
def _names_returned_by(code: Any) -> list[Any]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(code)))
    except (OSError, TypeError, SyntaxError):
        return []
    returned = [node.value for node in ast.walk(tree) if isinstance(node, ast.Return)]
    last = max((value for value in returned if value), key=lambda value: value.lineno, default=None)
    local = code.co_varnames[code.co_argcount:]
    gradients = {name for name in local if name == "g" or BEGINNING.match(name)}
    lists = {target.id: node.value for node in ast.walk(tree) if isinstance(node, ast.Assign)
             for target in node.targets if isinstance(target, ast.Name)}
    shown = lists.get(getattr(last, "id", ""), last)
    parts = shown.elts if isinstance(shown, ast.Tuple) else [last]
    return [_label(element, gradients, lists) for part in parts for element in _spread(part, lists)]


def _spread(part: ast.expr | None, lists: Mapping[str, ast.expr]) -> list[Any]:
    """The values that `*grads` stands for, if they are known; otherwise the value itself."""
    shown = lists.get(getattr(part.value, "id", "")) if isinstance(part, ast.Starred) else None
    return shown.elts if isinstance(shown, (ast.Tuple, ast.List)) else [part]


def _scaled(element: Any) -> Any:
    """The value d in -d, d / n, 2 * d, d + lam * W, d.copy() or np.asarray(d)."""
    if isinstance(element, ast.UnaryOp):
        return _scaled(element.operand)
    if isinstance(element, ast.BinOp) and isinstance(element.op, (
            ast.Add, ast.Sub, ast.Mult, ast.Div)):
        is_number = [isinstance(side, ast.Constant) for side in (element.left, element.right)]
        if not isinstance(element.op, ast.Mult) or any(is_number):
            return _scaled(element.right if is_number[0] else element.left)
    if isinstance(element, ast.Call) and isinstance(element.func, ast.Attribute) and (
            element.func.attr in UNCHANGED):
        owner = element.func.value
        is_module = isinstance(owner, ast.Name) and owner.id in ("np", "numpy")
        return _scaled(element.args[0] if is_module and element.args else owner)
    return element


def _label(element: ast.expr | None, gradients: set[str], lists: Mapping[str, ast.expr]) -> Any:
    """The label of a returned value. lists: what is assigned to the local variables."""
    if isinstance(element, (ast.Tuple, ast.List)):
        return Display("", [_label(inner, gradients, {}) for inner in element.elts])
    if isinstance(element, ast.Name):
        shown = _label(lists.get(element.id), gradients, {})
        return Display(element.id, shown.inside) if isinstance(shown, Display) else element.id
    if isinstance(inner := _scaled(element), (ast.Name, ast.Attribute)):
        return inner.id if isinstance(inner, ast.Name) else inner.attr
    nodes = [*ast.walk(element)] if element else []
    names = {getattr(node, "id", getattr(node, "attr", "")) for node in nodes}
    summed = {*CONTRACTIONS} & names or any(isinstance(node, ast.MatMult) for node in nodes)
    return GRADIENT if summed or gradients & names else ""
