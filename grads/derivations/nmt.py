"""Deep LSTM encoder-decoder without attention: Algorithms 3, 4 and 5 (Luong, 2016, 2.3).

Parameters, for side encoder and decoder and layer l from 0: `{side}.W_e` (V, E), `{side}.{l}.W`
(4H, in + H), `{side}.{l}.b` (4H,) optional; `output.W_hy` (V, H), `output.b` (V,) optional. The
algorithms count layers from 1 and call the embedding layer 0, and so do h, c, T and b here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from grads.derivations.calculus import Array, Number, bias, softmax
from grads.derivations.declaration import Declaration
from grads.derivations.errata import Mistake
from grads.derivations.examples import (
    PAIR,
    TRANSLATION,
    translation_example,
    translation_shapes,
)
from grads.derivations.lstm import FORGOTTEN_DC, NO_DH_PREV
from grads.derivations.rnn import (
    ONE_EMBEDDING,
    PRINTED_SIGN,
    embed,
    embed_grad,
    predict,
    predict_grad,
)
from grads.derivations.units import (
    Layers,
    Stack,
    add,
    deep_step,
    deep_step_grad,
    named,
    stack_of,
    zero_states,
    zeros_of,
)

END = 1  # Index(_): ends a sentence and starts the decoder; </s> in the vocabulary
ALPHA = 1.5  # length factor of Algorithm 5, footnote 7


class Weights(NamedTuple):
    """One side's weights: W_e and T_lstm^(1..L) of the algorithms, and the optional biases."""

    W_e: Array
    T: Layers
    b: dict[int, Any]  # (4H, 1), or 0.0 where the model has none


class NMTTrace(NamedTuple):
    """The values of the forward pass; t runs over s = [x, _, y, _]."""

    s: dict[int, int]  # s_1 .. s_{m_x + m_y + 2}
    h: dict[int, Layers]  # h[t][l], (H, 1); h[t][0] is the embedding of s_t
    c: dict[int, Layers]  # c[t][l], (H, 1)
    p: dict[int, Array]  # p_t, (V, 1), on the decoder side
    l: dict[int, Number]  # l_t, nats, on the decoder side


# --- weights and their gradients ----------------------------------------------------------------


def weights(parameters: Mapping[str, Array], side: str) -> Weights:
    """The weights of one side, "encoder" or "decoder", by layer from 1."""
    return Weights(parameters[f"{side}.W_e"], *stack_of(parameters, side))


def zero_gradients(of: Weights) -> Weights:
    """Zeros shaped like dW_e, dT and db."""
    return Weights(np.zeros_like(of.W_e), *zeros_of(of.T, of.b))


def by_name(side: str, d: Weights) -> dict[str, Array]:
    """The gradients of one side under the parameters' names."""
    return {f"{side}.W_e": d.W_e, **named(Stack(d.T, d.b), side)}


# --- training: Algorithms 3 and 4 ---------------------------------------------------------------


def forward(
    parameters: Mapping[str, Array], x: Sequence[int], y: Sequence[int],
    h_0: Layers | None = None, c_0: Layers | None = None,
) -> tuple[Number, NMTTrace]:
    """J = -log p(y | x) for one pair, in nats; Algorithm 3, Eq. 2.51.

    Arguments: x and y, token ids without end markers; h_0, c_0 the encoder's initial states by
    layer from 1, zero if None.
    """
    m_x, m_y = len(x), len(y)
    s = dict(enumerate([*x, END, *y, END], start=1))             # line 1
    W_e, T, b = weights(parameters, "encoder")                   # line 2
    h, c = ({0: zero} for zero in zero_states(T))                # line 3
    h, c = {0: h_0 or h[0]}, {0: c_0 or c[0]}
    p, l = {}, {}
    W_hy, b_hy = parameters["output.W_hy"], bias(parameters, "output.b")
    for t in range(1, m_x + 1 + m_y + 1):                        # line 4
        if t == m_x + 1:                                         # line 5
            W_e, T, b = weights(parameters, "decoder")
        v = embed(s[t], W_e)                                     # line 7
        h[t], c[t] = deep_step("lstm", h[t - 1], c[t - 1], v, T, b)
        if t >= m_x + 1:                                         # line 10
            l[t], p[t] = predict(s[t + 1], h[t][len(T)], W_hy, b_hy)
    J = sum(l.values())                                          # -log p(y | x), (2.51)
    return J, NMTTrace(s, h, c, p, l)


