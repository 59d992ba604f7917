"""Attention: from h_t to the context c_t and back (Luong, 2016, sections 4.2.1 and 4.2.2).

One forward and one backward serve every score, global or local, for one target state of each
sentence (inside a decoder step), for all T of them, or for K hypotheses. The gradients of the
memory and of the weights are computed once, after the last step, by `memory_backward`. Q below is
the number of target states that attend to a sentence at once, W the number of source positions that
they attend to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from attention.blocks import ALL, block_size, joined, part, pieces
from attention.memory import Memory, by_steps
from attention.scores import (
    SCORES,
    Sums,
    map_backward,
    map_forward,
    map_gradients,
    map_weight,
    maps_of,
)
from attention.window import (
    GaussianCache,
    Window,
    gather_window,
    gaussian_backward,
    gaussian_forward,
    make_window,
    position_backward,
    position_forward,
    position_weights,
    scatter_window,
)
from backend import Array, array_module, matmul
from backend.fused import cells, fused, softmax
from lstm.cells.cell import tanh_slope
from lstm.parameters import Parameters


class AttentionCache(NamedTuple):
    """What `attention_backward` and `memory_backward` read of one forward call."""

    a: Array  # (B, Q, W): a_t over all positions, the first L_max, or those of the window
    align: Array  # (B, Q, W), the softmax before cut or Gaussian; for location (B, Q, L_max)
    q: Array  # (B, Q, A), the queries
    rows: Array | None = None  # (B, Q, W), rows of the states in the windows; None: the first W
    gaussian: GaussianCache | None = None  # for local-p, as the next two
    u: Array | None = None  # (B, Q, P), the tanh of Eq. 4.9
    ratio: Array | None = None  # (B, Q), its sigmoid


class ScoreGradients(NamedTuple):
    """Gradients inside the attention, from which `memory_backward` computes those of the memory and
    of the weights."""

    de: Array  # (B, Q, W), of the energies; for location (B, Q, L_max)
    dq: Array  # (B, Q, A), of the queries
    dk: Array | None = None  # (B, Q), local-p: of v_p' tanh(W_p h)
    du: Array | None = None  # (B, Q, P), local-p: of W_p h


# --- forward --------------------------------------------------------------------------------------


def attention_forward(
    h: Array, memory: Memory, t: int = 1, together: bool = False
) -> tuple[Array, AttentionCache]:
    """a_t = softmax of the scores (4.7), c_t = sum over s of a_t(s) hbar_s.

    Arguments: h (B, Q, H); t, the time step, from 1, of the first state; together, whether all
    states are of step t (hypotheses) instead of t, t + 1, ... Only local-m reads the step.
    Returns c (B, Q, He) and the cache; the weight of padding is exactly zero.
    """
    q = map_forward(h, memory.matrix(maps_of(memory.variant)[0]))
    window, u, ratio = _place(h, q, memory, t, together)
    parts = [_attend(part(q, some), part(window, some), memory)
             for some in _blocks(window.rows, memory)]
    c, a, align, gaussian = joined(parts)
    return c, AttentionCache(a, align, q, window.rows, gaussian, u, ratio)


def _place(
    h: Array, q: Array, memory: Memory, t: int, together: bool
) -> tuple[Window, Array | None, Array | None]:
    """The window of each target state; for local-p also the tanh and the sigmoid of Eq. 4.9."""
    variant, xp, (_, S, _) = memory.variant, array_module(h), memory.hbar.shape
    if not variant.local:
        return Window(None, None, memory.mask), None, None
    lengths: Any = memory.lengths
    u = ratio = None
    if variant.window == "local-p":
        p, u, ratio = position_forward(h, lengths, memory.W["W_p"], memory.W["v_p"])
    else:
        times = xp.arange(t, t + (1 if together else h.shape[1])).astype(lengths.dtype)
        p = xp.zeros(h.shape[:2], dtype=lengths.dtype) + times - 1.0       # (4.2.2 local-m)
    return make_window(p, lengths, S, variant.D), u, ratio


def _blocks(rows: Array | None, memory: Memory) -> list[slice]:
    """Slices of the target states, each small enough that its gathered windows fit the CPU's
    cache."""
    if rows is None:
        return [ALL]
    B, Q, W = rows.shape
    return list(pieces(Q, block_size(array_module(rows), B * W * memory.hbar.shape[2])))


def _attend(
    q: Array, window: Window, memory: Memory
) -> tuple[Array, Array, Array, GaussianCache | None]:
    """c_t (B, Q, He), a_t (B, Q, W), its softmax and the Gaussian's cache, for queries (B, Q,
    A)."""
    variant, (B, Q, A), xp = memory.variant, q.shape, array_module(q)
    states, keys, shared = _gathered(window.rows, q, memory)
    energy = SCORES[variant.score].energy
    e = energy.forward(q.reshape(*shared, A), keys, memory.W).reshape(B, Q, -1)
    if SCORES[variant.score].by_position:
        align = softmax_forward(e, None)                   # of L_max        (4.8)
        a, gaussian = top_part(align, states.shape[1], window.mask), None
    else:
        a, gaussian = softmax_forward(e, window.mask), None  # a_t(s)        (4.7)
        align = a
    if window.offset is not None and variant.window == "local-p":
        a, gaussian = gaussian_forward(align, window.offset, variant.D, variant.renormalise)
    c = xp.matmul(a.reshape(*shared, -1), states)          # c_t             (4.2.1 context)
    return c.reshape(B, Q, states.shape[2]), a, align, gaussian


def top_part(align: Array, n: int, mask: Array | None) -> Array:
    """The first n of L_max weights, (B, Q, n), zero where `mask` (B, 1, S): footnote 5, erratum 7.

    The weights of a short sentence sum to less than one; words of a long sentence after position
    L_max are ignored.
    """
    a = align[:, :, :n]
    return a if mask is None else a * ~mask[:, :, :n]


def _gathered(
    rows: Array | None, q: Array, memory: Memory
) -> tuple[Array, Array, tuple[int, int]]:
    """States (G, W, He), keys (G, W, A) and (G, queries a group), for G groups of queries.

    Without windows a sentence's Q queries form a group; else each query is a group of its own.
    """
    B, Q, A = q.shape
    if rows is not None:
        states = gather_window(memory.hbar, rows)
        same = memory.keys is memory.hbar
        return states, states if same else gather_window(memory.keys, rows), (B * Q, 1)
    states = memory.hbar[:, :A] if SCORES[memory.variant.score].by_position else memory.hbar
    return states, memory.keys, (B, Q)


# --- backward -------------------------------------------------------------------------------------


def accumulators(memory: Memory) -> Sums | None:
    """Zeros that `attention_backward` adds to; None if `memory_backward` computes the
    keys' gradient of all steps in one product."""
    names = SCORES[memory.variant.score].energy.sums
    if not names:
        return None
    xp = array_module(memory.keys)
    return Sums(xp.zeros_like(memory.keys), {name: xp.zeros_like(memory.W[name]) for name in names})


