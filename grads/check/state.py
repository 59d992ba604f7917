"""The state of the code that is checked: layers keep inputs, buffers and random generators.

A check calls the code many times, at other inputs than its user's. What it may have changed is put
back afterwards. And a layer that keeps something of its first call, which is right as long as the
inputs are the same, is found at other points.
"""

from __future__ import annotations

import copy
import functools
import sys
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from grads.check.case import Case
from grads.check.evaluate import Evaluator
from grads.check.other_inputs import slopes_at
from grads.check.report import Finding

Arrays = Mapping[str, np.ndarray]

OURS = frozenset({"attention", "backend", "grads", "lstm", "nmt", "numpy"})  # these keep no state
MOST = 2000  # parts of a state; of a longer list, no parts
LARGE = 10_000_000  # elements of an array that is not copied
POINTS = 3  # other points
NEARBY = 0.9  # their relative distance: units of a ReLU open and close
AWAY = 0.3  # distance that inputs are moved whose values hide mistakes
CLOSE = 1e-4  # relative error of a slope that is right there; in float32, 1e-3


class State:
    """What some functions can change: what they reach through their closures, their object and the
    names of their module.

    Attribute: mutable, whether there is an object of a user's class, or a variable of a user's
    function that is a list, a dict or None, so that something may be kept from call to call.
    """

    def __init__(self, *functions: Callable[..., Any]) -> None:
        self.mutable = False
        self._undo: list[Callable[[], Any]] = []
        seen: dict[int, Any] = {}
        pending = [part for function in functions for part in self._reached(function)]
        while pending and len(seen) < MOST:
            part = pending.pop()
            if id(part) not in seen:
                seen[id(part)] = part
                pending += self._keep(part)

    def restore(self) -> None:
        """Put all of it back."""
        for undo in self._undo:
            undo()

    def _keep(self, part: Any) -> Iterable[Any]:
        """Remember a part; returns what it holds."""
        if isinstance(part, np.ndarray):
            if part.flags.writeable and part.size <= LARGE:
                self._undo.append(partial(np.copyto, part, part.copy()))
        elif isinstance(part, np.random.Generator):
            self._undo.append(partial(
                setattr, part.bit_generator, "state", copy.deepcopy(part.bit_generator.state)))
        elif isinstance(part, np.random.RandomState):
            self._undo.append(partial(part.set_state, part.get_state()))
        elif isinstance(part, list):
            self._undo.append(partial(part.__setitem__, slice(None), list(part)))
            return part if len(part) < MOST else ()
        elif isinstance(part, tuple):
            return part
        elif isinstance(part, dict):
            return self._keep_dict(part)
        elif isinstance(part, types.MethodType):
            return part.__self__, part.__func__
        elif isinstance(part, functools.partial):
            return part.func, part.args, part.keywords
        elif isinstance(part, types.FunctionType):
            return self._reached(part) if _is_users(part) else ()
        elif hasattr(part, "__dict__") and not isinstance(part, (type, types.ModuleType)) and (
                _is_users(type(part))):
            self.mutable = True
            return [*self._keep_dict(vars(part)), *(
                method for cls in type(part).__mro__ for method in vars(cls).values())]
        return ()

    def _keep_dict(self, part: dict[Any, Any]) -> Iterable[Any]:
        def undo(kept: dict[Any, Any]) -> None:
            part.clear()
            part.update(kept)

        self._undo.append(partial(undo, dict(part)))
        return list(part.values()) if len(part) < MOST else ()

    def _reached(self, function: Any) -> Iterable[Any]:
        """What a function reaches by its variables, whose values are remembered."""
        if not isinstance(function, types.FunctionType):
            return [function]
        values = []
        for cell in function.__closure__ or ():
            try:
                values.append(cell.cell_contents)
            except ValueError:  # assigned later
                continue
            self._undo.append(partial(setattr, cell, "cell_contents", values[-1]))
        space = function.__globals__ if _is_users(function) else {}
        for name in _names(function.__code__):
            if name in space:
                values.append(space[name])
                self._undo.append(partial(space.__setitem__, name, values[-1]))
        self.mutable |= _is_users(function) and any(
            value is None or isinstance(value, (dict, list)) for value in values)
        return values


def _names(code: types.CodeType) -> set[str]:
    """The global names that code uses, and attributes."""
    inner = [_names(part) for part in code.co_consts if isinstance(part, types.CodeType)]
    return set(code.co_names).union(*inner)


def _is_users(part: Any) -> bool:
    """Whether a function or a class is of a user's own module."""
    module = str(part.__module__).partition(".")[0]
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return module not in OURS | sys.stdlib_module_names and "site-packages" not in file


def _right_nearby(
    case: Case, evaluate: Evaluator, upstream: Arrays, names: Sequence[str],
    rng: np.random.Generator, moved: Collection[str],
) -> bool:
    """Whether the gradients have the right slope at another point, along one direction.

    Also if the code fails there, or if differences are too uncertain to tell. `moved`: inputs that
    are not only stretched.
    """
    inputs = {name: x * (1 + NEARBY * rng.uniform(-1, 1, x.shape))
              for name, x in evaluate.inputs.items()}
    inputs |= {name: inputs[name] + AWAY * rng.uniform(-1, 1, inputs[name].shape)
               for name in moved}
    v = {name: (np.abs(x) if x.any() else 1.0) * rng.normal(size=x.shape)
         for name, x in inputs.items() if name in names}
    dtype = next(iter(case.inputs.values())).dtype
    slopes = slopes_at(case, evaluate, upstream, inputs, v,
                       "complex" if evaluate.complex_step else "ridders", dtype)
    if slopes is None:
        return True
    terms, numeric = slopes
    gap = abs(float(terms.sum()) - float(numeric.value.sum()))
    close = CLOSE if dtype == np.float64 else 10 * CLOSE
    return not gap > close * float(np.abs(terms).sum()) + 10 * float(numeric.error.sum())


def kept_findings(
    case: Case, evaluate: Evaluator, upstream: Arrays, names: Sequence[str], mutable: bool
) -> list[Finding]:
    """The fault of gradients that are right at these inputs and wrong at others: a layer may keep
    something, and some values hide mistakes. `mutable`: whether the code can keep anything."""
    rng, at = np.random.default_rng(4), special(evaluate.inputs)
    if case.fixed or not (at or (mutable and not case.cacheless)) or all(
            _right_nearby(case, evaluate, upstream, names, rng, at) for _ in range(POINTS)):
        return []
    if at and not mutable:
        return [Finding("values", "backward", "the gradients are right here, where "
                        f"{', '.join(at.values())}, and wrong at other inputs")]
    return [Finding("state", "backward", "the gradients are right here and wrong at other inputs: "
                    "does it keep something of its first call?")]


def special(inputs: Arrays) -> dict[str, str]:
    """The inputs whose values hide mistakes, as many parameters have at first, and what they are:
    constant, diagonal or symmetric."""
    said = {}
    for name, x in inputs.items():
        if x.size > 1 and np.ptp(x) == 0:
            said[name] = f"{name} is {x.flat[0]:.3g} everywhere"
        elif x.ndim == 2 and x.shape[0] == x.shape[1] > 1 and np.array_equal(x, x.T):
            diagonal = np.array_equal(x, np.diag(np.diag(x)))
            said[name] = f"{name} is {'diagonal' if diagonal else 'symmetric'}"
    return said
