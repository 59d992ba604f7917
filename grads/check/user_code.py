"""Checks a user's function or layer, found in a file by its name."""

from __future__ import annotations

import difflib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from backend.errors import UserError
from grads.check import check_gradients, check_pair
from grads.check.analytic import name_inputs
from grads.check.case import Block, Labels
from grads.check.contained import contained
from grads.check.layers import BACKWARDS, check_layer
from grads.check.losses import check_loss
from grads.check.nesting import parameters_of_call
from grads.check.report import Report
from grads.check.watch import TimeUp, Watch, unfinished

SHOWN = 8  # most names of a file in an error
ENDS = ("_inputs", "_forward", "_backward", "_gradient")  # of the names of functions


def check_file(
    target: str, rng: np.random.Generator, *, watch: Watch | None = None, **how: Any
) -> Report:
    """Check the function or layer of `FILE.py:NAME`.

    The file has NAME_inputs(rng), which returns the inputs, and one of: NAME_forward and
    NAME_backward; a scalar NAME and its NAME_gradient; NAME alone, a layer or a function that
    returns a loss with its gradients. It may have NAME_labels: for an input, the names of its axes,
    ("gate", "input"), or the names and the blocks, (axes, {"i": slice(0, 5)}). A block is a slice
    of the first axis, or a slice for each axis. NAME_names are the inputs to check, if the backward
    or the gradient is not of all.

    Arguments: target, `FILE.py:NAME`; rng; the other arguments of `grads.check.check_case`. The
    time limit includes running the file. Returns the report. Raises UserError naming the file and
    what it lacks, or what its code raised and where.
    """
    file, _, name = target.rpartition(":")
    path = Path(file)
    watch = watch or Watch(how.pop("time_limit", None))
    try:
        with watch.user_code():
            module = load_module(path)
        if not name:
            raise UserError(f"{path}: expected FILE.py:NAME, got no name{_names(module)}")
        find(module, path, f"{name}_inputs")
        check, functions = functions_of(module, path, name)
        with watch.user_code():
            inputs = make_inputs(module, path, name, rng)
    except TimeUp:
        return unfinished(target.rstrip(":"), watch)
    inputs = in_order(functions[0], inputs)
    how |= {"rng": rng, "title": target, "watch": watch}
    labels = getattr(module, f"{name}_labels", {})
    if len(functions) == 1:
        if labels:
            raise UserError(f"{path}: {name}_labels: expected none for a layer or a loss")
        arguments = inputs if isinstance(inputs, (list, tuple)) else (inputs,)
        try:
            with contained(target):
                return check(*functions, *arguments, **how)
        except UserError as error:
            raise _only_makes_a_layer(target, functions[0]) or error from error
    with contained(f"{path}: {name}_inputs"):
        named = name_inputs(functions[0], inputs)[0]
    how["labels"] = _labels(labels, named, f"{path}: {name}_labels")
    how["names"] = getattr(module, f"{name}_names", None)
    with contained(target):
        return check(*functions, inputs, **how)


def in_order(f: Any, inputs: Any) -> Any:
    """The inputs; those of a mapping in the order of f's parameters, if f takes them by name."""
    names = [p.name for p in parameters_of_call(f)] if isinstance(f, FunctionType) else []
    if len(names) < 2 or not isinstance(inputs, Mapping) or not inputs.keys() <= {*names}:
        return inputs
    return [inputs[name] for name in names if name in inputs]


def made_layer(target: str, function: Any, result: Any) -> UserError | None:
    """The error for a function whose result is a layer that is to be checked; None if it is not."""
    if not any(hasattr(result, method) for method in BACKWARDS):
        return None
    name, kind = function.__name__, type(result).__name__
    return UserError(f"{target}: expected a layer, got a function that returns a {kind}: write "
                     f"{name} = {kind}(...) instead of def {name}")


def _only_makes_a_layer(target: str, function: Any) -> UserError | None:
    """The error for a function that makes a layer without arguments; None for any other."""
    try:
        with contained(target):
            return made_layer(target, function, function())
    except UserError:
        return None


def make_inputs(module: ModuleType, path: Path, name: str, rng: np.random.Generator) -> Any:
    """The inputs that NAME_inputs(rng) of the file returns."""
    make = find(module, path, f"{name}_inputs")
    with contained(f"{path}: {name}_inputs"):
        try:
            inputs = make(rng)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise  # raised inside the user's function
            raise UserError(f"{path}: expected a function {name}_inputs(rng): {error}") from error
    if inputs is None or isinstance(inputs, str):
        raise UserError(f"{path}: expected {name}_inputs(rng) to return an array, or a tuple, list "
                        f"or mapping of the arguments of {name}, got {inputs!r}")
    return inputs


