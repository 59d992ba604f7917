"""Global attention: alignment weights, context vector, attentional vector.

Source: Luong (2016), Eqs. 4.5 and 4.7. Q below is the number of target states that look at a
sentence at once: 1 inside a decoder step, T when all steps are known, K in beam search.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from attention.scores import SCORES
from backend import Array, array_module
from lstm.padding import Padding
from lstm.parameters import Parameters


class Memory(NamedTuple):
    """What the decoder looks at, made once per batch of source sentences."""

    hbar: Array  # (B, S, He), the encoder's top states
    keys: Array  # (B, S, H), h_t' k_s is the score
    dead: Array | None  # (B, 1, S) bool, True on padding


def memory_forward(
    states: Array, padding: Padding | None, score: str, parameters: Mapping[str, Array],
    prefix: str,
) -> Memory:
    """Sentence-major copies of the encoder's `states` (S, B, He), and their keys."""
    hbar = array_module(states).ascontiguousarray(states.transpose(1, 0, 2))  # (B, S, He)
    dead = None if padding is None else padding.dead.transpose(1, 2, 0)       # (B, 1, S)
    return Memory(hbar, SCORES[score][0](hbar, parameters, prefix), dead)


def memory_backward(
    dhbar: Array, dkeys: Array, memory: Memory, score: str, parameters: Mapping[str, Array],
    prefix: str,
) -> tuple[Array, Parameters]:
    """Gradient of the encoder's states (S, B, He) and of the score's parameters.

    Arguments: dhbar (B, S, He), through the contexts; dkeys (B, S, H), through the scores.
    """
    dhbar_score, gradients = SCORES[score][1](dkeys, memory.hbar, parameters, prefix)
    return (dhbar + dhbar_score).transpose(1, 0, 2), gradients


def attend_forward(h: Array, memory: Memory) -> tuple[Array, Array]:
    """a_t = softmax of the scores (4.7), c_t = sum over s of a_t(s) hbar_s.

    Arguments: h (B, Q, H). Returns c (B, Q, He) and a (B, Q, S); padding has exactly no weight.
    """
    xp = array_module(h, memory.hbar)
    e = xp.matmul(h, memory.keys.transpose(0, 2, 1))       # score(h_t, hbar_s), (B, Q, S)
    if memory.dead is not None:
        xp.copyto(e, -xp.inf, where=memory.dead)
    e -= e.real.max(axis=2, keepdims=True)
    a = xp.exp(e, out=e)
    a /= a.sum(axis=2, keepdims=True)                      # a_t(s)                  (4.7)
    return xp.matmul(a, memory.hbar), a                    # c_t (B, Q, He)         (4.2.1 context)


def attend_backward(dc: Array, a: Array, memory: Memory) -> tuple[Array, Array]:
    """Gradients that a decoder step needs at once; those of the memory can wait.

    Arguments: dc (B, Q, He), a (B, Q, S). Returns dh (B, Q, H) and de (B, Q, S), the gradient at
    the scores. `attend_memory_backward` turns the latter into the memory's, for all steps at once.
    """
    xp = array_module(dc, a)
    de = xp.matmul(dc, memory.hbar.transpose(0, 2, 1))     # da_t(s) = dc_t' hbar_s   (2.13)
    de -= (a * de).sum(axis=2, keepdims=True)
    de *= a                                                # softmax backward
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
    z = joined @ W_c.T
    return xp.tanh(z, out=z if out is None else out)       # h~_t                    (4.5)


def attentional_backward(
    dh_tilde: Array, h_tilde: Array, W_c: Array, dz: Array | None = None
) -> tuple[Array, Array]:
    """Lemma 1 on Eq. 4.5.

    Arguments: dh_tilde, h_tilde (N, H); dz (N, H), where to write, or None. Returns djoined
    (N, He + H) and dz = (1 - h~^2) o dh~, from which dW_c = dz' [c; h] follows in one GEMM for
    all steps.
    """
    xp = array_module(dh_tilde, h_tilde, W_c)
    dz = xp.multiply(h_tilde, h_tilde, out=dz)
    xp.subtract(1.0, dz, out=dz)
    dz *= dh_tilde
    return dz @ W_c, dz                                    # d[c_t; h_t] = W_c' dz   (2.11)