def attention_backward(
    dc: Array, cache: AttentionCache, memory: Memory, sums: Sums | None, da: Array | None = None
) -> tuple[Array, ScoreGradients]:
    """The gradient of h, which a decoder step needs at once; the memory's follows after all steps.

    Arguments: dc (B, Q, He); sums, from `accumulators`, added to; da (B, Q, S), gradient of
    `alignment_of` where more than c_t reads a_t, or None. Returns dh (B, Q, H), and what
    `memory_backward` reads.
    """
    more = None if da is None else alignment_backward(da, cache)
    parts = [_attend_backward(part(dc, some), part(cache, some), memory, sums, part(more, some))
             for some in _blocks(cache.rows, memory)]
    de, dq, dp = joined(parts)
    dh = map_backward(dq, memory.matrix(maps_of(memory.variant)[0]))       # (2.13)
    if dp is None:
        return dh, ScoreGradients(de, dq)
    dh_position, dk, du = position_backward(
        dp, cache.u, cache.ratio, memory.lengths, memory.W["W_p"], memory.W["v_p"])
    return dh_position + dh, ScoreGradients(de, dq, dk, du)


def _attend_backward(
    dc: Array, cache: AttentionCache, memory: Memory, sums: Sums | None, more: Array | None = None
) -> tuple[Array, Array, Array | None]:
    """Gradients at energies (B, Q, W), queries (B, Q, A) and, in local-p, positions (B, Q).

    more (B, Q, W): what else reaches a_t.
    """
    (B, Q, W), A, xp = cache.a.shape, cache.q.shape[2], array_module(dc)
    states, keys, shared = _gathered(cache.rows, cache.q, memory)
    da = xp.matmul(dc.reshape(*shared, -1), states.transpose(0, 2, 1))     # dc_t' hbar_s (2.13)
    d_align, dp, score = da.reshape(B, Q, W), None, SCORES[memory.variant.score]
    if more is not None:
        d_align = d_align + more
    if score.by_position:
        d_align = top_part_backward(d_align, cache.align, memory.mask)
    if cache.gaussian is not None:
        d_align, dp = gaussian_backward(d_align, cache.a, cache.align, cache.gaussian,
                                        memory.variant.D)
    de, energy = softmax_backward(d_align, cache.align), score.energy
    given = de.reshape(*shared, -1), cache.q.reshape(*shared, A), keys, memory.W
    if sums is None or cache.rows is None:
        dq = energy.backward(*given, sums)
    else:                                                  # the keys were gathered
        gathered = Sums(xp.zeros_like(keys), sums.weights)
        dq = energy.backward(*given, gathered)
        scatter_window(sums.keys, gathered.keys, cache.rows)
    return de, dq.reshape(B, Q, A), dp


