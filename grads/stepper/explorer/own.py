"""A user's own function, from a file, as a derivation: FILE.py:NAME.

The file has NAME_inputs(rng), and NAME_forward with NAME_backward, or a scalar NAME with
NAME_gradient, as for `grads check`; or NAME alone, of which there is nothing to verify.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from backend.errors import UserError
from grads.check.contained import contained
from grads.check.user_code import find, load_module, make_inputs
from grads.derivations.examples import Example
from grads.stepper.explorer.settings import SEED, Settings
from grads.stepper.trace import Trace, trace
from grads.stepper.tracing.derivations import Derivation
from grads.stepper.tracing.methods import classes_of
from grads.stepper.tracing.pairing import Pairing


def titled(target: str) -> str:
    """FILE.py:NAME without the directories, which are the user's own."""
    return target.replace("\\", "/").rpartition("/")[2]


def is_own(name: str) -> bool:
    """Whether a name is FILE.py:NAME."""
    return ".py:" in name


def containing(name: str) -> AbstractContextManager[None]:
    """Context of whatever is run for a name: that of a user's code, for FILE.py:NAME."""
    return contained(name) if is_own(name) else nullcontext()


def own_derivation(target: str, settings: Settings) -> Derivation:
    """A user's forward and backward as a derivation. The loss is sum(d_outputs * outputs) with
    random d_outputs; that of a scalar is itself.

    Raises `UserError` naming the file and what it lacks, or what its own code raised; for a
    setting other than the seed.
    """
    module, path, name, seed = opened(target, settings)
    inputs = inputs_of(module, path, name, seed)
    follow = (*functions_of(module), *classes_of(module))
    if not hasattr(module, f"{name}_forward"):
        scalar = find(module, path, name)
        if not hasattr(module, f"{name}_gradient"):
            raise UserError(f"{target}: expected {name}_forward and {name}_backward, or "
                            f"{name}_gradient: without them there is nothing to verify, and only "
                            "grads walk shows the steps")
        gradient = find(module, path, f"{name}_gradient")
        return Derivation(
            target, titled(target), scalar, gradient, pairing(module, scalar, gradient),
            lambda request: Example(tuple(inputs)), follow,
            loss=lambda example, result: result, given=lambda example, result: example.arguments,
            own=True)
    forward, backward = (find(module, path, f"{name}_{kind}") for kind in ("forward", "backward"))
    result = forward(*copy.deepcopy(inputs))
    if not isinstance(result, tuple) or len(result) != 2:
        raise UserError(f"{target}: expected {forward.__name__} to return (outputs, cache)")
    upstream = like(result[0], np.random.default_rng([seed, 1]))
    return Derivation(
        target, titled(target), forward, backward, pairing(module, forward, backward),
        lambda request: Example(tuple(inputs), upstream=upstream), follow,
        loss=lambda example, result: dotted(example.upstream, result[0]),
        given=lambda example, result: (example.upstream, result[1]), own=True)


def trace_alone(target: str, settings: Settings) -> Trace | None:
    """The trace of a user's function that has no backward; None if it has one. Errors as above."""
    module, path, name, seed = opened(target, settings)
    if hasattr(module, f"{name}_forward") or hasattr(module, f"{name}_gradient"):
        return None
    function, inputs = find(module, path, name), inputs_of(module, path, name, seed)
    return trace(function, *inputs, follow=[*functions_of(module), *classes_of(module)])


def opened(target: str, settings: Settings) -> tuple[ModuleType, Path, str, int]:
    """The file as a module, its path, the name, and the seed."""
    for key, value in vars(settings).items():
        if value is not None and key != "seed":
            raise UserError(f"{key}: {target} has none: its inputs are what NAME_inputs returns")
    file, _, name = target.rpartition(":")
    return load_module(Path(file)), Path(file), name, (
        SEED if settings.seed is None else settings.seed)


def inputs_of(module: ModuleType, path: Path, name: str, seed: int) -> list[Any]:
    """What NAME_inputs returns, as the arguments of a call: a sequence's items; a mapping or an
    array is the one argument."""
    made = make_inputs(module, path, name, np.random.default_rng(seed))
    return list(made) if isinstance(made, (list, tuple)) else [made]


def pairing(module: ModuleType, forward: Any, backward: Any) -> Pairing:
    """`dX` of the backward is the gradient of `X` of the forward; so for their helpers, f and
    f_backward or f_grad, and for the methods of one class, forward or __call__ and backward."""
    helpers = {f"{one.__name__.removesuffix('_forward')}{ending}": one.__name__
               for one in functions_of(module) for ending in ("_backward", "_grad")}
    methods = {f"{one.__qualname__}.backward": f"{one.__qualname__}.{name}"
               for one in classes_of(module) for name in ("__call__", "forward")
               if hasattr(one, name)}
    pair = {backward.__name__: forward.__name__} if all(
        hasattr(function, "__name__") for function in (forward, backward)) else {}
    return Pairing({**helpers, **methods, **pair})


def functions_of(module: ModuleType) -> list[FunctionType]:
    """The functions that a file defines."""
    return [one for one in vars(module).values()
            if isinstance(one, FunctionType) and one.__module__ == module.__name__]


def like(outputs: Any, rng: np.random.Generator) -> Any:
    """Random upstream gradients in the form of the outputs."""
    if isinstance(outputs, Mapping):
        return {name: like(one, rng) for name, one in outputs.items()}
    if isinstance(outputs, (tuple, list)):
        return type(outputs)(like(one, rng) for one in outputs)
    return rng.normal(size=np.shape(outputs))


def dotted(upstream: Any, outputs: Any) -> Any:
    """sum(upstream * outputs) over all arrays."""
    if isinstance(upstream, Mapping):
        return sum(dotted(one, outputs[name]) for name, one in upstream.items())
    if isinstance(upstream, (tuple, list)):
        return sum(dotted(*both) for both in zip(upstream, outputs, strict=True))
    return (upstream * outputs).sum()
