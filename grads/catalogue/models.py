"""The catalogue's entries of the parts in `nmt.models`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from attention.attend import Memory
from backend.workspace import Workspace
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
    scaled,
    unused_rows,
)
from grads.catalogue.attention import MEMORY, memory_zeros
from grads.catalogue.labels import halves, label, parameter_labels
from lstm.recurrent import make_padding
from lstm.stack import UNITS
from nmt.models.bridge import bridge_backward, bridge_forward, bridge_weights
from nmt.models.translator import ModelConfig
from nmt.models.decoder import DecoderMasks, decoder_backward, decoder_forward, decoder_weights
from nmt.models.encoder import encoder_backward, encoder_forward, encoder_weights
from nmt.models.feeding import feeding_backward, feeding_forward
from lstm.prediction import output_backward, output_forward, output_weights

Rng = np.random.Generator
NO_LOOK = {"attention": "none", "input_feeding": False}
BOTH_ENDS = {"bidirectional": True, "bridge": True}


def configure(**options: Any) -> ModelConfig:
    """A configuration of this catalogue's sizes, unless `options` say otherwise."""
    return ModelConfig(**{"hidden_size": H, "embedding_size": E} | options)


def config_labels(inputs: Inputs, config: ModelConfig) -> dict[str, Labels]:
    """Labels of a model's parameters and states."""
    return parameter_labels(inputs, config.unit, feeding=config.input_feeding,
                            bidirectional=config.bidirectional)


def bridge(rng: Rng, shape: Shape, **options: Any) -> Case:
    """From the encoder's last states to the decoder's first."""
    config = configure(**options)
    directions, n = config.source_width // H, UNITS[config.unit].states
    last = [[tuple(draw(rng, shape.batch, H) for _ in range(n)) for _ in range(directions)]
            for _ in range(config.layers)]
    first = [last[0][0]] * config.layers

    def run(a: Inputs) -> Any:
        states, cache = bridge_forward(nest("last", last, a), a, config)
        return flatten("first", states), (cache, a)

    def pull(d: Mapping[str, Any], kept: Any) -> dict[str, Any]:
        cache, a = kept
        d_last, gradients = bridge_backward(nest("first", first, d), cache, a, config)
        return {**flatten("last", d_last), **gradients}

    inputs = {**flatten("last", last), **draw_parameters(rng, bridge_weights(config))}
    outputs = dict.fromkeys(flatten("first", first), label("batch/unit"))
    return Case(inputs, run, pull, idle(shape, inputs, {}),
                labels=config_labels(inputs, config) | outputs, facts={"config": config})


