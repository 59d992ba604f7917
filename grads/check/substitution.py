"""Running a user's function with other arrays in the places of its own, wherever they are kept.

The arrays may be arguments, parameters of an object or of objects inside it, or global variables.
Every run gets a deep copy of the object and of its arguments, in which other arrays stand in the
places of these; so nothing of the user's is changed, and a run leaves nothing to the next.
"""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from grads.check import check_case
from grads.check.case import Case
from grads.check.nesting import flatten
from grads.check.report import Report
from grads.check.stopped import nothing_covered
from grads.check.watch import TimeUp, Watch

PATTERNS = ("d{}", "grad{}", "{}grad", "g{}", "{}gradient", "delta{}")  # without underscores
SHORT = {"weights": "w", "weight": "w", "biases": "b", "bias": "b"}  # dW is a gradient of weights
HOLDERS = ("params", "parameters")  # their gradients are in these:
OF_GRADIENTS = ("grads", "grad", "gradients")
Arrays = Mapping[str, Any]


def check_made(
    make: Callable[[], tuple[Case, Arrays | None, Iterable[str]]], title: str, how: dict[str, Any]
) -> Report:
    """Check a case whose making runs the user's code, with the upstream gradient and notes that
    belong to it."""
    how = {"title": title, "watch": Watch(how.pop("time_limit", None)), **how}
    try:
        with how["watch"].user_code():
            case, upstream, notes = make()
    except TimeUp:
        return nothing_covered(how["title"], how["watch"])
    report = check_case(case, upstream=upstream, **how)
    return replace(report, notes=(*report.notes, *notes))


class Parameter(NamedTuple):
    """An array that an object keeps, and the gradient that it keeps for it; None if it has none."""

    value: np.ndarray
    gradient: Any


class Subject:
    """A function or bound method with its arguments, which is called with arrays by name.

    Arguments: call, the function; inputs, its positional arguments; keywords, the others.
    Attributes: names of the positional arguments; arrays, by name, those that are replaced;
    space, the global variables of the function. A run leaves NumPy's global random numbers
    as they were, so that the next one gets the same.
    """

    def __init__(self, call: Callable[..., Any], inputs: Sequence[Any], keywords: Arrays) -> None:
        self._modules = {id(module): module for module in tuple(sys.modules.values())}
        self.arrays: dict[str, np.ndarray] = {}
        self.call = self.copied(call)
        self.inputs = tuple(self.copied(np.array(value) if _is_numbers(value) or (
            isinstance(value, float) and len(inputs) == 1) else value) for value in inputs)
        self.keywords = dict(keywords)
        self.names = argument_names([call], len(inputs))
        self.space = getattr(getattr(call, "__func__", call), "__globals__", {})

    def copied(self, thing: Any, values: Arrays | None = None) -> Any:
        """A deep copy in which `values` stand in the places of the arrays of these names."""
        memo: dict[int, Any] = {id(self.arrays[name]): value
                                for name, value in (values or {}).items()}
        try:
            return copy.deepcopy(thing, self._modules | memo)
        except TypeError as error:
            thing = getattr(thing, "__self__", thing)
            raise ValueError(f"expected an object that can be copied, got {type(thing).__name__}: "
                             f"{error}") from error

    def leaves(self) -> dict[str, np.ndarray]:
        """The floating arrays among the arguments, also in lists and mappings, by name."""
        return {name: value for name, value in flatten(
            dict(zip(self.names, self.inputs, strict=True))).items() if is_array(value)}

    def variables(self) -> dict[str, np.ndarray]:
        """The floating arrays among the global variables that the function names."""
        names = getattr(getattr(self.call, "__code__", None), "co_names", ())
        return {name: self.space[name] for name in names if is_array(self.space.get(name))}

    def __call__(self, values: Arrays) -> tuple[Any, Any]:
        """The copy of the function that was called with these values, and its result."""
        call, inputs, keywords = self.copied((self.call, self.inputs, self.keywords), values)
        spaces = {name: self.space[name] for name in values
                  if self.space.get(name, 0) is self.arrays[name]}
        random = np.random.get_state()
        self.space.update({name: values[name] for name in spaces})
        try:
            return call, call(*inputs, **keywords)
        finally:
            self.space.update(spaces)
            np.random.set_state(random)


def _is_numbers(value: Any) -> bool:
    """Whether a value is a list of floating numbers."""
    return isinstance(value, list) and bool(value) and all(isinstance(x, float) for x in value)


def is_array(value: Any) -> bool:
    """Whether a value is an array of real floating numbers."""
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


# --- names --------------------------------------------------------------------------------------


def argument_names(calls: Sequence[Callable[..., Any]], count: int) -> tuple[str, ...]:
    """The names of the first positional parameters of the first function that has so many; x0, x1,
    ... if none has."""
    known = ([p.name for p in parameters_of_call(call)] for call in calls)
    return tuple(next((names[:count] for names in known if len(names) >= count),
                      [f"x{k}" for k in range(count)]))


