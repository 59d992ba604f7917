"""The catalogue's entries of `lstm`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from backend import array_module, to_device
from backend.rows import row_index
from grads.case import (
    SHAPES,
    USUAL,
    WORDS,
    Case,
    E,
    Entry,
    H,
    Inputs,
    Labels,
    Shape,
    V,
    draw,
    draw_masks,
    draw_parameters,
    draw_words,
    flatten,
    frozen,
    idle,
    nest,
    unused_rows,
)
from grads.catalogue.labels import gates, halves, label, parameter_labels
from lstm.embedding import embedding_backward, embedding_forward
from lstm.gru import (
    gru_cell_backward,
    gru_cell_forward,
    gru_step_backward,
    gru_step_forward,
)
from lstm.lstm import (
    lstm_cell_backward,
    lstm_cell_forward,
    lstm_step_backward,
    lstm_step_forward,
)
from lstm.recurrent import make_padding
from lstm.prediction import prediction_backward, prediction_forward
from lstm.rnn import rnn_cell_backward, rnn_cell_forward, rnn_step_backward, rnn_step_forward
from lstm.stack import UNITS, stack_backward, stack_forward, stack_weights

Rng = np.random.Generator
ALSO_NOBODY = (*USUAL, "nobody")
STEP = {"x": label("batch/input"), "h": label("batch/unit"), "c": label("batch/unit"),
        "h_prev": label("batch/unit"), "c_prev": label("batch/unit")}


# --- look-up and prediction ---------------------------------------------------------------------


def embedding(rng: Rng, shape: Shape) -> Case:
    """Rows of a table; ids repeat."""
    ids = draw_words(rng, shape)

    def run(a: Inputs) -> Any:
        x, cache = embedding_forward(a["W_e"], row_index(ids))
        return {"x": x}, cache

    def pull(d: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        return {"W_e": embedding_backward(d["x"], cache)}

    inputs = {"W_e": draw(rng, V, E)}
    return Case(
        inputs, run, pull, idle(shape, inputs, {"W_e": unused_rows(ids, E)}),
        labels={**parameter_labels(inputs), "x": label("time/batch/input")}, facts={"ids": ids},
    )


def prediction(rng: Rng, shape: Shape, bias: bool, words: int = V) -> Case:
    """Softmax and cross-entropy of one row per real step; with one word there is no choice."""
    N = sum(shape.lengths)
    targets = rng.integers(*WORDS, size=N) % words
    inputs = {"h": draw(rng, N, H), "W_hy": draw(rng, words, H)}
    inputs |= {"b": draw(rng, words)} if bias else {}

    def run(a: Inputs) -> Any:
        loss, cache = prediction_forward(a["h"], to_device(targets), a["W_hy"], a.get("b"))
        return {"loss": loss}, cache

    def pull(d: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        gradients = zip(("h", "W_hy", "b"), prediction_backward(cache, d["loss"]), strict=True)
        return {name: gradient for name, gradient in gradients if name in inputs}

    sure = {name: np.ones(value.shape, dtype=bool) for name, value in inputs.items()}
    return Case(
        inputs, run, pull, idle(shape, inputs, sure if words == 1 else {}),
        labels={**parameter_labels(inputs), "h": label("row/unit"), "loss": label("")},
        facts={"targets": targets},
    )


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
        xp, dc = array_module(u), d["c"].copy()
        dz, scratch = xp.empty_like(u), xp.empty((2, *dc.shape), dtype=u.dtype)
        lstm_cell_backward(d["h"], dc, u, c_prev, tanh_c, dz, scratch)
        return {"z": dz, "c_prev": dc}

    z = label("batch/gate", gate=gates("lstm", H))
    return Case({"z": draw(rng, B, 4 * H), "c_prev": draw(rng, B, H)}, run, pull,
                labels=STEP | {"z": z}, facts={"unit": "lstm"})


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

    return Case({"z": draw(rng, shape.batch, H)}, run, pull,
                labels=STEP | {"z": label("batch/gate")}, facts={"unit": "rnn"})


def gru_cell(rng: Rng, shape: Shape) -> Case:
    """Gates, proposal and state from what the input gives.

    T_h, of the two products inside, is a fact here: its gradient is taken of dz after the loop
    (`gru step`, `gru sequence`).
    """
    B, T_h = shape.batch, draw(rng, 3 * H, H)

    def run(a: Inputs) -> Any:
        xp, u, h_prev = array_module(a["z"]), a["z"].copy(), a["h_prev"]
        T, m, h = to_device(T_h.astype(u.dtype)), xp.empty_like(h_prev), xp.empty_like(h_prev)
        gru_cell_forward(u, h_prev, T, m, h, xp.empty((B, 2 * H), dtype=u.dtype))
        return {"h": h}, (u, h_prev, T)

    def pull(d: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        u, h_prev, T = cache
        xp, dh_prev = array_module(u), d["h"].copy()
        dz, scratch = xp.empty_like(u), xp.empty((2, B, H), dtype=u.dtype)
        gru_cell_backward(dh_prev, u, h_prev, T, dz, scratch)
        return {"z": dz, "h_prev": dh_prev}

    z = label("batch/gate", gate=gates("gru", H))
    return Case({"z": draw(rng, B, 3 * H), "h_prev": draw(rng, B, H)}, run, pull,
                labels=STEP | {"z": z}, facts={"unit": "gru", "T_h": T_h})


def step(rng: Rng, shape: Shape, unit: str, bias: bool, width: int = H) -> Case:
    """One time step of a unit of this width."""
    B, n, G = shape.batch, UNITS[unit].states, UNITS[unit].blocks * width
    inputs = {"x": draw(rng, B, E), "h_prev": draw(rng, B, width), "c_prev": draw(rng, B, width),
              "T": draw(rng, G, E + width), "b": draw(rng, G)}
    order = [name for name in inputs if name != "c_prev" or n == 2]
    inputs = {name: inputs[name] for name in order if name != "b" or bias}

    def run(a: Inputs) -> Any:
        arguments = [a.get(name) for name in order]
        if n == 1:
            h, cache = (rnn_step_forward if unit == "rnn" else gru_step_forward)(*arguments)
            return {"h": h}, cache
        (h, c), cache_lstm = lstm_step_forward(*arguments)
        return {"h": h, "c": c}, cache_lstm

    def pull(d: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        backward: Any = {"lstm": lstm_step_backward, "rnn": rnn_step_backward,
                         "gru": gru_step_backward}[unit]
        gradients = zip(order, backward(*d.values(), cache), strict=True)
        return {name: gradient for name, gradient in gradients if name in inputs}

    return Case(inputs, run, pull, idle(shape, inputs, {}),
                labels=STEP | parameter_labels(inputs, unit), facts={"unit": unit})


# --- sequences and stacks -----------------------------------------------------------------------


def sequence(
    rng: Rng, shape: Shape, unit: str, reverse: bool, bias: bool, width: int = H
) -> Case:
    """A unit over a padded batch; `state.0` is h, `state.1` is c."""
    B, steps, G = shape.batch, shape.steps, UNITS[unit].blocks * width
    states = tuple(draw(rng, B, width) for _ in range(UNITS[unit].states))
    inputs = {"x": draw(rng, steps, B, E), "T": draw(rng, G, E + width),
              **flatten("state", states)}
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
    return Case(
        inputs, run, pull, idle(shape, inputs, {"x": dead}), optional=True,
        labels=sequence_labels(inputs, unit),
        facts={"unit": unit, "reverse": reverse, "lengths": shape.host_lengths, "dead": shape.dead},
    )


def sequence_labels(
    inputs: Inputs, unit: str, bidirectional: bool = False, layers: int = 1
) -> dict[str, Labels]:
    """Of a stack of one layer or more, inputs and outputs."""
    names = [f"last.{k}" for k in range(2)] if layers == 1 else [
        f"last.{l}.{d}.{k}" for l in range(layers) for d in range(2) for k in range(2)]
    sides = halves(bidirectional, 2 * H)
    return {**parameter_labels(inputs, unit), **dict.fromkeys(names, label("batch/unit")),
            "x": label("time/batch/input"), "h": label("time/batch/unit", unit=sides)}


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
    masks = draw_masks(rng, shape, (E, directions * H), dropout)
    dead = np.broadcast_to(shape.dead[:, :, None], x.shape)

    def run(a: Inputs) -> Any:
        h, last, cache = stack_forward(
            a["x"], a, "stack", unit, nest("initial", initial, a),
            padding=make_padding(shape.host_lengths, steps),
            masks=[frozen(mask, a["x"]) for mask in masks],
        )
        return {"h": h, **flatten("last", last)}, cache

    def pull(d: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        alone = all(d[name] is None for name in d if name != "h")
        d_last = None if alone else nest("last", initial, d)
        dx, d_initial, gradients = stack_backward(d["h"], d_last, cache)
        return {"x": dx, **flatten("initial", d_initial), **gradients}

    zeros = {"x": dead if masks[0] is None else dead | (masks[0] == 0)}
    return Case(
        inputs, run, pull, idle(shape, inputs, zeros), optional=True,
        labels=sequence_labels(inputs, unit, bidirectional, layers=2),
        facts={"unit": unit, "layers": 2, "bidirectional": bidirectional,
               "lengths": shape.host_lengths, "dead": shape.dead, "masks": masks},
    )


# --- the entries --------------------------------------------------------------------------------

ENTRIES = [
    Entry("embedding", ("lstm.embedding.embedding",), embedding, ALSO_NOBODY, kind="embedding"),
    *(Entry(f"prediction{', bias' * bias}{', one word' * (words == 1)}",
            ("lstm.prediction.prediction",), partial(prediction, bias=bias, words=words),
            ALSO_NOBODY, kind="prediction")
      for bias, words in ((False, V), (True, V), (True, 1))),
    Entry("lstm cell", ("lstm.lstm.lstm_cell",), lstm_cell, ALSO_NOBODY, kind="lstm cell"),
    Entry("rnn cell", ("lstm.rnn.rnn_cell",), rnn_cell, ALSO_NOBODY, kind="rnn cell"),
    Entry("gru cell", ("lstm.gru.gru_cell", "lstm.gru.gru_state", "lstm.gru.gru_gates"), gru_cell,
          ALSO_NOBODY, kind="gru cell"),
    *(Entry(f"{unit} step{', bias' * bias}{', one unit' * (width == 1)}",
            (f"lstm.{unit}.{unit}_step",), partial(step, unit=unit, bias=bias, width=width),
            ALSO_NOBODY, kind="step")
      for unit in UNITS for bias, width in ((False, H), (True, H), (True, 1))),
    *(Entry(f"{unit} sequence{', reverse' * reverse}{', one unit' * (width == 1)}",
            (f"lstm.{unit}.{unit}", f"lstm.stack._{unit}",
             *(("lstm.lstm.lstm_turn",) if unit == "lstm" else ())),
            partial(sequence, unit=unit, reverse=reverse, bias=not reverse, width=width),
            tuple(SHAPES), kind="sequence")
      for unit in UNITS for reverse, width in ((False, H), (True, H), (True, 1))),
    *(Entry(f"{unit} stack{', bidirectional' * both}{', dropout' * dropout}",
            ("lstm.stack.stack",),
            partial(stack, unit=unit, bidirectional=both, dropout=dropout),
            ("ragged", "full", "one step", "padding alone", "nobody"), kind="stack")
      for unit in UNITS for both in (False, True) for dropout in (False, True)),
]
