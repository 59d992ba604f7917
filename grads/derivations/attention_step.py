"""One step of attention in any variant of chapter 4 (Luong, 2016): every score, global or local.

h_t -> a_t -> c_t -> h~_t: a `Variant` says how a_t is made (`grads.derivations.scores`, `.local`);
context and attentional vector are the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from grads.derivations.calculus import Array, tanh_prime
from grads.derivations.declaration import OUTPUT_FIRST, Declaration
from grads.derivations.errata import Mistake
from grads.derivations.examples import (
    SCORED,
    Example,
    Request,
    draw,
    no_sentence,
    score_shapes,
)
from grads.derivations.local import (
    align_local_m,
    align_local_m_grad,
    align_local_p,
    align_local_p_grad,
    align_renormalised,
    align_renormalised_grad,
)
from grads.derivations.scores import Variant, align_global, align_global_grad

PREFIX = "attention."
COLUMNS = ("v_a", "v_p")  # vectors among the parameters, columns in an equation


# --- parameters ---------------------------------------------------------------------------------


def weights_of(parameters: Mapping[str, Array], prefix: str = PREFIX) -> dict[str, Array]:
    """The weights of score and position by their names in the equations, vectors as columns."""
    names = [name for name in ("W_a", "U_a", "v_a", "W_p", "v_p") if prefix + name in parameters]
    return {name: parameters[prefix + name][:, None] if name in COLUMNS
            else parameters[prefix + name] for name in names}


def parameters_of(dw: Mapping[str, Array], prefix: str = PREFIX) -> dict[str, Array]:
    """Gradients by the parameters' names and in their shapes: the inverse of `weights_of`."""
    return {prefix + name: d[:, 0] if name in COLUMNS else d for name, d in dw.items()}


# --- a_t ----------------------------------------------------------------------------------------


class Alignment(NamedTuple):
    """How a_t is computed from h_t and the source states, and the backward."""

    forward: Callable[..., Array]
    backward: Callable[..., tuple[Array, Array, dict[str, Array]]]


ALIGNMENTS = {  # by window, and whether a_t is renormalised
    ("global", False): Alignment(align_global, align_global_grad),
    ("local-m", False): Alignment(align_local_m, align_local_m_grad),
    ("local-p", False): Alignment(align_local_p, align_local_p_grad),
    ("local-p", True): Alignment(align_renormalised, align_renormalised_grad),
}


def kind_of(variant: Variant) -> tuple[str, bool]:
    """The key of ALIGNMENTS. Raises ValueError for an unknown variant."""
    kind = variant.window, variant.renormalise
    if kind not in ALIGNMENTS:
        windows = ", ".join(window for window, again in ALIGNMENTS if again == kind[1])
        raise ValueError(f"window: expected one of {windows}"
                         f"{' to be renormalised' * kind[1]}, got {variant.window!r}")
    return kind


def align(
    variant: Variant, h: Array, h_bar: Array, w: Mapping[str, Array], t: int = 1
) -> Array:
    """a_t (S, 1).

    Arguments: h (H, 1); h_bar (He, S), in the order of the written words; w as in `weights_of`; t,
    the time step from 1, for local-m.
    Raises ValueError for an unknown variant.
    """
    return ALIGNMENTS[kind_of(variant)].forward(variant, h, h_bar, w, t)


def align_grad(
    variant: Variant, da: Array, h: Array, h_bar: Array, w: Mapping[str, Array], t: int = 1
) -> tuple[Array, Array, dict[str, Array]]:
    """dh (H, 1), dh_bar (He, S) and the gradients of w by name, given da (S, 1)."""
    return ALIGNMENTS[kind_of(variant)].backward(variant, da, h, h_bar, w, t)


# --- the step -----------------------------------------------------------------------------------


