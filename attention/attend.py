"""Memory, context and attentional vector; global attention by products, which is the usual one.

Source: Luong (2016), Eqs. 4.5 and 4.7. Q below is the number of target states that look at a
sentence at once: 1 inside a decoder step, T when all steps are known, K in beam search. Any way of
attending goes through `attention.look`, which comes here for global dot and general.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from attention.scores import Maps, map_backward, map_forward, map_gradients, map_weight, score_maps
from attention.softmax import softmax_backward, softmax_forward
from attention.way import Way
from backend import Array, array_module, matmul
from backend.fused import fusable
from lstm.padding import Padding
from lstm.parameters import Parameters


class Memory(NamedTuple):
    """What the decoder looks at, made once per batch of source sentences."""

    hbar: Array  # (B, S, He), the encoder's top states
    keys: Array  # (B, S, A), what queries are compared with; hbar itself where they are equal
    dead: Array | None  # (B, 1, S) bool, True on padding
    lengths: Array | None = None  # (B,) real, for local attention
    way: Way = Way()


def memory_forward(
    states: Array, padding: Padding | None, way: Way, parameters: Mapping[str, Array], prefix: str
) -> Memory:
    """Sentence-major copies of the encoder's `states` (S, B, He), and their keys."""
    xp = array_module(states)
    S, B, _ = states.shape
    hbar = xp.ascontiguousarray(states.transpose(1, 0, 2))                    # (B, S, He)
    dead = None if padding is None else padding.dead.transpose(1, 2, 0)       # (B, 1, S)
    lengths = None
    if way.local:
        dtype = states.real.dtype
        lengths = (xp.full((B,), float(S), dtype=dtype) if padding is None
                   else padding.live[:, :, 0].sum(axis=0).astype(dtype))      # (B,)
    keys = map_forward(hbar, score_maps(way, parameters, prefix, hbar).keys)
    return Memory(hbar, keys, dead, lengths, way)


def memory_backward(
    dhbar: Array, dkeys: Array | None, memory: Memory, parameters: Mapping[str, Array],
    prefix: str, d_query: Array | None = None,
) -> tuple[Array, Parameters]:
    """Gradient of the encoder's states (S, B, He) and of the score's matrices.

    Arguments: dhbar (B, S, He), through the contexts; dkeys (B, S, A), through the scores, None
    where nobody compared; d_query, gradient of the queries' map where there is one.
    """
    W = score_maps(memory.way, parameters, prefix, memory.hbar).keys
    d_map = None
    if dkeys is not None:
        dhbar = dhbar + map_backward(dkeys, W)
        d_map = map_weight(dkeys, memory.hbar, W)
    gradients = map_gradients(memory.way, Maps(d_query, d_map), parameters, prefix)
    return dhbar.transpose(1, 0, 2), gradients


def memory_select(memory: Memory, sentences: Array) -> Memory:
    """The memory of some of the sentences, numbers (B',) on the device."""
    kept = {name: value[sentences] for name in ("hbar", "keys", "dead", "lengths")
            if (value := getattr(memory, name)) is not None}
    if memory.keys is memory.hbar:
        kept["keys"] = kept["hbar"]
    return memory._replace(**kept)


def attend_forward(h: Array, memory: Memory) -> tuple[Array, Array]:
    """a_t = softmax of the scores (4.7), c_t = sum over s of a_t(s) hbar_s.

    Arguments: h (B, Q, H). Returns c (B, Q, He) and a (B, Q, S); padding has exactly no weight.
    """
    xp = array_module(h, memory.hbar)
    e = xp.matmul(h, memory.keys.transpose(0, 2, 1))       # score(h_t, hbar_s), (B, Q, S)
    a = softmax_forward(e, memory.dead)                    # a_t(s)                  (4.7)
    return xp.matmul(a, memory.hbar), a                    # c_t (B, Q, He)         (4.2.1 context)


def attend_backward(dc: Array, a: Array, memory: Memory) -> tuple[Array, Array]:
    """Gradients that a decoder step needs at once; those of the memory can wait.

    Arguments: dc (B, Q, He), a (B, Q, S). Returns dh (B, Q, H) and de (B, Q, S), the gradient at
    the scores. `attend_memory_backward` turns the latter into the memory's, for all steps at once.
    """
    xp = array_module(dc, a)
    de = xp.matmul(dc, memory.hbar.transpose(0, 2, 1))     # da_t(s) = dc_t' hbar_s   (2.13)
    de = softmax_backward(de, a)
    return xp.matmul(de, memory.keys), de                  # dh_t = sum of de_t(s) k_s  (2.13)


def attend_memory_backward(
    de: Array, dc: Array, a: Array, h: Array
) -> tuple[Array, Array]:
    """Gradients of the memory, summed over the target states that looked at it.

    Arguments: de, a (B, Q, S), dc (B, Q, He), h (B, Q, H). Returns dhbar (B, S, He), dkeys
    (B, S, H).
    """
    xp = array_module(de, dc, a, h)
    dhbar = xp.matmul(a.transpose(0, 2, 1), dc)            # dhbar_s = sum of a_t(s) dc_t  (2.14)
    dkeys = xp.matmul(de.transpose(0, 2, 1), h)            # dk_s = sum of de_t(s) h_t     (2.14)
    return dhbar, dkeys


def attentional_forward(joined: Array, W_c: Array, out: Array | None = None) -> Array:
    """The attentional vector h~_t = tanh(W_c [c_t; h_t]) (4.5).

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


@fusable
def tanh_slope(dy: Array, y: Array, dz: Array) -> None:
    """dz = (1 - y^2) o dy for y = tanh(z), all (N, H), written into dz."""
    xp = array_module(dy, y, dz)
    xp.multiply(y, y, out=dz)
    xp.subtract(1.0, dz, out=dz)
    dz *= dy
