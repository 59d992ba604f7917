"""The gated hidden unit of Bahdanau et al. (2015), A.1.1, A.2.1 and A.2.2: one step, and back.

The reset gate multiplies the state inside the product, U [r o s_{i-1}], and z weighs the new state:
both unlike PyTorch's GRU (erratum 17).

| here | shape | encoder, A.2.1 (-> or <-) | decoder, A.2.2 |
|---|---|---|---|
| `x` | (E, 1) | E x_i, the word's embedding | E y_{i-1} |
| `h_prev`, `h` / `s_prev`, `s` | (H, 1) | h_{i-1}, h_i | s_{i-1}, s_i |
| `h_tilde` / `s_tilde` | (H, 1) | h_i underlined: the proposed state | s~_i |
| `z`, `r` | (H, 1) | z_i, r_i: update and reset gate | z_i, r_i |
| `c` | (He, 1) |  | c_i, the context |
| `W`, `W_z`, `W_r` | (H, E) | W, W_z, W_r | W, W_z, W_r |
| `U`, `U_z`, `U_r` | (H, H) | U, U_z, U_r | U, U_z, U_r |
| `C`, `C_z`, `C_r` | (H, He) |  | C, C_z, C_r |
| `b`, `b_z`, `b_r` | (H, 1) | "we omit all bias terms" | as there |
| `a`, `a_z`, `a_r` | (H, 1) | the arguments of tanh and of the two sigma | as there |

The paper's n is H, its m is E. Biases are an option here: zero unless given. The paper prints no
backward; each line of ours names the thesis's rule and the forward line that it is applied to.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from grads.derivations.calculus import Array, sigm, sigm_prime, tanh_prime
from grads.derivations.declaration import OUTPUT, Declaration
from grads.derivations.errata import Mistake
from grads.derivations.examples import Example, Request, draw, no_sentence


class Unit(NamedTuple):
    """The encoder's weights, or their gradients."""

    W: Array
    W_z: Array
    W_r: Array
    U: Array
    U_z: Array
    U_r: Array
    b: Array | float = 0.0
    b_z: Array | float = 0.0
    b_r: Array | float = 0.0


class ContextUnit(NamedTuple):
    """The decoder's weights, or their gradients."""

    W: Array
    W_z: Array
    W_r: Array
    U: Array
    U_z: Array
    U_r: Array
    C: Array
    C_z: Array
    C_r: Array
    b: Array | float = 0.0
    b_z: Array | float = 0.0
    b_r: Array | float = 0.0


# --- the encoder's unit -------------------------------------------------------------------------


def gru(x: Array, h_prev: Array, unit: Unit) -> Array:
    """h_i (H, 1) from E x_i (E, 1) and the state before (H, 1); A.2.1."""
    W, W_z, W_r, U, U_z, U_r, b, b_z, b_r = unit
    a_r = W_r @ x + U_r @ h_prev + b_r
    r = sigm(a_r)                                                # (Bahdanau A.2.1 reset)
    a_z = W_z @ x + U_z @ h_prev + b_z
    z = sigm(a_z)                                                # (Bahdanau A.2.1 update)
    m = r * h_prev                                               # r_i o h_{i-1}, inside the product
    a = W @ x + U @ m + b
    h_tilde = np.tanh(a)                                         # (Bahdanau A.2.1 candidate)
    h = (1 - z) * h_prev + z * h_tilde                           # (Bahdanau A.2.1 state)
    return h


