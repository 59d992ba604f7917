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

Sources are numbered, n = 1 and 2: g[n], k[n] are the states and cells of encoder n, h_bar[n] its
states as columns, a[n] and c[n] the alignment and the context of h_t in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from grads.derivations.attention import GENERAL, as_written, fed_rows
from grads.derivations.attention_step import PREFIX, align, align_grad, parameters_of, weights_of
from grads.derivations.calculus import Array, Number, tanh_prime
from grads.derivations.declaration import Declaration
from grads.derivations.encoders import encode, encode_grad, source_states
from grads.derivations.errata import Mistake
from grads.derivations.examples import (
    SCORED,
    Example,
    Request,
    draw,
    numbers,
    score_shapes,
    split_sides,
    translation_shapes,
    vocabulary_of,
)
from grads.derivations.nmt import END, Weights, by_name, weights, zero_gradients
from grads.derivations.rnn import embed, embed_grad, predictions, predictions_grad
from grads.derivations.scores import Variant
from grads.derivations.units import Layers, add, deep_step, deep_step_grad, zero_states

SOURCES = (1, 2)
PREFIXES = {1: "", 2: "second_"}  # of the names of a source's parameters


class TwoSourcesTrace(NamedTuple):
    """What the forward pass computed; the decoder's time starts again at 1."""

    g: dict[int, dict[int, Layers]]  # encoders: g[n][s][l], s = 0 .. m_x, (H, 1)
    k: dict[int, dict[int, Layers]]  # their cells
    h: dict[int, Layers]  # decoder: h[t][l], t = 0 .. m_y + 1; h[t][0] is layer 1's input
    c: dict[int, Layers]  # decoder: cells
    h_tilde: dict[int, Array]  # h~_0 .. h~_{m_y + 1}, (H, 1)
    a: dict[int, dict[int, Array]]  # a[t][n], (S_n, 1)
    p: dict[int, Array]  # p_1 .. p_{m_y + 1}, (V, 1)
    l: dict[int, Number]  # l_1 .. l_{m_y + 1}, nats
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
    variant: Variant, h: Array, h_bar: Mapping[int, Array], W_c: Array,
    w: Mapping[int, Mapping[str, Array]], t: int,
) -> tuple[Array, dict[int, Array]]:
    """h~_t (H, 1), and a_t (S_n, 1) of each source n."""
    a, c = dict[int, Array](), dict[int, Array]()
    for n in range(1, 3):
        a[n] = align(variant, h, h_bar[n], w[n], t)              # (4.7)
        c[n] = h_bar[n] @ a[n]                                   # (4.2.1 context)
    v = W_c @ np.vstack([c[1], c[2], h])                         # W_c [c_t^1; c_t^2; h_t]
    h_tilde = np.tanh(v)                                         # (4.5; Sennrich sources)
    return h_tilde, a


def attend_both_grad(
    variant: Variant, dh_tilde: Array, h: Array, h_bar: Mapping[int, Array], W_c: Array,
    w: Mapping[int, Mapping[str, Array]], t: int,
) -> tuple[Array, dict[int, Array], Array, dict[int, dict[str, Array]]]:
    """dh_t, dh_bar[n], dW_c and the gradients of w[n] by name, given dh~_t (H, 1)."""
    a = {n: align(variant, h, h_bar[n], w[n], t) for n in SOURCES}
    c = {n: h_bar[n] @ a[n] for n in SOURCES}
    v = W_c @ np.vstack([c[1], c[2], h])
    dv = tanh_prime(v) * dh_tilde                                # tanh' o dh~_t of (4.5)
    dW_c = dv @ np.vstack([c[1], c[2], h]).T                     # (2.12) on (4.5)
    dc, dh_align, dh_bar = dict[int, Array](), dict[int, Array](), dict[int, Array]()
    dw = dict[int, dict[str, Array]]()
    ends = [len(c[1]), len(c[1]) + len(c[2])]
    dc[1], dc[2], dh_joined = np.split(W_c.T @ dv, ends)         # (2.11) on (4.5)
    for n in range(2, 0, -1):
        da = h_bar[n].T @ dc[n]                                  # (2.13) on (4.2.1 context)
        dh_align[n], dh_bar_align, dw[n] = align_grad(           # (4.7)
            variant, da, h, h_bar[n], w[n], t)
        dh_bar[n] = dc[n] @ a[n].T + dh_bar_align                # hbar_s is averaged, and a key
    dh = dh_joined + dh_align[1] + dh_align[2]                   # h_t is joined, and attends twice
    return dh, dh_bar, dW_c, dw


# --- the whole ------------------------------------------------------------------------------------


