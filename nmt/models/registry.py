"""All architectures by their names in recipes. A new architecture is a new line here."""

from __future__ import annotations

from typing import Any

from nmt.models import (
    deep_fusion,
    features,
    hybrid,
    language_model,
    rnnsearch,
    transformer,
    translator,
    two_sources,
)
from nmt.models.contract import Architecture, Tables

MODELS: dict[str, Architecture] = {
    "luong": translator.ARCHITECTURE,
    "rnnsearch": rnnsearch.ARCHITECTURE,
    "hybrid": hybrid.ARCHITECTURE,
    "transformer": transformer.ARCHITECTURE,
    "language_model": language_model.ARCHITECTURE,
    "deep_fusion": deep_fusion.ARCHITECTURE,
    "two_sources": two_sources.ARCHITECTURE,
    "features": features.ARCHITECTURE,
}


def name_of(config: Any) -> str:
    """The name of a configuration's architecture. Raises TypeError if it has none."""
    for name, architecture in MODELS.items():
        if type(config) is architecture.config:
            return name
    known = ", ".join(architecture.config.__name__ for architecture in MODELS.values())
    raise TypeError(f"config: expected one of {known}, got {type(config).__name__}")


def architecture_of(config: Any) -> Architecture:
    """The architecture of a configuration."""
    return MODELS[name_of(config)]


def make_model(config: Any, tables: Tables) -> Any:
    """The model of a configuration, over tables of these sizes. It holds no parameters."""
    return architecture_of(config).build(config, tables)
