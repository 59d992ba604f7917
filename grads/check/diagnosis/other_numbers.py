"""Gives other numbers to the variables of a user's functions that are numbers, as `sigma = 0.5`.

A change that makes a gradient right only because such a number equals another one is a coincidence.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from types import CodeType
from typing import Any

import numpy as np

from grads.check.diagnosis.instrument import HOOK, Hook, Hooked, Source, exchanged
from grads.check.diagnosis.other_data import other_number


def same(some: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    """Whether arrays are equal."""
    return all(np.array_equal(np.asarray(a), others[key], equal_nan=True)
               for key, a in some.items())


class OtherNumbers:
    """Variables that are the same number in all functions, and on which the outputs depend.

    Arguments: hooked, the functions that a change is in; forwards, those that the forward calls;
    stop, the CPU seconds at which they fail; forward, which runs the forward and returns the
    outputs; outputs, as they are. Attribute numbers: other numbers that the forward takes.
    """

    def __init__(
        self, hooked: Hooked, forwards: Sequence[Source], stop: float,
        forward: Callable[[], Mapping[str, Any]], outputs: Mapping[str, Any],
    ) -> None:
        self.hooked, self.forwards, self.stop = hooked, forwards, stop
        self.numbers: dict[str, float] = {}
        values: dict[str, set[Any]] = {}
        for source in [*hooked.sources, *forwards]:
            for name, number in _assigned(source.tree):
                values.setdefault(name, set()).add(number.value)
        for name, (value, *others) in values.items():
            before = self.numbers
            self.numbers = before | {name: other_number(value) + (type(value) is int)}
            new: Mapping[str, Any] = {}
            with suppress(Exception), self.put_in(None):
                new = forward()
            if new and not others and not same(new, outputs) and all(
                    np.isfinite(new[key]).all() and np.shape(new[key]) == np.shape(a)
                    for key, a in outputs.items()):
                outputs = new
            else:
                self.numbers = before

    def put_in(self, hook: Hook | None) -> AbstractContextManager[Any]:
        """Context: the functions have the other numbers, and call the hook; without a hook, they
        are as their trees are now."""
        if not self.numbers:
            return self.hooked.hook(hook, self.stop) if hook else nullcontext()
        trees = {id(source.function): (source, source.tree)
                 for source in [*self.forwards, *self.hooked.sources]}
        if hook:
            trees |= {id(source.function): (source, tree) for source, tree in zip(
                self.hooked.sources, self.hooked.trees, strict=True)}
        codes = []
        for source, tree in trees.values():
            with suppress(SyntaxError, ValueError, StopIteration):
                codes.append((source.function, self._code(source, tree)))
        return exchanged(codes, hook, self.stop, self.hooked)

    def _code(self, source: Source, tree: ast.FunctionDef) -> CodeType:
        """The code of a function with the other numbers."""
        tree = copy.deepcopy(tree)
        for name, number in _assigned(tree):
            number.value = self.numbers.get(name, number.value)
        return source.compiled(tree)


def _assigned(tree: ast.FunctionDef) -> Iterator[tuple[str, ast.Constant]]:
    """The variables of a function that are a number, and nothing else, and the numbers."""
    stored = Counter(node.id for node in ast.walk(tree)
                     if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign):
            continue
        for target, value in zip(*(side.elts if isinstance(side, ast.Tuple) else [side]
                                   for side in (node.targets[0], node.value)), strict=False):
            number = value.args[1] if isinstance(value, ast.Call) and (
                getattr(value.func, "id", "") == HOOK) else value
            if isinstance(target, ast.Name) and stored[target.id] == 1 and (
                    isinstance(number, ast.Constant) and type(number.value) in (int, float)):
                yield target.id, number
