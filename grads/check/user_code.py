"""A user's own forward and backward, found in a file by name."""

from __future__ import annotations

import difflib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from backend.errors import UserError
from grads.check import check_gradients, check_pair
from grads.check.analytic import name_inputs
from grads.check.case import Block, Labels
from grads.check.contained import contained
from grads.check.report import Report
from grads.check.stopped import covered
from grads.check.watch import TimeUp, Watch

SHOWN = 8  # most names of a file in an error
ENDS = ("_inputs", "_forward", "_backward", "_gradient")  # of the names of functions


def check_file(
    target: str, rng: np.random.Generator, *, watch: Watch | None = None, **how: Any
) -> Report:
    """Check the function of `FILE.py:NAME`; watch and how as in `grads.check.check_case`. The time
    includes that of the file itself.

    The file has NAME_inputs(rng), which returns the inputs, and either NAME_forward and
    NAME_backward or a scalar NAME and its NAME_gradient. It may have NAME_labels: for an input the
    names of its axes, ("gate", "input"), or these and its blocks, (axes, {"i": slice(0, 5)}), whose
    slices are of the first axis, or one for each axis. Raises UserError naming the file and what it
    lacks, or what its own code raised and where.
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
        check, functions = _functions(module, path, name)
        f, g = (find(module, path, function) for function in functions)
        with watch.user_code():
            inputs = make_inputs(module, path, name, rng)
    except TimeUp:
        return Report([], title=target.rstrip(":"), seconds=watch.seconds,
                      stopped=covered([], watch))
    with contained(f"{path}: {name}_inputs"):
        named = name_inputs(f, inputs)[0]
    labels = _labels(getattr(module, f"{name}_labels", {}), named, f"{path}: {name}_labels")
    with contained(target):
        return check(f, g, inputs, rng=rng, title=target, labels=labels, watch=watch, **how)


def make_inputs(module: ModuleType, path: Path, name: str, rng: np.random.Generator) -> Any:
    """What NAME_inputs(rng) of the file returns."""
    make = find(module, path, f"{name}_inputs")
    with contained(f"{path}: {name}_inputs"):
        try:
            return make(rng)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise  # of its own code
            raise UserError(f"{path}: expected a function {name}_inputs(rng): {error}") from error


def _functions(
    module: ModuleType, path: Path, name: str
) -> tuple[Callable[..., Report], tuple[str, str]]:
    """The check for the functions that the file has under a name, and the names of these two
    functions."""
    if hasattr(module, f"{name}_forward") or hasattr(module, f"{name}_backward"):
        return check_pair, (f"{name}_forward", f"{name}_backward")
    if hasattr(module, name) or hasattr(module, f"{name}_gradient"):
        return _check_scalar, (name, f"{name}_gradient")
    raise UserError(f"{path}: expected {name}_forward and {name}_backward, or {name} and "
                    f"{name}_gradient, beside {name}_inputs; found none of them")


def _labels(given: Any, inputs: Mapping[str, Any], where: str) -> dict[str, Labels]:
    """The labels of a file. Raises UserError if they do not fit the inputs."""
    found = {}
    if not isinstance(given, Mapping):
        raise UserError(f"{where}: expected a mapping from inputs to the names of their axes, got "
                        f"{type(given).__name__}")
    for name, value in given.items():
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
        rest = (slice(None),) * (len(shape) - 1)
        found[name] = Labels(tuple(axes), tuple(
            Block(key, (cut, *rest) if isinstance(cut, slice) else tuple(cut))
            for key, cut in blocks.items()))
    return found


def _check_scalar(f: Any, gradient: Any, inputs: Any, **how: Any) -> Report:
    """`check_gradients` with arguments in the order of `check_pair`."""
    return check_gradients(f, inputs, gradient, **how)


def load_module(path: Path) -> ModuleType:
    """Execute the file as a module; meanwhile its directory is importable."""
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
    """A function of the module; the nearest name is suggested where there is none."""
    found = getattr(module, name, None)
    if callable(found):
        return found
    if found is not None:
        raise UserError(f"{path}: expected a function {name}, got {type(found).__name__}")
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