def backward(
    parameters: Mapping[str, Array], x: Sequence[int], y: Sequence[int], trace: NMTTrace
) -> tuple[dict[str, Array], Layers, Layers]:
    """The gradient of J for every parameter, and dh_0, dc_0 by layer; Algorithm 4."""
    m_x, m_y = len(x), len(y)
    s, h, c, p, _ = trace
    side, W_hy = weights(parameters, "decoder"), parameters["output.W_hy"]
    L = len(side.T)
    dh, dc = ({m_x + 1 + m_y: zero} for zero in zero_states(side.T))  # line 1
    dW_e, dT, db = zero_gradients(side)                          # line 2
    dW_hy, db_hy = np.zeros_like(W_hy), np.zeros_like(W_hy[:, :1])
    saved: dict[str, Array] = {}
    for t in range(m_x + 1 + m_y, 0, -1):                        # line 3
        if t == m_x:                                             # line 4
            saved = by_name("decoder", Weights(dW_e, dT, db))    # line 5
            side = weights(parameters, "encoder")
            dW_e, dT, db = zero_gradients(side)                  # line 6
        if t >= m_x + 1:                                         # line 8
            d_vertical, dW, d_hy = predict_grad(s[t + 1], p[t], h[t][L], W_hy)  # line 9
            dh[t] = {**dh[t], L: dh[t][L] + d_vertical}          # line 10
            dW_hy, db_hy = dW_hy + dW, db_hy + d_hy              # line 11
        dh[t - 1], dc[t - 1], dx, dT_t, db_t = deep_step_grad(
            "lstm", dh[t], dc[t], h[t - 1], c[t - 1], h[t], side.T, side.b)
        dT, db = add(dT, dT_t), add(db, db_t)                    # line 16
        dW_e = embed_grad(s[t], dx, dW_e)                        # line 18
    saved = {**saved, **by_name("encoder", Weights(dW_e, dT, db))}  # line 20
    saved = {**saved, "output.W_hy": dW_hy, "output.b": db_hy[:, 0]}
    return {name: saved[name] for name in parameters}, dh[0], dc[0]


# --- testing: Algorithm 5 -----------------------------------------------------------------------


def encode(parameters: Mapping[str, Array], x: Sequence[int]) -> tuple[Layers, Layers]:
    """The encoder's last states h and c by layer; the loop of Algorithm 3 up to t = m_x."""
    W_e, T, b = weights(parameters, "encoder")
    h, c = zero_states(T)
    for word in x:
        h, c = deep_step("lstm", h, c, embed(word, W_e), T, b)
    return h, c


def greedy(
    parameters: Mapping[str, Array], x: Sequence[int], alpha: float = ALPHA
) -> list[int]:
    """The greedy translation of x, token ids without the end marker; Algorithm 5.

    It ends at the end marker, which y_{2..t} leaves out, or at alpha m_x words, when y_{2..t} has
    all words (erratum 6).
    """
    W_e, T, b = weights(parameters, "decoder")
    W_hy, b_hy = parameters["output.W_hy"], bias(parameters, "output.b")
    h, c = encode(parameters, x)                                 # line 1
    t = 1                                                        # line 2
    y = {1: END}                                                 # line 3
    while t <= alpha * len(x):                                   # line 4
        h, c = deep_step("lstm", h, c, embed(y[t], W_e), T, b)    # line 5
        p = softmax(W_hy @ h[len(T)] + b_hy)                     # (2.4), (2.5), line 6
        y[t + 1] = int(p.real.argmax())                          # line 7
        if y[t + 1] == END:                                      # line 8
            break                                                # line 9
        t = t + 1                                                # line 11
    return [y[i] for i in range(2, t + 1)]                       # line 13


# --- the declaration ------------------------------------------------------------------------------

PAIRS = {"backward.saved": "parameters"}
HERE = "grads.derivations.nmt"
MISTAKES = {
    **PRINTED_SIGN, **FORGOTTEN_DC, **NO_DH_PREV,
    "without line 15": Mistake(
        "grads.derivations.units.deep_step_grad", "dh[l - 1] + dx", "dh[l - 1] + 0 * dx",
        "dx of a layer is not added to the layer below: lower layers and embeddings get no "
        "gradient from above."),
    "encoder one step early": Mistake(
        f"{HERE}.backward", "if t == m_x:", "if t == m_x + 1:",
        "line 4 at t = m_x + 1: the decoder's first word goes to the encoder's gradients."),
    **ONE_EMBEDDING,
}
DECLARATIONS = (Declaration(
    "nmt", "Encoder-decoder, Algorithms 3 and 4", forward, backward,
    partial(translation_example, partial(translation_shapes, attentional=False)), PAIR,
    (*TRANSLATION, "layers"), attentive=False, gates=("i", "f", "o", "h_hat"),
    mistakes=MISTAKES),)
