"""Runs a user's function with other arrays in place of the arrays that it uses.

The arrays may be arguments, parameters of an object or of objects inside it, or global variables.
Every run gets a deep copy of the object and of its arguments, in which the arrays are replaced. So
the user's objects are not changed, and a run does not affect the next run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from grads.check import check_case
from grads.check.case import Case
from grads.check.continuation.namespace import is_users_module
from grads.check.copies import deep_copy
from grads.check.names import HOLDERS, OF_GRADIENTS, gradient_names, plain, source_of
from grads.check.nesting import (
    flatten,
    is_container,
    items_of,
    parameters_of_call,
    with_values,
)
from grads.check.report import Report
from grads.check.result import Finding
from grads.check.state import State
from grads.check.watch import TimeUp, Watch, unfinished

HELD = ("data", "value", "val")  # in a mapping, beside "grad"
Arrays = Mapping[str, Any]
Shapes = Sequence[tuple[int, ...]]


def check_made(
    make: Callable[[], tuple[Case, Arrays | None, Iterable[str], list[Finding]]], users: Any,
    title: str, how: dict[str, Any],
) -> Report:
    """Check the case that `make` returns, with its upstream gradient, notes and findings. `make`
    runs the user's code. Argument users: the object or function, whose state is restored."""
    state = State(users)
    state.mutable = False  # every run gets a copy
    how = {"title": title, "watch": Watch(how.pop("time_limit", None)), "state": state, **how}
    try:
        with how["watch"].user_code():
            case, upstream, notes, findings = make()
    except TimeUp:
        return unfinished(how["title"], how["watch"])
    finally:
        state.restore()
    report = check_case(case, upstream=upstream, **how)
    return replace(report, notes=(*report.notes, *notes), findings=[*report.findings, *findings])


class Parameter(NamedTuple):
    """An array that an object keeps, and its gradient; None if the object keeps no gradient."""

    value: np.ndarray
    gradient: Any


class Subject:
    """A function or bound method with its arguments, which is called with arrays by name.

    Arguments: call, the function; inputs, its positional arguments; keywords, its keyword
    arguments. Attributes: names of the positional arguments; arrays to replace, by name; space, the
    global variables of the function's module; variables, those that it uses. After a run, NumPy's
    global random generator is restored, so that the next run gets the same numbers.
    """

    def __init__(self, call: Callable[..., Any], inputs: Sequence[Any], keywords: Arrays) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.call: Any = call
        self.call = self.copied(call)
        self.inputs = tuple(self.copied(np.array(value) if is_numbers(value) or (
            isinstance(value, float) and len(inputs) == 1) else value) for value in inputs)
        self.keywords = dict(keywords)
        self.names = argument_names([call], len(inputs))
        self.space = getattr(getattr(call, "__func__", call), "__globals__", {})
        names = getattr(getattr(call, "__code__", None), "co_names", ())
        self.variables = {name: self.space[name] for name in names if name in self.space}

    def copied(self, original: Any, values: Arrays | None = None) -> Any:
        """A deep copy in which `values` replace the arrays of these names."""
        memo: dict[int, Any] = {id(self.arrays[name]): in_class_of(self.arrays[name], value)
                                for name, value in (values or {}).items()}
        if isinstance(self.call, FunctionType):
            memo[id(self.call)] = self.call
        try:
            return deep_copy(original, memo)
        except TypeError as error:
            original = getattr(original, "__self__", original)
            raise ValueError("expected an object that can be copied, got "
                             f"{type(original).__name__}: {error}") from error

    def leaves(self) -> dict[str, np.ndarray]:
        """The floating arrays in the arguments, and in their lists and mappings, by name."""
        return {name: value for name, value in flatten(
            dict(zip(self.names, self.inputs, strict=True))).items() if is_array(value)}

    def give_arrays(self, labels: Mapping[str, bool], forms: Sequence[Shapes] = ()) -> None:
        """Make arrays of the numbers that have a gradient: arguments, attributes, variables.

        Arguments: labels, the names of gradients, and whether each may be the name of its number;
        forms, the shapes in lists of gradients: numbers in the first arguments of these shapes, or
        in a list of them, have a gradient, too.
        """
        named = dict(zip(self.names, self.inputs, strict=True))
        owner = getattr(self.call, "__self__", None)
        told = _of_forms(named, forms) | _of_forms(attributes_of(owner), forms, in_lists=True)

        def has_gradient(path: str) -> bool:
            return path in told or any(
                source_of(label, [path], same) for label, same in labels.items())

        numbers = {name: value for name, value in self.variables.items() if is_number(value)}
        for values in (named, owner, numbers):
            _give_arrays(values, has_gradient, "", set())
        self.variables |= numbers
        self.inputs = tuple(named.values())

    def __call__(self, values: Arrays) -> tuple[Any, Any]:
        """The copy of the function that is called with these values, and its result."""
        call, inputs, keywords = self.copied((self.call, self.inputs, self.keywords), values)
        spaces = {name: self.space[name] for name in values
                  if self.variables.get(name, 0) is self.arrays[name]}
        random = np.random.get_state()
        self.space.update({name: values[name] for name in spaces})
        try:
            return call, call(*inputs, **keywords)
        finally:
            self.space.update(spaces)
            np.random.set_state(random)


