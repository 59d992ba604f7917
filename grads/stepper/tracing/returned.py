"""Finds the forward's argument that each gradient returned by a user's backward belongs to.

The gradients are returned as `grads check` takes them: in the order of the inputs, or by name. A
returned array is identified by its memory, so its name inside the backward does not matter.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from grads.stepper.trace import Origin, Trace
from grads.stepper.tracing.pairing import Partner, root_of
from grads.stepper.tracing.record import belongs
from grads.stepper.tracing.replay import Held, Places
from grads.stepper.tracing.rewrite import RETURNED
from grads.stepper.tracing.values import Path, is_array, leaves, memory_of, text_of


class Kept(NamedTuple):
    """Tells how to read the gradients that a loss returns or a layer keeps.

    The rules are those of `grads check`.
    """

    arrays: Mapping[str, np.ndarray]  # that have gradients, held by the forward's arguments
    gradients: Callable[[Sequence[Any], Any], Mapping[str, Any]]  # of arguments after a run, result


class Returned(NamedTuple):
    """A gradient that the backward returned."""

    path: Path  # of it in what was returned
    value: np.ndarray
    partner: Partner  # the forward's argument
    last: Origin | None  # the assignment that completed it; None where no variable holds it


def kept_gradients(kept: Kept, backward: Trace, given: Sequence[Any]) -> list[Returned]:
    """The gradients of the arrays that have one; given, the backward's arguments after its run."""
    gradients = []
    for name, leaf in kept.gradients(given, backward.result).items():
        array = kept.arrays[name]
        if np.shape(leaf) == array.shape:
            partner = Partner(name, 0, Places(arrays=(Held(array),)), array.shape,
                              np.arange(array.size))
            gradients.append(Returned((name,), np.array(leaf, float), partner,
                                  completed_at(backward, (), leaf)))
    return gradients


def returned_gradients(forward: Trace, backward: Trace, arguments: tuple[Any, ...]
                       ) -> list[Returned]:
    """The returned gradients, each with its argument; those that fit no argument are left out."""
    names = forward_names(forward, len(arguments))
    given = {path: np.asarray(leaf) for path, leaf in leaves(tuple(arguments)) if is_real(leaf)}
    gradients = []
    for path, leaf in leaves(backward.result):
        place = argument_of(path, backward.result, names, arguments)
        if place in given and is_real(leaf) and np.size(leaf) == given[place].size:
            shape, argument = given[place].shape, names[place[0]]
            place = in_parameters(forward, place)
            name = next((target.name for target in forward.steps[0].targets
                         if target.place == place), argument)
            partner = Partner(name, 0, Places(steps=((0, place),)), shape,
                              np.arange(int(np.prod(shape))))
            gradients.append(Returned(path, np.array(leaf, float), partner,
                                  completed_at(backward, path, leaf)))
    return gradients


def forward_names(forward: Trace, count: int) -> list[str]:
    """The names of the forward's parameters, without those that a method or a partial binds."""
    targets, bound = forward.steps[0].targets if forward.steps else (), len(forward.program.bound)
    names = {target.place[0] - bound: root_of(target.name) for target in targets if target.place}
    return [names.get(i, str(i)) for i in range(count)]


def argument_of(path: Path, result: Any, names: list[str], arguments: tuple[Any, ...]) -> Path:
    """The path, among the arguments, of the array that a leaf of the result is the gradient of.

    Gradients are in the order of the arguments, or of those that have one.
    """
    if isinstance(result, Mapping):
        alone = len(arguments) == 1 and isinstance(arguments[0], Mapping)
        return (0, *path) if alone else (
            (names.index(path[0]), *path[1:]) if path[0] in names else ())
    is_sequence = isinstance(result, (list, tuple))
    if is_sequence and not path:  # plain numbers, such as (0, 0)
        return ()
    if len(arguments) == 1 and not (is_sequence and len(result) == 1):
        return (0, *path)
    gradients = result if is_sequence else [result]
    real = [i for i, argument in enumerate(arguments)
            if any(is_real(leaf) for _, leaf in leaves((argument,)))]
    first, *inner = path if is_sequence else (0, *path)
    return (real[first] if len(arguments) > len(gradients) == len(real) else first, *inner)


def in_parameters(forward: Trace, place: Path) -> Path:
    """A path among the arguments as a path among the parameters, where `*rest` gathers several
    arguments into a single parameter."""
    code, number = forward.program.entry.__code__, place[0] + len(forward.program.bound)
    rest = number - code.co_argcount
    gathers = code.co_flags & inspect.CO_VARARGS and rest >= 0
    return (code.co_argcount, rest, *place[1:]) if gathers else (number, *place[1:])


def is_real(leaf: Any) -> bool:
    """Whether a leaf is a real array or a real number."""
    return (is_array(leaf) and np.asarray(leaf).dtype.kind == "f") or isinstance(leaf, float)


def completed_at(backward: Trace, path: Path, leaf: Any) -> Origin | None:
    """The last assignment to a returned variable, or into it.

    The variable is identified by its memory, or else by its name in the return statement.
    """
    memory = memory_of(leaf)
    held = [origin for origin, address in backward.memory.items()
            if memory is not None and address == memory
            and backward.steps[origin[0]].kind == "assign"]
    held = [origin
            for origin in held if not backward.target(origin).name.startswith(RETURNED)] or held
    held = held or (named(backward, path) if path else [])
    if not held:
        return None
    step, name = backward.steps[held[-1][0]], backward.target(held[-1]).name
    written = [(later.number, i) for later in backward.steps[step.number:]
               if later.kind == "assign" and later.frame == step.frame
               for i, target in enumerate(later.targets)
               if (belongs(target.name, name) or belongs(name, target.name))
               and ("[" in target.written or (later.number, i) in held)]
    return max([held[-1], *written])


def returned_at(backward: Trace, value: np.ndarray) -> Origin | None:
    """The part of the `return` with this value, if its statement is recorded."""
    return next(((step.number, i) for step in reversed(backward.steps)
                 if step.kind == "assign" and step.depth == 0
                 for i, target in enumerate(step.targets)
                 if target.name.startswith(RETURNED) and target.is_real and np.array_equal(
                     np.ravel(np.asarray(target.value)), np.ravel(value))), None)


def named(backward: Trace, path: Path) -> list[Origin]:
    """The assignments to the name at one place of the return statement."""
    last = next((step for step in reversed(backward.steps)
                 if step.kind == "return" and step.depth == 0), None)
    if last is None:
        return []
    text = re.search(r"\breturn\b.*", last.text, re.DOTALL)  # of `if done: return dx`, too
    statement = ast.parse(text[0] if text else "return").body[0]
    assert isinstance(statement, ast.Return)
    node, rest = statement.value, path
    if isinstance(node, (ast.Tuple, ast.List)) and path:
        node, rest = node.elts[path[0]], path[1:]
    elif isinstance(node, ast.Dict) and path:
        keys = [getattr(key, "value", None) for key in node.keys]
        if path[0] not in keys:
            return []
        node, rest = node.values[keys.index(path[0])], path[1:]
    if not isinstance(node, ast.Name):
        return []
    return [(step.number, i) for step in backward.steps
            if step.kind == "assign" and step.frame == last.frame
            for i, target in enumerate(step.targets) if target.name == node.id + text_of(rest)]
