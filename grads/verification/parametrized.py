"""Parametrized translators, as an architecture of the catalogue.

A recipe chooses parametrizations by options. Here each is applied once to the translator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from nmt.models.contract import Architecture, Tables
from nmt.models.parametrization import (
    Frozen,
    Leading,
    Masked,
    Normalized,
    Parametrization,
    Parametrized,
    Stacked,
    Tied,
)
from nmt.models.translator import Translator
from nmt.models.translator_config import ModelConfig
from nmt.models.variants import Variants
from nmt.pruning.classes import classes
from nmt.pruning.schemes import masks

Made = Callable[[Translator], Mapping[str, Parametrization]]


def _mask(model: Translator, name: str) -> Masked:
    """A mask that keeps about two thirds of the weights."""
    shape = model.weights()[name].shape
    return Masked(np.random.default_rng(3).random(shape) < 2 / 3)


def _halves(model: Translator, *, blocks: int = 1, axis: int = 0) -> Stacked:
    """Blocks in which half of the units are shared and half are private."""
    half = model.config.hidden_size // 2
    return Stacked({"shared": half, "private": half}, axis, blocks)


def _parts(model: Translator) -> Stacked:
    """Blocks that divide the same gates in another way."""
    return Stacked({"one": 1, "others": model.config.hidden_size - 1}, blocks=4)


def _words(model: Translator) -> Stacked:
    """Blocks that divide a table into two."""
    return Stacked({"few": 4, "more": model.source_size - 4})


def _pruned(model: Translator | Parametrized) -> Mapping[str, Parametrization]:
    """Masks on all stored weights that may be pruned."""
    weights = model.weights()
    rng = np.random.default_rng(3)
    stored = {name: rng.standard_normal(weight.shape) for name, weight in weights.items()}
    kept = masks(stored, classes(weights), 40, "class-blind")
    return {name: Masked(mask) for name, mask in kept.items()}


TABLES: dict[str, Made] = {
    "tied target tables": lambda model: {"output.W_hy": Tied("decoder.W_e")},
    "three tables tied": lambda model: dict.fromkeys(
        ("output.W_hy", "encoder.W_e"), Tied("decoder.W_e")),
    "one vocabulary": lambda model: dict.fromkeys(
        ("output.W_hy", "decoder.W_e", "encoder.W_e"),
        Leading("words", model.target_size, model.target_size + 2)),
    "both embeddings tied": lambda model: {"encoder.W_e": Tied("decoder.W_e")},  # rows and rows
    "biases tied": lambda model: {"encoder.0.b": Tied("decoder.0.b")},
    "tables of another name": lambda model: dict.fromkeys(
        ("output.W_hy", "decoder.W_e"), Tied("words")),
    "fixnorm": lambda model: {"output.W_hy": Normalized(2.0)},
    "fixnorm of a tied table": lambda model: {"output.W_hy": Normalized(2.0, of="decoder.W_e")},
    "fixnorm of rows, learned": lambda model: {"decoder.W_e": Normalized(0.7, learned=True)},
    "fixnorm of both, learned": lambda model: {
        "output.W_hy": Normalized(2.0, learned=True, of="decoder.W_e"),
        "decoder.W_e": Normalized(0.7, learned=True)},
    "fixnorm, of h~ too": lambda model: {"output.W_hy": Normalized(1.0)},
    "mask": lambda model: {name: _mask(model, name) for name in ("decoder.0.W", "encoder.W_e")},
    "shared and private gates": lambda model: {
        "encoder.0.W": _halves(model, blocks=4), "encoder.0.b": _parts(model)},
    "shared and private columns": lambda model: {"decoder.W_e": _halves(model, axis=1)},
    "shared and private columns of a matrix": lambda model: {
        "attention.W_a": _halves(model, axis=1)},
    "shared and private columns, alternating": lambda model: {
        "decoder.W_e": Stacked({"shared": 1, "private": 1}, 1, model.config.hidden_size // 2)},
    "shared and private words": lambda model: {"encoder.W_e": _words(model)},
    "pruned": lambda model: _pruned(model),
    "frozen": lambda model: {"encoder.W_e": Frozen(), "attention.W_a": Frozen()},
}


# Parametrizations that are also combined with masks on their stored weights.
PRUNED = ("tied target tables", "fixnorm of both, learned", "shared and private gates", "frozen")


@dataclass(frozen=True)
class ParametrizedConfig:
    """A name in TABLES, or a name in PRUNED followed by ", pruned", and the translator's sizes.

    E = H, so that tables can be tied.
    """

    parametrization: str
    hidden_size: int
    dropout: float = 0.3


def build(config: ParametrizedConfig, tables: Tables) -> Parametrized:
    """The translator with its parametrizations."""
    H, V = config.hidden_size, tables.target
    model = Translator(ModelConfig(layers=1, hidden_size=H, embedding_size=H,
                                   output_norm=2.0 if "h~" in config.parametrization else None,
                                   dropout=config.dropout), V, V, tables.reverse_source)
    name = config.parametrization
    parametrized = Parametrized(model, TABLES[name.removesuffix(", pruned")](model))
    is_pruned = name.endswith(", pruned")
    return Parametrized(parametrized, _pruned(parametrized)) if is_pruned else parametrized


def variants() -> dict[str, Variants]:
    """Every parametrization, at tiny sizes only, since none has a threshold."""
    names = (*TABLES, *(f"{name}, pruned" for name in PRUNED))
    return {"tiny": Variants({"parametrization": names, "hidden_size": (4,)})}


PARAMETRIZED = Architecture(ParametrizedConfig, build, variants)
