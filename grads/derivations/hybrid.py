"""The hybrid word-character model (Luong, 2016, chapter 5) for one pair of sentences.

The word model is that of `grads.derivations.attention`. On the source, a deep LSTM over the
characters of a rare word computes its vector; on the target, another one spells each <unk>.

| parameter | shape | chapter 5 |
|---|---|---|
| those of `grads.derivations.attention` | | 5.2, 5.3.1; `attention.W_c` is W of Eq. 5.4 |
| `source_characters.W_e`, `.{l}.W`, `.{l}.b` | (C, Ec), (4E, in + E), (4E,) | 5.3.2 |
| `target_characters.W_e`, `.{l}.W`, `.{l}.b` | (C, Ec), (4H, in + H), (4H,) | 5.3.3 |
| `target_characters.output.W_hy`, `.b` | (C, H), (C,) | 5.3.3 |
| `target_characters.W_c` | (H, He + H) | W' of Eq. 5.6; without it the path is the same |

A word is a sequence of character ids; "_" ends it, and starts its spelling. The vectors of rare
source words are rows of W_e below those of the vocabulary's V words: id V in a source is its first
rare word, at each of its positions. A rare target word is <unk>.

The thesis prints no backward for this chapter either: it is derived as in chapter 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from grads.derivations.attention import (
    GENERAL,
    AttentionTrace,
    Seeds,
    attentional_nmt_backward,
    attentional_nmt_forward,
)
from grads.derivations.calculus import Array, Number, tanh_prime
from grads.derivations.encoders import columns, encode, encode_grad, tops
from grads.derivations.nmt import END
from grads.derivations.rnn import predictions, predictions_grad
from grads.derivations.scores import Variant
from grads.derivations.units import Layers, stack_of, zero_states

SOURCE, TARGET = "source_characters", "target_characters"
SEPARATE, OUTPUT = f"{TARGET}.W_c", f"{TARGET}.output"
Word = Sequence[int]  # characters by number, without "_"


class SpellingTrace(NamedTuple):
    """The values of the spelling of one word, by character from 1."""

    h: dict[int, Layers]  # h[i][l], (H, 1), from i = 0; h[i][0] is a character's embedding
    c: dict[int, Layers]  # c[i][l], (H, 1)
    p: dict[int, Array]  # (C, 1)
    l: dict[int, Number]  # nats


class HybridTrace(NamedTuple):
    """The values of the forward pass: words by time t, rare source words by number r from 1."""

    words: AttentionTrace
    W: Array  # the vocabulary's vectors, and those of the rare words, (V + R, E)
    g: dict[int, dict[int, Layers]]  # g[r], as `run_encoder` returns it
    k: dict[int, dict[int, Layers]]  # its cells
    spelled: dict[int, SpellingTrace]  # by the time of its <unk>
    alpha: float


# --- source: the vector of a word (5.3.2) -------------------------------------------------------


def represent(
    parameters: Mapping[str, Array], word: Word
) -> tuple[Array, dict[int, Layers], dict[int, Layers]]:
    """q (E, 1), the last hidden state of the top layer, and all states and cells, from zero."""
    g, k = encode(parameters, [*word, END], side=SOURCE)         # 'c', 'u', 't', 'e', '_'
    q = g[len(word) + 1][max(g[0])]
    return q, g, k


def represent_grad(
    parameters: Mapping[str, Array], word: Word, dq: Array, g: dict[int, Layers],
    k: dict[int, Layers],
) -> dict[str, Array]:
    """The gradients of the source's character network by name, given dq (E, 1)."""
    zero, none = zero_states(stack_of(parameters, SOURCE).W)
    gradients, _, _ = encode_grad(                               # only the last state is read
        parameters, [*word, END], g, k, np.zeros((len(dq), len(word) + 1)),
        {**zero, max(zero): dq}, none, SOURCE)
    return gradients


# --- target: the initial state of a spelling (5.3.3) --------------------------------------------


def seed(parameters: Mapping[str, Array], h_tilde: Array, c: Array, h: Array) -> Array:
    """h'_t (H, 1) of the separate path, from c_t (He, 1) and h_t (H, 1); h~_t of the same path."""
    if SEPARATE not in parameters:
        return h_tilde                                           # the same path
    W = parameters[SEPARATE]
    v = W @ np.vstack([c, h])                                    # W' [c_t; h_t]
    h_check = np.tanh(v)                                         # (5.6)
    return h_check


def seed_grad(
    parameters: Mapping[str, Array], dh_check: Array, c: Array, h: Array
) -> tuple[Seeds, dict[str, Array]]:
    """dh~_t, dc_t and dh_t, and the gradient of W' by name, given that of the first state."""
    if SEPARATE not in parameters:
        return Seeds(dh_tilde=dh_check), {}                      # h~_t itself
    W = parameters[SEPARATE]
    v = W @ np.vstack([c, h])
    dv = tanh_prime(v) * dh_check                                # tanh' o dh'_t of (5.6)
    dW = dv @ np.vstack([c, h]).T                                # (2.12) on (5.6)
    dc, dh = np.split(W.T @ dv, [len(c)])                        # (2.11) on (5.6)
    return Seeds(dc=dc, dh=dh), {SEPARATE: dW}


# --- target: a word, character by character -----------------------------------------------------