def top_part_backward(da: Array, align: Array, mask: Array | None) -> Array:
    """d_align (B, Q, L_max) from da (B, Q, n): zero where `top_part` cut or masked."""
    n, d_align = da.shape[2], array_module(align).zeros_like(align)
    d_align[:, :, :n] = da if mask is None else da * ~mask[:, :, :n]
    return d_align


def memory_backward(
    dc: Array, h: Array, caches: Sequence[AttentionCache], steps: Sequence[ScoreGradients],
    memory: Memory, sums: Sums | None,
) -> tuple[Array, Parameters]:
    """Gradients of the encoder's states (S, B, He) and of the weights, by full name.

    Arguments: dc (B, T, He) and h (B, T, H), of all target states; caches and steps, from
    `attention_forward` and `attention_backward`, of the calls that cover these T states in order.
    """
    variant, (_, S, He) = memory.variant, memory.hbar.shape
    query, keys = maps_of(variant)
    outer = SCORES[variant.score].energy.outer
    a, rows = joined([one.a for one in caches]), joined([one.rows for one in caches])
    reads, dkeys, gradients = [(a, dc)], None, Parameters()                # c_t reads hbar_s
    if sums is not None:
        dkeys, gradients = sums.keys, dict(sums.weights)
    elif outer is not None:
        q = h if query is None else joined([one.q for one in caches])
        read = outer(joined([one.de for one in steps]), q)                # and e_t reads k_s
        if keys is None:
            reads.append(read)
        else:
            dkeys = _outer_sum([read], rows, memory.keys)
    dhbar, parts = _outer_sum(reads, rows, memory.hbar), []
    if dkeys is not None:
        dhbar += map_backward(dkeys, memory.matrix(keys))
        parts += [] if keys is None else [(keys, map_weight(dkeys, memory.hbar))]
    if query is not None:
        parts.append((query, map_weight(joined([one.dq for one in steps]), h)))
    gradients |= map_gradients(memory.W, parts, S, He)
    if variant.window == "local-p":
        dk, du = joined([one.dk for one in steps]), joined([one.du for one in steps])
        u = joined([one.u for one in caches])
        gradients["W_p"], gradients["v_p"] = position_weights(dk, du, u, h)
    return by_steps(dhbar, memory.rows), {
        f"{memory.prefix}.{name}": d for name, d in gradients.items()}


def _outer_sum(
    reads: Sequence[tuple[Array, Array]], rows: Array | None, like: Array
) -> Array:
    """The sum over target states of weights (B, T, W) times vectors (B, T, A), over all pairs
    `reads`.

    Returns an array like `like` (B, S, A), the gradient of the states or keys. With windows, only
    their rows are added to, a few sentences and one target state at a time; the zeros elsewhere
    are written once a batch and not once a step.
    """
    xp, (B, S, A), (_, T, W) = array_module(like), like.shape, reads[0][0].shape
    if rows is None and W == S:
        return sum((xp.matmul(weights.transpose(0, 2, 1), x) for weights, x in reads[1:]),
                   start=xp.matmul(reads[0][0].transpose(0, 2, 1), reads[0][1]))  # (2.14)
    total = xp.zeros(like.shape, dtype=like.dtype)
    if rows is None:                                       # nothing after L_max is attended to
        total[:, :W] = xp.matmul(reads[0][0].transpose(0, 2, 1), reads[0][1])
        return total
    weights = xp.stack([one for one, _ in reads], axis=3)  # (B, T, W, n)
    vectors = xp.stack([x for _, x in reads], axis=2)      # (B, T, n, A)
    for b in pieces(B, block_size(xp, W * A)):
        for t in range(T):
            scatter_window(total, xp.matmul(weights[b, t], vectors[b, t]), rows[b, t, None])
    return total


