"""Two encoders into one decoder, with attention to both (Zoph and Knight, 2016).

The "basic" combination: the decoder starts from h_0 = tanh(W [h^1; h^2]) and c_0 = c^1 + c^2 in
each layer, and the attentional vector reads both contexts (Sennrich sources). All else is
`grads.derivations.attention`.

| parameters | shape | |
|---|---|---|
| `encoder`, `second_encoder` | as in `grads.derivations.nmt` | of each source |
| `combiner.{l}.W` | (H, 2H) | W, of layer l from 0 |
| `attention`, `second_attention` | as in `.attention_step` | the score of each source |
| `attention.W_c` | (H, 2 He + H) | reads [c_t^1; c_t^2; h_t] |
| `decoder`, `output` | as in `grads.derivations.attention` | |

In the code a number behind a letter is the source's: g1, k1 are its states and cells, h_bar1 its
columns of states, a1 and c1 what h_t attends to in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from grads.derivations.attention import (
    GENERAL,
    as_written,
    encoder_grad,
    fed_rows,
    run_encoder,
    source_states,
)
from grads.derivations.attention_step import (
    PREFIX,
    Variant,
    align,
    align_grad,
    parameters_of,
    weights_of,
)
from grads.derivations.calculus import Array, bias, tanh_prime
from grads.derivations.declaration import Declaration
from grads.derivations.errata import Mistake
from grads.derivations.examples import (
    Example,
    Request,
    draw,
    numbers,
    score_shapes,
    split_sides,
    translation_shapes,
    vocabulary_of,
)
from grads.derivations.nmt import (
    END,
    Layers,
    Weights,
    add,
    by_name,
    multi_layer_lstm,
    multi_layer_lstm_grad,
    weights,
    zero_gradients,
    zero_state,
)
from grads.derivations.rnn import embed, embed_grad, predict, predict_grad

SECOND = "second_"


class TwoSourcesTrace(NamedTuple):
    """What the forward pass computed; the decoder's time starts again at 1."""

    g1: dict[int, Layers]  # first encoder: g1[s][l], s = 0 .. m_x, (H, 1)
    k1: dict[int, Layers]  # its cells
    g2: dict[int, Layers]  # second encoder
    k2: dict[int, Layers]
    h: dict[int, Layers]  # decoder: h[t][l], t = 0 .. m_y + 1; h[t][0] is layer 1's input
    c: dict[int, Layers]  # decoder: cells
    h_tilde: dict[int, Array]  # h~_0 .. h~_{m_y + 1}, (H, 1)
    a1: dict[int, Array]  # a_1^1 .., (S_1, 1)
    a2: dict[int, Array]  # a_1^2 .., (S_2, 1)
    p: dict[int, Array]  # p_1 .. p_{m_y + 1}, (V, 1)
    l: dict[int, Any]  # l_1 .. l_{m_y + 1}, nats
    variant: Variant


# --- the decoder's first states -------------------------------------------------------------------


def combine(h1: Array, c1: Array, h2: Array, c2: Array, W: Array) -> tuple[Array, Array]:
    """h_0 and c_0 (H, 1) of one layer, from both encoders' last states (H, 1)."""
    v = W @ np.vstack([h1, h2])                                  # W [h^1; h^2]
    h_0 = np.tanh(v)                                             # (Sennrich sources)
    c_0 = c1 + c2                                                # (Sennrich sources)
    return h_0, c_0


def combine_grad(
    dh_0: Array, dc_0: Array, h1: Array, c1: Array, h2: Array, c2: Array, W: Array
) -> tuple[Array, Array, Array, Array, Array]:
    """dh1, dc1, dh2, dc2 and dW."""
    v = W @ np.vstack([h1, h2])
    dv = tanh_prime(v) * dh_0                                    # tanh' o dh_0
    dW = dv @ np.vstack([h1, h2]).T                              # (2.12)
    dh1, dh2 = np.split(W.T @ dv, [len(h1)])                     # (2.11)
    dc1 = dc_0                                                   # c_0 is a sum
    dc2 = dc_0
    return dh1, dc1, dh2, dc2, dW


# --- one step of attention to both ----------------------------------------------------------------


