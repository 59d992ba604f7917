"""The model that a configuration describes."""

from __future__ import annotations

from nmt.models.config import ModelConfig
from nmt.models.rnnsearch import RNNSearch, RNNSearchConfig
from nmt.models.translator import Translator

Model = Translator | RNNSearch


def make_model(
    config: ModelConfig | RNNSearchConfig, source_size: int, target_size: int,
    reverse_source: bool = False,
) -> Model:
    """A model without parameters.

    Arguments: sizes of the two vocabularies; reverse_source, whether batches hold the source from
    its end, which local attention must know.
    """
    if isinstance(config, RNNSearchConfig):
        return RNNSearch(config, source_size, target_size)
    return Translator(config, source_size, target_size, reverse_source)