def spell(
    parameters: Mapping[str, Array], first: Array, word: Word
) -> tuple[Number, SpellingTrace]:
    """-log p(word), in nats; `first` (H, 1) is the initial hidden state of layer 1."""
    zero, c_0 = zero_states(stack_of(parameters, TARGET).W)
    h_0 = {**zero, 1: first}                                     # cells and higher layers are zero
    h, c = encode(parameters, [END, *word], h_0, c_0, side=TARGET)
    J, p, l = predictions(parameters, [*word, END], tops(h), OUTPUT)
    return J, SpellingTrace(h, c, p, l)


def spell_grad(
    parameters: Mapping[str, Array], word: Word, trace: SpellingTrace
) -> tuple[Array, dict[str, Array]]:
    """d first (H, 1), and the gradients of the target's character network by name."""
    h, c, p, _ = trace
    d_above, output = predictions_grad(parameters, [*word, END], p, tops(h), OUTPUT)
    gradients, dh_0, _ = encode_grad(
        parameters, [END, *word], h, c, columns(d_above),
        *zero_states(stack_of(parameters, TARGET).W), side=TARGET)
    return dh_0[1], {**gradients, **output}


# --- the model ----------------------------------------------------------------------------------


def hybrid_forward(
    parameters: Mapping[str, Array], x: Sequence[int], y: Sequence[int],
    rare: Sequence[Word], spellings: Mapping[int, Word], *,
    variant: Variant = GENERAL, alpha: float = 1.0,
) -> tuple[Number, HybridTrace]:
    """J = J_w + alpha J_c for one pair, in nats; Eqs. 5.1-5.6.

    Arguments: x (at least one word) and y, token ids without end markers; rare, the rare source
    words, each once: number V + r - 1 in x is the r-th; spellings, the rare target words by their
    time t, where y_t is <unk>; variant, how a_t is made.
    """
    q, g, k, l, spelled = {}, {}, {}, {}, {}
    for r, word in enumerate(rare, start=1):                     # once for each word (5.3.2)
        q[r], g[r], k[r] = represent(parameters, word)
    W = np.vstack([parameters["encoder.W_e"], *(q[r].T for r in q)])
    J_w, words = attentional_nmt_forward(                        # (5.1), (5.2), (5.3), (5.4)
        of_words(parameters, W), x, y, variant=variant)
    states = words.states
    for t in range(1, len(y) + 1):
        if t in spellings:                                       # once for each token (5.3.3)
            h = states.h[t][max(states.c[t])]
            h_check = seed(parameters, states.h_tilde[t], states.context[t], h)  # (5.6)
            l[t], spelled[t] = spell(parameters, h_check, spellings[t])
    J_c = sum(l.values())                                        # the characters of rare words
    J = J_w + alpha * J_c                                        # (5.5)
    return J, HybridTrace(words, W, g, k, spelled, alpha)


def hybrid_backward(
    parameters: Mapping[str, Array], x: Sequence[int], y: Sequence[int],
    rare: Sequence[Word], spellings: Mapping[int, Word], trace: HybridTrace,
) -> dict[str, Array]:
    """The gradient of J for every parameter, by name.

    First the spellings of all tokens, then the words from the last to the first, where input
    feeding reads h~_t again, then the characters of all rare source words.
    """
    words, alpha, V = trace.words, trace.alpha, len(parameters["encoder.W_e"])
    states = words.states
    source, target, seeds = zeros(parameters, SOURCE), zeros(parameters, TARGET), {}
    for t in range(len(y), 0, -1):
        if t in spellings:
            h = states.h[t][max(states.c[t])]
            d_first, d_word = spell_grad(parameters, spellings[t], trace.spelled[t])
            dh_check = alpha * d_first                           # (5.5)
            seeds[t], d_path = seed_grad(parameters, dh_check, states.context[t], h)  # (5.6)
            target = add_by_name(target, {name: alpha * d for name, d in d_word.items()})  # (5.5)
            target = add_by_name(target, d_path)
    d_words, _, _ = attentional_nmt_backward(                    # (5.4), (5.3), (5.2), (5.1)
        of_words(parameters, trace.W), x, y, words, seeds)
    dW = d_words["encoder.W_e"]                                  # of a word, from all its places
    for r in range(len(rare), 0, -1):
        dq = dW[[V + r - 1]].T                                   # its row of W is q^T
        source = add_by_name(source, represent_grad(
            parameters, rare[r - 1], dq, trace.g[r], trace.k[r]))
    by_name = {**d_words, "encoder.W_e": dW[:V], **source, **target}
    gradients = {name: by_name[name] for name in parameters}
    return gradients


# --- parameters by name -------------------------------------------------------------------------


def of_words(parameters: Mapping[str, Array], W: Array) -> dict[str, Array]:
    """The parameters of the word model, with vectors W (V + R, E) of the source's words."""
    words = {name: weight for name, weight in parameters.items()
             if not name.startswith((f"{SOURCE}.", f"{TARGET}."))}
    return {**words, "encoder.W_e": W}


def zeros(parameters: Mapping[str, Array], side: str) -> dict[str, Array]:
    """A zero gradient for each parameter of one character network."""
    return {name: np.zeros_like(weight) for name, weight in parameters.items()
            if name.startswith(f"{side}.")}


def add_by_name(total: Mapping[str, Array], term: Mapping[str, Array]) -> dict[str, Array]:
    """The sum of gradients by name, of those in `total`."""
    return {name: d + term[name] if name in term else d for name, d in total.items()}
