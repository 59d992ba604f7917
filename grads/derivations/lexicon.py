"""A lexicon as a bias (Arthur et al., 2016; Nguyen, 2019, 3.2.5.2), on the translator of Luong
(2016), 4.2.

Parameters: those of `grads.derivations.attention`. The lexicon P (V_t, V_s) is not a parameter. Its
column f has the probabilities p_lex(e | f) of the translations e of word f. Most of them are zero,
and a column need not sum to one.

The papers print no backward. With the bias, the gradient of a_t gets a second term: a_t is read by
c_t and, through the probabilities of the words that it attends to, by the logits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from grads.derivations.attention import (
    GENERAL,
    AttentionTrace,
    Seeds,
    as_written,
    decode,
    decode_grad,
)
from grads.derivations.calculus import Array, Number, bias, log_sum_exp, one_hot, softmax
from grads.derivations.declaration import Declaration
from grads.derivations.encoders import encode, encode_grad, source_states
from grads.derivations.errata import Mistake
from grads.derivations.examples import (
    PAIR,
    SCORED,
    Example,
    Request,
    attention_example,
    translation_shapes,
)
from grads.derivations.nmt import END
from grads.derivations.rnn import predictions_grad
from grads.derivations.scores import Variant

EPSILON = 1e-2  # of the example; 1e-3 in the paper


class LexiconTrace(NamedTuple):
    """What the forward pass computed."""

    words: AttentionTrace  # p_t and l_t with the bias
    L: Array  # (V_t, S), the columns of the sentence's words


# --- one step -----------------------------------------------------------------------------------


def lexicon_bias(a: Array, L: Array, epsilon: float) -> Array:
    """log(x_t + epsilon) (V_t, 1), from a_t (S, 1) and the lexicon's columns L (V_t, S)."""
    m = L @ a                                                    # (Nguyen 3.2.5.2 attended)
    b_lex = np.log(m + epsilon)                                  # (Nguyen 3.2.5.2 bias)
    return b_lex


def lexicon_bias_grad(db_lex: Array, a: Array, L: Array, epsilon: float) -> Array:
    """da_t (S, 1), given the bias's gradient (V_t, 1)."""
    m = L @ a
    dm = db_lex / (m + epsilon)                                  # log' (Nguyen 3.2.5.2 bias)
    da = L.T @ dm                                                # (2.13) on L a_t
    return da


def predict_with_bias(
    y: int, h: Array, b_lex: Array, W_hy: Array, b: Array | float
) -> tuple[Number, Array]:
    """-log p(y), in nats, and p (V, 1), from h~_t (H, 1) and the lexicon's bias (V, 1)."""
    s = W_hy @ h + b + b_lex                                     # (Nguyen 3.2.5.2 bias)
    p = softmax(s)                                               # (2.5)
    l = log_sum_exp(s) - s[y, 0]                                 # -log p(y), as in (2.19)
    return l, p


def predict_with_bias_grad(y: int, p: Array) -> Array:
    """The bias's gradient (V, 1): that of the logits. The rest is `predict_grad`."""
    db_lex = p - one_hot(y, len(p))                              # (2.20), (2.21)
    return db_lex


# --- the model ----------------------------------------------------------------------------------


def sentence_columns(lexicon: Array, x: Sequence[int], variant: Variant) -> Array:
    """L (V_t, S): the columns of x_1 .. x_S, in the order of the written words."""
    X = np.hstack([one_hot(word, lexicon.shape[1]) for word in x])  # 1_x of each, (V_s, S)
    L = lexicon @ as_written(X, variant)
    return L


def lexicon_forward(
    parameters: Mapping[str, Array], x: Sequence[int], y: Sequence[int], *, lexicon: Array,
    epsilon: float = EPSILON, variant: Variant = GENERAL,
) -> tuple[Number, LexiconTrace]:
    """J = -log p(y | x) for one pair, in nats; as `attentional_nmt_forward`, with the bias.

    Arguments: x (at least one word) and y, token ids without end markers; lexicon, P (V_t, V_s);
    epsilon, above 0; variant, how a_t is made.
    """
    W_hy, b_hy = parameters["output.W_hy"], bias(parameters, "output.b")
    g, k = encode(parameters, x)
    h_bar, L = as_written(source_states(g), variant), sentence_columns(lexicon, x, variant)
    states = decode(parameters, y, h_bar, g[len(x)], k[len(x)], variant)
    p, l = {}, {}
    for t, word in enumerate([*y, END], start=1):
        b_lex = lexicon_bias(states.a[t], L, epsilon)           # (Nguyen 3.2.5.2 bias)
        l[t], p[t] = predict_with_bias(word, states.h_tilde[t], b_lex, W_hy, b_hy)
    J = sum(l.values())                                          # -log p(y | x), (4.1)
    return J, LexiconTrace(AttentionTrace(g, k, states, p, l), L)


def lexicon_backward(
    parameters: Mapping[str, Array], x: Sequence[int], y: Sequence[int], trace: LexiconTrace, *,
    epsilon: float = EPSILON,
) -> dict[str, Array]:
    """The gradient of J for every parameter."""
    (g, k, states, p, _), L = trace
    seeds = {}
    for t in range(len(y) + 1, 0, -1):
        db_lex = predict_with_bias_grad([*y, END][t - 1], p[t])
        da = lexicon_bias_grad(db_lex, states.a[t], L, epsilon)
        seeds[t] = Seeds(da=da)                                  # a_t is read by c_t too
    d_above, output = predictions_grad(parameters, [*y, END], p, states.h_tilde)
    decoder, d_read, dg_last, dk_last = decode_grad(parameters, y, states, d_above, seeds)
    encoder, _, _ = encode_grad(parameters, x, g, k, d_read, dg_last, dk_last)
    gradients = {**encoder, **decoder, **output}
    return {name: gradients[name] for name in parameters}


# --- the example --------------------------------------------------------------------------------


def lexicon_example(request: Request) -> Example:
    """A sentence and its translation, "source ||| target", and a lexicon in which each source word
    has two translations."""
    example = attention_example(translation_shapes, request)
    V_s, V_t = map(len, example.words.values())
    lexicon = np.zeros((V_t, V_s))
    for f in range(V_s):
        for p in (0.6, 0.3):
            lexicon[request.rng.integers(V_t), f] += p
    return replace(example, named={**example.named, "lexicon": lexicon})


HERE = "grads.derivations"
MISTAKES = {
    "alignment read once": Mistake(
        f"{HERE}.attention_step.attend_grad", "h_bar.T @ dc + da_seed", "h_bar.T @ dc",
        "a_t gets its gradient through c_t only, not through the lexicon's bias."),
    "epsilon forgotten": Mistake(
        f"{HERE}.lexicon.lexicon_bias_grad", "db_lex / (m + epsilon)",
        "db_lex / (m + 2.0 * epsilon)",
        "The logarithm's slope is taken at another place than its value."),
    "columns for rows": Mistake(
        f"{HERE}.lexicon.lexicon_bias_grad", "L.T @ dm", "L.sum(axis=0)[:, None] * dm.sum()",
        "Each source word gets the sum over all target words, not over its translations."),
}
DECLARATIONS = (Declaration(
    "lexicon", "Attention with a lexicon's bias ({score}, {window}{feeding}), Nguyen 3.2.5.2",
    lexicon_forward, lexicon_backward, lexicon_example, PAIR,
    ("sentence", "target", "layers", *SCORED, "feeding"),
    {"predictions_grad": "lexicon_forward", "predict_grad": "predict_with_bias"},
    mistakes=MISTAKES),)