def gru_grad(dh: Array, x: Array, h_prev: Array, unit: Unit) -> tuple[Array, Array, Unit]:
    """dx (E, 1), dh_prev (H, 1) and the weights' gradients, given dh (H, 1)."""
    W, W_z, W_r, U, U_z, U_r, b, b_z, b_r = unit
    a_r = W_r @ x + U_r @ h_prev + b_r
    r = sigm(a_r)
    a_z = W_z @ x + U_z @ h_prev + b_z
    z = sigm(a_z)
    m = r * h_prev
    a = W @ x + U @ m + b
    h_tilde = np.tanh(a)
    dz = (h_tilde - h_prev) * dh                                 # (2.17) on (Bahdanau A.2.1 state)
    dh_tilde = z * dh                                            # (2.18) on (Bahdanau A.2.1 state)
    da = tanh_prime(a) * dh_tilde                                # (Bahdanau A.2.1 candidate)
    dm = U.T @ da                                                # (2.13) on U m
    dr = h_prev * dm                                             # (2.17) on m = r o h_{i-1}
    da_z = sigm_prime(a_z) * dz                                  # (Bahdanau A.2.1 update)
    da_r = sigm_prime(a_r) * dr                                  # (Bahdanau A.2.1 reset)
    dW, dW_z, dW_r = da @ x.T, da_z @ x.T, da_r @ x.T            # (2.14) on W x, W_z x, W_r x
    dU = da @ m.T                                                # (2.14) on U m
    dU_z, dU_r = da_z @ h_prev.T, da_r @ h_prev.T                # (2.14) on U_z, U_r times h_{i-1}
    dx = W.T @ da + W_z.T @ da_z + W_r.T @ da_r                  # (2.13) on W x, W_z x, W_r x
    dh_prev = ((1 - z) * dh                                      # (2.18) on (1 - z) o h_{i-1}
               + r * dm                                          # (2.18) on m = r o h_{i-1}
               + U_z.T @ da_z + U_r.T @ da_r)                    # (2.13) on U_z, U_r times h_{i-1}
    return dx, dh_prev, Unit(dW, dW_z, dW_r, dU, dU_z, dU_r, da, da_z, da_r)


# --- the decoder's unit -------------------------------------------------------------------------


def gru_context(x: Array, s_prev: Array, c: Array, unit: ContextUnit) -> Array:
    """s_i (H, 1) from E y_{i-1} (E, 1), s_{i-1} (H, 1) and c_i (He, 1); A.1.1 and A.2.2."""
    W, W_z, W_r, U, U_z, U_r, C, C_z, C_r, b, b_z, b_r = unit
    a_r = W_r @ x + U_r @ s_prev + C_r @ c + b_r
    r = sigm(a_r)                                                # (Bahdanau A.2.2 reset)
    a_z = W_z @ x + U_z @ s_prev + C_z @ c + b_z
    z = sigm(a_z)                                                # (Bahdanau A.2.2 update)
    m = r * s_prev                                               # r_i o s_{i-1}, inside the product
    a = W @ x + U @ m + C @ c + b
    s_tilde = np.tanh(a)                                         # (Bahdanau A.2.2 candidate)
    s = (1 - z) * s_prev + z * s_tilde                           # (Bahdanau A.2.2 state)
    return s


def gru_context_grad(
    ds: Array, x: Array, s_prev: Array, c: Array, unit: ContextUnit
) -> tuple[Array, Array, Array, ContextUnit]:
    """dx (E, 1), ds_prev (H, 1), dc (He, 1) and the weights' gradients, given ds (H, 1)."""
    W, W_z, W_r, U, U_z, U_r, C, C_z, C_r, b, b_z, b_r = unit
    a_r = W_r @ x + U_r @ s_prev + C_r @ c + b_r
    r = sigm(a_r)
    a_z = W_z @ x + U_z @ s_prev + C_z @ c + b_z
    z = sigm(a_z)
    m = r * s_prev
    a = W @ x + U @ m + C @ c + b
    s_tilde = np.tanh(a)
    dz = (s_tilde - s_prev) * ds                                 # (2.17) on (Bahdanau A.2.2 state)
    ds_tilde = z * ds                                            # (2.18) on (Bahdanau A.2.2 state)
    da = tanh_prime(a) * ds_tilde                                # (Bahdanau A.2.2 candidate)
    dm = U.T @ da                                                # (2.13) on U m
    dr = s_prev * dm                                             # (2.17) on m = r o s_{i-1}
    da_z = sigm_prime(a_z) * dz                                  # (Bahdanau A.2.2 update)
    da_r = sigm_prime(a_r) * dr                                  # (Bahdanau A.2.2 reset)
    dW, dW_z, dW_r = da @ x.T, da_z @ x.T, da_r @ x.T            # (2.14) on W x, W_z x, W_r x
    dU = da @ m.T                                                # (2.14) on U m
    dU_z, dU_r = da_z @ s_prev.T, da_r @ s_prev.T                # (2.14) on U_z, U_r times s_{i-1}
    dC, dC_z, dC_r = da @ c.T, da_z @ c.T, da_r @ c.T            # (2.14) on C c, C_z c, C_r c
    dx = W.T @ da + W_z.T @ da_z + W_r.T @ da_r                  # (2.13) on W x, W_z x, W_r x
    dc = C.T @ da + C_z.T @ da_z + C_r.T @ da_r                  # (2.13) on C c, C_z c, C_r c
    ds_prev = ((1 - z) * ds                                      # (2.18) on (1 - z) o s_{i-1}
               + r * dm                                          # (2.18) on m = r o s_{i-1}
               + U_z.T @ da_z + U_r.T @ da_r)                    # (2.13) on U_z, U_r times s_{i-1}
    return dx, ds_prev, dc, ContextUnit(
        dW, dW_z, dW_r, dU, dU_z, dU_r, dC, dC_z, dC_r, da, da_z, da_r)


