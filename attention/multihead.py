"""Multi-head attention (Vaswani et al., 2017; Nguyen Eqs. 1.7-1.12), for all heads and steps.

| here | Nguyen |
|---|---|
| x (T, B, d), the queries' states | X in self-attention, Y if the decoder attends to X |
| memory (S, B, d), the keys' and values' states | X |
| `W_q`, `W_k`, `W_v` (d, d) | transposed, W_i^Q, W_i^K, W_i^V of all heads below one another |
| `W_o` (d, d) | W^O transposed |
| n heads of width d_k = d / n | the same |

Biases `b_q`, `b_v`, `b_o`, which are not printed, are those of the author's code. Its fourth bias,
of the keys, is left out: it adds q' b_k to all scores of a step, which does not change the softmax,
so its gradient is zero. A head is a block of columns of (T, B, d). Therefore all n B heads are one
batched product (n B, T, d_k) over a view, and nothing is copied. The weights align (B n, T, S) are
kept, and with dropout also their mask.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from attention.linear import linear_backward, linear_forward
from attention.scores import softmax_backward, softmax_forward
from backend import Array, array_module, to_device
from backend.fused import fused
from backend.fused import softmax as kernels
from lstm.parameters import Initial, Parameters, Weight, axis, zeros

MAPS = ("q", "k", "v", "o")


class HeadsCache(NamedTuple):
    q: Array  # (T, B, d)
    k: Array  # (S, B, d)
    v: Array  # (S, B, d)
    align: Array  # (B n, T, S), before dropout
    mask: Array | None  # (B n, T, S), of dropout
    heads: int


class MultiheadCache(NamedTuple):
    prefix: str
    parameters: Mapping[str, Array]
    x: Array  # (T, B, d)
    memory: Array  # (S, B, d)
    heads: HeadsCache
    context: Array  # (T, B, d), of all heads side by side


# --- masks ----------------------------------------------------------------------------------------


def causal_mask(steps: int) -> Array:
    """(1, T, T) bool, True where the word s comes after the state t: s > t."""
    place = np.arange(steps)
    return to_device((place > place[:, None])[None])


# --- the heads ------------------------------------------------------------------------------------


def heads_forward(
    q: Array, k: Array, v: Array, heads: int, masked: Array | None = None,
    mask: Array | None = None,
) -> tuple[Array, HeadsCache]:
    """H_i = softmax(Q K' / sqrt(d_k)) V of each head (Nguyen Eq. 1.8), side by side.

    Arguments: q (T, B, d); k, v (S, B, d); masked, bool, True where nothing is attended to:
    (B, 1, S) from `padding_mask`, (1, T, S) from `causal_mask`, or None; no row all masked. mask
    (B n, T, S), dropout of the weights, or None. Returns (T, B, d), and what the backward reads.
    """
    xp, (T, B, d) = array_module(q, k, v), q.shape
    q_i, k_i, v_i = (by_heads(x, heads) for x in (q, k, v))                # (B n, ., d_k)
    e = xp.matmul(q_i, k_i.transpose(0, 2, 1))                             # (B n, T, S)
    scale = (d // heads) ** -0.5
    align, dropped = heads_softmax_forward(e, scale, masked, mask)         # (Nguyen 1.8)
    c = xp.empty((T, B, d), dtype=align.dtype)
    xp.matmul(dropped, v_i, out=by_heads(c, heads))
    return c, HeadsCache(q, k, v, align, mask, heads)


def heads_backward(dc: Array, cache: HeadsCache) -> tuple[Array, Array, Array]:
    """dq (T, B, d), dk and dv (S, B, d), given dc (T, B, d)."""
    q, k, v, align, mask, heads = cache
    xp, scale = array_module(dc, align), (q.shape[2] // heads) ** -0.5
    q_i, k_i, v_i, dc_i = (by_heads(x, heads) for x in (q, k, v, dc))
    dq, dk, dv = (xp.empty(x.shape, dtype=dc.dtype) for x in (q, k, v))
    dropped = align if mask is None else align * mask
    xp.matmul(dropped.transpose(0, 2, 1), dc_i, out=by_heads(dv, heads))   # (2.13) on H = A V
    d_align = xp.matmul(dc_i, v_i.transpose(0, 2, 1))                      # (2.14) on H = A V
    de = heads_softmax_backward(d_align, align, scale, mask)
    xp.matmul(de, k_i, out=by_heads(dq, heads))                            # (2.14) on Q K'
    xp.matmul(de.transpose(0, 2, 1), q_i, out=by_heads(dk, heads))         # (2.13) on Q K'
    return dq, dk, dv


def by_heads(x: Array, heads: int) -> Array:
    """The heads of x (T, B, d) as a view (B n, T, d_k). A head has adjacent columns of x."""
    T, B, d = x.shape
    return x.reshape(T, B * heads, d // heads).transpose(1, 0, 2)


@fused(kernels.heads_softmax_forward)
def heads_softmax_forward(
    e: Array, scale: float, masked: Array | None, mask: Array | None
) -> tuple[Array, Array]:
    """align = softmax(scale e) over the last axis, zero where masked; and align with dropout
    (Nguyen 1.8).

    Arguments: e (B n, T, S), overwritten by align; masked and mask as in `heads_forward`. Padding
    is the same for all heads and steps of a sentence. Then e is viewed as (B, n T, S).
    """
    e *= scale
    rows = e if masked is None or masked.shape[0] == 1 else e.reshape(len(masked), -1, e.shape[2])
    softmax_forward(rows, masked)
    return e, e if mask is None else e * mask


@fused(kernels.heads_softmax_backward)
def heads_softmax_backward(d_align: Array, align: Array, scale: float, mask: Array | None) -> Array:
    """de, in place of d_align, the gradient of align with dropout; all (B n, T, S)."""
    if mask is not None:
        d_align *= mask
    de = softmax_backward(d_align, align)
    de *= scale
    return de


# --- with its maps --------------------------------------------------------------------------------


def multihead_weights(prefix: str, width: int, heads: int, initial: Initial) -> dict[str, Weight]:
    """`{prefix}.W_q`, `.W_k`, `.W_v`, `.W_o` (d, d), d = width, and their biases, which start at 0.

    initial: of each matrix. Raises ValueError for heads that do not divide the width.
    """
    if heads < 1 or width % heads:
        raise ValueError(f"heads: expected a divisor of the width {width}, got {heads}")
    of_heads = axis("head", {f"head {i + 1}": width // heads for i in range(heads)})
    inner, outer = (of_heads, axis("input", width)), (axis("unit", width), of_heads)
    weights: dict[str, Weight] = {}
    for name in MAPS:
        axes = outer if name == "o" else inner
        weights[f"{prefix}.W_{name}"] = Weight(axes, initial)
        if name != "k":
            weights[f"{prefix}.b_{name}"] = Weight(axes[:1], zeros)
    return weights


def multihead_forward(
    prefix: str, parameters: Mapping[str, Array], x: Array, memory: Array, heads: int,
    masked: Array | None = None, mask: Array | None = None,
) -> tuple[Array, MultiheadCache]:
    """[H_1 .. H_n] W^O (Nguyen Eqs. 1.7-1.9): self-attention if memory is x, else 1.10-1.12.

    Arguments: x (T, B, d); memory (S, B, d); masked and mask as in `heads_forward`. Returns
    (T, B, d), and what the backward reads.
    """
    q = queries(prefix, parameters, x)                                     # (Nguyen 1.7)
    k, v = keys_values(prefix, parameters, memory)
    c, cache = heads_forward(q, k, v, heads, masked, mask)
    return joined_heads(prefix, parameters, c), MultiheadCache(prefix, parameters, x, memory,
                                                               cache, c)


def queries(prefix: str, parameters: Mapping[str, Array], x: Array) -> Array:
    """q (T, B, d) of x (T, B, d)."""
    return linear_forward(                                                 # (Nguyen 1.10)
        x, parameters[f"{prefix}.W_q"], parameters[f"{prefix}.b_q"])


def keys_values(prefix: str, parameters: Mapping[str, Array], memory: Array) -> tuple[Array, Array]:
    """k and v (S, B, d) of a memory (S, B, d). A search keeps them."""
    k = linear_forward(memory, parameters[f"{prefix}.W_k"])                # (Nguyen 1.11)
    v = linear_forward(                                                    # (Nguyen 1.12)
        memory, parameters[f"{prefix}.W_v"], parameters[f"{prefix}.b_v"])
    return k, v


def joined_heads(prefix: str, parameters: Mapping[str, Array], c: Array) -> Array:
    """The result of attention (T, B, d), from the heads side by side (T, B, d)."""
    return linear_forward(                                                 # (Nguyen 1.9)
        c, parameters[f"{prefix}.W_o"], parameters[f"{prefix}.b_o"])


def multihead_backward(dy: Array, cache: MultiheadCache) -> tuple[Array, Array, Parameters]:
    """dx (T, B, d), dmemory (S, B, d) and the gradients of the weights by full name.

    In self-attention the gradient of x is dx + dmemory.
    """
    prefix, parameters, x, memory, heads, context = cache
    gradients = Parameters()

    def back(d: Array, name: str, read: Array) -> Array:
        dx, dW, db = linear_backward(d, read, parameters[f"{prefix}.W_{name}"])
        gradients[f"{prefix}.W_{name}"] = dW
        if name != "k":
            gradients[f"{prefix}.b_{name}"] = db
        return dx

    dc = back(dy, "o", context)                                            # (Nguyen 1.9)
    dq, dk, dv = heads_backward(dc, heads)                                 # (Nguyen 1.8)
    dmemory = back(dv, "v", memory)                                        # (Nguyen 1.12)
    dmemory += back(dk, "k", memory)                                       # (Nguyen 1.11)
    return back(dq, "q", x), dmemory, gradients                            # (Nguyen 1.10)
