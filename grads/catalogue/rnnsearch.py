"""The catalogue's entries of RNNsearch and RNNencdec: output layers, decoders, whole models."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from attention.attend import Memory
from backend.workspace import Workspace
from grads.case import (
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
    draw_parameters,
    idle,
    scaled,
    unused_rows,
)
from grads.catalogue.configurations import draw_batch
from grads.catalogue.labels import gates, halves, label, parameter_labels
from lstm.recurrent import make_padding
from lstm.stack import stack_weights
from nmt.models.contextual import (
    TURNS,
    Run,
    fixed_backward,
    fixed_forward,
    searching_backward,
    searching_forward,
)
from nmt.models.deep_output import LAYERS, deep_backward, deep_forward, deep_weights
from nmt.models.rnnsearch import (
    ADDITIVE,
    CONTEXTS,
    DEEP_STATES,
    RNNSearch,
    RNNSearchConfig,
    _first_state_backward,
    _first_state_forward,
)

Rng = np.random.Generator
M, WIDE = 5, 4  # units of the output's hidden layer; He, two directions of H
ALSO_NOBODY = (*USUAL, "nobody")


def labels_of(inputs: Inputs, unit: str) -> dict[str, Labels]:
    """Labels of this model's parameters and states."""
    own = {"c": "time/batch/source unit", "fixed": "batch/source unit", "s_0": "batch/unit",
           "last": "batch/unit", "y": "time/batch/input", "s": "time/batch/unit",
           "hbar": "batch/position/source unit",
           "keys": "batch/position/unit", "attention.v_a": "unit", "attention.W_a": "unit/unit",
           "attention.U_a": "unit/source unit", "bridge.W_s": "unit/unit", "bridge.b": "unit",
           "output.U_o": "unit/unit", "output.V_o": "unit/input", "output.b_t": "unit",
           "output.C_o": "unit/source unit", "output.W_o": "word/unit", "output.b": "word"}
    found = parameter_labels(inputs, unit)
    if "decoder.0.T" in inputs:
        columns = {"x": E, "c": inputs["decoder.0.T"].shape[1] - E - H, "h": H}
        found["decoder.0.T"] = label("gate/column", gate=gates(unit, H), column=columns)
    return found | {name: label(axes) for name, axes in own.items()}


# --- output -------------------------------------------------------------------------------------


def layer_case(rng: Rng, shape: Shape, layer: str) -> Case:
    """The hidden layer alone."""
    N, kind = sum(shape.lengths), LAYERS[layer]

    def run(a: Inputs) -> Any:
        t, kept = kind.forward(a["t_tilde"].copy())
        return {"t": t}, kept

    def pull(d: Mapping[str, Any], kept: Any) -> dict[str, Any]:
        return {"t_tilde": kind.backward(d["t"], kept)}

    inputs = {"t_tilde": draw(rng, N, kind.rows * M)}
    return Case(inputs, run, pull, idle(shape, inputs, {}), facts={},
                labels={"t_tilde": label("row/unit"), "t": label("row/unit")})


