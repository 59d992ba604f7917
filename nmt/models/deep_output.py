"""The deep output: a hidden layer between the decoder's state and the prediction of a word.

Source: Bahdanau et al. (2015), A.2.2: t~_i = U_o s_{i-1} + V_o E y_{i-1} + C_o c_i, a maxout over
pairs of neighbours, and p(y_i) as the softmax of W_o t_i. Sennrich (2016) has tanh for the maxout.
Which state is read (erratum 18) is the caller's choice. All steps are known here, so every matrix
is one GEMM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from backend import Array, array_module, matmul
from lstm.parameters import Parameters, Scheme, Weight, axis
from lstm.prediction import output_weights


def maxout_forward(t_tilde: Array) -> tuple[Array, Array]:
    """t_j = max(t~_{2j-1}, t~_{2j}): (N, M) from (N, 2M), and which of the two it was.

    Where the two are equal there is no derivative; the first is taken as the maximum.
    """
    first, second = t_tilde[:, 0::2], t_tilde[:, 1::2]
    is_first = first.real >= second.real                                   # (N, M) bool
    t = array_module(t_tilde).where(is_first, first, second)               # (Bahdanau A.2.2 maxout)
    return t, is_first


def maxout_backward(dt: Array, is_first: Array) -> Array:
    """dt~ (N, 2M) given dt (N, M): dt at the larger of each two, zero at the other."""
    xp = array_module(dt)
    N, M = dt.shape
    dt_tilde: Any = xp.empty((N, 2 * M), dtype=dt.dtype)
    xp.multiply(dt, is_first, out=dt_tilde[:, 0::2])
    xp.multiply(dt, ~is_first, out=dt_tilde[:, 1::2])
    return dt_tilde


def tanh_layer_forward(t_tilde: Array) -> tuple[Array, Array]:
    """t = tanh(t~), (N, M), in place; the cache is t."""
    t = array_module(t_tilde).tanh(t_tilde, out=t_tilde)
    return t, t


def tanh_layer_backward(dt: Array, t: Array) -> Array:
    """dt~ = (1 - t^2) o dt, (N, M)."""
    xp = array_module(dt, t)
    slope = t * t
    xp.subtract(1.0, slope, out=slope)
    slope *= dt
    return slope


class Layer(NamedTuple):
    """A hidden layer: rows of t~ for a unit of t, forward, backward."""

    rows: int
    forward: Callable[[Array], tuple[Array, Array]]
    backward: Callable[[Array, Array], Array]


LAYERS = {
    "maxout": Layer(2, maxout_forward, maxout_backward),
    "tanh": Layer(1, tanh_layer_forward, tanh_layer_backward),
}


class DeepCache(NamedTuple):
    prefix: str
    parts: tuple[Array, ...]  # s, y, c as rows (N, H), (N, E), (N, He); a language model's state
    layer: str
    kept: Array  # what the layer's backward reads
    parameters: Mapping[str, Array]


NAMES = ("U_o", "V_o", "C_o", "L_o")  # of s, y, c, and where there is one a language model's state


def deep_weights(
    prefix: str, layer: str, size: int, widths: tuple[int, int, int], vocabulary_size: int,
    biases: bool, output_bias: bool, scheme: Scheme,
) -> dict[str, Weight]:
    """`{prefix}.U_o`, `.V_o`, `.C_o`, `.b_t` of the layer; the prediction's `.W_o` and `.b`.

    Arguments: size M, units of t; widths of s, y and c.
    """
    rows = axis("unit", LAYERS[layer].rows * size)
    columns = (axis(name, width)
               for name, width in zip(("unit", "input", "source unit"), widths, strict=True))
    weights = {f"{prefix}.{name}": Weight((rows, one), scheme.matrix())
               for name, one in zip(NAMES, columns, strict=False)}
    prediction = output_weights(prefix, size, vocabulary_size, output_bias, scheme, "W_o")
    W_o = f"{prefix}.W_o"
    b_t = {f"{prefix}.b_t": Weight((rows,), scheme.bias())} if biases else {}
    return {**weights, W_o: prediction.pop(W_o), **b_t, **prediction}


def deep_forward(
    prefix: str, parameters: Mapping[str, Array], parts: tuple[Array, ...], layer: str
) -> tuple[Array, DeepCache]:
    """t_i (N, M) from rows of states s (N, H), words y (N, E) and contexts c (N, He), and of a
    fourth part, a language model's state, if there is one."""
    s, y, c = parts[:3]
    t_tilde = matmul(s, parameters[f"{prefix}.U_o"].T)              # (N, 2M)
    t_tilde += matmul(y, parameters[f"{prefix}.V_o"].T)
    t_tilde += matmul(c, parameters[f"{prefix}.C_o"].T)             # (Bahdanau A.2.2 deep)
    if len(parts) > 3:
        t_tilde += matmul(parts[3], parameters[f"{prefix}.L_o"].T)  # (Sennrich fusion)
    if f"{prefix}.b_t" in parameters:
        t_tilde += parameters[f"{prefix}.b_t"]
    t, kept = LAYERS[layer].forward(t_tilde)
    return t, DeepCache(prefix, parts, layer, kept, parameters)


def deep_backward(
    dt: Array, cache: DeepCache
) -> tuple[tuple[Array, ...], Parameters]:
    """Gradients of the parts (rows, as they came) and of the layer's parameters, from dt (N, M)."""
    prefix, parts, layer, kept, parameters = cache
    names = [f"{prefix}.{name}" for name in NAMES[: len(parts)]]
    dt_tilde = LAYERS[layer].backward(dt, kept)                            # (N, 2M)
    gradients = {name: dt_tilde.T @ part                                   # (2.14)
                 for name, part in zip(names, parts, strict=True)}
    if f"{prefix}.b_t" in parameters:
        gradients[f"{prefix}.b_t"] = dt_tilde.sum(axis=0)
    d_parts = tuple(matmul(dt_tilde, parameters[name]) for name in names)  # (2.13)
    return d_parts, gradients
