"""The scores of attention (Luong, 2016, 4.2.1; Bahdanau et al., 2015, A.1.2) and global alignment.

A score gives e (S, 1), one number for each source state; its softmax is a_t (S, 1). Each score
is next to its backward, which takes de and returns the gradients in the order of the arguments.

| here | shape | Luong | Bahdanau |
|---|---|---|---|
| `h` | (H, 1) | h_t, the decoder's top state | s_{i-1}, the decoder's state before |
| `h_bar` | (He, S) | hbar_1 .. hbar_S, one per column | h_1 .. h_Tx, the annotations |
| `W_a` | see each score | W_a | W_a |
| `U_a` | (A, He) |  | U_a |
| `v_a` | (A, 1) | v_a | v_a |
| `e`, `a` | (S, 1) | score, a_t | e_i, alpha_i |

A model's parameters are `attention.W_a`, `attention.U_a` and `attention.v_a` (A,).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from grads.derivations.calculus import Array, softmax, softmax_grad, tanh_prime


class Variant(NamedTuple):
    """The attention variant: how a_t is computed from h_t and the source states."""

    score: str = "general"  # one of SCORES
    window: str = "global"  # "global", "local-m" or "local-p"
    D: int = 10  # half the window; 4.3.1
    reverse: bool = False  # whether the encoder read the source in reverse (erratum 9)
    renormalise: bool = False  # local-p: whether a_t is divided by its sum (erratum 8)


# --- content-based scores -----------------------------------------------------------------------


def dot_score(h: Array, h_bar: Array) -> Array:
    """e_s = h_t^T hbar_s, which needs H = He."""
    e = h_bar.T @ h                                              # (4.2.1 dot)
    return e


def dot_score_grad(de: Array, h: Array, h_bar: Array) -> tuple[Array, Array]:
    """dh (H, 1) and dh_bar (H, S)."""
    dh = h_bar @ de                                              # (2.13) on e = hbar^T h
    dh_bar = h @ de.T                                            # (2.14) on e = hbar^T h
    return dh, dh_bar


def scaled_dot_score(h: Array, h_bar: Array) -> Array:
    """e_s = h_t^T hbar_s / sqrt(H), which needs H = He (Vaswani et al., 2017)."""
    e = h_bar.T @ h / len(h) ** 0.5                              # (Nguyen 1.8)
    return e


def scaled_dot_score_grad(de: Array, h: Array, h_bar: Array) -> tuple[Array, Array]:
    """dh (H, 1) and dh_bar (H, S)."""
    dh = h_bar @ de / len(h) ** 0.5                              # (2.13) on e = hbar^T h / sqrt(H)
    dh_bar = h @ de.T / len(h) ** 0.5                            # (2.14) on e = hbar^T h / sqrt(H)
    return dh, dh_bar


def general_score(h: Array, h_bar: Array, W_a: Array) -> Array:
    """e_s = h_t^T W_a hbar_s; W_a (H, He)."""
    k = W_a @ h_bar                                              # W_a hbar_s, (H, S)
    e = k.T @ h                                                  # (4.2.1 general)
    return e


def general_score_grad(
    de: Array, h: Array, h_bar: Array, W_a: Array
) -> tuple[Array, Array, Array]:
    """dh (H, 1), dh_bar (He, S) and dW_a (H, He)."""
    k = W_a @ h_bar
    dh = k @ de                                                  # (2.13) on e = k^T h
    dk = h @ de.T                                                # (2.14) on e = k^T h
    dh_bar = W_a.T @ dk                                          # (2.13) on k = W_a hbar
    dW_a = dk @ h_bar.T                                          # (2.14) on k = W_a hbar
    return dh, dh_bar, dW_a


def concat_score(h: Array, h_bar: Array, W_a: Array, v_a: Array) -> Array:
    """e_s = v_a^T tanh(W_a [h_t; hbar_s]); W_a (A, H + He), v_a (A, 1)."""
    z = np.vstack([np.repeat(h, h_bar.shape[1], axis=1), h_bar])  # [h_t; hbar_s], (H + He, S)
    u = W_a @ z                                                  # (A, S)
    e = np.tanh(u).T @ v_a                                       # (4.2.1 concat)
    return e


def concat_score_grad(
    de: Array, h: Array, h_bar: Array, W_a: Array, v_a: Array
) -> tuple[Array, Array, Array, Array]:
    """dh (H, 1), dh_bar (He, S), dW_a (A, H + He) and dv_a (A, 1)."""
    z = np.vstack([np.repeat(h, h_bar.shape[1], axis=1), h_bar])  # [h_t; hbar_s]
    u = W_a @ z
    dv_a = np.tanh(u) @ de                                       # (2.13) on e = tanh(u)^T v_a
    du = tanh_prime(u) * (v_a @ de.T)                            # (2.14) on it, then tanh'
    dW_a = du @ z.T                                              # (2.14) on u = W_a z
    dz = W_a.T @ du                                              # (2.13) on u = W_a z
    dh = dz[: len(h)].sum(axis=1, keepdims=True)                 # h_t stands in every column
    dh_bar = dz[len(h) :]
    return dh, dh_bar, dW_a, dv_a


def concat_identity_score(h: Array, h_bar: Array, W_a: Array, v_a: Array) -> Array:
    """e_s = v_a^T tanh(W_a h_t + hbar_s); W_a (He, H), v_a (He, 1).

    The score concat with W_a = [W_a I]: the part that belongs to hbar_s is fixed to the identity
    (footnote 14, erratum 11), as in the reported results but not in the equation.
    """
    q = W_a @ h                                                  # (He, 1)
    u = q + h_bar                                                # (He, S)
    e = np.tanh(u).T @ v_a                                       # (4.2.1 concat), footnote 14
    return e


def concat_identity_score_grad(
    de: Array, h: Array, h_bar: Array, W_a: Array, v_a: Array
) -> tuple[Array, Array, Array, Array]:
    """dh (H, 1), dh_bar (He, S), dW_a (He, H) and dv_a (He, 1)."""
    u = W_a @ h + h_bar
    dv_a = np.tanh(u) @ de                                       # (2.13) on e = tanh(u)^T v_a
    du = tanh_prime(u) * (v_a @ de.T)                            # (2.14) on it, then tanh'
    dq = du.sum(axis=1, keepdims=True)                           # q stands in every column of u
    dW_a = dq @ h.T                                              # (2.14) on q = W_a h
    dh = W_a.T @ dq                                              # (2.13) on q = W_a h
    dh_bar = du
    return dh, dh_bar, dW_a, dv_a


def additive_score(h: Array, h_bar: Array, W_a: Array, U_a: Array, v_a: Array) -> Array:
    """e_ij = v_a^T tanh(W_a s_{i-1} + U_a h_j); W_a (A, H), U_a (A, He), v_a (A, 1)."""
    q = W_a @ h                                                  # (A, 1)
    u = q + U_a @ h_bar                                          # (A, S)
    e = np.tanh(u).T @ v_a                                       # (Bahdanau A.1.2 score)
    return e


def additive_score_grad(
    de: Array, h: Array, h_bar: Array, W_a: Array, U_a: Array, v_a: Array
) -> tuple[Array, Array, Array, Array, Array]:
    """dh (H, 1), dh_bar (He, S), dW_a (A, H), dU_a (A, He) and dv_a (A, 1)."""
    u = W_a @ h + U_a @ h_bar
    dv_a = np.tanh(u) @ de                                       # (2.13) on e = tanh(u)^T v_a
    du = tanh_prime(u) * (v_a @ de.T)                            # (2.14) on it, then tanh'
    dq = du.sum(axis=1, keepdims=True)                           # q stands in every column of u
    dU_a = du @ h_bar.T                                          # (2.14) on U_a hbar
    dW_a = dq @ h.T                                              # (2.14) on q = W_a h
    dh_bar = U_a.T @ du                                          # (2.13) on U_a hbar
    dh = W_a.T @ dq                                              # (2.13) on q = W_a h
    return dh, dh_bar, dW_a, dU_a, dv_a


# --- location -----------------------------------------------------------------------------------


def location_score(h: Array, h_bar: Array, W_a: Array) -> Array:
    """e (L_max, 1), a number for each row of W_a (L_max, H), independent of h_bar.

    Row s belongs to the s-th word of the source in written order (erratum 7).
    """
    e = W_a @ h                                                  # W_a h_t of (4.8)
    return e


def location_score_grad(
    de: Array, h: Array, h_bar: Array, W_a: Array
) -> tuple[Array, Array, Array]:
    """dh (H, 1), dh_bar (He, S), which is zero, and dW_a (L_max, H)."""
    dh = W_a.T @ de                                              # (2.13) on e = W_a h
    dW_a = de @ h.T                                              # (2.14) on e = W_a h
    return dh, np.zeros_like(h_bar), dW_a


# --- any score ----------------------------------------------------------------------------------


class Score(NamedTuple):
    """A score, its backward, and the weights that both take after h and h_bar."""

    forward: Callable[..., Array]
    backward: Callable[..., tuple[Array, ...]]
    weights: Mapping[str, tuple[str, ...]] = {}  # name -> sizes of its axes, as in `weight_shapes`


CONTENT = {  # they depend on h_bar
    "dot": Score(dot_score, dot_score_grad),
    "scaled-dot": Score(scaled_dot_score, scaled_dot_score_grad),
    "general": Score(general_score, general_score_grad, {"W_a": ("H", "He")}),
    "concat": Score(concat_score, concat_score_grad, {"W_a": ("A", "H + He"), "v_a": ("A",)}),
    "concat-identity": Score(
        concat_identity_score, concat_identity_score_grad, {"W_a": ("He", "H"), "v_a": ("He",)}),
    "additive": Score(additive_score, additive_score_grad,
                      {"W_a": ("A", "H"), "U_a": ("A", "He"), "v_a": ("A",)}),
}
SCORES = {**CONTENT,
          "location": Score(location_score, location_score_grad, {"W_a": ("L_max", "H")})}


def weight_shapes(
    kind: str, H: int, A: int, L_max: int, He: int | None = None
) -> dict[str, tuple[int, ...]]:
    """The weights of a score by name: h_t is H wide, hbar_s He (H if None), hidden layers A.

    A score without weights needs H = He.
    """
    sizes = {"H": H, "A": A, "L_max": L_max, "He": H if He is None else He}
    return {name: tuple(sum(sizes[size] for size in axis.split(" + ")) for axis in axes)
            for name, axes in SCORES[kind].weights.items()}


def require(kind: str, known: Mapping[str, Score], where: str = "") -> None:
    """Raise ValueError unless a score is among those known."""
    if kind not in known:
        raise ValueError(f"score: expected one of {', '.join(known)}{where}, got {kind!r}")


def score(kind: str, h: Array, h_bar: Array, w: Mapping[str, Array]) -> Array:
    """e (S, 1), or (L_max, 1) for the location.

    Arguments: kind, one of SCORES; w, its weights among W_a, U_a and v_a, by these names.
    Raises ValueError for a score that is not one of them.
    """
    require(kind, SCORES)
    return SCORES[kind].forward(h, h_bar, *(w[name] for name in SCORES[kind].weights))


def score_grad(
    kind: str, de: Array, h: Array, h_bar: Array, w: Mapping[str, Array]
) -> tuple[Array, Array, dict[str, Array]]:
    """dh (H, 1), dh_bar (He, S) and the weights' gradients by name; arguments as in `score`."""
    return by_weight(kind, *SCORES[kind].backward(
        de, h, h_bar, *(w[name] for name in SCORES[kind].weights)))