# --- the examples ---------------------------------------------------------------------------------


def gru_example(context: bool, request: Request) -> Example:
    """One step's input, state, context and weights."""
    no_sentence(request)
    H, E = request.sizes.hidden, request.sizes.embedding
    unit = {name: array[:, None] if name.startswith("b") else array
            for name, array in draw(request.rng, unit_shapes(
                H, E, 2 * H if context else 0, request.sizes.biases)).items()}
    values = draw(request.rng, {"x": (E, 1), "h_prev": (H, 1), "c": (2 * H, 1), "dh": (H, 1)})
    inputs = (values["x"], values["h_prev"], *([values["c"]] if context else []))
    weights: Any = ContextUnit(**unit) if context else Unit(**unit)
    return Example((*inputs, weights), upstream=values["dh"])


def unit_shapes(H: int, E: int, He: int, biases: bool) -> dict[str, tuple[int, ...]]:
    """The parameters of a gated unit; He is 0 without a context."""
    shapes: dict[str, tuple[int, ...]] = {}
    for name, width in (("W", E), ("U", H), ("C", He)):
        shapes |= {f"{name}{gate}": (H, width) for gate in ("", "_z", "_r") if width}
    return shapes | ({f"b{gate}": (H,) for gate in ("", "_z", "_r")} if biases else {})


HERE = "grads.derivations.gru"
OUTSIDE = {"reset gate outside": Mistake(
    f"{HERE}.gru_grad", "dm = U.T @ da", "dm = U.T @ (r * da)",
    "m = r o h_{i-1} is differentiated as if r stood outside the product.")}
MISTAKES = {
    "update gates swapped": Mistake(
        f"{HERE}.gru_grad", "dh_tilde = z * dh", "dh_tilde = (1 - z) * dh",
        "z and 1 - z change places, as between papers (erratum 17)."),
    **OUTSIDE,
    "state kept is forgotten": Mistake(
        f"{HERE}.gru_grad", "((1 - z) * dh ", "(0 * dh ",
        "(1 - z) o h_{i-1} left out of dh_{i-1}."),
}
CONTEXT_MISTAKES = {
    "update gates swapped": Mistake(
        f"{HERE}.gru_context_grad", "ds_tilde = z * ds", "ds_tilde = (1 - z) * ds",
        "z and 1 - z change places, as between papers (erratum 17)."),
    "context read once": Mistake(
        f"{HERE}.gru_context_grad", "dc = C.T @ da + C_z.T @ da_z + C_r.T @ da_r",
        "dc = C.T @ da + 0 * (C_z.T @ da_z + C_r.T @ da_r)",
        "c_i gets its gradient through the candidate only, not through the gates."),
    "state kept is forgotten": Mistake(
        f"{HERE}.gru_context_grad", "((1 - z) * ds ", "(0 * ds ",
        "(1 - z) o s_{i-1} left out of ds_{i-1}."),
}
DECLARATIONS = (
    Declaration(
        "gru", "One step of the gated hidden unit, Bahdanau et al. A.2.1", gru, gru_grad,
        partial(gru_example, False), attentive=False, returns=OUTPUT, gates=("",),
        mistakes=MISTAKES),
    Declaration(
        "gru-context", "One step of the gated hidden unit with a context, Bahdanau et al. A.2.2",
        gru_context, gru_context_grad, partial(gru_example, True), attentive=False, returns=OUTPUT,
        mistakes=CONTEXT_MISTAKES),
)
