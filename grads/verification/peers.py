"""PyTorch's and JAX's gradient checks of a NumPy function with its own backward.

Both compare the function's backward with central differences: PyTorch's check at every entry, JAX's
along one random direction. Each check takes a case and returns whether it accepts the case. Both
get float64 inputs. PyTorch keeps our cache. JAX traces the function, so that its backward runs the
forward again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from grads.check.case import Case

Arrays = dict[str, np.ndarray]


def copies(case: Case, values: Any) -> Arrays:
    """Writable float64 copies of the values, in the order of the inputs."""
    return {name: np.array(value, np.float64)
            for name, value in zip(case.inputs, values, strict=True)}


def torch_check() -> Callable[[Case], bool]:
    """`torch.autograd.gradcheck` with its own tolerances."""
    import torch

    class Wrapped(torch.autograd.Function):
        """The case: its inputs are tensors in their order, its outputs a tuple."""

        @staticmethod
        def forward(ctx: Any, case: Case, *values: Any) -> Any:
            outputs, ctx.cache = case.forward(copies(case, [v.detach().numpy() for v in values]))
            ctx.case, ctx.names = case, list(outputs)
            return tuple(torch.tensor(np.array(out)) for out in outputs.values())

        @staticmethod
        def backward(ctx: Any, *d_outputs: Any) -> Any:
            d = {name: d_out.numpy() for name, d_out in zip(ctx.names, d_outputs, strict=True)}
            gradients = ctx.case.vjp(d, ctx.cache)
            return None, *(torch.tensor(np.array(gradients[name], np.float64))
                           for name in ctx.case.inputs)

    def check(case: Case) -> bool:
        values = tuple(torch.tensor(np.array(value, np.float64), requires_grad=True)
                       for value in case.inputs.values())
        return bool(torch.autograd.gradcheck(
            lambda *tensors: Wrapped.apply(case, *tensors), values, raise_exception=False))

    return check


def jax_check() -> Callable[[Case], bool]:
    """`jax.test_util.check_grads` in reverse mode, of first order, with its own tolerances."""
    import jax
    from jax.test_util import check_grads

    # A callback's error ends a check; its traceback is not printed.
    logging.getLogger("jax._src.callback").setLevel(logging.CRITICAL)

    def wrapped(case: Case) -> Callable[..., Any]:
        """The case as a function of arrays that is differentiated by its own backward."""
        outputs = case.outputs(copies(case, case.inputs.values()))
        shapes = [jax.ShapeDtypeStruct(np.shape(out), np.float64) for out in outputs.values()]
        like = [jax.ShapeDtypeStruct(value.shape, np.float64) for value in case.inputs.values()]

        def forward(*values: Any) -> list[np.ndarray]:
            outputs = case.outputs(copies(case, values))
            return [np.array(out, np.float64) for out in outputs.values()]

        def backward(values: Any, d_outputs: Any) -> tuple[np.ndarray, ...]:
            d = {name: np.asarray(d_out) for name, d_out in zip(outputs, d_outputs, strict=True)}
            gradients = case.gradients(copies(case, values), d)
            return tuple(np.array(gradients[name], np.float64) for name in case.inputs)

        @jax.custom_vjp
        def f(*values: Any) -> Any:
            return jax.pure_callback(forward, shapes, *values)

        f.defvjp(lambda *values: (f(*values), values),
                 lambda values, d: jax.pure_callback(backward, tuple(like), values, d))
        return f

    def check(case: Case) -> bool:
        with jax.enable_x64(True):
            try:
                check_grads(wrapped(case), tuple(copies(case, case.inputs.values()).values()),
                            order=1, modes=("rev",))
            except AssertionError:
                return False
        return True

    return check