def attend(
    variant: Variant, h: Array, h_bar: Array, W_c: Array, w: Mapping[str, Array], t: int = 1
) -> tuple[Array, Array, Array]:
    """h~_t (H, 1), a_t (S, 1) and c_t (He, 1); W_c (H, He + H), the rest as in `align`."""
    a = align(variant, h, h_bar, w, t)                           # (4.7), (4.8), (4.10)
    c = h_bar @ a                                                # (4.2.1 context)
    v = W_c @ np.vstack([c, h])                                  # W_c [c_t; h_t]
    h_tilde = np.tanh(v)                                         # (4.5)
    return h_tilde, a, c


def attend_grad(
    variant: Variant, dh_tilde: Array, h: Array, h_bar: Array, W_c: Array, w: Mapping[str, Array],
    t: int = 1, dc_seed: Array | float = 0.0, da_seed: Array | float = 0.0,
) -> tuple[Array, Array, Array, dict[str, Array]]:
    """dh_t (H, 1), dh_bar (He, S), dW_c and the gradients of w by name, given dh~_t (H, 1).

    dc_seed, da_seed: further gradients of c_t (He, 1) and a_t (S, 1), from other readers, as in Eq.
    5.6 and in Nguyen's lexical module.
    """
    a = align(variant, h, h_bar, w, t)
    c = h_bar @ a
    v = W_c @ np.vstack([c, h])
    dv = tanh_prime(v) * dh_tilde                                # tanh' o dh~_t of (4.5)
    dW_c = dv @ np.vstack([c, h]).T                              # (2.12) on (4.5)
    dc_joined, dh_joined = np.split(W_c.T @ dv, [len(c)])        # (2.11) on (4.5)
    dc = dc_joined + dc_seed                                     # read by W_c, and by W' of (5.6)
    da = h_bar.T @ dc + da_seed                                  # (2.13) on (4.2.1 context)
    dh_bar_context = dc @ a.T                                    # (2.14) on (4.2.1 context)
    dh_align, dh_bar_align, dw = align_grad(                     # (4.7), (4.8), (4.10)
        variant, da, h, h_bar, w, t)
    dh = dh_joined + dh_align                                    # h_t is joined to c_t, and attends
    dh_bar = dh_bar_context + dh_bar_align                       # hbar_s is averaged, and a key
    return dh, dh_bar, dW_c, dw


# --- the example ----------------------------------------------------------------------------------


def attention_step_example(request: Request) -> Example:
    """h_t, four source states and weights; t = 2."""
    no_sentence(request)
    sizes, H = request.sizes, request.sizes.hidden
    values = draw(request.rng, {"h": (H, 1), "h_bar": (H, 4), "W_c": (H, 2 * H),
                                "dh_tilde": (H, 1)})
    w = weights_of(draw(request.rng, score_shapes(sizes)))
    return Example((sizes.variant, values["h"], values["h_bar"], values["W_c"], w, 2),
                   upstream=values["dh_tilde"])


PAIRS = {"attend_grad.dc_joined": "c in v", "attend_grad.dh_joined": "h in v",
         "attend_grad.dh_bar_context": "h_bar in c"}
HERE = "grads.derivations"
NO_JACOBIAN = {"softmax without p p^T": Mistake(
    f"{HERE}.calculus.softmax_grad", "p * dp - p * (p.T @ dp)", "p * dp",
    "the second term of the softmax's Jacobian is left out.")}
MISTAKES = {
    **NO_JACOBIAN,
    "joined state forgotten": Mistake(
        f"{HERE}.attention_step.attend_grad", "dh_joined + dh_align", "dh_align",
        "h_t gets its gradient through a_t only, not through [c_t; h_t]."),
    "tanh' at the output": Mistake(
        f"{HERE}.attention_step.attend_grad", "tanh_prime(v)", "tanh_prime(np.tanh(v))",
        "tanh'(h~_t) for tanh'(W_c [c_t; h_t])."),
}
DECLARATIONS = (Declaration(
    "attention-step", "One step of attention, {score}, {window}", attend, attend_grad,
    attention_step_example, None, SCORED, attentive=False, returns=OUTPUT_FIRST, recurrent=False,
    mistakes=MISTAKES),)
