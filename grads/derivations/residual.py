"""Residual connections between the layers of a recurrent stack: one step, and back.

Source: Wu et al. (2016), section 3.1, Equation 6. The layer is the thesis's LSTM; the first layer,
whose input may have another width, has no such connection. The paper prints no backward; each line
of ours names the thesis's rule and the forward line that it is applied to.

| here, of layer l | shape | Wu et al. |
|---|---|---|
| `x[0]`, `x[l]` | (E, 1), (H, 1) | x_t^0, x_t^l: what the layer above reads |
| `h_prev[l]`, `c_prev[l]`; `h[l]`, `c[l]` | (H, 1) | m_{t-1}^l, c_{t-1}^l; m_t^l, c_t^l |
| `T[l]`, `b[l]` | (4H, in + H), (4H, 1) | W^l |
"""

from __future__ import annotations

from typing import Any

import numpy as np

from grads.derivations.calculus import Array
from grads.derivations.declaration import OUTPUT, Declaration
from grads.derivations.errata import Mistake
from grads.derivations.examples import Example, Request, draw, no_sentence
from grads.derivations.lstm import lstm, lstm_grad

Layers = dict[int, Any]  # by layer l = 1 .. L


def residual(x_0: Array, h_prev: Layers, c_prev: Layers, T: Layers, b: Layers) -> Array:
    """x_t^L (H, 1), what the top layer puts out, from x_t^0 (E, 1) and the states before."""
    x, h, c = {0: x_0}, {}, {}
    for l in range(1, len(T) + 1):
        h[l], c[l] = lstm(h_prev[l], c_prev[l], x[l - 1], T[l], b[l])
        x[l] = h[l] + x[l - 1] if l > 1 else h[l]                # (Wu 6)
    return x[len(T)]


def residual_grad(
    d: Array, x_0: Array, h_prev: Layers, c_prev: Layers, T: Layers, b: Layers
) -> tuple[Array, Layers, Layers, Layers, Layers]:
    """dx_0 (E, 1), and by layer dh_prev, dc_prev, dT and db, given d (H, 1), the gradient of what
    the top layer puts out."""
    x, h, c, L = {0: x_0}, {}, {}, len(T)
    for l in range(1, L + 1):
        h[l], c[l] = lstm(h_prev[l], c_prev[l], x[l - 1], T[l], b[l])
        x[l] = h[l] + x[l - 1] if l > 1 else h[l]
    dx, dh, dc = {L: d}, {}, {l: np.zeros_like(c[l]) for l in c}
    dh_prev, dc_prev, dT, db = {}, {}, {}, {}
    for l in range(L, 0, -1):
        dh[l] = dx[l]                                            # the sum's first term (Wu 6)
        dh_prev[l], dc_prev[l], dx[l - 1], dT[l], db[l] = lstm_grad(
            dh[l], dc[l], h_prev[l], c_prev[l], x[l - 1], T[l], b[l])
        if l > 1:
            dx[l - 1] = dx[l - 1] + dx[l]                        # its second term (Wu 6)
    return dx[0], dh_prev, dc_prev, dT, db


def residual_example(request: Request) -> Example:
    """One step's input, states and weights."""
    no_sentence(request)
    H, E, L = request.sizes.hidden, request.sizes.embedding, request.sizes.layers
    shapes = {"x_0": (E, 1), "d": (H, 1)}
    for l in range(1, L + 1):
        shapes |= {f"h_{l}": (H, 1), f"c_{l}": (H, 1), f"b_{l}": (4 * H, 1),
                   f"T_{l}": (4 * H, (H if l > 1 else E) + H)}
    values = draw(request.rng, shapes)
    layers = ({l: values[f"{name}_{l}"] for l in range(1, L + 1)} for name in "hcTb")
    return Example((values["x_0"], *layers), upstream=values["d"])


HERE = "grads.derivations.residual.residual_grad"
MISTAKES = {
    "residual forgotten": Mistake(
        HERE, "dx[l - 1] + dx[l]", "dx[l - 1] + 0 * dx[l]",
        "the gradient goes down through the layers alone, and vanishes as without the connection."),
    "layer left out": Mistake(
        HERE, "dx[l - 1] + dx[l]", "dx[l]",
        "the gradient that came through the layer is overwritten by that of the connection."),
    "sum taken for a mean": Mistake(
        HERE, "dh[l] = dx[l]", "dh[l] = dx[l] / 2",
        "a sum hands its whole gradient to each of its terms."),
}
DECLARATIONS = (
    Declaration(
        "residual", "One step of a stack with residual connections", residual, residual_grad,
        residual_example, settings=("layers",), attentive=False, returns=OUTPUT,
        mistakes=MISTAKES),
)