def encoder(rng: Rng, shape: Shape, **options: Any) -> Case:
    """A padded source; its states and the last of them are outputs."""
    config, ids = configure(**options), draw_words(rng, shape)
    widths = [E] + [config.source_width] * (config.layers - 1)
    masks = draw_masks(rng, shape, widths, config.dropout)
    like = [[(None,) * UNITS[config.unit].states] * (config.source_width // H)] * config.layers

    def run(a: Inputs) -> Any:
        drawn = [frozen(mask, a["encoder.W_e"]) for mask in masks]
        states, _, last, cache = encoder_forward(
            ids, shape.host_lengths, a, config, drawn, Workspace()
        )
        return {"states": states, **flatten("last", last)}, cache

    def pull(d: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        return encoder_backward(d["states"], nest("last", like, d), cache, None)

    inputs = draw_parameters(rng, encoder_weights(config, V))
    zeros = {"encoder.W_e": unused_rows(ids[~shape.dead], E)}
    sides = halves(config.bidirectional, config.source_width)
    outputs = dict.fromkeys(flatten("last", like), label("batch/unit"))
    outputs["states"] = label("position/batch/unit", unit=sides)
    return Case(
        inputs, run, pull, idle(shape, inputs, zeros), optional=True,
        labels=config_labels(inputs, config) | outputs,
        facts={"config": config, "ids": ids, "lengths": shape.host_lengths, "dead": shape.dead,
               "masks": masks},
    )


def decoder(rng: Rng, shape: Shape, **options: Any) -> Case:
    """A decoder with or without input feeding, over a padded memory that is an input."""
    config, workspace = configure(**options), Workspace()
    S, B, He, T = shape.steps, shape.batch, config.source_width, max(1, shape.steps - 1)
    looks, n = config.attention != "none", UNITS[config.unit].states
    target_in = rng.integers(*WORDS, size=(T, B))
    initial = [tuple(draw(rng, B, H) for _ in range(n)) for _ in range(config.layers)]
    weights = decoder_weights(config, V)
    weights.pop("attention.W_a", None)  # the keys are made already
    inputs = {**draw_parameters(rng, weights), **flatten("initial", initial)}
    inputs |= {"hbar": draw(rng, B, S, He), "keys": draw(rng, B, S, H)} if looks else {}
    widths = [E] + [H] * (config.layers - 1) + [He + H if looks else H]
    masks = draw_masks(rng, Shape((T,) * B), widths, config.dropout)

    def run(a: Inputs) -> Any:
        padding = make_padding(shape.host_lengths, S)
        dead = None if padding is None else padding.dead.transpose(1, 2, 0)
        memory = Memory(a["hbar"], a["keys"], dead) if looks else None
        drawn = [frozen(mask, a["decoder.W_e"]) for mask in masks]
        forward: Any = feeding_forward if config.input_feeding else decoder_forward
        h, cache = forward(target_in, nest("initial", initial, a), memory, a, config,
                           DecoderMasks(drawn[:-1], drawn[-1]), workspace)
        return {"h": h}, (memory, cache, a, config)

    def pull(d: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        backward: Any = feeding_backward if config.input_feeding else decoder_backward
        more = (workspace,) if config.input_feeding else ()
        d_initial, d_memory, gradients = backward(d["h"], *cache, *more)
        found = {**gradients, **flatten("initial", d_initial)}
        return found | ({"hbar": d_memory.dhbar, "keys": d_memory.dkeys} if looks else {})

    zeros = {"decoder.W_e": unused_rows(target_in, E)}
    zeros |= memory_zeros(shape, He) if looks else {}
    return Case(
        inputs, run, pull, idle(shape, inputs, zeros),
        labels={**config_labels(inputs, config), **MEMORY, "h": label("time/batch/unit")},
        facts={"config": config, "ids": target_in, "lengths": shape.host_lengths,
               "dead": shape.dead, "masks": masks[:-1], "joined_mask": masks[-1]},
    )


def output(rng: Rng, shape: Shape, bias: bool) -> Case:
    """Predictions at the real steps of a padded batch."""
    targets, workspace = draw_words(rng, shape), Workspace()
    h = draw(rng, shape.steps, shape.batch, H)

    def run(a: Inputs) -> Any:
        loss, cache = output_forward(a["h"], targets, shape.host_lengths, a, workspace)
        return {"loss": loss}, cache

    def pull(d: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        dh, gradients = output_backward(cache, workspace)
        return scaled({"h": dh, **gradients}, d["loss"])

    inputs = {"h": h, **draw_parameters(rng, output_weights(H, V, bias))}
    zeros = {"h": np.broadcast_to(shape.dead[:, :, None], h.shape)}
    return Case(
        inputs, run, pull, idle(shape, inputs, zeros),
        labels={**parameter_labels(inputs), "h": label("time/batch/unit"), "loss": label("")},
        facts={"targets": targets, "lengths": shape.host_lengths, "dead": shape.dead},
    )


# --- the entries --------------------------------------------------------------------------------


def decoder_shapes(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Those that the options allow: attention needs somebody who looks, dropout what is left."""
    if "dropout" in options:
        return LARGER
    return (*USUAL, "nobody") if options.get("attention") == "none" else USUAL


LARGER = ("ragged", "full", "one sentence")  # where dropout does not leave nothing
FEEDING = ("nmt.models.feeding.feeding",)
DECODER = ("nmt.models.decoder.decoder",)
LOOKING = (*DECODER, "nmt.models.decoder._attention")
DECODERS: list[tuple[str, tuple[str, ...], dict[str, Any]]] = [
    ("feeding", FEEDING, BOTH_ENDS),
    ("feeding, dropout", FEEDING, BOTH_ENDS | {"dropout": 0.3}),
    ("feeding, rnn, 1 layer", (*FEEDING, "lstm.stack._rnn_cell"),
     {"unit": "rnn", "layers": 1}),
    ("attention", LOOKING, BOTH_ENDS | {"input_feeding": False}),
    ("attention, dropout", LOOKING, {"input_feeding": False, "dropout": 0.3}),
    ("no attention", DECODER, NO_LOOK),
    ("no attention, dropout", DECODER, NO_LOOK | {"dropout": 0.3}),
]
ENCODERS: dict[str, dict[str, Any]] = {
    "lstm": {}, "both ends, dropout": {"dropout": 0.3, **BOTH_ENDS}, "rnn": {"unit": "rnn"},
    "gru, both ends": {"unit": "gru", **BOTH_ENDS, "input_feeding": False},
}
BRIDGES: dict[str, dict[str, Any]] = {
    "none": {}, "lstm": {"bridge": True}, "both ends": BOTH_ENDS,
    "rnn, both ends": {"unit": "rnn", **BOTH_ENDS},
}

ENTRIES = [
    *(Entry(f"bridge, {name}", ("nmt.models.bridge.bridge",), partial(bridge, **options),
            (*USUAL, "nobody"), kind="bridge")
      for name, options in BRIDGES.items()),
    *(Entry(f"encoder, {name}", ("nmt.models.encoder.encoder",), partial(encoder, **options),
            LARGER if "dropout" in options else tuple(SHAPES), kind="encoder")
      for name, options in ENCODERS.items()),
    *(Entry(f"decoder, {name}", covers, partial(decoder, **options), decoder_shapes(options),
            kind="decoder")
      for name, covers, options in DECODERS),
    *(Entry(f"output{', bias' * bias}", ("lstm.prediction.output",), partial(output, bias=bias),
            tuple(SHAPES), kind="output")
      for bias in (False, True)),
]
