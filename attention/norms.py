"""Normalisation layers of a Transformer: each vector (d,) is normalised separately.

| norm | y | weights |
|---|---|---|
| layer (Ba et al., 2016) | g o (x - mu) / sqrt(sigma^2 + eps) + b | g, b (d,) |
| scale (Nguyen Eq. 3.6) | g x / max(norm of x, eps) | g (1,) |
| fixed-scale | the same with g = sqrt(d) | |
| rms (Zhang and Sennrich, 2019) | g o x / sqrt(mean of x^2 + eps) | g (d,) |

mu and sigma^2 are mean and (biased) variance over d. `eps` is 1e-5 in all norms, as in the author's
code and in PyTorch's LayerNorm; RMSNorm is printed without eps. ScaleNorm divides a vector shorter
than eps by eps: nothing divides by zero, and the derivative there is g / eps. To add a norm, add a
row to `NORMS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from attention import norm_kernels as kernels
from attention.norm_cache import EPS, NormCache
from backend import Array, array_module
from backend.errors import check_among
from backend.fused import fused
from lstm.parameters import Initial, Parameters, Weight, axis, constant, zeros

# --- LayerNorm ------------------------------------------------------------------------------------


@fused(kernels.layer_norm_forward)
def layer_norm_forward(x: Array, g: Array, b: Array) -> tuple[Array, NormCache]:
    """y = g o x_hat + b, x_hat = (x - mu) / s, s = sqrt(sigma^2 + eps).

    Arguments: x (..., d); g, b (d,). Returns y (..., d) and what `layer_norm_backward` reads.
    """
    xp, d = array_module(x, g, b), x.shape[-1]
    x_hat = x - x.sum(axis=-1, keepdims=True) * (1.0 / d)
    s = xp.sqrt((x_hat * x_hat).sum(axis=-1, keepdims=True) * (1.0 / d) + EPS)  # (..., 1)
    x_hat /= s
    y = g * x_hat
    y += b
    return y, NormCache(x_hat, s, g)


@fused(kernels.layer_norm_backward)
def layer_norm_backward(dy: Array, cache: NormCache) -> tuple[Array, Array, Array]:
    """dx = (I - 1 1'/d - x_hat x_hat'/d) (g o dy) / s; dg (d,), db (d,) summed over all vectors."""
    x_hat, s, g, _ = cache
    d = x_hat.shape[-1]
    dx_hat = g * dy                                                        # (2.17) on g o x_hat
    mean = dx_hat.sum(axis=-1, keepdims=True) * (1.0 / d)
    along = (dx_hat * x_hat).sum(axis=-1, keepdims=True) * (1.0 / d)
    dx = (dx_hat - mean - x_hat * along) / s
    return dx, over_vectors(dy * x_hat), over_vectors(dy)                  # (2.18)


# --- ScaleNorm ------------------------------------------------------------------------------------


@fused(kernels.scale_norm_forward)
def scale_norm_forward(x: Array, g: Array | float) -> tuple[Array, NormCache]:
    """y = g x_hat, x_hat = x / max(length of x, eps) (Nguyen Eq. 3.6).

    Arguments: x (..., d); g (1,), or a number that is not learned. Returns y (..., d), the cache.
    """
    xp = array_module(x)
    square = (x * x).sum(axis=-1, keepdims=True)                           # (..., 1)
    free = square.real > EPS**2
    size = xp.sqrt(xp.where(free, square, EPS**2))
    x_hat = x / size
    return g * x_hat, NormCache(x_hat, size, g, free)                      # (Nguyen 3.6)


@fused(kernels.scale_norm_backward)
def scale_norm_backward(dy: Array, cache: NormCache) -> tuple[Array, Array]:
    """dx = (g / length) (I - x_hat x_hat') dy, without the second term if eps replaced the length;
    dg (1,), the sum of x_hat' dy over all vectors."""
    x_hat, size, g, free = cache
    along = (dy * x_hat).sum(axis=-1, keepdims=True)                       # x_hat' dy, (..., 1)
    dx = (g / size) * (dy - x_hat * (along * free))                        # (Nguyen 3.6)
    return dx, along.sum().reshape(1)


# --- RMSNorm --------------------------------------------------------------------------------------


@fused(kernels.rms_norm_forward)
def rms_norm_forward(x: Array, g: Array) -> tuple[Array, NormCache]:
    """y = g o x_hat, x_hat = x / r, r = sqrt(mean of x^2 + eps).

    Arguments: x (..., d); g (d,). Returns y (..., d) and what `rms_norm_backward` reads.
    """
    xp, d = array_module(x, g), x.shape[-1]
    r = xp.sqrt((x * x).sum(axis=-1, keepdims=True) * (1.0 / d) + EPS)     # (..., 1)
    x_hat = x / r
    return g * x_hat, NormCache(x_hat, r, g)


@fused(kernels.rms_norm_backward)
def rms_norm_backward(dy: Array, cache: NormCache) -> tuple[Array, Array]:
    """dx = (I - x_hat x_hat'/d) (g o dy) / r; dg (d,) summed over all vectors."""
    x_hat, r, g, _ = cache
    d = x_hat.shape[-1]
    dx_hat = g * dy                                                        # (2.17) on g o x_hat
    along = (dx_hat * x_hat).sum(axis=-1, keepdims=True) * (1.0 / d)
    return (dx_hat - x_hat * along) / r, over_vectors(dy * x_hat)          # (2.18)


def over_vectors(d: Array) -> Array:
    """The sum of (..., d) over all but the last axis: (d,)."""
    return d.reshape(-1, d.shape[-1]).sum(axis=0)


# --- the table ------------------------------------------------------------------------------------


class Norm(NamedTuple):
    """A row of the table: the weights with their initial values, forward and backward.

    forward(x, *weights) returns y and the cache; backward(dy, cache) dx and the gradients of the
    weights, in their order.
    """

    initial: Mapping[str, Callable[[int], Initial]]
    forward: Callable[..., tuple[Array, NormCache]]
    backward: Callable[..., tuple[Array, ...]]


def fixed_forward(x: Array) -> tuple[Array, NormCache]:
    """`scale_norm_forward` with g = sqrt(d), the initial value of a learned g."""
    return scale_norm_forward(x, x.shape[-1] ** 0.5)


def fixed_backward(dy: Array, cache: NormCache) -> tuple[Array]:
    """dx. There are no weights."""
    return scale_norm_backward(dy, cache)[:1]


NORMS: dict[str, Norm] = {
    "layer": Norm({"g": lambda d: constant(1.0), "b": lambda d: zeros},
                  layer_norm_forward, layer_norm_backward),
    "scale": Norm({"g": lambda d: constant(d**0.5)}, scale_norm_forward, scale_norm_backward),
    "fixed-scale": Norm({}, fixed_forward, fixed_backward),
    "rms": Norm({"g": lambda d: constant(1.0)}, rms_norm_forward, rms_norm_backward),
}


class NormedCache(NamedTuple):
    prefix: str
    kind: str
    norm: NormCache


def norm_weights(prefix: str, kind: str, width: int) -> dict[str, Weight]:
    """The weights of a norm of vectors (..., d), d = width: `{prefix}.g`, `{prefix}.b`.

    Raises ValueError for a kind that is not in NORMS.
    """
    check_among("norm", kind, NORMS)
    counts = axis("radius", 1) if kind == "scale" else axis("unit", width)
    return {f"{prefix}.{name}": Weight((counts,), initial(width))
            for name, initial in NORMS[kind].initial.items()}


def norm_forward(
    prefix: str, kind: str, parameters: Mapping[str, Array], x: Array
) -> tuple[Array, NormedCache]:
    """y (..., d) of vectors x (..., d), and what `norm_backward` reads."""
    norm = NORMS[kind]
    y, cache = norm.forward(x, *(parameters[f"{prefix}.{name}"] for name in norm.initial))
    return y, NormedCache(prefix, kind, cache)


def norm_backward(dy: Array, cache: NormedCache) -> tuple[Array, Parameters]:
    """dx (..., d) and the gradients of the weights by full name."""
    norm = NORMS[cache.kind]
    dx, *dweights = norm.backward(dy, cache.norm)
    return dx, {f"{cache.prefix}.{name}": d for name, d in zip(norm.initial, dweights, strict=True)}