def in_class_of(array: np.ndarray, value: np.ndarray) -> np.ndarray:
    """The value, in the class of the array if that is a user's: such an array has a gradient."""
    plainly = type(value) is np.ndarray and value.dtype.kind == "f"
    return value.view(type(array)) if plainly and is_users_module(type(array).__module__) else value


def is_numbers(value: Any) -> bool:
    """Whether a value is a list of floating numbers."""
    return isinstance(value, list) and bool(value) and all(isinstance(x, float) for x in value)


def is_array(value: Any) -> bool:
    """Whether a value is an array of real floating numbers."""
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def is_number(value: Any) -> bool:
    """Whether a value is a floating number."""
    return isinstance(value, (float, np.floating))


def _of_forms(values: Arrays, forms: Sequence[Shapes], in_lists: bool = False) -> set[str]:
    """The paths of the arrays and numbers whose shapes are one of the forms: the first of the
    values, unless `in_lists`, or those in a list or tuple."""
    lists = [{path if name in HOLDERS else f"{name}.{path}": leaf
              for path, leaf in flatten(value).items()}
             for name, value in values.items() if isinstance(value, (list, tuple))]
    first = {} if in_lists else {name: value for name, value in flatten(dict(values)).items()
                                 if is_number(value) or is_array(value)}
    return {path for form in forms
            for leaves in (dict([*first.items()][:len(form)]), *lists)
            if leaves and [np.shape(leaf) for leaf in leaves.values()] == [*form]
            for path in leaves}


def _give_arrays(owner: Any, has_gradient: Callable[[str], bool], prefix: str, seen: set[int]
                 ) -> Any:
    """The object, mapping or list, in which numbers that have a gradient have become arrays."""
    seen.add(id(owner))
    for key, value in _inside(owner):
        path, made = f"{prefix}{key}", value
        if is_number(value):
            if has_gradient(path):
                made = np.array(value)
        elif id(value) not in seen:
            inside = prefix if key in HOLDERS else f"{path}."
            made = _give_arrays(value, has_gradient, inside, seen)
        if made is not value:
            owner = _put(owner, key, made)
    return owner


def _inside(owner: Any) -> list[tuple[Any, Any]]:
    """The values in a mapping, a list or an object, with their keys, numbers or names."""
    return items_of(owner if is_container(owner) else attributes_of(owner))


def _put(owner: Any, key: Any, value: Any) -> Any:
    """The object, mapping or list with a value at a key, or as an attribute. A tuple is made anew.
    """
    if isinstance(owner, tuple):
        return with_values(owner, {**dict(items_of(owner)), key: value})
    if isinstance(owner, (dict, list)):
        owner[key] = value
    elif not isinstance(owner, Mapping):
        object.__setattr__(owner, key, value)
    return owner


def _put_at(owner: Any, path: str, value: Any) -> Any:
    """The object, mapping or list with a value at a path, if there is one."""
    for key, inner in _inside(owner):
        head, _, rest = path.partition(f"{key}.")
        if str(key) == path:
            return _put(owner, key, value)
        if not head and (made := _put_at(inner, rest, value)) is not inner:
            return _put(owner, key, made)
    return owner


def argument_names(calls: Sequence[Callable[..., Any]], count: int) -> tuple[str, ...]:
    """The names of the first `count` positional parameters, of the first function that has enough;
    x0, x1, ... if none has."""
    known = ([p.name for p in parameters_of_call(call)] for call in calls)
    return tuple(next((names[:count] for names in known if len(names) >= count),
                      [f"x{k}" for k in range(count)]))