def functions_of(
    module: ModuleType, path: Path, name: str
) -> tuple[Callable[..., Report], tuple[Any, ...]]:
    """The check that suits the functions of this name, and the functions or the layer to check."""
    if hasattr(module, f"{name}_forward") or hasattr(module, f"{name}_backward"):
        return check_pair, tuple(find(module, path, f"{name}_{kind}")
                                 for kind in ("forward", "backward"))
    alone = getattr(module, name, None)
    if hasattr(module, f"{name}_gradient"):
        return _check_scalar, (find(module, path, name), find(module, path, f"{name}_gradient"))
    if isinstance(alone, type):
        raise UserError(f"{path}: expected a layer, as in {name.lower()} = {name}(...), got the "
                        f"class {name}")
    if isinstance(alone, (list, tuple)) or any(hasattr(alone, kind) for kind in BACKWARDS):
        return check_layer, (alone,)
    if alone is None:
        raise UserError(f"{path}: expected {name}_forward and {name}_backward, {name} and "
                        f"{name}_gradient, or a layer or a loss {name}, beside {name}_inputs; "
                        "found none of them")
    return check_loss, (find(module, path, name),)


def _labels(labels: Any, inputs: Mapping[str, Any], where: str) -> dict[str, Labels]:
    """The labels of a file. Raises UserError if they do not fit the inputs."""
    by_input = {}
    if not isinstance(labels, Mapping):
        raise UserError(f"{where}: expected a mapping from inputs to the names of their axes, got "
                        f"{type(labels).__name__}")
    for name, value in labels.items():
        if name not in inputs:
            raise UserError(f"{where}: expected names of inputs, {', '.join(inputs)}, got {name!r}")
        if not isinstance(value, tuple):
            raise UserError(f"{where}: expected a tuple of the axes' names for {name!r}, got "
                            f"{value!r}")
        axes, blocks = value if value and isinstance(value[0], tuple) else (value, {})
        shape = np.shape(inputs[name])
        if len(axes) != len(shape):
            raise UserError(f"{where}: expected {len(shape)} axes for {name!r}, of shape {shape}, "
                            f"got {axes}")
        other_axes = (slice(None),) * (len(shape) - 1)
        by_input[name] = Labels(tuple(axes), tuple(
            Block(key, (cut, *other_axes) if isinstance(cut, slice) else tuple(cut))
            for key, cut in blocks.items()))
    return by_input


def _check_scalar(f: Any, gradient: Any, inputs: Any, **how: Any) -> Report:
    """`check_gradients` with arguments in the order of `check_pair`."""
    return check_gradients(f, inputs, gradient, **how)


def load_module(path: Path) -> ModuleType:
    """The file as a module. While it is executed, modules of its directory can be imported."""
    if not path.is_file():
        raise UserError(f"{path}: expected a Python file, found none")
    name = f"user_code_{path.stem}"  # a user's lstm.py must not shadow ours
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UserError(f"{path}: expected a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    sys.modules[name] = module  # dataclasses and inspect need it there
    try:
        with contained(str(path)):
            spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


def find(module: ModuleType, path: Path, name: str) -> Any:
    """A function of the module. Raises UserError with the nearest name if there is none."""
    value = getattr(module, name, None)
    if callable(value):
        return value
    if value is not None:
        raise UserError(f"{path}: expected a function {name}, got {type(value).__name__}")
    known = [key for key, value in vars(module).items() if callable(value)]
    hint = _hint(name, known) or (_names(module) if name.endswith("_inputs") else "")
    raise UserError(f"{path}: expected a function {name}, found none{hint}")


def _hint(name: str, known: list[str]) -> str:
    """A hint with a known function of the same kind and a similar name."""
    end = next((end for end in ENDS if name.endswith(end)), "")
    stems = [key.removesuffix(end) for key in known if key.endswith(end)]
    close = difflib.get_close_matches(name.removesuffix(end), stems, 1, 0.6 if end else 0.5)
    return f"; did you mean {close[0] + end!r}?" if close else ""


def _names(module: ModuleType) -> str:
    """The functions of a file that can be checked, in words."""
    names = [key.removesuffix("_inputs") for key in vars(module) if key.endswith("_inputs")]
    has = ", ".join([*names[:SHOWN], *["..."] * (len(names) > SHOWN)])
    return f"; with inputs it has {has}" if names else "; it has no NAME_inputs(rng)"
