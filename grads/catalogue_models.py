"""The catalogue's entries of `nmt.models`, whole translators included."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from attention.attend import Memory
from backend.workspace import Workspace
from grads.case import (
    SHAPES,
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
from grads.catalogue_attention import memory_zeros
from lstm.padding import make_padding
from lstm.stack import UNITS
from nmt.models.bridge import bridge_backward, bridge_forward, bridge_weights
from nmt.models.config import ModelConfig
from nmt.models.decoder import DecoderMasks, decoder_backward, decoder_forward, decoder_weights
from nmt.models.encoder import encoder_backward, encoder_forward, encoder_weights
from nmt.models.input_feeding import feeding_backward, feeding_forward
from nmt.models.output import output_backward, output_forward, output_weights
from nmt.models.translator import Translator
from nmt.text.batches import Batch, make_batch

Rng = np.random.Generator
NO_LOOK = {"attention": "none", "input_feeding": False}
BOTH_ENDS = {"bidirectional": True, "bridge": True}


def configure(**options: Any) -> ModelConfig:
    """A configuration of this catalogue's sizes."""
    return ModelConfig(hidden_size=H, embedding_size=E, **options)


# --- parts --------------------------------------------------------------------------------------


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
    return Case(inputs, run, pull)


def encoder(rng: Rng, shape: Shape, **options: Any) -> Case:
    """A padded source; its states and the last of them are outputs."""
    config, ids = configure(**options), draw_words(rng, shape)
    widths = [E] + [config.source_width] * (config.layers - 1)
    masks = [draw_mask(rng, shape.steps, shape.batch, w) for w in widths] if config.dropout else []
    like = [[(None,) * UNITS[config.unit].states] * (config.source_width // H)] * config.layers

    def run(a: Inputs) -> Any:
        drawn = [frozen(mask, a["encoder.W_e"]) for mask in masks] or None
        states, _, last, cache = encoder_forward(
            ids, shape.host_lengths, a, config, drawn, Workspace()
        )
        return {"states": states, **flatten("last", last)}, cache

    def pull(d: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        return encoder_backward(d["states"], nest("last", like, d), cache, None)

    inputs = draw_parameters(rng, encoder_weights(config, V))
    zeros = {"encoder.W_e": unused_rows(ids[~shape.dead], E)}
    return Case(inputs, run, pull, zeros, optional=True)


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
    masks = [draw_mask(rng, T, B, width) for width in widths] if config.dropout else []

    def run(a: Inputs) -> Any:
        padding = make_padding(shape.host_lengths, S)
        dead = None if padding is None else padding.dead.transpose(1, 2, 0)
        memory = Memory(a["hbar"], a["keys"], dead) if looks else None
        drawn = [frozen(mask, a["decoder.W_e"]) for mask in masks] or [None] * (config.layers + 1)
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
    return Case(inputs, run, pull, zeros | (memory_zeros(shape, He) if looks else {}))


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
    return Case(inputs, run, pull, {"h": np.broadcast_to(shape.dead[:, :, None], h.shape)})


# --- whole translators --------------------------------------------------------------------------


def draw_batch(rng: Rng, shape: Shape) -> Batch:
    """Sentence pairs of the shape's lengths, a target shorter than its source by one or more."""
    lengths = zip(shape.lengths, np.roll(shape.lengths, 1).tolist(), strict=True)
    pairs = [(rng.integers(*WORDS, size=m).tolist(), rng.integers(*WORDS, size=n - 1).tolist())
             for m, n in lengths]
    return make_batch(pairs, range(len(pairs)), reverse_source=True)


def translator(rng: Rng, shape: Shape, **options: Any) -> Case:
    """Loss and gradients of a whole translator, its dropout masks frozen by a seed."""
    config, batch = configure(**options), draw_batch(rng, shape)
    model = Translator(config, V, V)
    inputs = draw_parameters(rng, model.weights())
    real = np.arange(len(batch.target_in))[:, None] < batch.target_lengths
    zeros = {"encoder.W_e": unused_rows(batch.source[~shape.dead], E),
             "decoder.W_e": unused_rows(batch.target_in[real], E)}
    if shape.steps == 1 and "attention.W_a" in inputs:
        zeros["attention.W_a"] = np.ones(inputs["attention.W_a"].shape, dtype=bool)

    def run(a: Inputs) -> Any:
        masks = np.random.default_rng(7) if config.dropout else None
        loss, cache = model.loss(a, batch, masks)
        return {"loss": loss}, cache

    def pull(d: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        return scaled(model.backward(cache), d["loss"])

    return Case(inputs, run, pull, zeros)


# --- the entries --------------------------------------------------------------------------------

MODELS: dict[str, dict[str, Any]] = {
    "general, feeding": {},
    "dot, feeding": {"score": "dot"},
    "general": {"input_feeding": False},
    "dot, 1 layer": {"input_feeding": False, "score": "dot", "layers": 1},
    "no attention": NO_LOOK,
    "both ends, feeding": BOTH_ENDS,
    "both ends": BOTH_ENDS | {"input_feeding": False},
    "both ends, no attention": BOTH_ENDS | NO_LOOK,
    "bridge, no bias": {"bridge": True, "biases": False},
    "output bias, 3 layers": {"output_bias": True, "layers": 3},
    "dropout, feeding": {"dropout": 0.3},
    "dropout": {"dropout": 0.3, "input_feeding": False},
    "dropout, no attention": {"dropout": 0.3, **NO_LOOK},
    "rnn, feeding": {"unit": "rnn"},
    "rnn, both ends": {"unit": "rnn", **BOTH_ENDS, "input_feeding": False},
    "rnn, no attention": {"unit": "rnn", **NO_LOOK},
}
LARGER = ("ragged", "full", "one sentence")  # where dropout does not leave nothing
FEEDING = ("nmt.models.input_feeding.feeding",)
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
}
BRIDGES: dict[str, dict[str, Any]] = {
    "none": {}, "lstm": {"bridge": True}, "both ends": BOTH_ENDS,
    "rnn, both ends": {"unit": "rnn", **BOTH_ENDS},
}

ENTRIES = [
    *(Entry(f"bridge, {name}", ("nmt.models.bridge.bridge",), partial(bridge, **options))
      for name, options in BRIDGES.items()),
    *(Entry(f"encoder, {name}", ("nmt.models.encoder.encoder",), partial(encoder, **options),
            LARGER if "dropout" in options else tuple(SHAPES))
      for name, options in ENCODERS.items()),
    *(Entry(f"decoder, {name}", covers, partial(decoder, **options),
            LARGER if "dropout" in options else tuple(SHAPES))
      for name, covers, options in DECODERS),
    *(Entry(f"output{', bias' * bias}", ("nmt.models.output.output",), partial(output, bias=bias))
      for bias in (False, True)),
    *(Entry(f"translator, {name}", (), partial(translator, **options),
            ("ragged", "full" if "dropout" in options else "smallest"), 16)
      for name, options in MODELS.items()),
]