def two_sources_forward(
    parameters: Mapping[str, Array], x_1: Sequence[int], x_2: Sequence[int], y: Sequence[int], *,
    variant: Variant = GENERAL,
) -> tuple[Number, TwoSourcesTrace]:
    """J = -log p(y | x^1, x^2), in nats.

    Arguments: x_1, x_2 (at least one word each) and y, token ids without end markers; variant, how
    h_t attends to either.
    """
    W_e, T, b = weights(parameters, "decoder")
    W_c, w, P = parameters["attention.W_c"], both_weights(parameters), fed_rows(W_e, T)
    g, k, g_last, k_last = {}, {}, {}, {}
    for n, x in enumerate((x_1, x_2), start=1):
        g[n], k[n] = encode(parameters, x, side=f"{PREFIXES[n]}encoder")
        g_last[n], k_last[n] = g[n][len(x)], k[n][len(x)]
    h_bar = {n: as_written(source_states(g[n]), variant) for n in SOURCES}
    h, c = {0: Layers()}, {0: Layers()}
    for l in range(1, len(T) + 1):
        h[0][l], c[0][l] = combine(g_last[1][l], k_last[1][l], g_last[2][l], k_last[2][l],
                                   parameters[f"combiner.{l - 1}.W"])
    h_tilde, a = {0: np.zeros((len(W_c), 1))}, {}
    for t, word in enumerate([END, *y], start=1):
        v = embed(word, W_e)
        fed = P @ h_tilde[t - 1]                                 # h~_{t-1}, or nothing
        z = np.vstack([v, fed])                                  # Figure 4.4 (4.2.3 feeding)
        h[t], c[t] = deep_step("lstm", h[t - 1], c[t - 1], z, T, b)
        h_tilde[t], a[t] = attend_both(variant, h[t][len(T)], h_bar, W_c, w, t)
    J, p, loss = predictions(parameters, [*y, END], h_tilde)
    return J, TwoSourcesTrace(g, k, h, c, h_tilde, a, p, loss, variant)


def both_weights(parameters: Mapping[str, Array]) -> dict[int, dict[str, Array]]:
    """The weights of each source's score, as `weights_of`."""
    return {n: weights_of(parameters, PREFIXES[n] + PREFIX) for n in SOURCES}


def two_sources_backward(
    parameters: Mapping[str, Array], x_1: Sequence[int], x_2: Sequence[int], y: Sequence[int],
    trace: TwoSourcesTrace,
) -> dict[str, Array]:
    """The gradient of J for every parameter."""
    d_above, output = predictions_grad(parameters, [*y, END], trace.p, trace.h_tilde)
    gradients, d_read, dh_0, dc_0 = two_decoder_grad(parameters, y, trace, d_above)
    gradients = {**gradients, **output}
    x = {1: x_1, 2: x_2}
    g_last = {n: trace.g[n][len(x[n])] for n in SOURCES}
    k_last = {n: trace.k[n][len(x[n])] for n in SOURCES}
    dg_last, dk_last = {n: Layers() for n in SOURCES}, {n: Layers() for n in SOURCES}
    for l in range(len(dh_0), 0, -1):
        W = parameters[f"combiner.{l - 1}.W"]
        dg_last[1][l], dk_last[1][l], dg_last[2][l], dk_last[2][l], dW = combine_grad(
            dh_0[l], dc_0[l], g_last[1][l], k_last[1][l], g_last[2][l], k_last[2][l], W)
        gradients = {**gradients, f"combiner.{l - 1}.W": dW}
    for n in range(2, 0, -1):
        encoder, _, _ = encode_grad(
            parameters, x[n], trace.g[n], trace.k[n], d_read[n], dg_last[n], dk_last[n],
            side=f"{PREFIXES[n]}encoder")
        gradients = {**gradients, **encoder}
    return {name: gradients[name] for name in parameters}


