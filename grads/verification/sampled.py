"""Models that are trained over a sampled vocabulary, as an architecture of the catalogue's own.

The options of the models are checked without a sample; here it is combined with what it affects:
both models, Luong's with dropout, a bias, the weights, few words and more than there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lstm.sampled import SAMPLE_WEIGHTS
from nmt.models.contract import Architecture, Tables, Variants
from nmt.models.rnnsearch import RNNSearch
from nmt.models.rnnsearch_config import RNNSearchConfig
from nmt.models.translator import Translator
from nmt.models.translator_config import ModelConfig

MODELS = {"luong": (ModelConfig, Translator), "rnnsearch": (RNNSearchConfig, RNNSearch)}


@dataclass(frozen=True)
class SampledConfig:
    """The model, and its options of sampling."""

    model: str
    target_sample: int  # words drawn beside the batch's
    sample_weights: str
    output_bias: bool
    hidden_size: int


def build(config: SampledConfig, tables: Tables) -> Any:
    """The model."""
    make, model = MODELS[config.model]
    luong: dict[str, Any] = {"dropout": 0.3, "layers": 1}
    more = luong if config.model == "luong" else {"layer_size": config.hidden_size}
    own = make(target_sample=config.target_sample, sample_weights=config.sample_weights,
               output_bias=config.output_bias, hidden_size=config.hidden_size,
               embedding_size=config.hidden_size + 1, **more)
    return model(own, tables.sources[0], tables.target, tables.reverse_source)


def variants() -> dict[str, Variants]:
    """All options at tiny sizes; at real sizes both models with both weights."""
    tiny = {"hidden_size": (2,), "model": tuple(MODELS), "target_sample": (1, 10**6),
            "sample_weights": SAMPLE_WEIGHTS, "output_bias": (False, True)}
    return {"tiny": Variants(tiny), "real": Variants(tiny | {
        "target_sample": (20,), "output_bias": (True,), "hidden_size": (24,)})}


ARCHITECTURE = Architecture(SampledConfig, build, variants)
