"""The norms of a Transformer, of one vector at a time, each with its Jacobian.

Sources: ScaleNorm, Nguyen Eq. 3.6; LayerNorm, Ba, Kiros and Hinton (2016); RMSNorm, Zhang and
Sennrich (2019). The papers print no backward: with y = g o x_hat(x), dx = J' dx_hat, where J is the
Jacobian of x_hat, symmetric in all three.

| here | shape | |
|---|---|---|
| `x`, `y` | (d, 1) | what is normalised, and the result |
| `x_hat`, `u` | (d, 1) | x divided by its size; in ScaleNorm of length one |
| `g`, `b` | (d, 1) | gain and bias; ScaleNorm's g is (1, 1), the length of y |
| `J` | (d, d) | J[i, j] is the derivative of x_hat[i] with respect to x[j] |

EPS stands under each root as in PyTorch; ScaleNorm divides a vector that is shorter by EPS, and
then u = x / EPS is linear.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from grads.derivations.calculus import Array

EPS = 1e-5


# --- LayerNorm ----------------------------------------------------------------------------------


def layer_norm(x: Array, g: Array, b: Array) -> Array:
    """y = g o (x - mu) / s + b."""
    d = len(x)
    mu = x.sum() / d                                             # the mean of x
    z = x - mu
    s = np.sqrt((z.T @ z) / d + EPS)                             # sqrt(sigma^2 + eps), (1, 1)
    x_hat = z / s
    y = g * x_hat + b
    return y


def layer_norm_jacobian(x: Array) -> Array:
    """J = (I - 1 1'/d - x_hat x_hat'/d) / s.

    dz = dx - mean of dx, (I - 1 1'/d) dx; ds = z' dz / (d s); dx_hat = dz / s - z ds / s^2; and
    z' 1 is zero.
    """
    d, ones = len(x), np.ones((len(x), 1))
    z = x - x.sum() / d
    s = np.sqrt((z.T @ z) / d + EPS)
    x_hat = z / s
    J = (np.eye(d) - ones @ ones.T / d - x_hat @ x_hat.T / d) / s
    return J


def layer_norm_grad(dy: Array, x: Array, g: Array, b: Array) -> tuple[Array, Array, Array]:
    """dx, dg and db, all (d, 1), given dy (d, 1)."""
    d = len(x)
    z = x - x.sum() / d
    x_hat = z / np.sqrt((z.T @ z) / d + EPS)
    db = dy                                                      # y = g o x_hat + b
    dg = x_hat * dy                                              # (2.17) on g o x_hat
    dx_hat = g * dy                                              # (2.18) on g o x_hat
    J = layer_norm_jacobian(x)
    dx = J.T @ dx_hat                                            # (2.13) on dx_hat = J dx
    return dx, dg, db


# --- ScaleNorm ----------------------------------------------------------------------------------


def scale_norm(x: Array, g: Array) -> Array:
    """y = g x / length of x; g (1, 1)."""
    n = length(x)
    u = x / n
    y = g * u                                                    # (Nguyen 3.6)
    return y


def length(x: Array) -> Array:
    """sqrt(x' x), (1, 1); EPS where it is less.

    No absolute value is taken, so that the function stays analytic.
    """
    square = x.T @ x
    n = np.sqrt(np.where(square.real > EPS**2, square, EPS**2))
    return n


def scale_norm_jacobian(x: Array) -> Array:
    """J = (I - u u') / n of u = x / n: dn = u' dx. I / n where n is EPS."""
    n = length(x)
    u = x / n
    n_prime = np.where(n.real > EPS, u, 0)                       # the gradient of n
    J = (np.eye(len(x)) - u @ n_prime.T) / n
    return J


def scale_norm_grad(dy: Array, x: Array, g: Array) -> tuple[Array, Array]:
    """dx (d, 1) and dg (1, 1), given dy (d, 1)."""
    u = x / length(x)
    dg = u.T @ dy                                                # g stands in every row of g u
    du = g * dy                                                  # (Nguyen 3.6)
    J = scale_norm_jacobian(x)
    dx = J.T @ du                                                # (2.13) on du = J dx
    return dx, dg


# --- RMSNorm ------------------------------------------------------------------------------------


def rms_norm(x: Array, g: Array) -> Array:
    """y = g o x / r."""
    r = np.sqrt((x.T @ x) / len(x) + EPS)                        # sqrt(mean of x^2 + eps), (1, 1)
    x_hat = x / r
    y = g * x_hat
    return y


def rms_norm_jacobian(x: Array) -> Array:
    """J = (I - x_hat x_hat'/d) / r: dr = x' dx / (d r), dx_hat = dx / r - x dr / r^2."""
    d = len(x)
    r = np.sqrt((x.T @ x) / d + EPS)
    x_hat = x / r
    J = (np.eye(d) - x_hat @ x_hat.T / d) / r
    return J


def rms_norm_grad(dy: Array, x: Array, g: Array) -> tuple[Array, Array]:
    """dx and dg, both (d, 1), given dy (d, 1)."""
    x_hat = x / np.sqrt((x.T @ x) / len(x) + EPS)
    dg = x_hat * dy                                              # (2.17) on g o x_hat
    dx_hat = g * dy                                              # (2.18) on g o x_hat
    J = rms_norm_jacobian(x)
    dx = J.T @ dx_hat                                            # (2.13) on dx_hat = J dx
    return dx, dg


# --- by name ------------------------------------------------------------------------------------


def fixed_scale_norm(x: Array) -> Array:
    """ScaleNorm with g = sqrt(d)."""
    return scale_norm(x, np.full((1, 1), len(x) ** 0.5))


def fixed_scale_norm_grad(dy: Array, x: Array) -> tuple[Array]:
    """dx (d, 1)."""
    return scale_norm_grad(dy, x, np.full((1, 1), len(x) ** 0.5))[:1]


Norm = tuple[Any, Any]
NORMS: dict[str, Norm] = {
    "layer": (layer_norm, layer_norm_grad), "scale": (scale_norm, scale_norm_grad),
    "fixed-scale": (fixed_scale_norm, fixed_scale_norm_grad), "rms": (rms_norm, rms_norm_grad),
}
