"""The parts that a trained model consists of."""

from __future__ import annotations

from typing import Any

from grads.derivations.model import Model
from grads.derivations.scores import Variant
from nmt.console.messages import several
from nmt.models.rnnsearch_config import NO_LAYER, RNNSearchConfig
from nmt.models.transformer import TransformerConfig
from nmt.models.translator_config import ModelConfig


def variant_of(config: ModelConfig, reverse_source: bool) -> Variant:
    """The attention variant. Global attention may keep the encoder's reading order, unless the
    score depends on positions."""
    placed = config.attention.startswith("local") or config.score == "location"
    score = "concat-identity" if config.concat_identity else config.score
    return Variant(score, config.attention, config.window, reverse_source and placed,
                   config.renormalise)


def translator(config: ModelConfig, reverse_source: bool = False) -> Model:
    """The parts of a translator of Luong's kind."""
    encoder = "both ends" if config.bidirectional else "one end"
    start = "bridge" if config.bridge else "handed over"
    model = Model(config.unit, config.hidden_size, encoder, start, "plain",
                  factors=tuple(config.factors))
    if config.attention == "none":
        return model
    return model._replace(decoder="attention", variant=variant_of(config, reverse_source))


def search(config: RNNSearchConfig) -> Model:
    """The parts of RNNsearch or RNNencdec, with or without deep fusion."""
    encoder = "both ends" if config.searches else "one end"
    decoder = "state" if config.layer == NO_LAYER else "context"
    model = Model(config.unit, config.hidden_size, encoder, "first state", decoder,
                  context=config.context, layer=config.layer, deep_state=config.deep_state,
                  query=config.query if config.searches else "state")
    if config.language is not None:
        return model._replace(decoder="fused", language=config.language.unit)
    return model


def stacked(config: Any) -> str:
    """The depth and the unit of a stack, in words."""
    return f"{several(config.layers, 'layer')} of {config.unit}"


def described_transformer(config: TransformerConfig) -> str:
    """A Transformer in words, for a page's title."""
    placed = "PreNorm" if config.pre_norm else "PostNorm"
    return (f"Transformer: {config.encoder_layers} + {config.decoder_layers} layers, "
            f"{several(config.heads, 'head')}, {placed}, norm {config.norm}"
            + ", positions count down" * config.counts_down)


def described(config: Any) -> str:
    """A model in words, for a page's title."""
    if isinstance(config, RNNSearchConfig):
        kind = "RNNsearch" if config.searches else "RNNencdec"
        output = "no hidden layer" if config.layer == NO_LAYER else f"{config.layer} output"
        score = ", score of state and word" if config.asks_with_word else ""
        fused = (f", deep fusion with a language model of {stacked(config.language)}"
                 if config.language is not None else "")
        return (f"{kind}: unit {config.unit}, {output}, state {config.deep_state}"
                + score + fused)
    parts = [stacked(config)]
    parts += ["bidirectional encoder"] * config.bidirectional + ["bridge"] * config.bridge
    if config.attention != "none":
        parts += [f"attention ({variant_of(config, False).score}, {config.attention})"]
    parts += ["input feeding"] * config.input_feeding
    parts += ["lexical module"] * config.lexical
    parts += [f"factors ({', '.join(config.factors)})"] * bool(config.factors)
    return f"Encoder-decoder: {', '.join(parts)}"
