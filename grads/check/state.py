"""The state of the code that is checked: layers keep inputs, buffers and random generators.

A check calls the code many times, at other inputs than the user's. Everything that the code may
have changed is restored afterwards. A layer may also keep data of its first call, and so be right
only as long as the inputs are the same. Comparisons at other points find it.
"""

from __future__ import annotations

import copy
import functools
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from grads.check.comparison import Check
from grads.check.continuation.namespace import is_users_module
from grads.check.evaluate import Line
from grads.check.other_inputs import derivatives_at
from grads.check.result import Finding

Arrays = Mapping[str, np.ndarray]

MOST = 2000  # objects of a state; the elements of a longer list are not looked at
STATELESS = (type, types.ModuleType, types.NoneType, str, int, float, complex, np.generic)
LARGE = 10_000_000  # an array of more elements is not copied
POINTS = 3  # other points
NEARBY = 0.9  # their relative distance: units of a ReLU open and close
AWAY = 0.3  # additional distance of inputs whose values hide mistakes
CLOSE = 1e-4  # relative error of a slope that is right there; in float32, 1e-3


class State:
    """The state that some functions can change: all that they reach through their closures, their
    default arguments, their object and the names of their module, and NumPy's global random
    generator.

    Argument: functions, or objects with methods. Attribute: mutable, whether something may be kept
    from call to call: whether there is an object of a user's class, or a variable of a user's
    function that is a list, a dict or None.
    """

    def __init__(self, *functions: Callable[..., Any]) -> None:
        self.mutable = False
        self._undo: list[Callable[[], Any]] = []
        # what is not undone before a run: random numbers must differ, and a name of NumPy stands
        # for another function during a complex step
        self._at_the_end = [partial(np.random.set_state, np.random.get_state())]
        seen: dict[int, Any] = {}
        pending = [value for function in functions for value in self._reached(function)]
        while pending and len(seen) < MOST:
            value = pending.pop()
            if id(value) not in seen:
                seen[id(value)] = value
                pending += self._keep(value)

    def restore(self) -> None:
        """Restore the state."""
        self.rewind()
        for undo in self._at_the_end:
            undo()

    def rewind(self) -> None:
        """Restore all but random generators, and names that stand for functions or modules."""
        for undo in self._undo:
            undo()

    def _keep(self, value: Any) -> Iterable[Any]:
        """Remember a value, so that it can be restored. Returns the values that it holds."""
        if isinstance(value, np.ndarray):
            if value.flags.writeable and value.size <= LARGE:
                self._undo.append(partial(np.copyto, value, value.copy()))
        elif isinstance(value, list):
            self._undo.append(partial(value.__setitem__, slice(None), list(value)))
            return value if len(value) < MOST else ()
        elif isinstance(value, tuple):
            return value
        elif isinstance(value, dict):
            self._undo += [value.clear, partial(value.update, dict(value))]
            return list(value.values()) if len(value) < MOST else ()
        elif isinstance(value, types.FunctionType):
            return self._reached(value) if is_users_module(str(value.__module__)) else ()
        elif isinstance(value, (types.ModuleType, type)):
            return self._keep_names(value)
        elif not isinstance(value, STATELESS):
            return self._keep_object(value)
        return ()

    def _keep_names(self, owner: Any) -> Iterable[Any]:
        """Remember the variables of a user's module or class. Returns their values, and the methods
        of the class."""
        if not is_users_module(str(getattr(owner, "__module__", owner.__name__))):
            return ()
        values = {name: value for name, value in vars(owner).items() if name[:2] != "__"}
        self._undo += [partial(setattr, owner, name, value) for name, value in values.items()
                       if not (callable(value) or hasattr(value, "__get__")
                               or isinstance(value, types.ModuleType))]
        return list(values.values())

    def _keep_object(self, value: Any) -> Iterable[Any]:
        """Remember an object. Returns the values that it holds."""
        if isinstance(value, np.random.Generator):
            self._at_the_end.append(partial(
                setattr, value.bit_generator, "state", copy.deepcopy(value.bit_generator.state)))
        elif isinstance(value, np.random.RandomState):
            self._at_the_end.append(partial(value.set_state, value.get_state()))
        elif isinstance(value, types.MethodType):
            return value.__self__, value.__func__
        elif isinstance(value, functools.partial):
            return value.func, value.args, value.keywords
        elif hasattr(value, "__dict__") and is_users_module(type(value).__module__):
            self.mutable = True
            return [vars(value), *type(value).__mro__]
        return ()

    def _reached(self, function: Any) -> Iterable[Any]:
        """The values of a function's variables, which are remembered."""
        if not isinstance(function, types.FunctionType):
            return [function]
        values = []
        for cell in function.__closure__ or ():
            try:
                values.append(cell.cell_contents)
            except ValueError:  # assigned later
                continue
            self._undo.append(partial(setattr, cell, "cell_contents", values[-1]))
        is_users = is_users_module(str(function.__module__))
        space = function.__globals__ if is_users else {}
        for name in _names(function.__code__):
            if name in space:
                values.append(space[name])
                named = callable(values[-1]) or isinstance(values[-1], types.ModuleType)
                undo = self._at_the_end if named else self._undo
                undo.append(partial(space.__setitem__, name, values[-1]))
        self.mutable |= is_users and any(
            value is None or isinstance(value, (dict, list)) for value in values)
        return [*values, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]


