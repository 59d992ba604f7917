"""A user's own forward and backward, found in a file by name."""

from __future__ import annotations

import difflib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from backend.errors import UserError
from grads.check import check_gradients, check_pair
from grads.check.analytic import name_inputs
from grads.check.case import Block, Labels
from grads.check.continuation.state import is_users
from grads.check.report import Report

_PROJECT = str(Path(__file__).resolve().parents[2]) + "/grads"  # files that are not the user's


def check_file(target: str, rng: np.random.Generator, **how: Any) -> Report:
    """The check of what `FILE.py:NAME` stands for; `how` as in `grads.check.check_case`.

    The file has NAME_inputs(rng), which returns the inputs, and either NAME_forward and
    NAME_backward or a scalar NAME and its NAME_gradient. It may have NAME_labels: for an input the
    names of its axes, ("gate", "input"), or these and its blocks, (axes, {"i": slice(0, 5)}), whose
    slices are of the first axis, or one for each axis. Raises UserError naming the file and what it
    lacks, or what its own code raised and where.
    """
    file, _, name = target.rpartition(":")
    path = Path(file)
    module = load_module(path)
    make = find(module, path, f"{name}_inputs")
    check: Callable[..., Report] = check_pair
    if hasattr(module, f"{name}_forward"):
        functions = (f"{name}_forward", f"{name}_backward")
    else:
        check, functions = _check_scalar, (name, f"{name}_gradient")
    f, g = (find(module, path, function) for function in functions)
    try:
        inputs = make(rng)
    except Exception as error:
        raise UserError(f"{path}: {name}_inputs: {_said(error, path)}") from error
    labels = _labels(getattr(module, f"{name}_labels", {}), name_inputs(f, inputs)[0],
                     f"{path}: {name}_labels")
    try:
        return check(f, g, inputs, rng=rng, title=target, labels=labels, **how)
    except Exception as error:
        raise UserError(f"{target}: {_said(error, path)}") from error


def _said(error: Exception, path: Path) -> str:
    """An error in one line: its kind and the line of the user's file where it is the user's own."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if is_users(frame.filename)
           and not frame.filename.startswith(_PROJECT)]
    checker = frames and not is_users(frames[-1].filename) and isinstance(error, ValueError)
    if not own or (checker and "numpy" not in frames[-1].filename):
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        return f"{kind}{error}"
    return f"{type(error).__name__}: {error} at {own[-1].filename}:{own[-1].lineno}"


def _labels(given: Any, inputs: Mapping[str, Any], where: str) -> dict[str, Labels]:
    """The labels of a file. Raises UserError on what does not fit the inputs."""
    found = {}
    for name, value in given.items():
        if name not in inputs:
            raise UserError(f"{where}: expected names of inputs, {', '.join(inputs)}, got {name!r}")
        axes, blocks = value if isinstance(value[0], tuple) else (value, {})
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
    """The file, executed; its own directory is importable while that lasts."""
    if not path.is_file():
        raise UserError(f"{path}: expected a Python file, found none")
    name = f"user_code_{path.stem}"  # a user's lstm.py must not stand for ours
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UserError(f"{path}: expected a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    sys.modules[name] = module  # where dataclasses and inspect look for it
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UserError(f"{path}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(path.parent))
    return module


def find(module: ModuleType, path: Path, name: str) -> Any:
    """A function of the module; the nearest name is suggested where there is none."""
    if callable(getattr(module, name, None)):
        return getattr(module, name)
    known = [key for key, value in vars(module).items() if callable(value)]
    close = difflib.get_close_matches(name, known, 1, 0.5)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise UserError(f"{path}: expected a function {name}, found none{hint}")

