"""The scores of attention (Luong, 2016, 4.2.1; Bahdanau et al., 2015, A.1.2) and global alignment.

A score gives e (S, 1), one number for each source state; its softmax is a_t (S, 1). Each score
stands beside its backward, which takes de and returns the gradients in the order of the arguments.

| here | shape | Luong | Bahdanau |
|---|---|---|---|
| `h` | (H, 1) | h_t, the decoder's top state | s_{i-1}, the decoder's state before |
| `h_bar` | (He, S) | hbar_1 .. hbar_S, one a column | h_1 .. h_Tx, the annotations |
| `W_a` | see each score | W_a | W_a |
| `U_a` | (A, He) |  | U_a |
| `v_a` | (A, 1) | v_a | v_a |
| `e`, `a` | (S, 1) | score, a_t | e_i, alpha_i |

A model's parameters are `attention.W_a`, `attention.U_a` and `attention.v_a` (A,).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from grads.derivations.calculus import Array, softmax, softmax_grad, tanh_prime

CONTENT = (  # they depend on h_bar
    "dot", "scaled-dot", "general", "concat", "concat-identity", "additive")
SCORES = (*CONTENT, "location")


def weight_shapes(
    kind: str, H: int, A: int, L_max: int, He: int | None = None
) -> dict[str, tuple[int, ...]]:
    """The weights of a score by name: h_t is H wide, hbar_s He (H if None), hidden layers A.

    A score without weights takes H = He.
    """
    He = H if He is None else He
    shapes: dict[str, dict[str, tuple[int, ...]]] = {
        "dot": {}, "scaled-dot": {}, "general": {"W_a": (H, He)},
        "concat": {"W_a": (A, H + He), "v_a": (A,)},
        "concat-identity": {"W_a": (He, H), "v_a": (He,)}, "location": {"W_a": (L_max, H)},
        "additive": {"W_a": (A, H), "U_a": (A, He), "v_a": (A,)}}
    return shapes[kind]


# --- content-based scores -----------------------------------------------------------------------


def dot_score(h: Array, h_bar: Array) -> Array:
    """e_s = h_t^T hbar_s, which takes H = He."""
    e = h_bar.T @ h                                              # (4.2.1 dot)
    return e


def dot_score_grad(de: Array, h: Array, h_bar: Array) -> tuple[Array, Array]:
    """dh (H, 1) and dh_bar (H, S)."""
    dh = h_bar @ de                                              # (2.13) on e = hbar^T h
    dh_bar = h @ de.T                                            # (2.14) on e = hbar^T h
    return dh, dh_bar


def scaled_dot_score(h: Array, h_bar: Array) -> Array:
    """e_s = h_t^T hbar_s / sqrt(H), which takes H = He (Vaswani et al., 2017)."""
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
    (footnote 14, erratum 11), which the reported results had and the equation has not.
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


def location_score(h: Array, W_a: Array) -> Array:
    """e (L_max, 1), a number for each row of W_a (L_max, H), whatever S is."""
    e = W_a @ h                                                  # W_a h_t of (4.8)
    return e


def location_score_grad(de: Array, h: Array, W_a: Array) -> tuple[Array, Array]:
    """dh (H, 1) and dW_a (L_max, H)."""
    dh = W_a.T @ de                                              # (2.13) on e = W_a h
    dW_a = de @ h.T                                              # (2.14) on e = W_a h
    return dh, dW_a


def align_location(h: Array, W_a: Array, S: int) -> Array:
    """a_t (S, 1), Eq. 4.8: row s of W_a weighs the s-th word of the source as it is written.

    Of the L_max weights a short sentence uses "only the top part", which is not made to sum to one;
    of a long one the words near the end are ignored (footnote 5, erratum 7).
    """
    align = softmax(location_score(h, W_a))                      # (4.8), (L_max, 1)
    n = min(S, len(align))
    a = np.vstack([align[:n], np.zeros((S - n, 1))])             # the top part  (footnote 5)
    return a


def align_location_grad(da: Array, h: Array, W_a: Array) -> tuple[Array, Array]:
    """dh (H, 1) and dW_a (L_max, H), given da (S, 1)."""
    align = softmax(location_score(h, W_a))
    n = min(len(da), len(align))
    d_align = np.vstack([da[:n], np.zeros((len(align) - n, 1))])  # what is cut off has no gradient
    de = softmax_grad(align, d_align)                            # (4.8): (diag(a) - a a^T) da
    dh, dW_a = location_score_grad(de, h, W_a)
    return dh, dW_a


# --- any score ----------------------------------------------------------------------------------


def score(kind: str, h: Array, h_bar: Array, w: Mapping[str, Array]) -> Array:
    """e (S, 1) of a score of what the states hold.

    Arguments: kind, one of CONTENT; w, its weights among W_a, U_a and v_a, by these names.
    Raises ValueError for a score that is not one of them.
    """
    if kind == "dot":
        return dot_score(h, h_bar)
    if kind == "scaled-dot":
        return scaled_dot_score(h, h_bar)
    if kind == "general":
        return general_score(h, h_bar, w["W_a"])
    if kind == "concat":
        return concat_score(h, h_bar, w["W_a"], w["v_a"])
    if kind == "concat-identity":
        return concat_identity_score(h, h_bar, w["W_a"], w["v_a"])
    if kind == "additive":
        return additive_score(h, h_bar, w["W_a"], w["U_a"], w["v_a"])
    raise ValueError(f"score: expected one of {', '.join(SCORES)}, got {kind!r}")


def score_grad(
    kind: str, de: Array, h: Array, h_bar: Array, w: Mapping[str, Array]
) -> tuple[Array, Array, dict[str, Array]]:
    """dh (H, 1), dh_bar (He, S) and the weights' gradients by name; arguments as in `score`."""
    if kind == "dot":
        dh, dh_bar = dot_score_grad(de, h, h_bar)
        return dh, dh_bar, {}
    if kind == "scaled-dot":
        dh, dh_bar = scaled_dot_score_grad(de, h, h_bar)
        return dh, dh_bar, {}
    if kind == "general":
        dh, dh_bar, dW_a = general_score_grad(de, h, h_bar, w["W_a"])
        return dh, dh_bar, {"W_a": dW_a}
    if kind == "concat":
        dh, dh_bar, dW_a, dv_a = concat_score_grad(de, h, h_bar, w["W_a"], w["v_a"])
        return dh, dh_bar, {"W_a": dW_a, "v_a": dv_a}
    if kind == "concat-identity":
        dh, dh_bar, dW_a, dv_a = concat_identity_score_grad(de, h, h_bar, w["W_a"], w["v_a"])
        return dh, dh_bar, {"W_a": dW_a, "v_a": dv_a}
    if kind == "additive":
        dh, dh_bar, dW_a, dU_a, dv_a = additive_score_grad(
            de, h, h_bar, w["W_a"], w["U_a"], w["v_a"])
        return dh, dh_bar, {"W_a": dW_a, "U_a": dU_a, "v_a": dv_a}
    raise ValueError(f"score: expected one of {', '.join(SCORES)}, got {kind!r}")


# --- global alignment ---------------------------------------------------------------------------


def align_global(kind: str, h: Array, h_bar: Array, w: Mapping[str, Array]) -> Array:
    """a_t (S, 1), Eq. 4.7, or 4.8 for the location; arguments as in `score`."""
    if kind == "location":
        return align_location(h, w["W_a"], h_bar.shape[1])
    e = score(kind, h, h_bar, w)
    a = softmax(e)                                               # (4.7)
    return a


def align_global_grad(
    kind: str, da: Array, h: Array, h_bar: Array, w: Mapping[str, Array]
) -> tuple[Array, Array, dict[str, Array]]:
    """dh (H, 1), dh_bar (He, S) and the weights' gradients by name, given da (S, 1)."""
    if kind == "location":
        dh, dW_a = align_location_grad(da, h, w["W_a"])
        return dh, np.zeros_like(h_bar), {"W_a": dW_a}
    e = score(kind, h, h_bar, w)
    de = softmax_grad(softmax(e), da)                            # (4.7): (diag(a) - a a^T) da
    dh, dh_bar, dw = score_grad(kind, de, h, h_bar, w)
    return dh, dh_bar, dw