def _names(code: types.CodeType) -> set[str]:
    """The global names and the attributes that code uses."""
    nested = [_names(inner) for inner in code.co_consts if isinstance(inner, types.CodeType)]
    return set(code.co_names).union(*nested)


def _right_nearby(
    check: Check, names: Sequence[str], rng: np.random.Generator, moved: Collection[str]
) -> bool:
    """Whether the gradients have the right slope at another point, along one direction. True also
    if the code fails there, or if differences are too uncertain to decide.

    Arguments: moved, the inputs whose entries are moved, and not only stretched.
    """
    inputs = {name: x * (1 + NEARBY * rng.uniform(-1, 1, x.shape))
              for name, x in check.evaluate.inputs.items()}
    inputs |= {name: inputs[name] + AWAY * rng.uniform(-1, 1, inputs[name].shape)
               for name in moved}
    v = {name: (np.abs(x) if x.any() else 1.0) * rng.normal(size=x.shape)
         for name, x in inputs.items() if name in names}
    dtype = check.case.dtype
    there = derivatives_at(
        check.case, check.evaluate, check.upstream, inputs, [Line(v)], dtype=dtype)
    if there is None:
        return True
    gradients, numeric = there
    terms = np.concatenate([np.ravel(gradients[name] * v[name]) for name in v])
    gap = abs(float(terms.sum()) - float(numeric.value.sum()))
    close = CLOSE if dtype == np.float64 else 10 * CLOSE
    return not gap > close * float(np.abs(terms).sum()) + 10 * float(numeric.error.sum())


def findings_elsewhere(
    check: Check, names: Sequence[str], mutable: bool, at: Mapping[str, str]
) -> list[Finding]:
    """The finding if the gradients are right at these inputs and wrong at others: a layer may keep
    something, and some values hide mistakes.

    Arguments: mutable, whether the code can keep anything; at, the inputs of `special`.
    """
    if check.case.fixed or not (at or not check.case.cacheless):
        return []
    rng = np.random.default_rng(4)
    if all(_right_nearby(check, names, rng, at) for _ in range(POINTS)):
        return []
    if at and not mutable:
        return [Finding("values", "backward", "the gradients are right here, where "
                        f"{', '.join(at.values())}, and wrong at other inputs")]
    return [Finding("state", "backward", "the gradients are right here and wrong at other inputs: "
                    "does it keep something of its first call?")]


def special(inputs: Arrays) -> dict[str, str]:
    """The inputs whose values hide mistakes, with a phrase: they are constant, diagonal or
    symmetric, as many parameters are at first."""
    said = {}
    for name, x in inputs.items():
        if x.size > 1 and np.ptp(x) == 0:
            said[name] = f"{name} is {x.flat[0]:.3g} everywhere"
        elif x.ndim == 2 and x.shape[0] == x.shape[1] > 1 and np.array_equal(x, x.T):
            diagonal = np.array_equal(x, np.diag(np.diag(x)))
            said[name] = f"{name} is {'diagonal' if diagonal else 'symmetric'}"
    return said