def attend_both(
    variant: Variant, h: Array, h_bar1: Array, h_bar2: Array, W_c: Array,
    w1: Mapping[str, Array], w2: Mapping[str, Array], t: int = 1,
) -> tuple[Array, Array, Array]:
    """h~_t (H, 1), a_t^1 (S_1, 1) and a_t^2 (S_2, 1)."""
    a1 = align(variant, h, h_bar1, w1, t)                        # (4.7)
    a2 = align(variant, h, h_bar2, w2, t)                        # (4.7)
    c1 = h_bar1 @ a1                                             # (4.2.1 context)
    c2 = h_bar2 @ a2                                             # (4.2.1 context)
    v = W_c @ np.vstack([c1, c2, h])                             # W_c [c_t^1; c_t^2; h_t]
    h_tilde = np.tanh(v)                                         # (4.5; Sennrich sources)
    return h_tilde, a1, a2


def attend_both_grad(
    variant: Variant, dh_tilde: Array, h: Array, h_bar1: Array, h_bar2: Array, W_c: Array,
    w1: Mapping[str, Array], w2: Mapping[str, Array], t: int = 1,
) -> tuple[Array, Array, Array, Array, dict[str, Array], dict[str, Array]]:
    """dh_t, dh_bar1, dh_bar2, dW_c and the gradients of w1 and w2 by name, given dh~_t (H, 1)."""
    a1 = align(variant, h, h_bar1, w1, t)
    a2 = align(variant, h, h_bar2, w2, t)
    c1 = h_bar1 @ a1
    c2 = h_bar2 @ a2
    v = W_c @ np.vstack([c1, c2, h])
    dv = tanh_prime(v) * dh_tilde                                # tanh' o dh~_t of (4.5)
    dW_c = dv @ np.vstack([c1, c2, h]).T                         # (2.12) on (4.5)
    dc1, dc2, dh_joined = np.split(W_c.T @ dv, [len(c1), len(c1) + len(c2)])  # (2.11) on (4.5)
    da1 = h_bar1.T @ dc1                                         # (2.13) on (4.2.1 context)
    da2 = h_bar2.T @ dc2                                         # (2.13) on (4.2.1 context)
    dh_align1, dh_bar_align1, dw1 = align_grad(variant, da1, h, h_bar1, w1, t)  # (4.7)
    dh_align2, dh_bar_align2, dw2 = align_grad(variant, da2, h, h_bar2, w2, t)  # (4.7)
    dh = dh_joined + dh_align1 + dh_align2                       # h_t is joined, and attends twice
    dh_bar1 = dc1 @ a1.T + dh_bar_align1                         # hbar_s is averaged, and a key
    dh_bar2 = dc2 @ a2.T + dh_bar_align2
    return dh, dh_bar1, dh_bar2, dW_c, dw1, dw2


# --- the whole ------------------------------------------------------------------------------------


def two_sources_forward(
    parameters: Mapping[str, Array], x1: Sequence[int], x2: Sequence[int], y: Sequence[int], *,
    variant: Variant = GENERAL,
) -> tuple[Any, TwoSourcesTrace]:
    """J = -log p(y | x^1, x^2), in nats.

    Arguments: x1, x2 (at least one word each) and y, token ids without end markers; variant, how
    a_t^1 and a_t^2 are made.
    """
    W_e, T, b = weights(parameters, "decoder")
    W_c, P = parameters["attention.W_c"], fed_rows(W_e, T)
    w1, w2 = weights_of(parameters), weights_of(parameters, SECOND + PREFIX)
    W_hy, b_hy = parameters["output.W_hy"], bias(parameters, "output.b")
    g1, k1 = run_encoder(parameters, x1)
    g2, k2 = run_encoder(parameters, x2, side="second_encoder")
    h_bar1 = as_written(source_states(g1), variant)
    h_bar2 = as_written(source_states(g2), variant)
    h, c, h_tilde = {0: Layers()}, {0: Layers()}, {0: np.zeros((len(W_c), 1))}
    for l in range(1, len(T) + 1):
        h[0][l], c[0][l] = combine(g1[len(x1)][l], k1[len(x1)][l], g2[len(x2)][l], k2[len(x2)][l],
                                   parameters[f"combiner.{l - 1}.W"])
    a1, a2, p, loss = {}, {}, {}, {}
    for t, (word, following) in enumerate(zip([END, *y], [*y, END], strict=True), start=1):
        v = embed(word, W_e)
        fed = P @ h_tilde[t - 1]                                 # h~_{t-1}, or nothing
        z = np.vstack([v, fed])                                  # Figure 4.4 (4.2.3 feeding)
        h[t], c[t] = multi_layer_lstm(h[t - 1], c[t - 1], z, T, b)
        h_tilde[t], a1[t], a2[t] = attend_both(
            variant, h[t][len(T)], h_bar1, h_bar2, W_c, w1, w2, t)
        loss[t], p[t] = predict(following, h_tilde[t], W_hy, b_hy)  # (4.6)
    J = sum(loss.values())                                       # -log p(y | x^1, x^2)
    return J, TwoSourcesTrace(g1, k1, g2, k2, h, c, h_tilde, a1, a2, p, loss, variant)


