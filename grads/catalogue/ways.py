"""The catalogue's entries of attention in every way: the parts, and whole looks at a memory.

local-p has no derivative where a predicted position passes an integer (the window then changes), so
its cases are drawn again until every position is `CLEAR` of one; `tests/attention/test_local.py`
shows the jump.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from attention.attend import memory_backward, memory_forward
from attention.local import (
    nearness_backward,
    nearness_forward,
    position_backward,
    position_forward,
    position_weights,
)
from attention.look import Seen, look_backward, look_forward, look_memory_backward, make_sums
from attention.scores import CONTENT, score_weights, tanh_score_backward, tanh_score_forward
from attention.attention import softmax_backward, softmax_forward
from attention.way import Way
from grads.case import USUAL, Case, Entry, H, Inputs, Shape, draw, draw_parameters, frozen
from grads.catalogue.labels import label, parameter_labels
from lstm.recurrent import make_padding

Rng = np.random.Generator
WIDE = 4  # He, where source states are wider than H
A = 5  # width of a score's hidden layer
Q = 2  # target states that look
CLEAR = 0.05  # of an integer, in words
WORDS = ("ragged", "late padding", "full", "one sentence")  # some sentence has two words


def softmax(rng: Rng, shape: Shape) -> Case:
    """Weights of padded sentences."""
    B, S = shape.batch, shape.steps
    inputs = {"e": draw(rng, B, Q, S)}

    def run(a: Inputs) -> Any:
        padding = make_padding(shape.host_lengths, S)
        dead = None if padding is None else padding.dead.transpose(1, 2, 0)
        weights = softmax_forward(a["e"] * 1.0, dead)
        return {"a": weights}, weights

    def pull(d: Mapping[str, Any], weights: Any) -> dict[str, Any]:
        return {"e": softmax_backward(d["a"] * 1.0, weights)}

    dead = shape.dead.T[:, None, :] | (shape.host_lengths == 1)[:, None, None]
    where = dict.fromkeys("ea", label("batch/query/position"))
    return Case(inputs, run, pull, {"e": np.broadcast_to(dead, (B, Q, S))}, labels=where,
                facts={"lengths": shape.host_lengths})


def tanh_score(rng: Rng, shape: Shape, each: bool) -> Case:
    """v' tanh(q + k), with keys of its own for each target state, or one set for all."""
    B, S = shape.batch, shape.steps
    inputs = {"q": draw(rng, B, Q, A), "keys": draw(rng, B, Q if each else 1, S, A),
              "v": draw(rng, A)}
    alike = (B * Q, 1) if each else (B, Q)                 # who looks at the same keys

    def run(a: Inputs) -> Any:
        q, keys = a["q"].reshape(*alike, A), a["keys"].reshape(alike[0], S, A)
        return {"e": tanh_score_forward(q, keys, a["v"]).reshape(B, Q, S)}, (q, keys, a["v"])

    def pull(d: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        dq, dkeys, dv = tanh_score_backward(d["e"].reshape(*alike, S), *cache)
        return {"q": dq.reshape(B, Q, A), "keys": dkeys.reshape(B, -1, S, A), "v": dv}

    labels = {"q": label("batch/query/unit"), "keys": label("batch/query/position/unit"),
              "v": label("unit"), "e": label("batch/query/position")}
    return Case(inputs, run, pull, labels=labels)


def position(rng: Rng, shape: Shape) -> Case:
    """p_t of sentences of different lengths."""
    B = shape.batch
    inputs = {"h": draw(rng, B, Q, H), "W_p": draw(rng, A, H), "v_p": draw(rng, A)}
    lengths = shape.host_lengths.astype(float)

    def run(a: Inputs) -> Any:
        S = frozen(lengths, a["h"])
        p, u, ratio = position_forward(a["h"], S, a["W_p"], a["v_p"])
        return {"p": p}, (a, u, ratio, S)

    def pull(d: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        a, u, ratio, S = cache
        dh, dk, du = position_backward(d["p"], u, ratio, S, a["W_p"], a["v_p"])
        dW_p, dv_p = position_weights(dk, du, u, a["h"])
        return {"h": dh, "W_p": dW_p, "v_p": dv_p}

    labels = {"h": label("batch/query/unit"), "p": label("batch/query"),
              **parameter_labels(inputs)}
    return Case(inputs, run, pull, labels=labels, facts={"lengths": shape.host_lengths})


def nearness(rng: Rng, shape: Shape, renormalise: bool) -> Case:
    """The Gaussian around a centre that moves, in a window that stays."""
    B, W, D = shape.batch, shape.steps, 2
    inputs = {"align": rng.uniform(0.1, 1.0, (B, Q, W)), "centre": draw(rng, B, Q)}
    columns = np.broadcast_to(np.arange(W) - W / 2, (B, Q, W))

    def run(a: Inputs) -> Any:
        offset = frozen(columns, a["align"]) - a["centre"][..., None]
        weights, near = nearness_forward(a["align"], offset, D, renormalise)
        return {"a": weights}, (weights, near)

    def pull(d: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        weights, near = cache
        d_align, d_centre = nearness_backward(d["a"], weights, near, D)
        return {"align": d_align, "centre": d_centre}

    zeros = {name: np.full(inputs[name].shape, renormalise and W == 1) for name in inputs}
    labels = {"align": label("batch/query/position"), "centre": label("batch/query"),
              "a": label("batch/query/position")}
    return Case(inputs, run, pull, zeros, labels=labels, facts={"columns": columns, "D": D})


# --- whole looks ----------------------------------------------------------------------------------


def drawn_clear(
    draw_inputs: Callable[[], Any], seen: Callable[[Any], list[Seen]], lengths: np.ndarray
) -> Any:
    """Inputs whose predicted positions are all `CLEAR` of integers, drawn until they are."""
    for _ in range(1000):
        inputs = draw_inputs()
        places = [lengths[:, None] * s.ratio for s in seen(inputs) if s.ratio is not None]
        if all((np.abs(p - np.rint(p)) > CLEAR).all() for p in places):
            return inputs
    raise AssertionError("positions: expected some clear of integers in 1000 draws, got none")


def look(rng: Rng, shape: Shape, t: int = 1, **options: Any) -> Case:
    """Two target states looking at padded sentences, from h and source states to contexts."""
    way = Way(**options)
    B, S, He = shape.batch, shape.steps, H if way.score == "dot" else WIDE

    def draw_inputs() -> dict[str, np.ndarray]:
        return {"h": draw(rng, B, Q, H), "states": draw(rng, S, B, He),
                **draw_parameters(rng, score_weights(way, "attention", H, He))}

    def run(a: Inputs) -> Any:
        padding = make_padding(shape.host_lengths, S)
        memory = memory_forward(a["states"], padding, way, a, "attention")
        c, seen = look_forward(a["h"], memory, a, t)
        return {"c": c}, (a, memory, seen)

    def pull(d: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        a, memory, seen = cache
        sums = make_sums(memory, a)
        dh, pulled = look_backward(d["c"], seen, memory, a, sums)
        d_memory, found = look_memory_backward(d["c"], a["h"], [seen], [pulled], memory, a, sums)
        dstates, more = memory_backward(d_memory.dhbar, d_memory.dkeys, memory, a, "attention",
                                        d_memory.d_query)
        return {"h": dh, "states": dstates, **found, **more}

    inputs = drawn_clear(draw_inputs, lambda a: [run(a)[1][2]], shape.host_lengths)
    labels = {"h": label("batch/query/unit"), "states": label("position/batch/unit"),
              "c": label("batch/query/unit"), **parameter_labels(inputs)}
    return Case(inputs, run, pull, look_zeros(inputs, shape, way), labels=labels,
                facts={"way": way, "t": t, "lengths": shape.host_lengths, "dead": shape.dead})


def look_zeros(inputs: Inputs, shape: Shape, way: Way) -> dict[str, np.ndarray]:
    """Padding, words behind L_max, and rows of W_a that no sentence reaches."""
    dead = np.broadcast_to(shape.dead[:, :, None], inputs["states"].shape)
    if way.score != "location":
        return {"states": dead}
    behind = np.arange(shape.steps)[:, None, None] >= way.length
    W_a = inputs["attention.W_a"]
    unused = np.arange(way.length)[:, None] >= min(shape.steps, way.length)
    return {"states": dead | behind, "attention.W_a": np.broadcast_to(unused, W_a.shape)}


def ways() -> list[dict[str, Any]]:
    """Options of every way, with windows and lengths that cut the cases' sentences."""
    found: list[dict[str, Any]] = [{"score": score} for score in CONTENT]
    found += [{"score": "location", "length": length} for length in (2, 7)]
    for score, (window, renormalise), reverse in product(
            CONTENT, (("local-m", False), ("local-p", False), ("local-p", True)), (False, True)):
        found.append({"score": score, "window": window, "D": 1, "renormalise": renormalise,
                      "reverse": reverse, **({"t": 2} if window == "local-m" else {})})
    return [*found, {"score": "general", "window": "local-p", "D": 9}]


def name_of(options: Mapping[str, Any]) -> str:
    """The options in words."""
    words = [options["score"], options.get("window", "global")]
    words += [f"{name} {options[name]}" for name in ("D", "length") if name in options]
    return ", ".join([*words, *(name for name in ("renormalise", "reverse") if options.get(name))])


LOOK = ("attention.look.look", "attention.look.look_memory")
ENTRIES = [
    Entry("softmax", ("attention.attention.attention",), softmax, WORDS, kind="softmax"),
    *(Entry(f"tanh score, keys for {'each' if each else 'all'}", ("attention.scores.tanh_score",),
            partial(tanh_score, each=each), kind="tanh score") for each in (False, True)),
    Entry("position", ("attention.local.position",), position, USUAL, kind="position"),
    *(Entry(f"nearness{', renormalised' * yes}", ("attention.local.nearness",),
            partial(nearness, renormalise=yes), WORDS if yes else USUAL, kind="nearness")
      for yes in (False, True)),
    *(Entry(f"look, {name_of(options)}", LOOK, partial(look, **options), WORDS, kind="look")
      for options in ways()),
]
