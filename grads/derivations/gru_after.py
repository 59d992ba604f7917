"""The gated unit of PyTorch, cuDNN, Keras and ONNX, whose reset gate stands after the product: one
step, and back.

r, z and h are Cho et al. (2014), their Equations 5 to 7. The candidate is cuDNN's: their Equation
8, and Bahdanau et al., have U [r o h_prev], which is `gru` (erratum 17).

| here | shape | Cho et al. | PyTorch |
|---|---|---|---|
| `x` | (E, 1) | x | x_t |
| `h_prev`, `h` | (H, 1) | h^{<t-1>}, h^{<t>} | h_{t-1}, h_t |
| `h_tilde` | (H, 1) | h~^{<t>} | n_t |
| `z`, `r` | (H, 1) | z, r | z_t, r_t |
| `m` | (H, 1) |  | W_hn h_{t-1} + b_hn |
| `W_r`, `W_z`, `W` | (H, E) | W_r, W_z, W | W_ir, W_iz, W_in |
| `U_r`, `U_z`, `U` | (H, H) | U_r, U_z, U | W_hr, W_hz, W_hn |
| `b_r`, `b_z` | (H, 1) | omitted | b_ir + b_hr, b_iz + b_hz |
| `b`, `b_m` | (H, 1) |  | b_in, b_hn |

Biases are zero unless given. Each line of the backward names the thesis's rule and the forward line
that it is applied to.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grads.derivations.calculus import Array, sigm, sigm_prime, tanh_prime
from grads.derivations.declaration import OUTPUT, Declaration
from grads.derivations.errata import Mistake
from grads.derivations.examples import Example, Request, draw, no_sentence
from grads.derivations.gru import unit_shapes


class UnitAfter(NamedTuple):
    """The weights, or their gradients."""

    W: Array
    W_z: Array
    W_r: Array
    U: Array
    U_z: Array
    U_r: Array
    b: Array | float = 0.0
    b_z: Array | float = 0.0
    b_r: Array | float = 0.0
    b_m: Array | float = 0.0


def gru_after(x: Array, h_prev: Array, unit: UnitAfter) -> Array:
    """h_t (H, 1) from x_t (E, 1) and the state before (H, 1)."""
    W, W_z, W_r, U, U_z, U_r, b, b_z, b_r, b_m = unit
    a_r = W_r @ x + U_r @ h_prev + b_r
    r = sigm(a_r)                                                # (Cho 5)
    a_z = W_z @ x + U_z @ h_prev + b_z
    z = sigm(a_z)                                                # (Cho 6)
    m = U @ h_prev + b_m                                         # the product, then the reset gate
    a = W @ x + b + r * m                                        # cuDNN
    h_tilde = np.tanh(a)                                         # cuDNN
    h = z * h_prev + (1 - z) * h_tilde                           # (Cho 7)
    return h


def gru_after_grad(
    dh: Array, x: Array, h_prev: Array, unit: UnitAfter
) -> tuple[Array, Array, UnitAfter]:
    """dx (E, 1), dh_prev (H, 1) and the weights' gradients, given dh (H, 1)."""
    W, W_z, W_r, U, U_z, U_r, b, b_z, b_r, b_m = unit
    a_r = W_r @ x + U_r @ h_prev + b_r
    r = sigm(a_r)
    a_z = W_z @ x + U_z @ h_prev + b_z
    z = sigm(a_z)
    m = U @ h_prev + b_m
    a = W @ x + b + r * m
    h_tilde = np.tanh(a)
    dz = (h_prev - h_tilde) * dh                                 # (2.17) on (Cho 7)
    dh_tilde = (1 - z) * dh                                      # (2.18) on (Cho 7)
    da = tanh_prime(a) * dh_tilde                                # (2.11) on h_tilde = tanh(a)
    dr = m * da                                                  # (2.17) on r o m
    dm = r * da                                                  # (2.18) on r o m
    da_z = sigm_prime(a_z) * dz                                  # (2.11) on (Cho 6)
    da_r = sigm_prime(a_r) * dr                                  # (2.11) on (Cho 5)
    dW, dW_z, dW_r = da @ x.T, da_z @ x.T, da_r @ x.T            # (2.14) on W x, W_z x, W_r x
    dU = dm @ h_prev.T                                           # (2.14) on U h_{t-1}
    dU_z, dU_r = da_z @ h_prev.T, da_r @ h_prev.T                # (2.14) on U_z, U_r times h_{t-1}
    dx = W.T @ da + W_z.T @ da_z + W_r.T @ da_r                  # (2.13) on W x, W_z x, W_r x
    dh_prev = (z * dh                                            # (2.18) on z o h_{t-1}
               + U.T @ dm                                        # (2.13) on U h_{t-1}
               + U_z.T @ da_z + U_r.T @ da_r)                    # (2.13) on U_z, U_r times h_{t-1}
    return dx, dh_prev, UnitAfter(dW, dW_z, dW_r, dU, dU_z, dU_r, da, da_z, da_r, dm)


def gru_after_example(request: Request) -> Example:
    """One step's input, state and weights."""
    no_sentence(request)
    H, E, biases = request.sizes.hidden, request.sizes.embedding, request.sizes.biases
    shapes = unit_shapes(H, E, 0, biases) | ({"b_m": (H,)} if biases else {})
    unit = {name: array[:, None] if name.startswith("b") else array
            for name, array in draw(request.rng, shapes).items()}
    values = draw(request.rng, {"x": (E, 1), "h_prev": (H, 1), "dh": (H, 1)})
    return Example((values["x"], values["h_prev"], UnitAfter(**unit)), upstream=values["dh"])


HERE = "grads.derivations.gru_after"
MISTAKES = {
    "update gates swapped": Mistake(
        f"{HERE}.gru_after_grad", "dh_tilde = (1 - z) * dh", "dh_tilde = z * dh",
        "z and 1 - z change places, as between papers (erratum 17)."),
    "reset gate inside": Mistake(
        f"{HERE}.gru_after_grad", "dU = dm @ h_prev.T", "dU = da @ (r * h_prev).T",
        "U gets its gradient as if r stood inside the product."),
    "state kept is forgotten": Mistake(
        f"{HERE}.gru_after_grad", "(z * dh ", "(0 * dh ",
        "z o h_{t-1} left out of dh_{t-1}."),
}
DECLARATIONS = (
    Declaration(
        "gru-after", "One step of the gated unit of PyTorch, cuDNN, Keras and ONNX", gru_after,
        gru_after_grad, gru_after_example, attentive=False, returns=OUTPUT, mistakes=MISTAKES),
)