def parameters_of_call(call: Callable[..., Any]) -> list[inspect.Parameter]:
    """The positional parameters of a function; none of a built-in one without a signature."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def plain(name: str) -> str:
    """A name as it is compared with others: in lower case, without underscores."""
    return name.lower().replace("_", "")


def gradient_names(path: str) -> list[str]:
    """Plain names under which people keep the gradient of an array of this name, or path."""
    head, dot, rest = plain(path).partition(".")
    inside = rest if dot and head in HOLDERS else head + dot + rest
    first, dot, rest = inside.partition(".")
    names = [pattern.format(stem) + dot + rest for stem in (first, SHORT.get(first, first))
             for pattern in PATTERNS]
    return [*(f"{holder}.{name}" for holder in OF_GRADIENTS for name in (inside, *names)), *names]


def source_of(gradient: str, names: Iterable[str], same: bool = False) -> str | None:
    """The name among `names` of which something is the gradient, by its own name; if same, it may
    have the same name."""
    return next((name for name in names for end in (name, name.rpartition(".")[2])
                 if plain(gradient) in [*gradient_names(end), *[plain(end)] * same]), None)


def named_gradients(
    parts: Sequence[Any], labels: Sequence[str], known: Arrays, inputs: Sequence[str] = (),
    same: bool = False,
) -> dict[str, Any]:
    """Gradients by name, from what a function returns: mappings, or arrays with labels.

    Others are those of the inputs, in their order; or, if there are more than inputs, of the first
    array of the same shape. Arguments: labels of the parts, such as dW; known, the arrays that
    gradients can be of, those of arguments first; inputs, names of arguments, if all that is
    returned are gradients; same, whether a label may be the name of the array.
    """
    found: dict[str, Any] = {}
    rest: list[Any] = []
    for k, part in enumerate(parts):
        label = labels[k] if len(labels) == len(parts) else ""
        inside = flatten(part) if isinstance(part, Mapping) else {label: part}
        for key, gradient in inside.items():
            name = source_of(key, [*inputs, *known], same or isinstance(part, Mapping))
            if name is not None:
                found.setdefault(name, gradient)
            elif not isinstance(part, Mapping):
                rest.append(gradient)
    left = [name for name in inputs if name not in found]
    if len(rest) <= len(left):
        found |= dict(zip(left, rest, strict=False))
    elif inputs or not found:
        for gradient in flatten(rest).values():
            fitting = [name for name, array in known.items()
                       if name not in found and np.shape(array) == np.shape(gradient)]
            found |= dict.fromkeys(fitting[:1], gradient)
    return {name: gradient for name, gradient in found.items() if gradient is not None}


def returned_names(call: Callable[..., Any]) -> list[str]:
    """The names in a function's last `return a, b`; "" for what is no name."""
    return _names_returned_by(getattr(call, "__func__", call))


@functools.cache
def _names_returned_by(call: Callable[..., Any]) -> list[str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(call)))
    except (OSError, TypeError, SyntaxError):
        return []
    found = [node.value for node in ast.walk(tree) if isinstance(node, ast.Return)]
    last = max((value for value in found if value), key=lambda value: value.lineno, default=None)
    parts = last.elts if isinstance(last, ast.Tuple) else [last]
    return [part.attr if isinstance(part, ast.Attribute) else getattr(part, "id", "")
            for part in parts]


# --- objects ------------------------------------------------------------------------------------


def attributes_of(thing: Any) -> dict[str, Any]:
    """The attributes of an object of the user's; none of a module, a class or a function."""
    if isinstance(thing, (type, ModuleType, FunctionType, MethodType)):
        return {}
    slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    return {name: getattr(thing, name) for name in slots if hasattr(thing, name)
            } | getattr(thing, "__dict__", {})


def parameters_of(thing: Any) -> dict[str, Parameter]:
    """The arrays that an object keeps, and objects inside it, with their gradients, by name.

    An array that is kept twice has one name, that which has a gradient. A number that has a
    gradient becomes an array.
    """
    found = dict(_kept_by(thing, "", set()))
    gradients = {id(gradient) for _, gradient in found.values()}
    ordered = sorted(found, key=lambda name: found[name].gradient is None)
    names = {id(found[name].value): name for name in reversed(ordered)}
    return {name: kept for name, kept in found.items()
            if names[id(kept.value)] == name and id(kept.value) not in gradients}


def _kept_by(thing: Any, prefix: str, seen: set[int]) -> Iterator[tuple[str, Parameter]]:
    """The arrays that an object and objects inside it keep, by name; some of them twice."""
    own = {} if id(thing) in seen else attributes_of(thing)
    seen.add(id(thing))
    leaves = flatten(own) if own else {}
    by_plain_name = {plain(path): value for path, value in leaves.items()}
    for path, value in leaves.items():
        head, dot, rest = path.partition(".")
        name = prefix + (rest if head in HOLDERS and dot and not rest.isdigit() else path)
        gradient = next((by_plain_name[known] for known in gradient_names(path)
                         if known in by_plain_name), None)
        data: Any = getattr(value, "data", getattr(value, "value", None))
        if isinstance(value, float) and path in own and gradient is not None:
            value = np.array(value)
            setattr(thing, path, value)
        if is_array(value):
            yield name, Parameter(value, gradient)
        elif is_array(data) and hasattr(value, "grad"):
            yield name, Parameter(data, value.grad)
        else:
            yield from _kept_by(value, f"{name}.", seen)
