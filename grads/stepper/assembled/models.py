"""Whole models: a translator of any parts, and a language model of any stack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from grads.derivations.attention import as_written
from grads.derivations.calculus import Array, bias
from grads.derivations.nmt import Layers, add
from grads.derivations.rnn import embed, embed_grad, predict, predict_grad
from grads.derivations.scores import Variant
from grads.stepper.assembled.decoders import DECODERS
from grads.stepper.assembled.encoders import ENCODERS, STARTS
from grads.stepper.assembled.units import (
    CELLS,
    Stack,
    deep_step,
    deep_step_grad,
    named,
    nothing,
    stack_of,
    zeros_of,
)


class Model(NamedTuple):
    """The parts of a translator, by their names in the tables of parts."""

    unit: str  # of UNITS
    H: int  # hidden units of a layer
    encoder: str  # of ENCODERS
    start: str  # of STARTS
    decoder: str  # of DECODERS
    variant: Variant = Variant()  # of Luong's attention
    context: str = ""  # of CONTEXTS, where the decoder reads a context
    layer: str = ""  # of OUTPUTS, there
    deep_state: str = ""  # "before" or "now": whether the output reads s_{i-1} or s_i (erratum 18)
    query: str = "state"  # "state" or "state-word": the query of the score (Nair and Shah, 7.2)
    factors: tuple[str, ...] = ()  # of the source's words, by name
    language: str = ""  # the unit of the language model whose state the output reads (deep fusion)

    @property
    def reads(self) -> str:
        """What the encoder reads of a word, of INPUTS."""
        return "factors" if self.factors else "word"


class TranslatorTrace(NamedTuple):
    """What the forward pass computed."""

    encoded: Any
    h_bar: Array  # (He, S), in the order of attention
    ends: Layers
    run: Any  # of the decoder
    model: Model


def translator_forward(
    parameters: Mapping[str, Array], x: Sequence[Any], y: Sequence[int], *, model: Model
) -> tuple[Any, TranslatorTrace]:
    """J = -log p(y | x) for one pair, in nats.

    Arguments: parameters, by the kernels' names; x as the encoder reads it, and y, token ids
    without end markers, of x with factors tuples of ids; model, the parts.
    """
    h_read, ends, encoded = ENCODERS[model.encoder].forward(model, parameters, x)
    h_bar = as_written(h_read, model.variant)
    h_0, c_0 = STARTS[model.start].forward(model.H, parameters, ends)
    J, run = DECODERS[model.decoder].forward(model, parameters, y, h_bar, h_0, c_0)
    return J, TranslatorTrace(encoded, h_bar, ends, run, model)


def translator_backward(
    parameters: Mapping[str, Array], x: Sequence[int], y: Sequence[int], trace: TranslatorTrace
) -> dict[str, Array]:
    """The gradient of J for every parameter, by name."""
    encoded, h_bar, ends, run, model = trace
    outputs, dh_bar, dh_0, dc_0 = DECODERS[model.decoder].backward(
        model, parameters, y, h_bar, run)
    d_ends, starts = STARTS[model.start].backward(model.H, parameters, ends, dh_0, dc_0)
    dh_read = as_written(dh_bar, model.variant)
    inputs = ENCODERS[model.encoder].backward(
        model, parameters, x, encoded, dh_read, d_ends)
    gradients = {**inputs, **starts, **outputs}
    return {name: gradients[name] for name in parameters}


# --- the language model -------------------------------------------------------------------------


class LanguageTrace(NamedTuple):
    """What the forward pass computed, by time step."""

    h: Any
    c: Any
    p: Any
    l: Any
    unit: str


def language_forward(
    parameters: Mapping[str, Array], x: Sequence[int], y: Sequence[int], *, unit: str
) -> tuple[Any, LanguageTrace]:
    """J = -log p(y) for one sentence, in nats; Eqs. 2.1 and 2.4-2.6, of any unit and depth."""
    W_e, (W, b) = parameters["W_e"], stack_of(parameters, "rnn")
    W_hy, b_hy = parameters["output.W_hy"], bias(parameters, "output.b")
    H = W_hy.shape[1]
    h, c = {0: nothing(W, H)}, {0: nothing(W, H, CELLS[unit])}
    p, l = {}, {}
    for t in range(1, len(x) + 1):
        v = embed(x[t - 1], W_e)                                 # x_t, a column of W_e
        h[t], c[t] = deep_step(unit, h[t - 1], c[t - 1], v, W, b)
        l[t], p[t] = predict(y[t - 1], h[t][len(W)], W_hy, b_hy)
    J = sum(l.values())                                          # -log p(y), (2.1)
    return J, LanguageTrace(h, c, p, l, unit)


def language_backward(
    parameters: Mapping[str, Array], x: Sequence[int], y: Sequence[int], trace: LanguageTrace
) -> dict[str, Array]:
    """The gradient of J for every parameter, by name."""
    h, c, p, _, unit = trace
    W_e, (W, b), W_hy = parameters["W_e"], stack_of(parameters, "rnn"), parameters["output.W_hy"]
    L, dW_e, (dW, db) = len(W), np.zeros_like(W_e), zeros_of(W)
    dW_hy, db_hy = np.zeros_like(W_hy), np.zeros_like(W_hy[:, :1])
    dh, dc = ({len(x): {l: np.zeros_like(states[0][l]) for l in W}} for states in (h, c))
    for t in range(len(x), 0, -1):
        d_vertical, dW_y, d_hy = predict_grad(y[t - 1], p[t], h[t][L], W_hy)
        dW_hy, db_hy = dW_hy + dW_y, db_hy + d_hy
        dh[t] = {**dh[t], L: dh[t][L] + d_vertical}
        dh[t - 1], dc[t - 1], dv, dW_t, db_t = deep_step_grad(
            unit, dh[t], dc[t], h[t - 1], c[t - 1], h[t], W, b)
        dW, db = add(dW, dW_t), add(db, db_t)
        dW_e = embed_grad(x[t - 1], dv, dW_e)
    gradients = {"W_e": dW_e, **named(Stack(dW, db), "rnn"), "output.W_hy": dW_hy,
                 "output.b": db_hy[:, 0]}
    return {name: gradients[name] for name in parameters}