def by_weight(
    kind: str, dh: Array, dh_bar: Array, *dw: Array
) -> tuple[Array, Array, dict[str, Array]]:
    """A score's gradients with those of its weights by name."""
    return dh, dh_bar, dict(zip(SCORES[kind].weights, dw, strict=True))


# --- global alignment ---------------------------------------------------------------------------


def align_global(
    variant: Variant, h: Array, h_bar: Array, w: Mapping[str, Array], t: int = 1
) -> Array:
    """a_t (S, 1), Eq. 4.7, or 4.8 for the location; w as in `score`.

    Of the location score's L_max weights a short sentence uses "only the top part", which is not
    renormalised; in a long sentence the words near the end are ignored (footnote 5, erratum 7). The
    other scores have a weight for each word, and the top part is all of them.
    """
    e = score(variant.score, h, h_bar, w)
    align = softmax(e)                                           # (4.7), (4.8)
    K = np.eye(h_bar.shape[1], len(align))                       # the top part (footnote 5)
    a = K @ align
    return a


def align_global_grad(
    variant: Variant, da: Array, h: Array, h_bar: Array, w: Mapping[str, Array], t: int = 1
) -> tuple[Array, Array, dict[str, Array]]:
    """dh (H, 1), dh_bar (He, S) and the weights' gradients by name, given da (S, 1)."""
    e = score(variant.score, h, h_bar, w)
    align = softmax(e)
    K = np.eye(h_bar.shape[1], len(align))
    d_align = K.T @ da                                           # (2.13) on a = K align
    de = softmax_grad(align, d_align)                            # (4.7): (diag(a) - a a^T) da
    dh, dh_bar, dw = score_grad(variant.score, de, h, h_bar, w)
    return dh, dh_bar, dw
