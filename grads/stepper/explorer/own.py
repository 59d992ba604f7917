"""Reads a user's own functions from a file as a derivation, FILE.py:NAME.

The file has NAME_inputs(rng) and the functions that `grads check` takes: NAME_forward with
NAME_backward; a scalar NAME with NAME_gradient; or NAME, which returns a loss with its gradients or
is a layer. If NAME stands alone, there is nothing to verify.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from inspect import signature
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from backend.errors import UserError
from grads.check import check_pair
from grads.check.contained import contained
from grads.check.copies import deep_copy
from grads.check.layers import (
    BACKWARDS,
    FORWARDS,
    RATE,
    Chain,
    LayerRun,
    check_layer,
    set_to_zero,
)
from grads.check.losses import LossRun
from grads.check.names import returned_names
from grads.check.nesting import flatten, like
from grads.check.report import Report
from grads.check.substitution import Subject
from grads.check.user_code import find, in_order, load_module, made_layer, make_inputs
from grads.check.user_code import functions_of as functions_of_name
from grads.derivations.examples import Example
from grads.stepper.explorer.settings import SEED, Settings
from grads.stepper.trace import Origin, Trace, record, trace
from grads.stepper.tracing.derivations import Derivation
from grads.stepper.tracing.methods import classes_of, methods_of
from grads.stepper.tracing.pairing import Pairing
from grads.stepper.tracing.program import Program, Rewrites, unwrapped
from grads.stepper.tracing.replay import Untouched
from grads.stepper.tracing.returned import Kept


def titled(target: str) -> str:
    """The name FILE.py:NAME without the file's directories, which may be private."""
    return target.replace("\\", "/").rpartition("/")[2]


def is_own(name: str) -> bool:
    """Whether a name has the form FILE.py:NAME."""
    return ".py:" in name


def containing(name: str) -> AbstractContextManager[None]:
    """Context for running what a name stands for; for FILE.py:NAME, that of a user's code."""
    return contained(name) if is_own(name) else nullcontext()


def own_derivation(target: str, settings: Settings) -> Derivation:
    """Make a derivation of a user's forward and backward, in any style that `grads check` takes.

    The loss is sum(d_outputs * outputs) with random d_outputs. A scalar function is its own loss.
    Raises `UserError` if the file lacks something (it names the file), if the user's code raises an
    error, and for a setting other than the seed.
    """
    module, path, name, seed = opened(target, settings)
    inputs = make_inputs(module, path, name, np.random.default_rng(seed))
    check, functions = functions_of_name(module, path, name)
    inputs = arguments_of(functions[0], inputs)
    written = Written(target, module, inputs, np.random.default_rng([seed, 1]))
    written.check_that_it_ends(getattr(functions[0], "forward", functions[0]))
    of_some = {"names": getattr(module, f"{name}_names", None)} if len(functions) == 2 else {}
    written.report = partial(report_of, check, functions, inputs, written.refusals, **of_some)
    if check is check_pair:
        return written.pair(*functions)
    if check is check_layer:
        return written.layer(functions[0])
    if len(functions) == 2:
        return written.scalar(*functions)
    try:
        return written.loss(functions[0])
    except ValueError as error:
        raise Alone(f"{target}: there is nothing to verify: {error}") from error


class Alone(UserError):
    """Raised for a function without gradients. Its steps can be shown, but nothing can be
    verified."""