# --- objects ------------------------------------------------------------------------------------


def attribute(owner: Any, name: str, default: Any = None) -> Any:
    """An attribute of a user's object, or the default: its `__getattr__` may raise any error."""
    with suppress(Exception):
        return getattr(owner, name)
    return default


def attributes_of(owner: Any) -> dict[str, Any]:
    """The attributes of a user's object, the items of one that is a mapping, and its properties
    that have the names of parameters or of gradients; none for a module, a class or a function."""
    if isinstance(owner, (type, ModuleType, FunctionType, MethodType)):
        return {}
    slots = [name for kind in type(owner).__mro__ for name in getattr(kind, "__slots__", ())]
    slots += [name for name in (*HOLDERS, *OF_GRADIENTS)
              if isinstance(getattr(type(owner), name, None), property)]
    items = owner if isinstance(owner, Mapping) else {}
    return {name: getattr(owner, name) for name in slots if hasattr(owner, name)} | getattr(
        owner, "__dict__", {}) | {str(key): value for key, value in items.items()}


def _returned_by_methods(owner: Any) -> dict[str, Any]:
    """What the methods of a user's object return that have the names of parameters and of
    gradients, if it has both."""
    called: list[dict[str, Any]] = [{}, {}]
    for names, values in zip((HOLDERS, OF_GRADIENTS), called, strict=True):
        for name in names:
            method = attribute(owner, name)
            if isinstance(method, MethodType) and not parameters_of_call(method):
                values[name] = {}
                with suppress(Exception):  # it may need a call of the backward
                    made = method()
                    values[name] = list(made) if isinstance(made, Iterator) else made
    return called[0] | called[1] if all(called) else {}


def parameters_of(owner: Any) -> dict[str, Parameter]:
    """The arrays of an object and of the objects inside it, with their gradients, by name.

    An array that is kept twice is listed once, under the name that has a gradient. A number that
    has a gradient becomes an array, and so does its gradient.
    """
    arrays = dict(_kept_by(owner, "", set()))
    gradients = {id(gradient) for _, gradient in arrays.values()}
    ordered = sorted(arrays, key=lambda name: arrays[name].gradient is None)
    names = {id(arrays[name].value): name for name in reversed(ordered)}
    return {name: kept for name, kept in arrays.items()
            if names[id(kept.value)] == name and id(kept.value) not in gradients}


def _kept_by(owner: Any, prefix: str, seen: set[int]) -> Iterator[tuple[str, Parameter]]:
    """The arrays of an object and of the objects inside it, by name. Some may occur twice."""
    attributes = {} if id(owner) in seen else {
        name: value if name not in (*HOLDERS, *OF_GRADIENTS) or is_container(value) else
        attributes_of(value) or value
        for name, value in (attributes_of(owner) | _returned_by_methods(owner)).items()}
    seen.add(id(owner))
    leaves = flatten(attributes, "", is_container) if attributes else {}
    by_plain_name = {plain(path): path for path in leaves}
    for path, value in leaves.items():
        head, dot, tail = path.partition(".")
        is_held = is_array(value) and head not in HOLDERS and any(
            f"{holder}.{end}" in leaves for holder in HOLDERS for end in (path, tail))  # as params
        name = prefix + (tail if head in HOLDERS and dot and not tail.isdigit() else
                         f"self.{path}" if is_held else path)
        its = None if is_held else next((by_plain_name[known] for known in gradient_names(path)
                                         if known in by_plain_name), None)
        gradient = attribute(value, "grad") if its is None else leaves[its]
        stem, _, last = path.rpartition(".")
        if gradient is None and last in HELD:
            gradient = leaves.get(f"{stem}.grad")
        data = attribute(value, "data", attribute(value, "value"))
        if isinstance(value, float) and gradient is not None:
            value, gradient = np.array(value), np.asarray(gradient)
            _put_at(owner, path, value)
            if its is not None:
                _put_at(owner, its, gradient)
        if is_array(value):
            yield name, Parameter(value, gradient)
        elif is_array(data) and attribute(value, "grad", ...) is not ...:
            yield name, Parameter(data, value.grad)
        else:
            yield from _kept_by(value, f"{name}.", seen)
