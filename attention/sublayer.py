"""A sublayer: a residual connection around a layer F, with PreNorm or PostNorm.

PostNorm (Nguyen Eq. 3.3): y = N(x + F(x)); PreNorm (Nguyen Eq. 3.4): y = x + F(N(x)), after which
a stack needs one more norm at its end. Both are Eq. 3.2 with a norm; dropout is applied to F(x).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from attention.norms import NormedCache, norm_backward, norm_forward
from backend import Array
from lstm.parameters import Parameters


class Placement(NamedTuple):
    """The norm of a sublayer, and its place."""

    norm: str  # one of `attention.norms.NORMS`
    pre: bool  # whether it is PreNorm


class SublayerCache(NamedTuple):
    pre: bool
    norm: NormedCache
    layer: Any  # the cache of F
    mask: Array | None  # (T, B, d), of dropout


def sublayer_forward(
    prefix: str, placement: Placement, parameters: Mapping[str, Array], x: Array,
    layer: Callable[[Array], tuple[Array, Any]], mask: Array | None = None,
) -> tuple[Array, SublayerCache]:
    """y (T, B, d) of x (T, B, d). prefix: of the norm's weights. layer: F, x to F(x) and cache.

    mask: (T, B, d), dropout of F(x), or None.
    """
    kind, pre = placement
    if pre:
        x_hat, norm = norm_forward(prefix, kind, parameters, x)
        out, cache = layer(x_hat)
        y = x + (out if mask is None else out * mask)                      # (Nguyen 3.4)
    else:
        out, cache = layer(x)
        y, norm = norm_forward(                                            # (Nguyen 3.3)
            prefix, kind, parameters, x + (out if mask is None else out * mask))
    return y, SublayerCache(pre, norm, cache, mask)


def sublayer_backward(
    dy: Array, cache: SublayerCache, layer_backward: Callable[..., tuple[Any, ...]]
) -> tuple[Any, ...]:
    """dx (T, B, d), the gradients of F's other inputs, and those of all weights by full name.

    layer_backward: from d_out and F's cache to dx, the gradients of F's other inputs, and those of
    its weights.
    """
    pre, norm, layer, mask = cache
    gradients = Parameters()
    if not pre:
        dy, gradients = norm_backward(dy, norm)                            # (Nguyen 3.3)
    dx, *others, of_layer = layer_backward(dy if mask is None else dy * mask, layer)
    if pre:
        dx, gradients = norm_backward(dx, norm)                            # (Nguyen 3.4)
    return dy + dx, *others, gradients | of_layer                             # (Nguyen 3.2)