def two_sources_backward(
    parameters: Mapping[str, Array], x1: Sequence[int], x2: Sequence[int], y: Sequence[int],
    trace: TwoSourcesTrace,
) -> dict[str, Array]:
    """The gradient of J for every parameter."""
    decoder, dh_bar1, dh_bar2, dh_0, dc_0 = two_decoder_grad(parameters, y, trace)
    g1, k1, g2, k2 = trace.g1[len(x1)], trace.k1[len(x1)], trace.g2[len(x2)], trace.k2[len(x2)]
    dg1, dk1, dg2, dk2, combiner = Layers(), Layers(), Layers(), Layers(), {}
    for l in range(len(dh_0), 0, -1):
        name = f"combiner.{l - 1}.W"
        dg1[l], dk1[l], dg2[l], dk2[l], combiner[name] = combine_grad(
            dh_0[l], dc_0[l], g1[l], k1[l], g2[l], k2[l], parameters[name])
    first, _, _ = encoder_grad(parameters, x1, trace.g1, trace.k1, dh_bar1, dg1, dk1)
    second, _, _ = encoder_grad(
        parameters, x2, trace.g2, trace.k2, dh_bar2, dg2, dk2, side="second_encoder")
    gradients = {**first, **second, **combiner, **decoder}
    return {name: gradients[name] for name in parameters}


def two_decoder_grad(
    parameters: Mapping[str, Array], y: Sequence[int], trace: TwoSourcesTrace
) -> tuple[dict[str, Array], Array, Array, Layers, Layers]:
    """From the losses to the decoder's first states: gradients by name, dh_bar of both sources in
    the order in which the encoders read, dh_0, dc_0."""
    side, W_hy = weights(parameters, "decoder"), parameters["output.W_hy"]
    W_c, P = parameters["attention.W_c"], fed_rows(side.W_e, side.T)
    w1, w2 = weights_of(parameters), weights_of(parameters, SECOND + PREFIX)
    L, E, variant = len(side.T), side.W_e.shape[1], trace.variant
    h_bar1 = as_written(source_states(trace.g1), variant)
    h_bar2 = as_written(source_states(trace.g2), variant)
    dW_e, dT, db = zero_gradients(side)
    dW_c, dW_hy, db_hy = np.zeros_like(W_c), np.zeros_like(W_hy), np.zeros_like(W_hy[:, :1])
    dw1 = {name: np.zeros_like(weight) for name, weight in w1.items()}
    dw2 = {name: np.zeros_like(weight) for name, weight in w2.items()}
    dh, dc = {len(y) + 1: zero_state(side.T)}, {len(y) + 1: zero_state(side.T)}
    dh_bar1, dh_bar2 = np.zeros_like(h_bar1), np.zeros_like(h_bar2)
    d_fed = np.zeros((len(P), 1))  # from the input of time t + 1
    for t in range(len(y) + 1, 0, -1):
        dh_tilde, dW, d_hy = predict_grad([*y, END][t - 1], trace.p[t], trace.h_tilde[t], W_hy)
        dW_hy, db_hy = dW_hy + dW, db_hy + d_hy                  # (4.6), Algorithm 4 line 11
        dh_tilde = dh_tilde + P.T @ d_fed                        # (2.13) on fed = P h~_t
        d_vertical, d_source1, d_source2, dW, dw1_t, dw2_t = attend_both_grad(
            variant, dh_tilde, trace.h[t][L], h_bar1, h_bar2, W_c, w1, w2, t)
        dw1 = {name: dw1[name] + dw1_t[name] for name in dw1}
        dw2 = {name: dw2[name] + dw2_t[name] for name in dw2}
        dW_c, dh_bar1, dh_bar2 = dW_c + dW, dh_bar1 + d_source1, dh_bar2 + d_source2
        dh[t] = {**dh[t], L: dh[t][L] + d_vertical}              # Algorithm 4 line 10
        dh[t - 1], dc[t - 1], dz, dT_t, db_t = multi_layer_lstm_grad(
            dh[t], dc[t], trace.h[t - 1], trace.c[t - 1], trace.h[t], side.T, side.b)
        dT, db = add(dT, dT_t), add(db, db_t)                    # Algorithm 4 line 16
        dv, d_fed = np.split(dz, [E])                            # z_t = [x_t; fed]
        dW_e = embed_grad([END, *y][t - 1], dv, dW_e)            # Algorithm 4 line 18
    found = {**by_name("decoder", Weights(dW_e, dT, db)), "output.W_hy": dW_hy,
             "output.b": db_hy[:, 0], "attention.W_c": dW_c, **parameters_of(dw1),
             **parameters_of(dw2, SECOND + PREFIX)}
    return found, as_written(dh_bar1, variant), as_written(dh_bar2, variant), dh[0], dc[0]