class Written:
    """Makes the derivation of a user's code.

    Arguments: target, FILE.py:NAME; module, the file; inputs; rng, for upstream gradients.
    Attributes: report, which makes that of `grads check`; refusals, why the check refuses what the
    backward returns.
    """

    def __init__(self, target: str, module: ModuleType, inputs: list[Any],
                 rng: np.random.Generator) -> None:
        self.target, self.module, self.inputs, self.rng = target, module, inputs, rng
        self.follow = (*functions_of(module), *classes_of(module))
        self.rewrites = Rewrites()
        self.report: Callable[..., Report | None] = lambda **how: None
        self.refusals: list[str] = []

    def check_that_it_ends(self, call: Any) -> None:
        """Run a function once with its steps counted, before it runs without a limit. Raises
        `UserError` if it does not end, does not take the inputs, or only makes a layer."""
        function = getattr(call, "__func__", call)
        if isinstance(function, (FunctionType, partial)):
            inputs = self.inputs if signature(function).parameters else []
            self.check_that_it_takes(call, inputs)
            program = Program(function, self.follow, returns=True, rewrites=self.rewrites)
            result = record(program, deep_copy((*bound(call), *inputs), {}), {}).result
            if error := made_layer(self.target, program.start, result):
                raise error

    def check_that_it_takes(self, call: Any, inputs: list[Any]) -> None:
        """Raises `UserError` if a function cannot be called with the inputs."""
        taken = signature(call)
        try:
            taken.bind(*inputs)
        except TypeError as error:
            hint = ("; a mapping is one argument: return a list of all arguments"
                    if len(inputs) == 1 and isinstance(inputs[0], Mapping) else "")
            name = getattr(call, "__name__", type(call).__name__)
            raise UserError(f"{self.target}: {name}{taken} cannot be called with what "
                            f"{self.target.rpartition(':')[2]}_inputs returns: {error}{hint}"
                            ) from error

    def derivation(self, forward: Any, backward: Any, arguments: tuple[Any, ...], upstream: Any,
                   **others: Any) -> Derivation:
        """The derivation of the functions in the file."""
        return Derivation(
            self.target, titled(self.target), forward, backward,
            pairing(self.module, unwrapped(forward)[0], unwrapped(backward)[0]),
            lambda request: Example(arguments, upstream=upstream), self.follow, is_users=True,
            rewrites=self.rewrites, report=self.report(diagnosis=0), diagnosed=self.report,
            refused=self.refusals[0] if self.refusals else "", **others)

    def scalar(self, scalar: Any, gradient: Any) -> Derivation:
        """The derivation of a scalar function NAME and its NAME_gradient."""
        result = scalar(*deep_copy(self.inputs, {}))
        if np.size(result) != 1:
            raise UserError(f"{self.target}: expected one number, as NAME_gradient needs it, got "
                            f"an array of shape {np.shape(result)}; of arrays, write NAME_forward "
                            "and NAME_backward")
        return self.derivation(scalar, gradient, tuple(self.inputs), None,
                               loss=lambda example, result: result,
                               given=lambda example, result: example.arguments)

    def pair(self, forward: Any, backward: Any) -> Derivation:
        """The derivation of NAME_forward, which returns outputs and a cache, and NAME_backward."""
        result = forward(*deep_copy(self.inputs, {}))
        if not isinstance(result, tuple) or len(result) != 2:
            name = getattr(forward, "__name__", type(forward).__name__)
            raise UserError(f"{self.target}: expected {name} to return (outputs, "
                            "cache)")
        return self.derivation(
            forward, backward, tuple(self.inputs),
            upstream_of(result[0], self.rng),
            loss=lambda example, result: dotted(example.upstream, result[0]),
            given=lambda example, result: (example.upstream, result[1]))

    def loss(self, function: Any) -> Derivation:
        """The derivation of a function that returns a loss with its gradients. Raises ValueError if
        it does not."""
        run = LossRun(Subject(function, self.inputs, {}))
        call = run.subject.call
        names = returned_names(call)
        name = names[run.number] if run.number < len(names) else ""
        held = None if run.number or not name else re.search(  # by a tensor: it returns loss.data
            rf"\breturn \(?(\w+)\.{re.escape(str(name))}\b",
            inspect.getsource(getattr(call, "__func__", call)))
        variable = held[1] if held else name

        def loss(example: Example, result: Any) -> Any:
            if held and hasattr(result, name):  # the run ended where the tensor was assigned
                return getattr(result, name)
            return result if is_number(result) else run.parts(result)[run.number]

        def loss_at(both: Trace) -> Origin | None:
            made = [(step.number, i) for step in both.steps for i, target in enumerate(step.targets)
                    if (step.kind, step.frame, target.name) == ("assign", 0, variable)]
            return made[-1] if made else None

        kept = Kept(run.subject.arrays, lambda after, result: run.gradients(result))
        return self.derivation(
            getattr(call, "__func__", call), getattr(call, "__func__", call),
            Untouched((*bound(call), *run.subject.inputs)), None, loss=loss, kept=kept,
            loss_at=loss_at)

    def layer(self, layer: Any) -> Derivation:
        """The derivation of a layer, or a list of layers, with a forward and a backward."""
        layer = Chain(layer) if isinstance(layer, (list, tuple)) else layer
        run = LayerRun(layer, self.inputs, {}, True)
        call = run.subject.call
        arguments = Untouched((*bound(call), *run.subject.inputs))
        outputs = run.forward({})[1].outputs
        upstream = upstream_of(outputs, self.rng)

        def loss(example: Example, result: Any) -> Any:
            passed = run.passed(getattr(example.arguments[0], call.__name__), result)[1]
            return passed.outputs if run.is_loss else dotted(example.upstream, passed.outputs)

        def given(example: Example, result: Any) -> tuple[Any, ...]:
            layer = example.arguments[0]
            set_to_zero(layer)
            passed = run.passed(getattr(layer, call.__name__), result)[1]
            return layer, *run.arguments(passed, flatten(deep_copy(upstream, {})), RATE)

        kept = Kept(run.subject.arrays, lambda after, result: run.gradients(
            after[0], result, run.subject.arrays))
        backward = getattr(type(call.__self__), run.backward)
        return self.derivation(
            call.__func__, backward, arguments, None if run.is_loss else upstream,
            loss=loss, given=given, kept=kept)


