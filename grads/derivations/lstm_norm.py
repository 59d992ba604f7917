"""The layer-normalised LSTM of Ba, Kiros and Hinton (2016): one step, and back.

Their Equations 20 to 22 (supplement), with the norm of `grads.derivations.norms`. The paper prints
no backward; each line of ours names the thesis's rule and the forward line that it is applied to.

| here | shape | Ba et al. |
|---|---|---|
| `x`; `h_prev`, `c_prev` | (E, 1); (H, 1) | x_t; h_{t-1}, c_{t-1} |
| `W_x`, `W_h` | (4H, E), (4H, H) | W_x, W_h, blocks of rows in our order i, f, o, h_hat |
| `g_h`, `g_x`; `g_c` | (4H, 1); (H, 1) | alpha_1, alpha_2; alpha_3 |
| `b`; `b_c` | (4H, 1); (H, 1) | b with beta_1 and beta_2 added to it; beta_3 |
| `h_hat` | (H, 1) | tanh(g_t) |

The state [h; c] (2H, 1) is one column, and so is its gradient.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grads.derivations.calculus import Array, sigm, sigm_prime, tanh_prime
from grads.derivations.declaration import OUTPUT, Declaration
from grads.derivations.errata import Mistake
from grads.derivations.examples import Example, Request, draw, no_sentence
from grads.derivations.norms import layer_norm, layer_norm_grad


class UnitNorm(NamedTuple):
    """The weights, or their gradients."""

    W_x: Array
    W_h: Array
    b: Array
    g_x: Array
    g_h: Array
    g_c: Array
    b_c: Array


def lstm_norm(x: Array, h_prev: Array, c_prev: Array, unit: UnitNorm) -> Array:
    """[h_t; c_t] (2H, 1) from x_t (E, 1) and the state before, (H, 1) each."""
    W_x, W_h, b, g_x, g_h, g_c, b_c = unit
    y = W_h @ h_prev
    v = W_x @ x
    a = layer_norm(y, g_h, b) + layer_norm(v, g_x, 0 * b)        # (Ba 20)
    a_i, a_f, a_o, a_h_hat = np.split(a, 4)
    i, f, o, h_hat = sigm(a_i), sigm(a_f), sigm(a_o), np.tanh(a_h_hat)
    c = f * c_prev + i * h_hat                                   # (Ba 21)
    n = layer_norm(c, g_c, b_c)
    h = o * np.tanh(n)                                           # (Ba 22)
    return np.vstack([h, c])


def lstm_norm_grad(
    d: Array, x: Array, h_prev: Array, c_prev: Array, unit: UnitNorm
) -> tuple[Array, Array, Array, UnitNorm]:
    """dx (E, 1), dh_prev, dc_prev (H, 1) and the weights' gradients, given d = [dh; dc]."""
    W_x, W_h, b, g_x, g_h, g_c, b_c = unit
    y = W_h @ h_prev
    v = W_x @ x
    a = layer_norm(y, g_h, b) + layer_norm(v, g_x, 0 * b)
    a_i, a_f, a_o, a_h_hat = np.split(a, 4)
    i, f, o, h_hat = sigm(a_i), sigm(a_f), sigm(a_o), np.tanh(a_h_hat)
    c = f * c_prev + i * h_hat
    n = layer_norm(c, g_c, b_c)
    dh, dc = np.split(d, 2)
    do = np.tanh(n) * dh                                         # (2.15) on (Ba 22)
    dn = tanh_prime(n) * o * dh                                  # (2.16) on (Ba 22)
    dc_norm, dg_c, db_c = layer_norm_grad(dn, c, g_c, b_c)
    dc = dc + dc_norm                                            # c_t is read twice
    df = c_prev * dc                                             # (2.17) on (Ba 21)
    di = h_hat * dc                                              # (2.17) on (Ba 21)
    dh_hat = i * dc                                              # (2.18) on (Ba 21)
    dc_prev = f * dc                                             # (2.18) on (Ba 21)
    da_i, da_f = sigm_prime(a_i) * di, sigm_prime(a_f) * df      # (2.11) on the gates
    da_o, da_h_hat = sigm_prime(a_o) * do, tanh_prime(a_h_hat) * dh_hat
    da = np.vstack([da_i, da_f, da_o, da_h_hat])
    dy, dg_h, db = layer_norm_grad(da, y, g_h, b)                # a is the sum of two norms
    dv, dg_x, _ = layer_norm_grad(da, v, g_x, 0 * b)
    dW_x, dW_h = dv @ x.T, dy @ h_prev.T                         # (2.14) on W_x x, W_h h_{t-1}
    dx = W_x.T @ dv                                              # (2.13) on W_x x
    dh_prev = W_h.T @ dy                                         # (2.13) on W_h h_{t-1}
    return dx, dh_prev, dc_prev, UnitNorm(dW_x, dW_h, db, dg_x, dg_h, dg_c, db_c)


def lstm_norm_example(request: Request) -> Example:
    """One step's input, state and weights."""
    no_sentence(request)
    H, E = request.sizes.hidden, request.sizes.embedding
    values = draw(request.rng, {
        "W_x": (4 * H, E), "W_h": (4 * H, H), "b": (4 * H, 1), "g_x": (4 * H, 1),
        "g_h": (4 * H, 1), "g_c": (H, 1), "b_c": (H, 1), "x": (E, 1), "h_prev": (H, 1),
        "c_prev": (H, 1), "d": (2 * H, 1)})
    unit = UnitNorm(*(values[name] for name in UnitNorm._fields))
    return Example((values["x"], values["h_prev"], values["c_prev"], unit), upstream=values["d"])


PAIRS = {"lstm_norm_grad.dc_norm": "c in n"}
HERE = "grads.derivations.lstm_norm.lstm_norm_grad"
MISTAKES = {
    "dc only from above": Mistake(
        HERE, "dc = dc + dc_norm", "dc = dc_norm",
        "what c_{t+1} sends back is forgotten: c_t is read by its norm and by the next step."),
    "norm passed through": Mistake(
        HERE, "dx = W_x.T @ dv", "dx = W_x.T @ (g_x * da)",
        "the norm is taken for a gain alone, as if mean and size were constants."),
    "output gate at c": Mistake(
        HERE, "np.tanh(n) * dh", "np.tanh(c) * dh",
        "the gradient of the output gate has c_t where the cell shows the normalised c_t."),
}
DECLARATIONS = (
    Declaration(
        "lstm-norm", "One step of the layer-normalised LSTM", lstm_norm, lstm_norm_grad,
        lstm_norm_example, attentive=False, returns=OUTPUT, mistakes=MISTAKES),
)
