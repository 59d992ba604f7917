"""The catalogue's entries of `attention`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from attention.attend import (
    Memory,
    attend_backward,
    attend_forward,
    attend_memory_backward,
    attentional_backward,
    attentional_forward,
    memory_backward,
    memory_forward,
)
from attention.scores import (
    PRODUCTS,
    map_backward,
    map_forward,
    map_weight,
    score_weights,
)
from attention.way import Way
from grads.case import USUAL, Case, Entry, H, Inputs, Shape, draw, draw_parameters, idle
from grads.catalogue.labels import label, parameter_labels
from lstm.recurrent import make_padding

Rng = np.random.Generator
WIDE = 4  # He, where source states are wider than H
ALSO_NOBODY = (*USUAL, "nobody")
MEMORY = {"hbar": label("batch/position/unit"), "keys": label("batch/position/unit")}


def linear_map(rng: Rng, shape: Shape) -> Case:
    """Queries or keys: a matrix times each row."""
    inputs = {"x": draw(rng, shape.batch, shape.steps, WIDE), "W": draw(rng, H, WIDE)}

    def run(a: Inputs) -> Any:
        return {"y": map_forward(a["x"], a["W"])}, a

    def pull(d: Mapping[str, Any], a: Any) -> dict[str, Any]:
        return {"x": map_backward(d["y"], a["W"]), "W": map_weight(d["y"], a["x"], a["W"])}

    labels = {"x": label("batch/position/source unit"), "W": label("unit/source unit"),
              "y": label("batch/position/unit")}
    return Case(inputs, run, pull, labels=labels)


def memory(rng: Rng, shape: Shape, score: str) -> Case:
    """The encoder's states as values and as keys. Padding is left to whoever looks at them."""
    width = H if score == "dot" else WIDE
    parameters = draw_parameters(rng, score_weights(Way(score), "attention", H, width))

    def run(a: Inputs) -> Any:
        made = memory_forward(a["states"], None, Way(score), a, "attention")
        return {"hbar": made.hbar, "keys": made.keys}, (made, a)

    def pull(d: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        made, a = cache
        dstates, gradients = memory_backward(d["hbar"], d["keys"], made, a, "attention")
        return {"states": dstates, **gradients}

    inputs = {"states": draw(rng, shape.steps, shape.batch, width), **parameters}
    labels = {**MEMORY, "states": label("position/batch/unit"), **parameter_labels(inputs)}
    return Case(inputs, run, pull, labels=labels, facts={"score": score})


def memory_zeros(shape: Shape, width: int) -> dict[str, np.ndarray]:
    """Where hbar (B, S, He) and keys (B, S, H) cannot matter.

    Padding does not, and a softmax over one word is one whatever the score.
    """
    dead = np.broadcast_to(shape.dead.T[:, :, None], (shape.batch, shape.steps, width))
    single = shape.host_lengths == 1
    return {"hbar": dead, "keys": dead[:, :, :H] | single[:, None, None]}


def attend(rng: Rng, shape: Shape) -> Case:
    """Two target states looking at each padded sentence."""
    B, S, Q = shape.batch, shape.steps, 2
    inputs = {"h": draw(rng, B, Q, H), "hbar": draw(rng, B, S, WIDE), "keys": draw(rng, B, S, H)}
    single = np.broadcast_to((shape.host_lengths == 1)[:, None, None], (B, Q, H))

    def run(a: Inputs) -> Any:
        padding = make_padding(shape.host_lengths, S)
        dead = None if padding is None else padding.dead.transpose(1, 2, 0)
        made = Memory(a["hbar"], a["keys"], dead)
        c, weights = attend_forward(a["h"], made)
        return {"c": c}, (a["h"], made, weights)

    def pull(d: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        h, made, weights = cache
        dh, de = attend_backward(d["c"], weights, made)
        dhbar, dkeys = attend_memory_backward(de, d["c"], weights, h)
        return {"h": dh, "hbar": dhbar, "keys": dkeys}

    labels = {**MEMORY, "h": label("batch/query/unit"), "c": label("batch/query/unit")}
    return Case(inputs, run, pull, {"h": single, **memory_zeros(shape, WIDE)}, labels=labels,
                facts={"lengths": shape.host_lengths, "dead": shape.dead})


def attentional(rng: Rng, shape: Shape) -> Case:
    """h~ of one row per real step, and dW_c as its users make it."""
    N = sum(shape.lengths)

    def run(a: Inputs) -> Any:
        h_tilde = attentional_forward(a["joined"], a["W_c"])
        return {"h_tilde": h_tilde}, (a["joined"], h_tilde, a["W_c"])

    def pull(d: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        joined, h_tilde, W_c = cache
        djoined, dz = attentional_backward(d["h_tilde"], h_tilde, W_c)
        return {"joined": djoined, "W_c": dz.T @ joined}

    inputs = {"joined": draw(rng, N, WIDE + H), "W_c": draw(rng, H, WIDE + H)}
    joined = label("row/column", column={"c": WIDE, "h": H})
    return Case(
        inputs, run, pull, idle(shape, inputs, {}),
        labels={"joined": joined, "h_tilde": label("row/unit"), **parameter_labels(inputs)},
    )


ENTRIES = [
    Entry("map", ("attention.scores.map",), linear_map, kind="map"),
    *(Entry(f"memory, {score}", ("attention.attend.memory",), partial(memory, score=score),
            ALSO_NOBODY if score == "dot" else USUAL, kind="memory") for score in PRODUCTS),
    Entry("attend", ("attention.attend.attend", "attention.attend.attend_memory"), attend,
          ALSO_NOBODY, kind="attend"),
    Entry("attentional", ("attention.attend.attentional",), attentional, ALSO_NOBODY,
          kind="attentional"),
]
