"""Cases of the derivations: each paper's algorithm, its own loss and its own gradients.

A derivation takes one example; the sentences of a shape run through it one after another and their
losses and gradients are summed, as the thesis sums them (Eq. 2.8). It computes in float64 or
wider, whatever it is given: what a case returns has the dtype of its inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from attention.scores import PRODUCTS
from grads.case import (
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
    scaled,
    unused_rows,
)
from grads.catalogue.labels import gates, label, parameter_labels
from grads.catalogue.ways import CLEAR
from grads.derivations import attention, lstm, nmt, rnn
from grads.derivations.attention_step import Way
from grads.derivations.local import predict_position
from lstm.parameters import Weight
from nmt.models.translator import ModelConfig
from nmt.models.translator import Translator

Rng = np.random.Generator
Sentence = tuple[list[int], list[int]]  # what is read, what is predicted
LAYERS = 2


class Derivation(NamedTuple):
    """A loss of parameters, sentence and first states, and its backward, in one form for all."""

    loss: Callable[..., tuple[Any, Any]]  # parameters, x, y, *states -> J, trace
    backward: Callable[..., tuple[Any, ...]]  # parameters, x, y, trace -> gradients, *d_states
    states: tuple[str, ...]  # names of the first states, in this order
    layers: int  # a state is one array, or with layers one array a layer, from 1


def summed(
    derivation: Derivation, parameters: dict[str, np.ndarray], sentences: Sequence[Sentence],
    rng: Rng, zeros: dict[str, np.ndarray], labels: dict[str, Labels], **facts: Any,
) -> Case:
    """The case of several sentences under one set of parameters and first states."""
    names = [f"{state}.{l}" for state in derivation.states
             for l in range(1, derivation.layers + 1)] or list(derivation.states)
    inputs = {**parameters, **{name: draw(rng, H, 1) for name in names}}

    def states(a: Inputs) -> list[Any]:
        if not derivation.layers:
            return [a[state] for state in derivation.states]
        return [{l: a[f"{state}.{l}"] for l in range(1, derivation.layers + 1)}
                for state in derivation.states]

    def run(a: Inputs) -> Any:
        given = {name: a[name] for name in parameters}
        runs = [derivation.loss(given, x, y, *states(a)) for x, y in sentences]
        loss: Any = sum(J for J, _ in runs)
        dtype = next(iter(a.values())).dtype
        return {"loss": loss.astype(dtype)}, (given, [trace for _, trace in runs])

    def pull(d: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        given, traces = cache
        total: dict[str, Any] = {}
        for (x, y), trace in zip(sentences, traces, strict=True):
            gradients, *d_states = derivation.backward(given, x, y, trace)
            for state, d_state in zip(derivation.states, d_states, strict=True):
                gradients |= by_layer(state, d_state)
            total = {name: total.get(name, 0.0) + gradients[name] for name in inputs}
        found = scaled(total, d["loss"])
        return {name: array.astype(d["loss"].dtype) for name, array in found.items()}

    columns = dict.fromkeys(names, label("unit/batch")) | {"loss": label("")}
    return Case(inputs, run, pull, zeros, labels={**labels, **columns},
                facts={**facts, "sentences": sentences})


def by_layer(state: str, d_state: Any) -> dict[str, Any]:
    """The gradient of a first state under the names of its layers, if it has layers."""
    if not isinstance(d_state, dict):
        return {state: d_state}
    return {f"{state}.{l}": d for l, d in d_state.items()}


# --- language models ----------------------------------------------------------------------------


def language_model(rng: Rng, shape: Shape, module: ModuleType, blocks: int, bias: bool) -> Case:
    """Algorithm 1 or 2 from its line 1, first states included."""
    words = [rng.integers(*WORDS, size=n + 1).tolist() for n in shape.lengths]
    sentences = [(text[:-1], text[1:]) for text in words]
    weights = {"W_e": Weight((V, E)), "T": Weight((blocks * H, E + H)), "W_hy": Weight((V, H))}
    if bias:
        weights |= {"b": Weight((blocks * H,)), "b_hy": Weight((V,))}
    derivation = Derivation(
        module.forward, module.backward, ("h_0",) if blocks == 1 else ("h_0", "c_0"), 0)
    read = np.array([word for x, _ in sentences for word in x])
    parameters = draw_parameters(rng, weights)
    unit = "rnn" if blocks == 1 else "lstm"
    labels = parameter_labels(parameters, unit) | {
        "b": label("gate", gate=gates(unit, H)), "b_hy": label("word")}
    return summed(derivation, parameters, sentences, rng, {"W_e": unused_rows(read, E)}, labels,
                  unit=unit)


# --- translation models -------------------------------------------------------------------------


def translation(rng: Rng, shape: Shape, reverse: bool = False, **options: Any) -> Case:
    """Algorithms 3 and 4, without attention or with that of chapter 4.

    Predicted positions are drawn again until all are clear of integers, as in `catalogue.ways`.
    """
    config = ModelConfig(hidden_size=H, embedding_size=E, layers=LAYERS, **options)
    for _ in range(1000):
        case = drawn_translation(rng, shape, config, reverse)
        if config.attention != "local-p" or is_clear(case):
            return case
    raise AssertionError("positions: expected some clear of integers in 1000 draws, got none")


def drawn_translation(rng: Rng, shape: Shape, config: ModelConfig, reverse: bool) -> Case:
    """The case of one draw of sentences and parameters."""
    lengths = zip(shape.lengths, np.roll(shape.lengths, 1).tolist(), strict=True)
    sentences = [(rng.integers(*WORDS, size=m).tolist(), rng.integers(*WORDS, size=n - 1).tolist())
                 for m, n in lengths]
    looks = config.attention != "none"
    parameters = draw_parameters(rng, Translator(config, V, V).weights())
    forward = partial(fed, config.input_feeding, way_of(config, reverse)) if looks else nmt.forward
    backward = attention.attentional_nmt_backward if looks else nmt.backward
    read = np.array([word for x, _ in sentences for word in x])
    fed_words = np.array([nmt.END, *(word for _, y in sentences for word in y)])
    zeros = {"encoder.W_e": unused_rows(read, E), "decoder.W_e": unused_rows(fed_words, E)}
    if shape.steps == 1:  # nothing to choose from
        zeros |= {name: np.ones(parameters[name].shape, dtype=bool)
                  for name in ("attention.W_a", "attention.U_a", "attention.v_a")
                  if name in parameters}
    derivation = Derivation(forward, backward, ("h_0", "c_0"), LAYERS)
    labels = parameter_labels(parameters, feeding=config.input_feeding)
    return summed(derivation, parameters, sentences, rng, zeros, labels, config=config,
                  reverse=reverse)


def fed(
    feeding: bool, way: Way | None, parameters: Any, x: Any, y: Any, h_0: Any, c_0: Any
) -> tuple[Any, Any]:
    """The attentional model's loss with its options in the order of the other derivations."""
    return attention.attentional_nmt_forward(
        parameters, x, y, input_feeding=feeding, h_0=h_0, c_0=c_0, way=way)


