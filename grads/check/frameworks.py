"""Checks backward passes that were written for PyTorch or JAX, in float64.

    check_torch(MyFunction.apply, x, weight)    # a torch.autograd.Function
    check_torch(module, x)                      # a Module: its parameters, too
    check_jax(f, x, weight)                     # a function with a jax.custom_vjp

Calling one of these imports the framework. The framework's function is the forward, evaluated at
NumPy's numbers. Its automatic differentiation calls the backward that is checked.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from grads.check import check_pair
from grads.check.nesting import flatten
from grads.check.report import Report
from grads.check.substitution import argument_names


def check_torch(f: Callable[..., Any], *inputs: Any, **how: Any) -> Report:
    """Check the gradients that PyTorch computes of a function or a Module.

    Arguments: f, a function of tensors that returns tensors in any form; inputs, tensors or arrays,
    of which the floating ones are differentiated; the other arguments of `grads.check.check_pair`.
    A Module is copied, and its copy has parameters and buffers in float64. Returns the report.
    """
    import torch

    module = copy.deepcopy(f).double() if isinstance(f, torch.nn.Module) else None
    parameters = {name: p.detach().numpy()
                  for name, p in module.named_parameters()} if module else {}
    arguments = dict(zip(_arguments(f, len(inputs)), map(torch.as_tensor, inputs), strict=True))
    arrays = parameters | {name: x.detach().double().numpy() for name, x in arguments.items()
                           if x.is_floating_point()}

    def forward(arrays: dict[str, Any]) -> Any:
        values = {name: torch.tensor(np.asarray(a), requires_grad=a.dtype.kind == "f")
                  for name, a in arrays.items()}
        positional = tuple(values.get(name, x) for name, x in arguments.items())
        outputs = f(*positional) if module is None else torch.func.functional_call(
            module, {name: values[name] for name in parameters}, positional)
        outputs = flatten(outputs)
        return {name: y.detach().numpy() for name, y in outputs.items()}, (values, outputs)

    def backward(d: Any, cache: Any) -> dict[str, Any]:
        values, outputs = cache
        gradients = torch.autograd.grad(
            list(outputs.values()), list(values.values()), list(map(torch.tensor, d.values())),
            retain_graph=True, allow_unused=True)
        return {name: np.zeros(value.shape) if gradient is None else gradient.numpy()
                for (name, value), gradient in zip(values.items(), gradients, strict=True)}

    return check_pair(forward, backward, arrays, **{"title": _name(f), **how})


def check_jax(f: Callable[..., Any], *inputs: Any, **how: Any) -> Report:
    """Check the gradients that JAX computes of a function, in reverse mode.

    Arguments: f, a function of arrays, or of mappings and lists of arrays, that returns arrays in
    any form; inputs, all floating (put other inputs inside f); the other arguments of
    `grads.check.check_pair`. Returns the report.
    """
    import jax

    @functools.wraps(f)
    def forward(*values: Any) -> Any:
        outputs = f(*jax.tree.map(jax.numpy.asarray, values))
        return jax.tree.map(np.asarray, outputs), values

    def backward(d: Any, values: Any) -> Any:
        gradients = jax.vjp(f, *values)[1](jax.tree.map(jax.numpy.asarray, d))
        return jax.tree.map(np.asarray, gradients)

    arrays = jax.tree.map(lambda x: np.asarray(x, np.float64), [*inputs])
    with jax.enable_x64(True):
        return check_pair(forward, backward, arrays, **{"title": _name(f), **how})


def _arguments(f: Any, count: int) -> tuple[str, ...]:
    """The names of the inputs. For a Function's `apply`: those of its forward after the context."""
    owner = getattr(f, "__self__", None)
    forward = getattr(owner or f, "forward", f)
    return (argument_names([forward], count + 1)[1:] if isinstance(owner, type)
            else argument_names([forward], count))


def _name(f: Any) -> str:
    """The name of a function. For a Function's `apply`: the name of the class."""
    owner = getattr(f, "__self__", None)
    return getattr(owner if isinstance(owner, type) else f, "__name__", type(f).__name__)