def two_decoder_grad(
    parameters: Mapping[str, Array], y: Sequence[int], trace: TwoSourcesTrace,
    d_above: Mapping[int, Array],
) -> tuple[dict[str, Array], dict[int, Array], Layers, Layers]:
    """From the losses to the decoder's first states: gradients by name, dh_bar of each source in
    the order in which its encoder read it, dh_0, dc_0."""
    side = weights(parameters, "decoder")
    W_c, w, P = parameters["attention.W_c"], both_weights(parameters), fed_rows(side.W_e, side.T)
    L, E, variant = len(side.T), side.W_e.shape[1], trace.variant
    h_bar = {n: as_written(source_states(trace.g[n]), variant) for n in SOURCES}
    dW_e, dT, db = zero_gradients(side)
    dW_c = np.zeros_like(W_c)
    dw = {n: {name: np.zeros_like(weight) for name, weight in w[n].items()} for n in SOURCES}
    dh, dc = ({len(y) + 1: zero} for zero in zero_states(side.T))
    dh_bar = {n: np.zeros_like(h_bar[n]) for n in SOURCES}
    d_fed = np.zeros((len(P), 1))  # from the input of time t + 1
    for t in range(len(y) + 1, 0, -1):
        dh_tilde = d_above[t] + P.T @ d_fed                      # (2.13) on fed = P h~_t
        d_vertical, d_source, dW, dw_t = attend_both_grad(
            variant, dh_tilde, trace.h[t][L], h_bar, W_c, w, t)
        dW_c = dW_c + dW
        dw = {n: {name: dw[n][name] + dw_t[n][name] for name in dw[n]} for n in SOURCES}
        dh_bar = add(dh_bar, d_source)                           # hbar_s is read at every t
        dh[t] = {**dh[t], L: dh[t][L] + d_vertical}              # Algorithm 4 line 10
        dh[t - 1], dc[t - 1], dz, dT_t, db_t = deep_step_grad(
            "lstm", dh[t], dc[t], trace.h[t - 1], trace.c[t - 1], trace.h[t], side.T, side.b)
        dT, db = add(dT, dT_t), add(db, db_t)                    # Algorithm 4 line 16
        dv, d_fed = np.split(dz, [E])                            # z_t = [x_t; fed]
        dW_e = embed_grad([END, *y][t - 1], dv, dW_e)            # Algorithm 4 line 18
    attention = {name: d for n in SOURCES
                 for name, d in parameters_of(dw[n], PREFIXES[n] + PREFIX).items()}
    d_read = {n: as_written(dh_bar[n], variant) for n in SOURCES}  # as the encoders read them
    gradients = {**by_name("decoder", Weights(dW_e, dT, db)), **attention, "attention.W_c": dW_c}
    return gradients, d_read, dh[0], dc[0]


# --- the example ----------------------------------------------------------------------------------


def two_sources_example(request: Request) -> Example:
    """A sentence in two languages and its translation."""
    sides = split_sides(request, TRIPLE, ("source", "second source", "target"))
    names = ("encoder.W_e", "second_encoder.W_e", "decoder.W_e")
    words = {name: vocabulary_of(side) for name, side in zip(names, sides, strict=True)}
    ids = [numbers(side, words[name]) for name, side in zip(names, sides, strict=True)]
    parameters = draw(
        request.rng, two_sources_shapes(list(map(len, words.values())), request.sizes))
    return Example((parameters, *ids), {"variant": request.sizes.variant}, words)


def two_sources_shapes(words: Sequence[int], sizes: Any) -> dict[str, tuple[int, ...]]:
    """The parameters, under the kernels' names; words, of the three vocabularies."""
    V_1, V_2, V_t = words
    H, shapes = sizes.hidden, translation_shapes(V_1, V_t, sizes)
    second = translation_shapes(V_2, V_t, sizes, attentional=False)
    second = {name: shape for name, shape in second.items() if name.startswith("encoder")}
    second |= score_shapes(sizes)
    shapes |= {PREFIXES[2] + name: shape for name, shape in second.items()}
    shapes |= {f"combiner.{l}.W": (H, 2 * H) for l in range(sizes.layers)}
    return shapes | {"attention.W_c": (H, 3 * H)}


TRIPLE = "wir lesen die Seite ||| nous lisons la page ||| we read the page"
PAIRS = {"two_decoder_grad.gradients": "parameters", "attend_both_grad.dh_joined": "h in v"}
HERE = "grads.derivations.two_sources"
MISTAKES = {
    "one context": Mistake(
        f"{HERE}.attend_both_grad", "dh_align[1] + dh_align[2]", "dh_align[1]",
        "h_t is compared with the states of both sources: its gradient lacks the second's."),
    "cells halved": Mistake(
        f"{HERE}.combine_grad", "dc2 = dc_0", "dc2 = dc_0 / 2",
        "c_0 is the sum of both cells, not their mean: each gets the whole gradient."),
    "W_c of one step": Mistake(
        f"{HERE}.two_decoder_grad", "dW_c + dW", "dW",
        "W_c serves at every t: what each step gives is added."),
}
DECLARATIONS = (Declaration(
    "two-sources", "Two encoders, one decoder, Zoph and Knight ({score}, {window}{feeding})",
    two_sources_forward, two_sources_backward, two_sources_example, TRIPLE,
    ("sentence", "layers", *SCORED, "feeding"),
    {"two_decoder_grad": "two_sources_forward"}, mistakes=MISTAKES),)