# --- the example ----------------------------------------------------------------------------------


def two_sources_example(request: Request) -> Example:
    """A sentence in two languages and its translation."""
    sides = split_sides(request, TRIPLE, ("source", "second source", "target"))
    names = ("encoder.W_e", "second_encoder.W_e", "decoder.W_e")
    words = {name: list(request.words.get(name, vocabulary_of(side)))
             for name, side in zip(names, sides, strict=True)}
    ids = [numbers(side, words[name]) for name, side in zip(names, sides, strict=True)]
    parameters = dict(request.parameters or draw(
        request.rng, two_sources_shapes([len(one) for one in words.values()], request.sizes)))
    return Example((parameters, *ids), {"variant": request.sizes.variant}, words)


def two_sources_shapes(words: Sequence[int], sizes: Any) -> dict[str, tuple[int, ...]]:
    """The parameters, under the kernels' names; words, of the three vocabularies."""
    V_1, V_2, V_t = words
    H, shapes = sizes.hidden, translation_shapes(V_1, V_t, sizes, attentional=True)
    second = translation_shapes(V_2, V_t, sizes, attentional=False)
    shapes |= {SECOND + name: shape for name, shape in second.items() if "encoder" in name}
    shapes |= {SECOND + name: shape for name, shape in score_shapes(sizes).items()}
    shapes |= {f"combiner.{l}.W": (H, 2 * H) for l in range(sizes.layers)}
    return shapes | {"attention.W_c": (H, 3 * H)}


TRIPLE = "wir lesen die Seite ||| nous lisons la page ||| we read the page"
PARTNERS: Mapping[str, str] = {"two_sources_backward": "two_sources_forward",
                               "two_decoder_grad": "two_sources_forward",
                               "encoder_grad": "run_encoder"}
PAIRS = {"two_sources_backward.gradients": "parameters", "two_decoder_grad.found": "parameters",
         "attend_both_grad.dh_joined": "h in v", "attend_both_grad.dc1": "c1 in v",
         "attend_both_grad.dc2": "c2 in v", "combine_grad.dh1": "h1 in v",
         "combine_grad.dh2": "h2 in v"}
HERE = "grads.derivations.two_sources"
MISTAKES = {
    "one context": Mistake(
        f"{HERE}.attend_both_grad", "dh_joined + dh_align1 + dh_align2", "dh_joined + dh_align1",
        "h_t is compared with the states of both sources: its gradient lacks the second's."),
    "cells halved": Mistake(
        f"{HERE}.combine_grad", "dc2 = dc_0", "dc2 = dc_0 / 2",
        "c_0 is the sum of both cells, not their mean: each gets the whole gradient."),
}
DECLARATIONS = (Declaration(
    "two-sources", "Two encoders, one decoder, Zoph and Knight ({score}, {window}{feeding})",
    two_sources_forward, two_sources_backward, two_sources_example, TRIPLE,
    ("sentence", "layers", "score", "window", "feeding"), PARTNERS, PAIRS, mistakes=MISTAKES),)
