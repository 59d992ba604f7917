"""The position-wise feed-forward layer (Nguyen Eq. 1.13): F(x) = W_2 max(0, W_1 x + b_1) + b_2.

`W_1` (F, d) and `W_2` (d, F) are the transposes of the printed matrices; F is the inner width.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from attention.linear import linear_backward, linear_forward
from backend import Array, array_module
from lstm.parameters import Initial, Parameters, Weight, axis, zeros


class FeedForwardCache(NamedTuple):
    prefix: str
    parameters: Mapping[str, Array]
    x: Array  # (T, B, d)
    hidden: Array  # (T, B, F), after max and dropout
    active: Array  # (T, B, F) bool, where the pre-activation is above zero
    mask: Array | None  # (T, B, F), of dropout


def feed_forward_weights(
    prefix: str, width: int, inner: int, initial: Initial
) -> dict[str, Weight]:
    """`{prefix}.W_1` (F, d), `.b_1`, `.W_2` (d, F), `.b_2`; d = width, F = inner.

    initial: of both matrices; the biases start at zero.
    """
    hidden, unit = axis("hidden", inner), axis("unit", width)
    return {f"{prefix}.W_1": Weight((hidden, axis("input", width)), initial),
            f"{prefix}.b_1": Weight((hidden,), zeros),
            f"{prefix}.W_2": Weight((unit, hidden), initial),
            f"{prefix}.b_2": Weight((unit,), zeros)}


def feed_forward_forward(
    prefix: str, parameters: Mapping[str, Array], x: Array, mask: Array | None = None
) -> tuple[Array, FeedForwardCache]:
    """F(x) (T, B, d) of x (T, B, d), and the cache of the backward.

    mask: (T, B, F), dropout of the hidden layer, or None. The derivative of the maximum at exactly
    zero is defined as zero.
    """
    W_1, b_1, W_2, b_2 = (parameters[f"{prefix}.{name}"] for name in ("W_1", "b_1", "W_2", "b_2"))
    a = linear_forward(x, W_1, b_1)
    active = a.real > 0.0
    hidden = array_module(a).multiply(a, active, out=a)                    # max(0, a)
    if mask is not None:
        hidden *= mask
    y = linear_forward(hidden, W_2, b_2)                                   # (Nguyen 1.13)
    return y, FeedForwardCache(prefix, parameters, x, hidden, active, mask)


def feed_forward_backward(dy: Array, cache: FeedForwardCache) -> tuple[Array, Parameters]:
    """dx (T, B, d) and the gradients of the weights by full name, given dy (T, B, d)."""
    prefix, parameters, x, hidden, active, mask = cache
    da, dW_2, db_2 = linear_backward(dy, hidden, parameters[f"{prefix}.W_2"])  # (Nguyen 1.13)
    if mask is not None:
        da *= mask
    da *= active                                           # the maximum's slope
    dx, dW_1, db_1 = linear_backward(da, x, parameters[f"{prefix}.W_1"])
    return dx, {f"{prefix}.W_1": dW_1, f"{prefix}.b_1": db_1,
                f"{prefix}.W_2": dW_2, f"{prefix}.b_2": db_2}