def deep(rng: Rng, shape: Shape, layer: str, biases: bool) -> Case:
    """t from states, words and contexts."""
    N = sum(shape.lengths)
    weights = deep_weights(layer, M, (H, E, WIDE), V, biases, False)
    del weights["output.W_o"]
    inputs = {"s": draw(rng, N, H), "y": draw(rng, N, E), "c": draw(rng, N, WIDE),
              **draw_parameters(rng, weights)}

    def run(a: Inputs) -> Any:
        t, cache = deep_forward(a["s"], a["y"], a["c"], a, layer)
        return {"t": t}, cache

    def pull(d: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        parts, gradients = deep_backward(d["t"], cache)
        return {**dict(zip("syc", parts, strict=True)), **gradients}

    rows = {"s": label("row/unit"), "y": label("row/input"), "c": label("row/source unit"),
            "t": label("row/unit")}
    return Case(inputs, run, pull, idle(shape, inputs, {}), facts={},
                labels=labels_of(inputs, "gru") | rows)


# --- decoders -----------------------------------------------------------------------------------


def first_state(rng: Rng, shape: Shape, biases: bool) -> Case:
    """s_0 from the encoder's state."""
    inputs = {"last": draw(rng, shape.batch, H), "bridge.W_s": draw(rng, H, H)}
    inputs |= {"bridge.b": draw(rng, H)} if biases else {}

    def run(a: Inputs) -> Any:
        s_0 = _first_state_forward(a["last"], a)
        return {"s_0": s_0}, (s_0, a["last"], a)

    def pull(d: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        d_last, gradients = _first_state_backward(d["s_0"], *cache)
        return {"last": d_last, **gradients}

    return Case(inputs, run, pull, idle(shape, inputs, {}), labels=labels_of(inputs, "gru"),
                facts={})


def decoder(rng: Rng, shape: Shape, context: str, unit: str, biases: bool) -> Case:
    """All steps, over a padded memory that is an input or a context that stays."""
    S, B, T, workspace = shape.steps, shape.batch, max(1, shape.steps - 1), Workspace()
    target_in, searches = rng.integers(*WORDS, size=(T, B)), context == "search"
    weights = stack_weights("decoder", unit, 1, E + WIDE, H, biases=biases)
    inputs = {"s_0": draw(rng, B, H), "decoder.W_e": draw(rng, V, E),
              **draw_parameters(rng, weights)}
    zeros = {"decoder.W_e": unused_rows(target_in, E)}
    if searches:
        inputs |= {"hbar": draw(rng, B, S, WIDE), "keys": draw(rng, B, S, H),
                   "attention.W_a": draw(rng, H, H), "attention.v_a": draw(rng, H)}
        dead = shape.dead.T[:, :, None]
        zeros |= {"hbar": np.broadcast_to(dead, (B, S, WIDE)),
                  "keys": np.broadcast_to(dead | (shape.host_lengths <= 1)[:, None, None],
                                          (B, S, H))}
        if max(shape.lengths, default=0) <= 1:  # nothing to choose from
            zeros |= {name: np.ones(inputs[name].shape, dtype=bool)
                      for name in ("attention.W_a", "attention.v_a")}
    else:
        inputs["fixed"] = draw(rng, B, WIDE)

    def run(a: Inputs) -> Any:
        if not searches:
            found, cache = fixed_forward(target_in, a["s_0"], a["fixed"], a, unit, workspace)
            return found._asdict(), (None, cache, a)
        padding = make_padding(shape.host_lengths, S)
        dead = None if padding is None else padding.dead.transpose(1, 2, 0)
        memory = Memory(a["hbar"], a["keys"], dead, None, ADDITIVE)
        found, kept = searching_forward(target_in, a["s_0"], memory, a, unit, workspace)
        return {"s": found.s, "y": found.y, "c": found.c}, (memory, kept, a)

    def pull(d: Mapping[str, Any], kept: Any) -> dict[str, Any]:
        memory, cache, a = kept
        upstream = Run(d["s"], d["y"], d["c"].copy())
        if memory is None:
            ds_0, dc, gradients = fixed_backward(upstream, cache, a, unit)
            return {"s_0": ds_0, "fixed": dc, **gradients}
        ds_0, d_memory, gradients = searching_backward(upstream, memory, cache, a, unit, workspace)
        return {"s_0": ds_0, "hbar": d_memory.dhbar, "keys": d_memory.dkeys,
                "attention.W_a": d_memory.d_query, **gradients}

    facts = {"unit": unit, "ids": target_in, "lengths": shape.host_lengths, "dead": shape.dead}
    return Case(inputs, run, pull, idle(shape, inputs, zeros), labels=labels_of(inputs, unit),
                facts=facts)


# --- whole models -------------------------------------------------------------------------------


def configure(**options: Any) -> RNNSearchConfig:
    """A configuration of this catalogue's sizes."""
    return RNNSearchConfig(hidden_size=H, embedding_size=E, layer_size=M, **options)


def rnnsearch(rng: Rng, shape: Shape, **options: Any) -> Case:
    """A whole model."""
    config, batch = configure(**options), draw_batch(rng, shape)
    model = RNNSearch(config, V, V)
    inputs = draw_parameters(rng, model.weights())
    real = np.arange(len(batch.target_in))[:, None] < batch.target.lengths
    zeros = {"encoder.W_e": unused_rows(batch.sources[0].ids[~shape.dead], E),
             "decoder.W_e": unused_rows(batch.target_in[real], E)}

    def run(a: Inputs) -> Any:
        loss, cache = model.loss(a, batch)
        return {"loss": loss}, cache

    def pull(d: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        return scaled(model.backward(cache), d["loss"])

    labels = labels_of(inputs, config.unit) | {"loss": label("")}
    labels["attention.U_a"] = label("unit/source unit",
                                    source_unit=halves(config.searches, 2 * H))
    return Case(inputs, run, pull, zeros, labels=labels, facts={"config": config, "batch": batch})


def models() -> dict[str, dict[str, Any]]:
    """All choices; half of them have biases."""
    found = {}
    for number, (context, unit, layer, state) in enumerate(
            product(CONTEXTS, TURNS, LAYERS, DEEP_STATES)):
        name = {"search": "rnnsearch", "last": "rnnencdec"}[context]
        biases = number.bit_count() % 2 == 0
        found[f"{name}, {unit}, {layer}, state {state}{', bias' * biases}"] = {
            "context": context, "unit": unit, "layer": layer, "deep_state": state,
            "biases": biases, "output_bias": biases}
    return found


OUTPUT = "nmt.models.deep_output"
DECODER = "nmt.models.contextual"
ENTRIES = [
    *(Entry(f"deep output's {name}", (f"{OUTPUT}.{function}",), partial(layer_case, layer=name),
            ALSO_NOBODY, kind="deep layer")
      for name, function in (("maxout", "maxout"), ("tanh", "tanh_layer"))),
    *(Entry(f"deep output, {layer}{', bias' * biases}", (f"{OUTPUT}.deep",),
            partial(deep, layer=layer, biases=biases), ALSO_NOBODY, kind="deep output")
      for layer, biases in (("maxout", True), ("maxout", False), ("tanh", True))),
    *(Entry(f"first state{', bias' * biases}", ("nmt.models.rnnsearch._first_state",),
            partial(first_state, biases=biases), ALSO_NOBODY, kind="first state")
      for biases in (True, False)),
    *(Entry(f"{context} decoder, {unit}{', bias' * biases}",
            (f"{DECODER}.{'searching' if context == 'search' else 'fixed'}",
             *((f"{DECODER}._rnn_turn",) if (context, unit) == ("search", "rnn") else ())),
            partial(decoder, context=context, unit=unit, biases=biases),
            USUAL if context == "search" else ALSO_NOBODY, kind="context decoder")
      for context, unit, biases in (("search", "gru", True), ("search", "gru", False),
                                    ("search", "rnn", True), ("last", "gru", True),
                                    ("last", "rnn", False))),
    *(Entry(name, (), partial(rnnsearch, **options), ("ragged", "one sentence"), 16, "rnnsearch")
      for name, options in models().items()),
]
