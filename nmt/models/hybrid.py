"""The hybrid word-character translator (Luong, 2016, chapter 5).

It has a translator of words (`nmt.models.translator`, the backbone of 5.3.1) and two character
networks (`nmt.models.spelling`). One computes the vectors of source words outside the vocabulary
(5.3.2). The other, in the head `nmt.models.heads.spelling`, spells each target `<unk>` (5.3.3).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import DTypeLike

from backend import Array, array_module
from lstm.cells import State
from lstm.embedding import embedding_forward
from lstm.parameters import Weight
from lstm.stack import dropout_mask
from nmt.data.batches import Batch, Side
from nmt.data.characters import unknown_steps
from nmt.models.contract import (
    CHARACTERS,
    Architecture,
    Gradients,
    Noise,
    Searchable,
    Tables,
)
from nmt.models.heads.spelling import SPELLER, Spelling
from nmt.models.hybrid_config import PATHS, HybridConfig
from nmt.models.spelling import (
    Speller,
    character_sites,
    character_weights,
    check_characters,
    composed_forward,
    first_states,
)
from nmt.models.translator import Read, Translator, TranslatorCache
from nmt.models.translator_config import SITES
from nmt.models.variants import Variants

READER = CHARACTERS[0]  # name of the weights' prefix, the option and the table
OWN = ("path", "input_feeding", "target_characters", "source_characters", "character_layers",
       "character_dropout", "dropout")  # options that the code of this file combines


class Hybrid(Translator):
    """A translator that reads rare source words and writes rare target words by character."""

    config: HybridConfig

    def __init__(self, config: HybridConfig, tables: Tables) -> None:
        super().__init__(config, tables.sources[0], tables.target, tables.reverse_source)
        self._source_characters = tables.source_characters
        if config.source_characters:  # the network's state is a word's embedding
            self.characters = (READER, config.character_stack(config.embedding_size))
        if config.target_characters:
            self.head = Spelling(config, tables, self.workspace)

    def weights(self) -> dict[str, Weight]:
        """The translator's weights, then those of the character networks.

        If characters make the vectors, the row `<unk>` of the source's embeddings exists, but is
        not read.
        """
        words = super().weights()
        if self.characters is None:
            return words
        speller = {name: words.pop(name) for name in list(words) if name.startswith(SPELLER)}
        return words | character_weights(
            *self.characters, self._source_characters, self.config.character_embedding_size,
            self.config.scheme) | speller

    # --- training -------------------------------------------------------------------------------

    def noise(self, batch: Batch, rng: np.random.Generator, dtype: DTypeLike) -> Noise | None:
        """The dropout masks of the translator, and those of `character_dropout`.

        Sites: each layer's input of a group of words, `{source,target}_characters.{group}.{l}`, and
        of the speller's top states `target_characters.{group}.output`, unless dropout is the
        author's, which has none after a top layer (erratum 29).
        """
        words, config = super().noise(batch, rng, dtype), self.config
        if config.character_dropout == 0.0:
            return words
        shapes = dict[str, tuple[int, ...]]()
        if self.characters is not None:
            shapes |= character_sites(*self.characters, config.character_embedding_size,
                                      batch.sources[0].characters)
        if isinstance(self.head, Spelling):
            shapes |= self.head.character_sites(batch)
        return dict(words or {}) | {
            site: dropout_mask(rng, shape, config.character_dropout, dtype)
            for site, shape in shapes.items()}

    def backward(self, cache: TranslatorCache) -> Gradients:
        """As the translator's. If a network had no word in this batch, its gradient is zero."""
        gradients, parameters = super().backward(cache), cache.decoder.parameters
        return gradients | {name: array_module(array).zeros_like(array)
                            for name, array in parameters.items()
                            if name.startswith(CHARACTERS) and name not in gradients}

    def _read(
        self, parameters: Mapping[str, Array], sources: tuple[Side, ...], noise: Noise
    ) -> Read:
        """As the translator's. The source has the characters of its unknown words."""
        if self.characters is not None:
            check_characters("source", sources[0].ids, sources[0])
        return super()._read(parameters, sources, noise)

    def word_vectors(self, parameters: Mapping[str, Array], source: Side) -> Array:
        """The encoder's input for each word, (S, B, E): see 5.3.2 for rare words."""
        check_characters("source", source.ids, source)
        x, _ = embedding_forward(parameters["encoder.W_e"], source.ids)
        if self.characters is not None:
            composed_forward(*self.characters, parameters, x, source.characters, {}, self.workspace)
        return x

    # --- search ---------------------------------------------------------------------------------

    def spelling(
        self, parameters: Mapping[str, Array], batch: Batch
    ) -> tuple[Searchable, list[State]]:
        """A model that searches for the spelling of each target `<unk>`, and its initial state.

        Search keeps no hidden states, so its translations are force-decoded. Arguments: batch, with
        these translations as targets. The state is that of N words, the ids `<unk>` of
        `target_out`, sentence by sentence.
        """
        assert isinstance(self.head, Spelling)
        read = self._read(parameters, batch.sources, {})
        decoded, _ = self._decoder.forward(
            "decoder", parameters, batch.target_in, read.initial, read.memory, self.target, {},
            self.workspace, self.head.reads)
        b, t = np.nonzero(unknown_steps(batch.target_out, batch.target.lengths).T)
        seeds = self.head.seeds(parameters, decoded, t * batch.target_out.shape[1] + b).seeds
        return Speller(SPELLER, self.head.stack), first_states(self.head.stack, seeds)


def build(config: HybridConfig, tables: Tables) -> Hybrid:
    """The hybrid model of a configuration."""
    return Hybrid(config, tables)


def variants() -> dict[str, Variants]:
    """The choices that the catalogue of gradient checks combines, where `HybridConfig` allows.

    Scores, windows and all combinations of the translator's own options are checked with the
    translator; here its options occur in pairs.
    """
    tiny = {
        "path": PATHS[::-1], "input_feeding": (True, False), "target_characters": (True, False),
        "source_characters": (True, False), "character_layers": (1, 2),
        "character_dropout": (0.0, 0.3), "dropout": (0.0, 0.3), "dropout_sites": SITES,
        "attention": ("global", "none"), "unit": ("lstm", "gru"), "layers": (2, 1),
        "bidirectional": (False, True), "bridge": (False, True), "biases": (True, False),
        "output_bias": (False, True), "alpha": (1.0, 0.5), "hidden_size": (3,),
        "embedding_size": (4,), "character_embedding_size": (5,),
    }
    real = {
        "path": PATHS[::-1], "target_characters": (True, False),
        "source_characters": (True, False), "character_layers": (2,),
        "character_dropout": (0.3,), "dropout": (0.3,), "hidden_size": (24,),
        "embedding_size": (20,), "character_embedding_size": (12,),
    }
    together = ("path", "input_feeding")
    every = {name: values if name in OWN else values[:1] for name, values in tiny.items()}
    return {"tiny": Variants(tiny, together), "real": Variants(real), "every": Variants(every)}


ARCHITECTURE = Architecture(HybridConfig, build, variants)