def way_of(config: ModelConfig, reverse: bool) -> Way | None:
    """How the derivation looks; None for dot and general, global: these have one piece."""
    way = config.way(reverse)
    if not way.local and way.score in PRODUCTS:
        return None
    return Way(way.score, way.window, way.D, reverse, way.renormalise)


def is_clear(case: Case) -> bool:
    """Whether no predicted position is near an integer, where the window would change."""
    given, traces = case.run(case.inputs)[1]
    W_p, v_p = given["attention.W_p"], given["attention.v_p"][:, None]
    p = np.array([predict_position(trace.h[t][LAYERS], W_p, v_p, len(trace.g) - 1).item()
                  for trace in traces for t in trace.p])
    return bool((np.abs(p - np.rint(p)) > CLEAR).all())


TRANSLATIONS: dict[str, dict[str, Any]] = {
    "Algorithm 4": {"attention": "none", "input_feeding": False},
    "Algorithm 4, output bias": {
        "attention": "none", "input_feeding": False, "output_bias": True},
    "attention, general, feeding": {},
    "attention, dot, feeding": {"score": "dot"},
    "attention, general": {"input_feeding": False},
    "attention, dot, output bias": {
        "score": "dot", "input_feeding": False, "output_bias": True},
    "attention, location, feeding": {"score": "location", "location_length": 3},
    "attention, concat": {"score": "concat", "input_feeding": False},
    "attention, concat, identity, feeding": {"score": "concat", "concat_identity": True},
    "attention, additive, feeding": {"score": "additive"},
    "local-m, general, feeding": {"attention": "local-m", "window": 1},
    "local-m, additive, reversed": {"attention": "local-m", "window": 1, "score": "additive",
                                    "input_feeding": False, "reverse": True},
    "local-p, general, feeding": {"attention": "local-p", "window": 1},
    "local-p, dot, reversed, feeding": {"attention": "local-p", "window": 1, "score": "dot",
                                        "reverse": True},
    "local-p, concat, renormalised": {"attention": "local-p", "window": 1, "score": "concat",
                                      "renormalise": True, "input_feeding": False},
}

ENTRIES = [
    *(Entry(f"derivation, {name}{', bias' * bias}", (),
            partial(language_model, module=module, blocks=blocks, bias=bias),
            kind="derivation language model")
      for name, module, blocks in (("Algorithm 1", rnn, 1), ("Algorithm 2", lstm, 4))
      for bias in (False, True)),
    *(Entry(f"derivation, {name}", (), partial(translation, **options),
            ("ragged", "one sentence", *(() if "renormalise" in options else ("smallest",))),
            kind="derivation translation")
      for name, options in TRANSLATIONS.items()),
]
