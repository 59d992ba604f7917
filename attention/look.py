"""Looking at the source in any way: from h_t to the context c_t and back.

Source: Luong (2016), sections 4.2.1 and 4.2.2. `look_forward` is called once for all target states
of a batch, or once a step; `look_backward` likewise. What the memory and the weights get from all
steps is worked out after the last of them, by `look_memory_backward`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from attention.attend import (
    Memory,
    attend_backward,
    attend_forward,
    attend_memory_backward,
)
from attention.local import (
    Near,
    centre_of,
    gather_window,
    make_window,
    nearness_backward,
    nearness_forward,
    position_backward,
    position_forward,
    position_weights,
    scatter_window,
)
from attention.scores import (
    PRODUCTS,
    SUMS,
    map_backward,
    map_forward,
    map_weight,
    score_maps,
    tanh_score_backward,
    tanh_score_forward,
)
from attention.softmax import softmax_backward, softmax_forward
from backend import Array, array_module
from lstm.parameters import Parameters

PREFIX = "attention"


class Seen(NamedTuple):
    """What the target states of one call saw, for the way back."""

    a: Array  # (B, Q, W): a_t, over all positions, the first L_max, or those in the window
    q: Array  # (B, Q, A), the queries
    tanh: Array | None = None  # (B, Q, W, A), of scores that have one
    rows: Array | None = None  # (B, Q, W), which states the window held
    near: Near | None = None  # of local-p, as the two that follow
    position: Array | None = None  # (B, Q, P), the tanh of Eq. 4.9
    ratio: Array | None = None  # (B, Q), its sigmoid


class Pulled(NamedTuple):
    """Gradients inside the attention, which the memory's and the weights' are made of."""

    de: Array  # (B, Q, W), at the scores
    dq: Array  # (B, Q, A), at the queries
    dk: Array | None = None  # (B, Q), of local-p: at v_p' tanh(W_p h)
    du: Array | None = None  # (B, Q, P), at W_p h


class MemoryGradient(NamedTuple):
    """What `attention.attend.memory_backward` takes."""

    dhbar: Array  # (B, S, He), through the contexts
    dkeys: Array | None  # (B, S, A), through the scores
    d_query: Array | None = None  # (A, H), of the queries' map


Sums = tuple[Array, Array]  # gradients of keys (B, S, A) and of v_a (A,), summed step by step


def look_forward(
    h: Array, memory: Memory, parameters: Mapping[str, Array], t: int = 1, together: bool = False
) -> tuple[Array, Seen]:
    """c_t = sum over s of a_t(s) hbar_s, for Q target states of each sentence.

    Arguments: h (B, Q, H); t, the time step, from 1, of the first of them; together, whether it
    is that of all (hypotheses), and not one step after another. Only local-m asks for the time.
    Returns c (B, Q, He) and the cache.
    """
    way = memory.way
    if not way.local and way.score in PRODUCTS:
        c, a = attend_forward(h, memory)
        return c, Seen(a, h)
    xp = array_module(h, memory.hbar)
    q = map_forward(h, score_maps(way, parameters, PREFIX, memory.hbar).query)
    if way.local:
        last = t if together else t + h.shape[1] - 1
        return _look_local(h, q, memory, parameters, xp.arange(t, last + 1))
    if way.score in SUMS:
        e, tanh = tanh_score_forward(q, memory.keys[:, None], parameters[f"{PREFIX}.v_a"])
    else:
        e, tanh = q * 1.0, None                            # W_a h_t itself          (4.8)
    n = e.shape[2]
    a = softmax_forward(e, None if memory.dead is None else memory.dead[:, :, :n])
    return xp.matmul(a, memory.hbar[:, :n]), Seen(a, q, tanh)  # c_t      (4.2.1 context)


def _look_local(
    h: Array, q: Array, memory: Memory, parameters: Mapping[str, Array], times: Array
) -> tuple[Array, Seen]:
    """The same in a window; times (Q,) or (1,) are those of the target states."""
    way, hbar = memory.way, memory.hbar
    lengths: Array = memory.lengths
    xp = array_module(h, hbar)
    position = ratio = near = None
    p = xp.zeros(h.shape[:2], dtype=lengths.dtype) + times.astype(lengths.dtype)  # (4.2.2 local-m)
    if way.window == "local-p":
        p, position, ratio = position_forward(
            h, lengths, parameters[f"{PREFIX}.W_p"], parameters[f"{PREFIX}.v_p"]
        )
    window = make_window(centre_of(p, lengths, way.reverse), lengths, hbar.shape[1], way.D)
    states = gather_window(hbar, window.rows)              # (B, Q, W, He)
    if way.score in SUMS:
        keys = states if memory.keys is hbar else gather_window(memory.keys, window.rows)
        e, tanh = tanh_score_forward(q, keys, parameters[f"{PREFIX}.v_a"])
    else:
        e, tanh = xp.matmul(states, q[..., None])[..., 0], None
    a = softmax_forward(e, window.out)
    if way.window == "local-p":
        a, near = nearness_forward(a, window.offset, way.D, way.renormalise)
    c = xp.matmul(a[:, :, None], states)[:, :, 0]          # c_t (B, Q, He)          (4.2.1 context)
    return c, Seen(a, q, tanh, window.rows, near, position, ratio)


def make_sums(memory: Memory, parameters: Mapping[str, Array]) -> Sums | None:
    """Zeros that `look_backward` adds to, or None for a way that needs no such sums."""
    if memory.way.score not in SUMS:
        return None
    xp, v = array_module(memory.keys), parameters[f"{PREFIX}.v_a"]
    return xp.zeros(memory.keys.shape, dtype=memory.keys.dtype), xp.zeros(v.shape, dtype=v.dtype)


def look_backward(
    dc: Array, seen: Seen, memory: Memory, parameters: Mapping[str, Array], sums: Sums | None
) -> tuple[Array, Pulled]:
    """Gradient of h that a decoder step needs at once; that of the memory can wait.

    Arguments: dc (B, Q, He); sums, from `make_sums`, added to. Returns dh (B, Q, H), and what
    `look_memory_backward` reads.
    """
    way = memory.way
    if not way.local and way.score in PRODUCTS:
        dh, de = attend_backward(dc, seen.a, memory)
        return dh, Pulled(de, dh)
    if way.local:
        return _pull_local(dc, seen, memory, parameters, sums)
    xp, maps = array_module(dc, seen.a), score_maps(way, parameters, PREFIX, memory.hbar)
    da = xp.matmul(dc, memory.hbar[:, : seen.a.shape[2]].transpose(0, 2, 1))  # (2.13)
    dq = de = softmax_backward(da, seen.a)
    if sums is not None:
        dq, du, dv = tanh_score_backward(de, seen.tanh, parameters[f"{PREFIX}.v_a"])
        _add(sums[0], du.sum(axis=1))
        _add(sums[1], dv)
    return map_backward(dq, maps.query), Pulled(de, dq)


def _pull_local(
    dc: Array, seen: Seen, memory: Memory, parameters: Mapping[str, Array], sums: Sums | None
) -> tuple[Array, Pulled]:
    """The same in a window: h_t scores what is there and, in local-p, places it."""
    xp, way = array_module(dc, seen.a), memory.way
    states = gather_window(memory.hbar, seen.rows)
    da = xp.matmul(states, dc[..., None])[..., 0]          # da_t(s) = dc_t' hbar_s   (2.13)
    align, dh, dk, du_p = seen.a, None, None, None
    if seen.near is not None:
        align = seen.near.align
        da, d_centre = nearness_backward(da, seen.a, seen.near, way.D)
        dh, dk, du_p = position_backward(
            -d_centre if way.reverse else d_centre, seen.position, seen.ratio, memory.lengths,
            parameters[f"{PREFIX}.W_p"], parameters[f"{PREFIX}.v_p"],
        )
    de = softmax_backward(da, align)
    if sums is None:
        dq = xp.matmul(de[:, :, None], states)[:, :, 0]    # dq_t = sum of de_t(s) hbar_s
    else:
        dq, du, dv = tanh_score_backward(de, seen.tanh, parameters[f"{PREFIX}.v_a"])
        scatter_window(sums[0], du, seen.rows)
        _add(sums[1], dv)
    dh_query = map_backward(dq, score_maps(way, parameters, PREFIX, memory.hbar).query)
    return dh_query if dh is None else dh + dh_query, Pulled(de, dq, dk, du_p)


def _add(total: Array, more: Array) -> None:
    """total += more, for names that are not assigned to."""
    total += more


def look_memory_backward(
    dc: Array, h: Array, seen: Sequence[Seen], pulled: Sequence[Pulled], memory: Memory,
    parameters: Mapping[str, Array], sums: Sums | None,
) -> tuple[MemoryGradient, Parameters]:
    """Gradients of memory and weights, of all target states that looked.

    Arguments: dc (B, T, He) and h (B, T, H); seen and pulled, of calls whose target states are,
    one after another, those T. Returns the memory's gradient, and by name those of v_a, W_p, v_p.
    """
    way, xp = memory.way, array_module(dc, h)
    a, de = _joined([s.a for s in seen]), _joined([p.de for p in pulled])
    if not way.local and way.score in PRODUCTS:
        return MemoryGradient(*attend_memory_backward(de, dc, a, h)), {}
    query = score_maps(way, parameters, PREFIX, memory.hbar).query
    dq = _joined([p.dq for p in pulled])
    dkeys, gradients = None, {}
    if sums is not None:
        dkeys, gradients[f"{PREFIX}.v_a"] = sums
    dhbar = xp.zeros(memory.hbar.shape, dtype=dc.dtype)
    if way.local:
        q = _joined([s.q for s in seen])
        _scatter_products(dhbar, a, de if sums is None else None, dc, q,
                          _joined([s.rows for s in seen]))
    else:
        dhbar[:, : a.shape[2]] = xp.matmul(a.transpose(0, 2, 1), dc)
    if way.window == "local-p":
        dk, du = _joined([p.dk for p in pulled]), _joined([p.du for p in pulled])
        dW_p, dv_p = position_weights(dk, du, _joined([s.position for s in seen]), h)
        gradients |= {f"{PREFIX}.W_p": dW_p, f"{PREFIX}.v_p": dv_p}
    return MemoryGradient(dhbar, dkeys, map_weight(dq, h, query)), gradients


def _scatter_products(
    dhbar: Array, a: Array, de: Array | None, dc: Array, q: Array, rows: Array
) -> None:
    """Add a_t(s) dc_t, and de_t(s) q_t where that is the score's, to each state looked at."""
    for t in range(rows.shape[1]):
        one = slice(t, t + 1)
        d = a[:, one, :, None] * dc[:, one, None]          # (B, 1, W, He)
        if de is not None:
            d += de[:, one, :, None] * q[:, one, None]
        scatter_window(dhbar, d, rows[:, one])


def _joined(parts: Sequence[Array]) -> Array:
    """Arrays of consecutive target states as one, (B, T, ...)."""
    return parts[0] if len(parts) == 1 else array_module(parts[0]).concatenate(parts, axis=1)


def alignment_of(seen: Seen, memory: Memory) -> Array:
    """a_t (B, Q, S) over all source columns, zero where nobody looked."""
    (B, Q, W), S = seen.a.shape, memory.hbar.shape[1]
    if W == S and seen.rows is None:
        return seen.a
    xp = array_module(seen.a)
    full = xp.zeros((B, Q, S), dtype=seen.a.dtype)
    if seen.rows is None:
        full[:, :, :W] = seen.a
        return full
    start = (xp.arange(B)[:, None] * (Q - 1) + xp.arange(Q)) * S  # rows count (B, S), not (B, Q, S)
    full.reshape(-1)[seen.rows + start[..., None]] = seen.a
    return full
