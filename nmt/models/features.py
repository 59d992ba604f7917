"""A decoder that describes a set of features: captions, as in Table 6.3 of the thesis.

The source is a vector v instead of a text: it counts features, such as the objects in a picture. A
line of the source names them in any order. In each layer the decoder starts from

    [h_0; c_0] = tanh(W v)                                            (Lemma 1)

as from the bridge of `nmt.models.bridge`. The thesis does not say how a picture enters the decoder;
Vinyals et al. (2015), whose data it has, feed it as the first word. All else is Luong's decoder,
which can be shared with a translator's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from backend import Array, array_module, to_device
from backend.errors import check
from backend.pointwise import tanh_slope
from backend.rows import RowGradient
from lstm.cells import CELLS, State
from lstm.embedding import EmbeddingCache, embedding_backward, embedding_forward, embedding_weight
from lstm.parameters import Weight
from nmt.data.batches import Batch, Side
from nmt.models.contract import Architecture, Gradients, Noise, Tables
from nmt.models.decoder import decoder_weights
from nmt.models.translator import Read, Translator
from nmt.models.translator_config import ModelConfig
from nmt.models.variants import NEVER, Variants


@dataclass(frozen=True)
class FeaturesConfig(ModelConfig):
    """The parts of a decoder of features and their sizes; checked when made (ValueError)."""

    attention: str = "none"  # must stay none: features have no states to attend to

    def __post_init__(self) -> None:
        check(self, "attention", self.attention == "none", "'none' with features as the source")
        for name in ("bidirectional", "bridge"):
            check(self, name, not getattr(self, name), "false with features as the source")
        check(self, "factors", not self.factors, "none with features as the source")
        super().__post_init__()


class FeaturesCache(NamedTuple):
    embedding: EmbeddingCache
    present: Array  # (S, B, 1), 1 for a feature, 0 for padding
    states: Array  # (B, n H): the n arrays of the decoder's first state, side by side


@dataclass(frozen=True)
class FeaturesRead(Read):
    """The result of reading features."""

    features: Sequence[FeaturesCache] = ()  # one for each layer


def features_forward(
    W_e: Array, source: Side, number: int
) -> tuple[State, FeaturesCache]:
    """[h_0; c_0] = tanh(W v) of one layer.

    Arguments: W_e (V, n H), W transposed, a row for each feature; source, the features of B
    examples; number, n, of the arrays in a state. Returns n arrays (B, H) and the cache.
    """
    xp, (S, _) = array_module(W_e), source.ids.shape
    rows, embedding = embedding_forward(W_e, source.ids)                   # (S, B, n H)
    present = to_device((np.arange(S)[:, None] < source.lengths)[:, :, None].astype(W_e.dtype))
    states = xp.tanh((rows * present).sum(axis=0))                         # tanh(W v)
    return tuple(xp.split(states, number, axis=1)), FeaturesCache(embedding, present, states)


def features_backward(d_state: State, cache: FeaturesCache) -> RowGradient:
    """dW_e, of the rows that the batch has: each feature of an example gets its d(W v)."""
    embedding, present, states = cache
    xp = array_module(states)
    d_states = xp.concatenate(d_state, axis=1)
    da = xp.empty_like(d_states)
    tanh_slope(d_states, states, da)                                       # d(W v)  (2.11)
    return embedding_backward(present * da, embedding)                     # (2.12)


class Features(Translator):
    """A translator without an encoder: the decoder starts from features."""

    config: FeaturesConfig

    def weights(self) -> dict[str, Weight]:
        """The decoder's and the head's, and `encoder.{l}.W_e` (V, n H) of each layer."""
        config, scheme = self.config, self.config.scheme
        E, H, width = config.embedding_size, config.hidden_size, CELLS[config.unit].states
        inputs = {"x": E, "h~": H} if config.input_feeding else {"x": E}
        table = embedding_weight(self.source_size, width * H, scheme, "feature")
        return {**{f"encoder.{layer}.W_e": table for layer in range(config.layers)},
                **decoder_weights("decoder", self.target, self.target_size, inputs, scheme),
                **self.head.weights()}

    def _mask_shapes(self, batch: Batch) -> dict[str, tuple[int, ...]]:
        return {site: shape for site, shape in super()._mask_shapes(batch).items()
                if not site.startswith("encoder")}

    def _read(
        self, parameters: Mapping[str, Array], sources: tuple[Side, ...], noise: Noise
    ) -> Read:
        """The decoder's first states, from the features."""
        initial, caches = [], []
        for layer in range(self.config.layers):
            state, cache = features_forward(parameters[f"encoder.{layer}.W_e"], sources[0],
                                            CELLS[self.config.unit].states)
            initial.append(state)
            caches.append(cache)
        return FeaturesRead(None, initial, features=caches)

    def _read_backward(
        self, dstates: Array | None, d_initial: list[State], read: Read, d_source: Array | None
    ) -> Gradients:
        """The gradients of the features' rows in each layer."""
        assert isinstance(read, FeaturesRead)
        return Gradients({f"encoder.{layer}.W_e": features_backward(d_state, cache)
                          for layer, (d_state, cache) in enumerate(
                              zip(d_initial, read.features, strict=True))})


def build(config: FeaturesConfig, tables: Tables) -> Features:
    """The model of a configuration."""
    return Features(config, tables.sources[0], tables.target)


def variants() -> dict[str, Variants]:
    """The options that this module's code distinguishes: the states of a unit and the layers. The
    decoder is checked with the translator."""
    tiny = {
        "unit": ("lstm", "gru"), "layers": (2, 1), "input_feeding": (False, True),
        "dropout": (0.0, 0.3), "clip_elements": (None, NEVER), "hidden_size": (2,),
        "embedding_size": (3,),
    }
    real = tiny | {"dropout": (0.3,), "hidden_size": (24,), "embedding_size": (20,)}
    every = {name: values[:1] for name, values in tiny.items()}
    return {"tiny": Variants(tiny), "real": Variants(real), "every": Variants(every)}


ARCHITECTURE = Architecture(FeaturesConfig, build, variants)
