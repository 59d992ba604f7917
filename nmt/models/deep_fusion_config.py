"""The configuration of deep fusion: `nmt.models.deep_fusion`."""

from __future__ import annotations

from dataclasses import dataclass

from backend.errors import check_among, check_least
from lstm.cells import CELLS
from lstm.stack import Stack
from nmt.models.heads.hidden_layer import LAYERS
from nmt.models.rnnsearch_config import RNNSearchConfig


@dataclass(frozen=True)
class DeepFusionConfig(RNNSearchConfig):
    """RNNsearch and a language model; checked when made (ValueError)."""

    lm_unit: str = "lstm"  # the language model's unit: one of CELLS
    lm_layers: int = 1  # its depth
    lm_hidden_size: int = 256  # its units per layer
    lm_embedding_size: int = 256  # width of its embeddings
    lm_biases: bool = True  # biases in its units

    def __post_init__(self) -> None:
        super().__post_init__()
        check_among("layer", self.layer, LAYERS)
        check_among("lm_unit", self.lm_unit, tuple(CELLS))
        check_least(self, 1, "lm_layers", "lm_hidden_size", "lm_embedding_size")

    @property
    def language(self) -> Stack:
        """The language model's stack."""
        return Stack(self.lm_unit, self.lm_layers, self.lm_hidden_size, biases=self.lm_biases,
                     clip=self.clip_elements)