# --- softmax and attentional vector ---------------------------------------------------------------


@fused(softmax.softmax_forward)
def softmax_forward(e: Array, mask: Array | None) -> Array:
    """a(s) = exp(e(s)) / sum of exp(e(s')) over the last axis, in place of e.

    Arguments: e (..., S); mask, bool, broadcast to e, True where there is no position; or None.
    Returns a (..., S), exactly zero where masked. At least one position is not.
    """
    xp = array_module(e)
    if mask is not None:
        xp.copyto(e, -xp.inf, where=mask)
    e -= e.real.max(axis=-1, keepdims=True)
    a = xp.exp(e, out=e)
    a /= a.sum(axis=-1, keepdims=True)                     # a_t(s)                  (4.7)
    return a


@fused(softmax.softmax_backward)
def softmax_backward(da: Array, a: Array) -> Array:
    """de = (diag(a) - a a') da, in place of da (..., S)."""
    da -= (a * da).sum(axis=-1, keepdims=True)
    da *= a                                                # softmax backward
    return da


def attentional_forward(joined: Array, W_c: Array, out: Array | None = None) -> Array:
    """h~_t = tanh(W_c [c_t; h_t]) (4.5).

    Arguments: joined (N, He + H), [c_t; h_t] side by side; W_c (H, He + H); out (N, H), where to
    write, or None. Returns h~ (N, H).
    """
    xp = array_module(joined, W_c)
    z = matmul(joined, W_c.T)
    return xp.tanh(z, out=z if out is None else out)       # h~_t                    (4.5)


def attentional_backward(
    dh_tilde: Array, h_tilde: Array, W_c: Array, dz: Array | None = None
) -> tuple[Array, Array]:
    """Lemma 1 on Eq. 4.5.

    Arguments: dh_tilde, h_tilde (N, H); dz (N, H), where to write, or None. Returns djoined
    (N, He + H) and dz = (1 - h~^2) o dh~, from which dW_c = dz' [c; h] follows in one GEMM for
    all steps.
    """
    if dz is None:
        dz = array_module(dh_tilde, h_tilde, W_c).empty_like(dh_tilde)
    tanh_slope(dh_tilde, h_tilde, dz)
    return matmul(dz, W_c), dz                             # d[c_t; h_t] = W_c' dz   (2.11)


@fused(cells.join)
def join(left: Array, right: Array, mask: Array | None, out: Array) -> None:
    """out (B, n + m) = [left; right], (B, n) and (B, m), times the dropout mask if there is one."""
    n = left.shape[1]
    out[:, :n], out[:, n:] = left, right
    if mask is not None:
        out *= mask


@fused(cells.join_backward)
def join_backward(d_out: Array, mask: Array | None, d_left: Array) -> None:
    """Backward of `join`: d_out (B, n + m) becomes [d_left; d_right], and d_left (B, n) a copy."""
    if mask is not None:
        d_out *= mask
    d_left[...] = d_out[:, : d_left.shape[1]]


# --- alignment ------------------------------------------------------------------------------------


def alignment_of(cache: AttentionCache, memory: Memory) -> Array:
    """a_t (B, Q, S) over all words in written order, zero outside the window."""
    (B, Q, W), S = cache.a.shape, memory.hbar.shape[1]
    if W == S and cache.rows is None:
        return cache.a
    xp = array_module(cache.a)
    full = xp.zeros((B, Q, S), dtype=cache.a.dtype)
    if cache.rows is None:
        full[:, :, :W] = cache.a
        return full
    full.reshape(-1)[_places(cache.rows, S)] = cache.a
    return full


def alignment_backward(da: Array, cache: AttentionCache) -> Array:
    """The gradient of a_t where it was attended to (B, Q, W), from that of `alignment_of`."""
    if cache.rows is None:
        return da[:, :, : cache.a.shape[2]]
    return array_module(da).take(da, _places(cache.rows, da.shape[2]))


def _places(rows: Array, S: int) -> Array:
    """Where among (B, Q, S) the columns of windows stand, whose rows (B, Q, W) count (B, S)."""
    xp, (B, Q, _) = array_module(rows), rows.shape
    return rows + ((xp.arange(B)[:, None] * (Q - 1) + xp.arange(Q)) * S)[..., None]
