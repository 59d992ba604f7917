"""A Transformer's layers between an embedding and a prediction, as an architecture of the
catalogue's own: each stands in it once, before there is a model of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from attention.norms import NORMS, NormedCache, norm_backward, norm_forward, norm_weights
from backend import Array
from backend.rows import RowIndex, row_index
from backend.workspace import Workspace
from lstm.embedding import embedding_backward, embedding_forward, embedding_weight
from lstm.parameters import Scheme, Weight
from lstm.prediction import OutputCache, output_backward, output_forward, output_weights
from nmt.data.batches import Batch
from nmt.models.contract import Architecture, Gradients, Noise, Tables, Variants


@dataclass(frozen=True)
class LayersConfig:
    """Which norm, and sizes."""

    norm: str  # one of `attention.norms.NORMS`
    hidden_size: int


class LayersCache(NamedTuple):
    embedding: tuple[RowIndex, int]
    norm: NormedCache
    output: OutputCache


class Layers:
    """The target's words, normed, predict the next ones."""

    def __init__(self, config: LayersConfig, tables: Tables) -> None:
        self.config, self.tables, self.workspace = config, tables, Workspace()

    def weights(self) -> dict[str, Weight]:
        """All parameters by name."""
        config, V, scheme = self.config, self.tables.target, Scheme()
        return {"W_e": embedding_weight(V, config.hidden_size, scheme),
                **norm_weights("norm", config.norm, config.hidden_size),
                **output_weights("output", config.hidden_size, V, True, scheme)}

    def noise(self, batch: Batch, rng: np.random.Generator, dtype: Any) -> Noise | None:
        """Nothing is dropped."""
        return None

    def loss(
        self, parameters: Mapping[str, Array], batch: Batch, noise: Noise | None = None
    ) -> tuple[Array, LayersCache]:
        """-log p of the target's words, summed."""
        x, embedding = embedding_forward(parameters["W_e"], row_index(batch.target_in))
        y, norm = norm_forward("norm", self.config.norm, parameters, x)
        loss, output = output_forward("output", parameters, y, batch.target_out,
                                      batch.target.lengths, self.workspace)
        return loss, LayersCache(embedding, norm, output)

    def backward(self, cache: LayersCache) -> Gradients:
        """The gradient of the loss with respect to every parameter, by name."""
        dy, gradients = output_backward(cache.output, self.workspace)
        dx, more = norm_backward(dy, cache.norm)
        return {"W_e": embedding_backward(dx, cache.embedding), **more, **gradients}


def variants() -> dict[str, Variants]:
    """All of it, at tiny and at real sizes."""
    return {tier: Variants({"norm": tuple(NORMS), "hidden_size": (size,)})
            for tier, size in (("tiny", 4), ("real", 24))}


ARCHITECTURE = Architecture(LayersConfig, Layers, variants)
