"""The catalogue's entries of `lstm`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from backend import array_module, to_device
from backend.rows import row_index
from grads.case import (
    WORDS,
    Case,
    E,
    Entry,
    H,
    Inputs,
    Shape,
    V,
    draw,
    draw_mask,
    draw_parameters,
    draw_words,
    flatten,
    frozen,
    nest,
    scaled,
    unused_rows,
)
from lstm.embedding import embedding_backward, embedding_forward
from lstm.language_model import LanguageModel, LanguageModelConfig
from lstm.lstm import (
    lstm_cell_backward,
    lstm_cell_forward,
    lstm_step_backward,
    lstm_step_forward,
)
from lstm.padding import make_padding
from lstm.prediction import prediction_backward, prediction_forward
from lstm.rnn import rnn_cell_backward, rnn_cell_forward, rnn_step_backward, rnn_step_forward
from lstm.stack import UNITS, stack_backward, stack_forward, stack_weights

Rng = np.random.Generator


# --- look-up and prediction ---------------------------------------------------------------------


def embedding(rng: Rng, shape: Shape) -> Case:
    """Rows of a table; ids repeat."""
    ids = draw_words(rng, shape)

    def run(a: Inputs) -> Any:
        x, cache = embedding_forward(a["W_e"], row_index(ids))
        return {"x": x}, cache

    def pull(d: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        return {"W_e": embedding_backward(d["x"], cache)}

    return Case({"W_e": draw(rng, V, E)}, run, pull, {"W_e": unused_rows(ids, E)})


def prediction(rng: Rng, shape: Shape, bias: bool) -> Case:
    """Softmax and cross-entropy of one row per real step."""
    N = sum(shape.lengths)
    targets = rng.integers(*WORDS, size=N)
    inputs = {"h": draw(rng, N, H), "W_hy": draw(rng, V, H)} | ({"b": draw(rng, V)} if bias else {})

    def run(a: Inputs) -> Any:
        loss, cache = prediction_forward(a["h"], to_device(targets), a["W_hy"], a.get("b"))
        return {"loss": loss}, cache

    def pull(d: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        gradients = zip(("h", "W_hy", "b"), prediction_backward(cache, d["loss"]), strict=True)
        return {name: gradient for name, gradient in gradients if name in inputs}

    return Case(inputs, run, pull)


# --- cells and steps ----------------------------------------------------------------------------


def lstm_cell(rng: Rng, shape: Shape) -> Case:
    """Gates and states from the pre-activation."""
    B = shape.batch

    def run(a: Inputs) -> Any:
        xp, c_prev = array_module(a["z"]), a["c_prev"]
        u, (c, tanh_c, h) = a["z"].copy(), (xp.empty_like(c_prev) for _ in range(3))
        lstm_cell_forward(u, c_prev, c, tanh_c, h)
        return {"h": h, "c": c}, (u, c_prev, tanh_c)

    def pull(d: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        u, c_prev, tanh_c = cache
        dc, (dz, scratch) = d["c"].copy(), (array_module(u).empty_like(u) for _ in range(2))
        lstm_cell_backward(d["h"], dc, u, c_prev, tanh_c, dz, scratch)
        return {"z": dz, "c_prev": dc}

    return Case({"z": draw(rng, B, 4 * H), "c_prev": draw(rng, B, H)}, run, pull)


def rnn_cell(rng: Rng, shape: Shape) -> Case:
    """tanh of the pre-activation."""

    def run(a: Inputs) -> Any:
        h = array_module(a["z"]).empty_like(a["z"])
        rnn_cell_forward(a["z"], h)
        return {"h": h}, h

    def pull(d: Mapping[str, Any], h: Any) -> dict[str, Any]:
        dz = array_module(h).empty_like(h)
        rnn_cell_backward(d["h"], h, dz)
        return {"z": dz}

    return Case({"z": draw(rng, shape.batch, H)}, run, pull)


def step(rng: Rng, shape: Shape, unit: str, bias: bool) -> Case:
    """One time step of a unit."""
    B, n, G = shape.batch, UNITS[unit].states, UNITS[unit].blocks * H
    inputs = {"x": draw(rng, B, E), "h_prev": draw(rng, B, H), "c_prev": draw(rng, B, H),
              "T": draw(rng, G, E + H), "b": draw(rng, G)}
    order = [name for name in inputs if name != "c_prev" or n == 2]
    inputs = {name: inputs[name] for name in order if name != "b" or bias}

    def run(a: Inputs) -> Any:
        arguments = [a.get(name) for name in order]
        if unit == "rnn":
            h, cache = rnn_step_forward(*arguments)
            return {"h": h}, cache
        (h, c), cache_lstm = lstm_step_forward(*arguments)
        return {"h": h, "c": c}, cache_lstm

    def pull(d: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        backward: Any = rnn_step_backward if unit == "rnn" else lstm_step_backward
        gradients = zip(order, backward(*d.values(), cache), strict=True)
        return {name: gradient for name, gradient in gradients if name in inputs}

    return Case(inputs, run, pull)


# --- sequences and stacks -----------------------------------------------------------------------


def sequence(rng: Rng, shape: Shape, unit: str, reverse: bool, bias: bool) -> Case:
    """A unit over a padded batch; `state.0` is h, `state.1` is c."""
    B, steps, G = shape.batch, shape.steps, UNITS[unit].blocks * H
    states = tuple(draw(rng, B, H) for _ in range(UNITS[unit].states))
    inputs = {"x": draw(rng, steps, B, E), "T": draw(rng, G, E + H), **flatten("state", states)}
    inputs |= {"b": draw(rng, G)} if bias else {}

    def run(a: Inputs) -> Any:
        h, last, cache = UNITS[unit].forward(
            a["x"], nest("state", states, a), a["T"], a.get("b"),
            padding=make_padding(shape.host_lengths, steps), reverse=reverse,
        )
        return {"h": h, **flatten("last", last)}, cache

    def pull(d: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        d_last = nest("last", states, d)
        dx, d_state, dT, db = UNITS[unit].backward(d["h"], d_last, cache, None)
        gradients = {"x": dx, "T": dT, "b": db, **flatten("state", d_state)}
        return {name: gradient for name, gradient in gradients.items() if name in inputs}

    dead = np.broadcast_to(shape.dead[:, :, None], (steps, B, E))
    return Case(inputs, run, pull, {"x": dead}, optional=True)


def stack(rng: Rng, shape: Shape, unit: str, bidirectional: bool, dropout: bool) -> Case:
    """Two layers; with dropout there are no biases."""
    B, steps, directions = shape.batch, shape.steps, 2 if bidirectional else 1
    weights = stack_weights(
        "stack", unit, 2, E, H, bidirectional=bidirectional, biases=not dropout
    )
    initial = [[tuple(draw(rng, B, H) for _ in range(UNITS[unit].states))
                for _ in range(directions)] for _ in range(2)]
    x = draw(rng, steps, B, E)
    inputs = {"x": x, **flatten("initial", initial), **draw_parameters(rng, weights)}
    masks = [draw_mask(rng, steps, B, width) for width in (E, directions * H)] if dropout else []
    dead = np.broadcast_to(shape.dead[:, :, None], x.shape)

    def run(a: Inputs) -> Any:
        h, last, cache = stack_forward(
            a["x"], a, "stack", unit, nest("initial", initial, a),
            padding=make_padding(shape.host_lengths, steps),
            masks=[frozen(mask, a["x"]) for mask in masks] or None,
        )
        return {"h": h, **flatten("last", last)}, cache

    def pull(d: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        alone = all(d[name] is None for name in d if name != "h")
        d_last = None if alone else nest("last", initial, d)
        dx, d_initial, gradients = stack_backward(d["h"], d_last, cache)
        return {"x": dx, **flatten("initial", d_initial), **gradients}

    zeros = {"x": dead | (masks[0] == 0) if dropout else dead}
    return Case(inputs, run, pull, zeros, optional=True)


def language_model(rng: Rng, shape: Shape, dropout: float = 0.0, **options: Any) -> Case:
    """A whole language model; its states come from the piece before, without a gradient."""
    config = LanguageModelConfig(hidden_size=H, embedding_size=E, dropout=dropout, **options)
    model, T, B = LanguageModel(config, V), shape.steps, shape.batch
    words, targets = (rng.integers(*WORDS, size=(T, B)) for _ in range(2))
    states = [tuple(draw(rng, B, H) for _ in range(UNITS[config.unit].states))
              for _ in range(config.layers)]

    def run(a: Inputs) -> Any:
        masks = np.random.default_rng(7) if dropout else None
        before = [tuple(frozen(s, a["W_e"]) for s in state) for state in states]
        loss, cache = model.loss(a, words, targets, before, masks)
        return {"loss": loss}, cache

    def pull(d: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        return scaled(model.backward(cache), d["loss"])

    return Case(draw_parameters(rng, model.weights()), run, pull,
                {"W_e": unused_rows(words, E)})


# --- the entries --------------------------------------------------------------------------------

ENTRIES = [
    Entry("embedding", ("lstm.embedding.embedding",), embedding),
    *(Entry(f"prediction{', bias' * bias}", ("lstm.prediction.prediction",),
            partial(prediction, bias=bias)) for bias in (False, True)),
    Entry("lstm cell", ("lstm.lstm.lstm_cell",), lstm_cell),
    Entry("rnn cell", ("lstm.rnn.rnn_cell",), rnn_cell),
    *(Entry(f"{unit} step{', bias' * bias}", (f"lstm.{unit}.{unit}_step",),
            partial(step, unit=unit, bias=bias)) for unit in UNITS for bias in (False, True)),
    *(Entry(f"{unit} sequence{', reverse' * reverse}",
            (f"lstm.{unit}.{unit}", f"lstm.stack._{unit}"),
            partial(sequence, unit=unit, reverse=reverse, bias=not reverse))
      for unit in UNITS for reverse in (False, True)),
    *(Entry(f"{unit} stack{', bidirectional' * both}{', dropout' * dropout}",
            ("lstm.stack.stack",),
            partial(stack, unit=unit, bidirectional=both, dropout=dropout),
            ("ragged", "full", "one step"))
      for unit in UNITS for both in (False, True) for dropout in (False, True)),
    Entry("language model", (), partial(language_model)),
    Entry("language model, rnn, 1 layer, no bias", (), partial(
        language_model, unit="rnn", layers=1, biases=False, output_bias=False)),
    Entry("language model, dropout", (), partial(language_model, dropout=0.3)),
]
