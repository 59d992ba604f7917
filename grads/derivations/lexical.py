"""The lexical module of Nguyen (2019), 3.2.4, on the translator of Luong (2016), 4.2.

Parameters: those of `grads.derivations.attention`, and

| parameter | shape | section 3.2.4 |
|---|---|---|
| `lexical.W` | (E, E) | W |
| `output.W_hy`, `output.W_l` | (V, H), (V, E) | W^o, W^l |
| `output.b` | (V,) | b^o + b^l: their gradients are equal, so they are one parameter (erratum 33) |

Fixnorm, which brings h~_t, h^l_t and the rows of both matrices to one length, is not here: its
Jacobian is that of ScaleNorm in `grads.derivations.norms`.

The paper prints no backward. With the module, two gradients of the translator's get a second term:
a_t is read by c_t and by f_t, and f_s by the encoder and by f_t.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
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
from grads.derivations.calculus import (
    Array,
    Number,
    bias,
    log_sum_exp,
    one_hot,
    softmax,
    tanh_prime,
)
from grads.derivations.declaration import Declaration
from grads.derivations.encoders import encode, encode_grad, source_states
from grads.derivations.errata import Mistake
from grads.derivations.examples import (
    PAIR,
    SCORED,
    TRANSLATION,
    Shapes,
    Sizes,
    attention_example,
    translation_shapes,
)
from grads.derivations.nmt import END
from grads.derivations.rnn import predictions_grad
from grads.derivations.scores import Variant

W_NAME, W_L_NAME = "lexical.W", "output.W_l"


class LexicalTrace(NamedTuple):
    """What the forward pass computed."""

    words: AttentionTrace  # p_t and l_t with the module
    h_l: dict[int, Array]  # h^l_1 .. h^l_{m_y + 1}, (E, 1)


# --- one step -----------------------------------------------------------------------------------


def lexical(a: Array, F: Array, W_lex: Array) -> Array:
    """h^l_t (E, 1) from a_t (S, 1), the embeddings f_s as columns of F (E, S), and W (E, E)."""
    m = F @ a                                                    # sum over s of a_t(s) f_s
    f = np.tanh(m)                                               # (Nguyen 3.2.4 average)
    v = W_lex @ f                                                # W f_t
    h_l = np.tanh(v) + f                                         # (Nguyen 3.2.4 lexical)
    return h_l


def lexical_grad(dh_l: Array, a: Array, F: Array, W_lex: Array) -> tuple[Array, Array, Array]:
    """da_t (S, 1), dF (E, S) and dW (E, E), given dh^l_t (E, 1)."""
    m = F @ a
    f = np.tanh(m)
    v = W_lex @ f
    dv = tanh_prime(v) * dh_l                                    # tanh' o dh^l_t
    dW_lex = dv @ f.T                                            # (2.12) on tanh(W f_t)
    df = dh_l + W_lex.T @ dv                                     # f_t is added; (2.11)
    dm = tanh_prime(m) * df                                      # tanh' (Nguyen 3.2.4 average)
    da = F.T @ dm                                                # (2.13) on F a_t
    dF = dm @ a.T                                                # (2.14) on F a_t
    return da, dF, dW_lex


def predict_both(
    y: int, h: Array, h_l: Array, W_hy: Array, W_l: Array, b: Array | float
) -> tuple[Number, Array]:
    """-log p(y), in nats, and p (V, 1), from h~_t (H, 1) and h^l_t (E, 1)."""
    s = W_hy @ h + W_l @ h_l + b                                 # (Nguyen 3.2.4 output)
    p = softmax(s)                                               # (2.5)
    l = log_sum_exp(s) - s[y, 0]                                 # -log p(y), as in (2.19)
    return l, p


def predict_both_grad(y: int, p: Array, h_l: Array, W_l: Array) -> tuple[Array, Array]:
    """dh^l_t (E, 1) and dW_l (V, E); the rest is `predict_grad`, as without the module."""
    ds = p - one_hot(y, len(p))                                  # (2.20), (2.21)
    dW_l = ds @ h_l.T                                            # (2.14) on W_l h^l
    dh_l = W_l.T @ ds                                            # (2.13) on W_l h^l
    return dh_l, dW_l


# --- the model ----------------------------------------------------------------------------------


def source_words(W_f: Array, x: Sequence[int], variant: Variant) -> Array:
    """F (E, S): f_1 .. f_S as columns, in the order of the written words; W_f (V, E)."""
    X = np.hstack([one_hot(word, len(W_f)) for word in x])       # 1_x of each word, (V, S)
    F = W_f.T @ as_written(X, variant)                           # f_s, the row of word s
    return F


def source_words_grad(dF: Array, W_f: Array, x: Sequence[int], variant: Variant) -> Array:
    """dW_f (V, E), given dF (E, S)."""
    X = np.hstack([one_hot(word, len(W_f)) for word in x])
    dW_f = as_written(X, variant) @ dF.T                         # (2.14) on W_f' X
    return dW_f


def lexical_forward(
    parameters: Mapping[str, Array], x: Sequence[int], y: Sequence[int], *,
    variant: Variant = GENERAL,
) -> tuple[Number, LexicalTrace]:
    """J = -log p(y | x) for one pair, in nats; as `attentional_nmt_forward`, with the module.

    Arguments: x (at least one word) and y, token ids without end markers; variant, how a_t is made.
    """
    W_hy, W_l, b_hy = parameters["output.W_hy"], parameters[W_L_NAME], bias(parameters, "output.b")
    W_lex, W_f = parameters[W_NAME], parameters["encoder.W_e"]
    g, k = encode(parameters, x)
    h_bar, F = as_written(source_states(g), variant), source_words(W_f, x, variant)
    states = decode(parameters, y, h_bar, g[len(x)], k[len(x)], variant)
    h_l, p, l = {}, {}, {}
    for t, word in enumerate([*y, END], start=1):
        h_l[t] = lexical(states.a[t], F, W_lex)                 # (Nguyen 3.2.4 lexical)
        l[t], p[t] = predict_both(word, states.h_tilde[t], h_l[t], W_hy, W_l, b_hy)
    J = sum(l.values())                                          # -log p(y | x), (4.1)
    return J, LexicalTrace(AttentionTrace(g, k, states, p, l), h_l)


def lexical_backward(
    parameters: Mapping[str, Array], x: Sequence[int], y: Sequence[int], trace: LexicalTrace
) -> dict[str, Array]:
    """The gradient of J for every parameter."""
    W_lex, W_l, W_f = parameters[W_NAME], parameters[W_L_NAME], parameters["encoder.W_e"]
    (g, k, states, p, _), h_l = trace
    F = source_words(W_f, x, states.variant)
    dW_lex, dW_l, dF, seeds = np.zeros_like(W_lex), np.zeros_like(W_l), np.zeros_like(F), {}
    for t in range(len(y) + 1, 0, -1):
        dh_l, dW_l_t = predict_both_grad([*y, END][t - 1], p[t], h_l[t], W_l)
        da, dF_t, dW_lex_t = lexical_grad(dh_l, states.a[t], F, W_lex)
        seeds[t] = Seeds(da=da)                                  # a_t is read by c_t too
        dW_lex, dW_l, dF = dW_lex + dW_lex_t, dW_l + dW_l_t, dF + dF_t
    d_above, output = predictions_grad(parameters, [*y, END], p, states.h_tilde)
    decoder, d_read, dg_last, dk_last = decode_grad(parameters, y, states, d_above, seeds)
    encoder, _, _ = encode_grad(parameters, x, g, k, d_read, dg_last, dk_last)
    dW_f = source_words_grad(dF, W_f, x, states.variant)
    gradients = {**encoder, **decoder, **output, W_NAME: dW_lex, W_L_NAME: dW_l,
                 "encoder.W_e": encoder["encoder.W_e"] + dW_f}   # f_s is read by the encoder too
    return {name: gradients[name] for name in parameters}


# --- the example --------------------------------------------------------------------------------


def lexical_shapes(V_s: int, V_t: int, sizes: Sizes) -> Shapes:
    """The parameters by name."""
    E = sizes.embedding
    return {**translation_shapes(V_s, V_t, sizes), W_NAME: (E, E), W_L_NAME: (V_t, E)}


HERE = "grads.derivations"
MISTAKES = {
    "alignment read once": Mistake(
        f"{HERE}.attention_step.attend_grad", "h_bar.T @ dc + da_seed", "h_bar.T @ dc",
        "a_t gets its gradient through c_t only, not through f_t."),
    "source words of one step": Mistake(
        f"{HERE}.lexical.lexical_backward", "dW_l + dW_l_t, dF + dF_t", "dW_l + dW_l_t, dF_t",
        "f_s gets its gradient from one step, not the sum over all that attend to it."),
    "skip connection dropped": Mistake(
        f"{HERE}.lexical.lexical_grad", "dh_l + W_lex.T @ dv", "W_lex.T @ dv",
        "f_t gets its gradient through W only, not through the sum."),
}
DECLARATIONS = (Declaration(
    "lexical", "Attention with the lexical module ({score}, {window}{feeding}), Nguyen 3.2.4",
    lexical_forward, lexical_backward, partial(attention_example, lexical_shapes), PAIR,
    (*TRANSLATION, "layers", *SCORED, "feeding"),
    {"predictions_grad": "lexical_forward", "predict_grad": "predict_both"},
    mistakes=MISTAKES),)
