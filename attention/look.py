"""Looking at the source in any way: from h_t to the context c_t and back.

Source: Luong (2016), sections 4.2.1 and 4.2.2. `look_forward` is called once for all target states
of a batch, or once a step; `look_backward` likewise. What the memory and the weights get from all
steps is worked out after the last of them, by `look_memory_backward`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from attention.attend import (
    Memory,
    attend_backward,
    attend_forward,
    attend_memory_backward,
)
from attention.blocks import block_size, pieces
from attention.local import (
    Near,
    Window,
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
    rows: Array | None = None  # (B, Q, W), which states the window held; None: all of them
    near: Near | None = None  # of local-p, as the two that follow
    position: Array | None = None  # (B, Q, P), the tanh of Eq. 4.9
    ratio: Array | None = None  # (B, Q), its sigmoid

    def of(self, states: slice) -> Seen:
        """What some of the target states saw."""
        near = None if self.near is None else Near(*_parts(self.near, states))
        return Seen(*_parts(self._replace(near=None), states))._replace(near=near)


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
    location = way.score == "location"                     # W_a h_t itself          (4.8)
    e = q * 1.0 if location else _scores(q, memory.keys, way.score, parameters)
    n = e.shape[2]
    a = softmax_forward(e, None if memory.dead is None else memory.dead[:, :, :n])
    return xp.matmul(a, memory.hbar[:, :n]), Seen(a, q)    # c_t (B, Q, He)          (4.2.1 context)


def _scores(q: Array, keys: Array, score: str, parameters: Mapping[str, Array]) -> Array:
    """e_t(s) (B, Q, S) of queries (B, Q, A) and keys (B, S, A)."""
    if score in SUMS:
        return tanh_score_forward(q, keys, parameters[f"{PREFIX}.v_a"])
    return array_module(q, keys).matmul(q, keys.transpose(0, 2, 1))


def _look_local(
    h: Array, q: Array, memory: Memory, parameters: Mapping[str, Array], times: Array
) -> tuple[Array, Seen]:
    """The same in a window; times (Q,) or (1,) are those of the target states."""
    way, hbar = memory.way, memory.hbar
    lengths: Array = memory.lengths
    xp = array_module(h, hbar)
    position = ratio = None
    p = xp.zeros(h.shape[:2], dtype=lengths.dtype) + times.astype(lengths.dtype)  # (4.2.2 local-m)
    if way.window == "local-p":
        p, position, ratio = position_forward(
            h, lengths, parameters[f"{PREFIX}.W_p"], parameters[f"{PREFIX}.v_p"]
        )
    window = make_window(centre_of(p, lengths, way.reverse), lengths, hbar.shape[1], way.D)
    parts = [_look_through(q[:, some], window.of(some), memory, parameters)
             for some in _a_few(window.rows, hbar)]
    c, a, near = (_joined(part) for part in zip(*parts, strict=True))
    return c, Seen(a, q, window.rows, near, position, ratio)


def _a_few(rows: Array | None, hbar: Array) -> list[slice]:
    """The target states, as many at a time as can gather their windows in the cache."""
    if rows is None:
        return [slice(None)]
    B, Q, W = rows.shape
    return list(pieces(Q, block_size(array_module(rows), B * W * hbar.shape[2])))


def _look_through(
    q: Array, window: Window, memory: Memory, parameters: Mapping[str, Array]
) -> tuple[Array, Array, Near | None]:
    """c_t (B, Q, He) and a_t (B, Q, W) of queries (B, Q, A), through their windows."""
    way, (B, Q, A), W = memory.way, q.shape, window.out.shape[2]
    xp, near = array_module(q), None
    states, keys = _through(window.rows, memory)
    alike = (B, Q) if window.rows is None else (B * Q, 1)  # who looks at the same states
    e = _scores(q.reshape(*alike, A), keys, way.score, parameters).reshape(B, Q, W)
    a = softmax_forward(e, window.out)
    if way.window == "local-p":
        a, near = nearness_forward(a, window.offset, way.D, way.renormalise)
    c = xp.matmul(a.reshape(*alike, W), states)            # c_t                     (4.2.1 context)
    return c.reshape(B, Q, states.shape[2]), a, near


def _through(rows: Array | None, memory: Memory) -> tuple[Array, Array]:
    """States (G, W, He) and keys (G, W, A) in windows: G = B Q, or B where each holds them all."""
    states = gather_window(memory.hbar, rows)
    return states, states if memory.keys is memory.hbar else gather_window(memory.keys, rows)


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
        dq, _, dv = tanh_score_backward(de, seen.q, memory.keys, parameters[f"{PREFIX}.v_a"],
                                        sums[0])
        _add(sums[1], dv)
    return map_backward(dq, maps.query), Pulled(de, dq)


def _pull_local(
    dc: Array, seen: Seen, memory: Memory, parameters: Mapping[str, Array], sums: Sums | None
) -> tuple[Array, Pulled]:
    """The same in a window: h_t scores what is there and, in local-p, places it."""
    way = memory.way
    parts = [_pull_through(dc[:, some], seen.of(some), memory, parameters, sums)
             for some in _a_few(seen.rows, memory.hbar)]
    de, dq, d_centre = (_joined(part) for part in zip(*parts, strict=True))
    dh = map_backward(dq, score_maps(way, parameters, PREFIX, memory.hbar).query)
    if d_centre is None:
        return dh, Pulled(de, dq)
    dh_query = dh
    dh, dk, du = position_backward(
        -d_centre if way.reverse else d_centre, seen.position, seen.ratio, memory.lengths,
        parameters[f"{PREFIX}.W_p"], parameters[f"{PREFIX}.v_p"],
    )
    return dh + dh_query, Pulled(de, dq, dk, du)


def _pull_through(
    dc: Array, seen: Seen, memory: Memory, parameters: Mapping[str, Array], sums: Sums | None
) -> tuple[Array, Array, Array | None]:
    """Gradients at scores (B, Q, W), queries (B, Q, A) and, in local-p, centres (B, Q)."""
    (B, Q, W), A, He = seen.a.shape, seen.q.shape[2], dc.shape[2]
    xp, align, d_centre = array_module(dc), seen.a, None
    states, keys = _through(seen.rows, memory)
    alike = (B, Q) if seen.rows is None else (B * Q, 1)
    da = xp.matmul(dc.reshape(*alike, He), states.transpose(0, 2, 1)).reshape(B, Q, W)  # (2.13)
    if seen.near is not None:
        align = seen.near.align
        da, d_centre = nearness_backward(da, seen.a, seen.near, memory.way.D)
    de = softmax_backward(da, align)
    if sums is None:
        dq = xp.matmul(de.reshape(*alike, W), keys)        # dq_t = sum of de_t(s) hbar_s
    else:
        q, total = seen.q.reshape(*alike, A), sums[0] if seen.rows is None else None
        dq, dkeys, dv = tanh_score_backward(
            de.reshape(*alike, W), q, keys, parameters[f"{PREFIX}.v_a"], total)
        if seen.rows is not None:
            scatter_window(sums[0], dkeys, seen.rows)
        _add(sums[1], dv)
    return de, dq.reshape(B, Q, A), d_centre


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
    way = memory.way
    a, de = _joined([s.a for s in seen]), _joined([p.de for p in pulled])
    if not way.local and way.score in PRODUCTS:
        return MemoryGradient(*attend_memory_backward(de, dc, a, h)), {}
    query = score_maps(way, parameters, PREFIX, memory.hbar).query
    dq, gradients = _joined([p.dq for p in pulled]), {}
    dkeys = None
    if sums is not None:
        dkeys, gradients[f"{PREFIX}.v_a"] = sums
    read = [(a, dc)]                                       # hbar_s by c_t
    if way.local and sums is None:
        read.append((de, _joined([s.q for s in seen])))    # and by the scores
    dhbar = _memory_gradient(read, _joined([s.rows for s in seen]), memory.hbar)
    if way.window == "local-p":
        dk, du = _joined([p.dk for p in pulled]), _joined([p.du for p in pulled])
        dW_p, dv_p = position_weights(dk, du, _joined([s.position for s in seen]), h)
        gradients |= {f"{PREFIX}.W_p": dW_p, f"{PREFIX}.v_p": dv_p}
    return MemoryGradient(dhbar, dkeys, map_weight(dq, h, query)), gradients


def _memory_gradient(
    read: Sequence[tuple[Array, Array]], rows: Array | None, hbar: Array
) -> Array:
    """dhbar_s (B, S, He): the sum of weights (B, T, W) times vectors (B, T, He) of each that read.

    In windows only what they held is added to, a few sentences and one target state at a time. That
    the rest is zero has to be written down, once a batch and not once a step.
    """
    xp, (B, S, He), (_, T, W) = array_module(hbar), hbar.shape, read[0][0].shape
    if rows is None:
        dhbar = xp.matmul(read[0][0].transpose(0, 2, 1), read[0][1])  # (2.14)
        for weights, x in read[1:]:
            dhbar += xp.matmul(weights.transpose(0, 2, 1), x)
        if W == S:
            return dhbar
        full = xp.zeros(hbar.shape, dtype=hbar.dtype)      # nobody looked behind L_max
        full[:, :W] = dhbar
        return full
    dhbar = xp.zeros(hbar.shape, dtype=hbar.dtype)
    weights = xp.stack([weights for weights, _ in read], axis=3)  # (B, T, W, n)
    vectors = xp.stack([x for _, x in read], axis=2)       # (B, T, n, He)
    for b in pieces(B, block_size(xp, W * He)):
        for t in range(T):
            scatter_window(dhbar, xp.matmul(weights[b, t], vectors[b, t]), rows[b, t, None])
    return dhbar


def _parts(arrays: Sequence[Array | None], states: slice) -> list[Array | None]:
    """Some of the target states of arrays (B, Q, ...)."""
    return [None if array is None else array[:, states] for array in arrays]


def _joined(parts: Sequence[Any]) -> Any:
    """Arrays of consecutive target states as one, (B, T, ...); what is None is so in all parts."""
    if parts[0] is None or len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], Near):
        return Near(*(_joined(part) for part in zip(*parts, strict=True)))
    return array_module(parts[0]).concatenate(parts, axis=1)


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
