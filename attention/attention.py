"""Global attention: from h_t to the context c_t and back (Luong, 2016, section 4.2.1).

The same forward and backward serve every score of `attention.scores` that compares states. They
take one target state per sentence (inside a decoder's step), all T of them, or K hypotheses. The
gradients of the memory and of the weights are computed once, after the last step. Local attention
(`attention.local`) and the score by position (`attention.location`) have their own memories.

Letters in this package, in addition to those of the whole code base:

| here | is |
|---|---|
| Q | target states that attend to a sentence at once |
| He, A | widths of the source's states, and of queries and keys |
| P | source positions in a window |
| h, hbar | target states h_t (B, Q, H), source states hbar_s (B, S, He) |
| q, keys, e | queries and keys of a score, and its energies e_t(s) |
| align | the alignment weights, the thesis's a_t(s): `a` is a pre-activation |
| p | the centre p_t of a window |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from attention.local import LocalMemory, in_window
from attention.location import LocationMemory
from attention.memory import (
    ScoreGradients,
    SourceMemory,
    by_words,
    over_time,
    padding_mask,
    written_steps,
)
from attention.scores import (
    SCORES,
    Energy,
    Sums,
    Variant,
    map_backward,
    map_forward,
    softmax_backward,
    softmax_forward,
)
from backend import Array, array_module, to_device
from backend.fused import cells, fused
from backend.pointwise import tanh_slope
from lstm.parameters import Parameters


def memory_forward(
    states: Array, lengths: np.ndarray, variant: Variant, parameters: Mapping[str, Array],
    prefix: str,
) -> GlobalMemory | LocalMemory | LocationMemory:
    """The memory of the encoder's `states` (S, B, He): a sentence-major copy, and the keys.

    Arguments: lengths (B,) on the host, the number of words of each sentence; prefix of the names
    of the attention's weights.
    """
    S, B, He = states.shape
    is_local = variant.window != "global"
    score = in_window(variant.score) if is_local else SCORES[variant.score]
    W = {name.removeprefix(f"{prefix}."): array for name, array in parameters.items()
         if name.startswith(f"{prefix}.")}
    order = None
    if variant.reverse:
        # Step s of sentence b is row s B + b of the states (S B, He).
        order = to_device(written_steps(S, lengths) * B + np.arange(B)[:, None])
    hbar = by_words(states, order)                                         # (B, S, He)
    W_query, W_keys = score.matrices(W, He)
    keys, mask = map_forward(hbar, W_keys), padding_mask(lengths, S)
    shared = hbar, keys, mask, order, prefix, score, W_query, W_keys, W.get("v_a")
    if score.energy is None:
        return LocationMemory(*shared)
    if not is_local:
        return GlobalMemory(*shared, score.energy)
    real_lengths = to_device(lengths.astype(states.real.dtype))
    return LocalMemory(*shared, score.energy, real_lengths, variant, W)


class GlobalCache(NamedTuple):
    """The data of a call of `attend` that the backward passes read."""

    q: Array  # (B, Q, A)
    align: Array  # (B, Q, S)


@dataclass(frozen=True)
class GlobalMemory(SourceMemory):
    """The memory of a source. Every target state attends to all its words."""

    energy: Energy

    def attend(self, h: Array, t: int = 1, together: bool = False) -> tuple[Array, GlobalCache]:
        """a_t = softmax of the scores (4.7), c_t = sum over s of a_t(s) hbar_s; as `Memory.attend`.
        """
        q = map_forward(h, self.W_query)                                   # (B, Q, A)
        e = self.energy.forward(q, self.keys, self.v)                # (B, Q, S)
        align = softmax_forward(e, self.mask)                              # a_t(s)  (4.7)
        c = array_module(h).matmul(align, self.hbar)                       # (4.2.1 context)
        return c, GlobalCache(q, align)

    def attend_backward(
        self, dc: Array, cache: GlobalCache, sums: Sums | None, d_align: Array | None = None
    ) -> tuple[Array, ScoreGradients]:
        """`attend` in reverse order, as far as h_t; see `Memory.attend_backward`."""
        d_total = array_module(dc).matmul(dc, self.hbar.transpose(0, 2, 1))  # dc_t' hbar_s (2.13)
        if d_align is not None:
            d_total += d_align
        de = softmax_backward(d_total, cache.align)                        # (B, Q, S)
        dq = self.energy.backward(de, cache.q, self.keys, self.v, sums)
        return map_backward(dq, self.W_query), ScoreGradients(de, dq)      # (2.13)

    def gradients(
        self, dc: Array, h: Array, caches: Sequence[GlobalCache], steps: Sequence[ScoreGradients],
        sums: Sums | None,
    ) -> tuple[Array, Parameters]:
        """The gradients of the states and of the weights, summed over all target states; see
        `Memory.gradients`."""
        xp, dq = array_module(dc), [step.dq for step in steps]
        align = over_time([cache.align for cache in caches])               # (B, T, S)
        dhbar = xp.matmul(align.transpose(0, 2, 1), dc)                    # c_t reads hbar_s (2.14)
        if sums is not None:
            return self.maps_backward(dhbar, sums.keys, dq, h, sums)
        # Scores without v_a do not map h_t: q_t is h_t.
        de, q = self.energy.factors(over_time([step.de for step in steps]), h)
        dkeys = xp.matmul(de.transpose(0, 2, 1), q)                        # e_t reads k_s (2.14)
        return self.maps_backward(dhbar, dkeys, dq, h, None)

    def alignment(self, cache: GlobalCache) -> Array:
        """The alignment a_t itself."""
        return cache.align


# --- the attentional vector -----------------------------------------------------------------------


def attentional_forward(joined: Array, W_c: Array, out: Array | None = None) -> Array:
    """h~_t = tanh(W_c [c_t; h_t]) (4.5).

    Arguments: joined (N, He + H), [c_t; h_t] side by side; W_c (H, He + H); out (N, H), which is
    written, or None. Returns h~ (N, H).
    """
    xp = array_module(joined, W_c)
    a = xp.matmul(joined, W_c.T)                                           # (N, H)
    return xp.tanh(a, out=a if out is None else out)                       # h~_t  (4.5)


def attentional_backward(
    dh_tilde: Array, h_tilde: Array, W_c: Array, da: Array | None = None
) -> tuple[Array, Array]:
    """Lemma 1 on Eq. 4.5.

    Arguments: dh_tilde, h_tilde (N, H); da (N, H), which is written, or None. Returns djoined
    (N, He + H) and da = (1 - h~^2) o dh~. From da follows dW_c = da' [c; h], in one GEMM for all
    steps.
    """
    xp = array_module(dh_tilde, h_tilde, W_c)
    if da is None:
        da = xp.empty_like(dh_tilde)
    tanh_slope(dh_tilde, h_tilde, da)
    return xp.matmul(da, W_c), da                                          # (2.11)


@fused(cells.join)
def join(left: Array, right: Array, mask: Array | None, out: Array) -> None:
    """out (B, n + m) = [left; right], (B, n) and (B, m), times the dropout mask if there is one."""
    n = left.shape[1]
    out[:, :n], out[:, n:] = left, right
    if mask is not None:
        out *= mask


@fused(cells.join_backward)
def join_backward(d_out: Array, mask: Array | None, d_left: Array) -> None:
    """Backward of `join`: d_out (B, n + m) becomes [d_left; d_right]; d_left (B, n) is a copy."""
    if mask is not None:
        d_out *= mask
    d_left[...] = d_out[:, : d_left.shape[1]]
