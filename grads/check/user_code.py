"""A user's own forward and backward, found in a file by name."""

from __future__ import annotations

import difflib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from backend.errors import UserError
from grads.check import check_gradients, check_pair
from grads.check.report import Report


def check_file(target: str, rng: np.random.Generator, **how: Any) -> Report:
    """The check of what `FILE.py:NAME` stands for; `how` as in `grads.check.check_case`.

    The file has NAME_inputs(rng), which returns the inputs, and either NAME_forward and
    NAME_backward or a scalar NAME and its NAME_gradient. Raises UserError naming the file and what
    it lacks, or what its own code raised.
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
        raise UserError(f"{path}: {name}_inputs: {type(error).__name__}: {error}") from error
    try:
        return check(f, g, inputs, rng=rng, title=target, **how)
    except Exception as error:
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        raise UserError(f"{target}: {kind}{error}") from error


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

