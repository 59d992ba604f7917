"""Gradient checks as tests: `gradient_checked` turns a function that draws inputs into a test.

    @gradient_checked(layer_forward, layer_backward)
    def test_layer(rng):
        return rng.normal(size=(4, 3)), rng.normal(size=(2, 3))
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from grads.check import check_gradients, check_pair

RNG = "rng"  # the parameter that the decorator provides; the others are pytest's


def gradient_checked(
    forward: Callable[..., Any], backward: Callable[..., Any], *, scalar: bool = False,
    seed: int = 0, **how: Any,
) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """A decorator that turns a function of `rng`, which returns inputs, into a test.

    Arguments: forward and backward as in `check_pair`, or, if scalar, a function that returns a
    number and a function that returns its gradients; seed of rng; the other arguments of
    `check_pair`. The other parameters of the decorated function are fixtures and parameters of the
    test. The test fails with the report.
    """

    def decorate(draw: Callable[..., Any]) -> Callable[..., None]:
        signature = inspect.signature(draw)

        @functools.wraps(draw)
        def test(**named: Any) -> None:
            __tracebackhide__ = True  # no traceback: the report suffices
            inputs = draw(rng=np.random.default_rng(seed), **named)
            case = {"title": draw.__name__} | how
            report = (check_gradients(forward, inputs, backward, **case) if scalar
                      else check_pair(forward, backward, inputs, **case))
            report.raise_if_wrong()

        known = [p for name, p in signature.parameters.items() if name != RNG]
        test.__signature__ = signature.replace(parameters=known)  # type: ignore[attr-defined]
        return test

    return decorate