def report_of(check: Any, functions: tuple[Any, ...], inputs: list[Any], refusals: list[str],
              **how: Any) -> Report | None:
    """What `grads check` says of a user's functions; None if it refuses them.

    Argument refusals: gets the message if the gradients are refused, as those of another shape. An
    input that is refused, as one with NaN, does not keep the walk from comparing the others.
    """
    arguments = inputs if len(functions) == 1 else [
        inputs[0] if len(inputs) == 1 and isinstance(inputs[0], Mapping) else inputs]
    try:
        report: Report = check(*functions, *arguments, **how)
    except ValueError as error:
        refusals += [str(error)] * str(error).startswith("gradients: ")
        return None
    return report


def bound(call: Any) -> tuple[Any, ...]:
    """The object that a method is bound to; an empty tuple for a function."""
    return (call.__self__,) if hasattr(call, "__self__") else ()


def is_number(value: Any) -> bool:
    """Whether a value is a single number."""
    return not isinstance(value, (tuple, list, Mapping)) and np.size(value) == 1


def trace_alone(target: str, settings: Settings) -> Trace:
    """Trace a user's function that has no gradients. Raises the errors of `own_derivation`."""
    module, path, name, seed = opened(target, settings)
    function = find(module, path, name)
    inputs = arguments_of(function, make_inputs(module, path, name, np.random.default_rng(seed)))
    return trace(function, *inputs, follow=[*functions_of(module), *classes_of(module)])


def opened(target: str, settings: Settings) -> tuple[ModuleType, Path, str, int]:
    """The file as a module, its path, the function's name, and the seed."""
    for key, value in vars(settings).items():
        if value is not None and key != "seed":
            raise UserError(f"{key}: {target} has none: its inputs are what NAME_inputs returns")
    file, _, name = target.rpartition(":")
    return load_module(Path(file)), Path(file), name, (
        SEED if settings.seed is None else settings.seed)


def arguments_of(function: Any, inputs: Any) -> list[Any]:
    """The inputs that NAME_inputs returns as the arguments of the function. The items of a sequence
    are the arguments, and those of a mapping that has the names of the function's parameters;
    another mapping, or an array, is the only argument."""
    inputs = in_order(function, inputs)
    return list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]


def pairing(module: ModuleType, forward: Any, backward: Any) -> Pairing:
    """The pairing by names: `dX` of the backward is the gradient of `X` of the forward.

    It holds for NAME, for helpers f with f_backward or f_grad, and for the methods of one class,
    where backward belongs to forward or __call__.
    """
    helpers = {f"{function.__name__.removesuffix('_forward')}{ending}": function.__name__
               for function in functions_of(module) for ending in ("_backward", "_grad")}
    classes = classes_of(module)
    methods = {f"{cls.__qualname__}.{backward}": f"{cls.__qualname__}.{name}"
               for cls in classes for backward in BACKWARDS for name in FORWARDS
               if any(name in vars(kind) for kind in cls.__mro__)}
    both = {name: name for function in (*functions_of(module), *methods_of(classes))
            if (name := name_of(function, classes)) not in {*helpers, *methods}}
    pair = {name_of(backward, classes): name_of(forward, classes)}
    return Pairing({**(both if forward is backward else {}), **helpers, **methods, **pair})


def name_of(function: Any, classes: list[type]) -> str:
    """The name that a function has in a trace."""
    return str(function.__qualname__ if function in methods_of(classes) else function.__name__)


def functions_of(module: ModuleType) -> list[FunctionType]:
    """The functions that a file defines."""
    return [value for value in vars(module).values()
            if isinstance(value, FunctionType) and value.__module__ == module.__name__]


def upstream_of(outputs: Any, rng: np.random.Generator) -> Any:
    """Random upstream gradients with the structure of the outputs."""
    return like(outputs, {name: rng.normal(size=np.shape(output))
                          for name, output in flatten(outputs).items()})


def dotted(upstream: Any, outputs: Any) -> Any:
    """The sum of upstream * outputs over all arrays."""
    if isinstance(upstream, Mapping):
        return sum(dotted(gradient, outputs[name]) for name, gradient in upstream.items())
    if isinstance(upstream, (tuple, list)):
        return sum(dotted(*both) for both in zip(upstream, outputs, strict=True))
    return (upstream * outputs).sum()
