"""The hybrid word-character translator (Luong, 2016, chapter 5).

A translator of words (`nmt.models.translator`, the backbone of 5.3.1) and two character networks
(`nmt.models.spelling`): one computes the vectors of source words outside the vocabulary (5.3.2),
the other spells each target `<unk>` (5.3.3). J = J_w + alpha J_c (5.5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from attention.attention import attentional_backward, attentional_forward
from backend import Array, array_module, matmul, to_device
from backend.rows import RowGradient
from lstm.cells import State
from lstm.parameters import Weight, axis
from lstm.prediction import output_backward, output_forward
from lstm.stack import Stack, check_among, dropout_mask
from nmt.data.batches import Batch, Side
from nmt.data.characters import unknown_steps
from nmt.models.contract import (
    CHARACTERS,
    Architecture,
    Gradients,
    Noise,
    Searchable,
    Tables,
    Variants,
    character_tables,
)
from nmt.models.encoder import vectors_forward
from nmt.models.spelling import (
    Speller,
    Written,
    character_sites,
    character_weights,
    first_states,
    spelled_backward,
    spelled_forward,
    speller_weights,
)
from nmt.models.translator import Translator, TranslatorCache
from nmt.models.translator_config import SITES, ModelConfig

READER, SPELLER = CHARACTERS  # names of the weights' prefixes, the options and the tables
PATHS = ("same", "separate")
OWN = ("path", "input_feeding", "target_characters", "source_characters", "character_layers",
       "character_dropout", "dropout")  # options that the code of this file combines


@dataclass(frozen=True)
class HybridConfig(ModelConfig):
    """A translator of words and its character networks; checked when made (ValueError)."""

    source_characters: bool = True  # rare source words get their vectors from characters (5.3.2)
    target_characters: bool = True  # target <unk> are spelled (5.3.3)
    path: str = "separate"  # what a speller starts from: same, h~_t; separate, Eq. 5.6
    character_layers: int = 1  # depth of both character networks
    character_embedding_size: int = 256  # of a character
    character_dropout: float = 0.0  # probability, in both character networks
    alpha: float = 1.0  # weight of the characters' loss (5.5)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.output_norm is not None:
            raise ValueError("output_norm: expected null in a hybrid model, whose spelling starts "
                             f"from h~ as it is, got {self.output_norm}")
        if self.lexicon_epsilon is not None:
            raise ValueError("lexicon_epsilon: expected null in a hybrid model, got "
                             f"{self.lexicon_epsilon}")
        if self.lexical:
            raise ValueError("lexical: expected false in a hybrid model, got true")
        check_among("path", self.path, PATHS)
        if self.factors:
            raise ValueError(f"factors: expected none beside characters, got {self.factors}")
        if self.target_sample is not None:
            raise ValueError(f"target_sample: expected null where words are spelled, got "
                             f"{self.target_sample}")
        if not (self.source_characters or self.target_characters):
            raise ValueError("source_characters: expected true, or target_characters, got neither; "
                             "a model of words only is the architecture luong")
        for name in ("character_layers", "character_embedding_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}")
        if not 0.0 <= self.character_dropout < 1.0:
            raise ValueError(f"character_dropout: expected 0 <= character_dropout < 1, got "
                             f"{self.character_dropout}")
        if not 0.0 < self.alpha < float("inf"):
            raise ValueError(f"alpha: expected a positive number, got {self.alpha}")
        if self.seed_matrix and self.attention == "none":
            raise ValueError("path: expected 'same' where attention is 'none': there is no c_t for "
                             "Eq. 5.6, got 'separate'")

    @property
    def seed_matrix(self) -> bool:
        """Whether there is the W' of Eq. 5.6."""
        return self.target_characters and self.path == "separate"

    def character_stack(self, width: int) -> Stack:
        """A character network; the cells are those of the words' networks."""
        return Stack(self.unit, self.character_layers, width, biases=self.biases)


class SpellingCache(NamedTuple):
    """Of the words to spell, N in all groups together."""

    t: Array  # (N,) the steps that predict <unk>
    b: Array  # (N,) the sentences
    joined: Array | None  # (N, He + H), what W' read
    seeds: Array  # (N, H)
    written: list[Written]


class HybridCache(NamedTuple):
    words: TranslatorCache
    spelling: SpellingCache | None  # None: no word to spell
    word_loss: Array  # J_w, what perplexity is of
    character_loss: Array | None  # J_c, nats; None: no word to spell


class Hybrid(Translator):
    """A translator that reads rare source words and writes rare target words by character."""

    config: HybridConfig

    def __init__(self, config: HybridConfig, tables: Tables) -> None:
        """Raises ValueError unless each side with characters has a table of them."""
        super().__init__(config, tables.sources[0], tables.target, tables.reverse_source)
        for name in character_tables(config):
            if getattr(tables, name) < 1:
                raise ValueError(f"tables: expected the size of {name}, got "
                                 f"{getattr(tables, name)}")
        self._numbers = {READER: tables.source_characters, SPELLER: tables.target_characters}
        # The widths follow from the other options: the reader's state is a word's embedding, the
        # speller's first state is h~_t.
        reader = config.character_stack(config.embedding_size)
        self.characters = (READER, reader) if config.source_characters else None
        self.speller_stack = config.character_stack(config.hidden_size)

    def weights(self) -> dict[str, Weight]:
        """The translator's, then the character networks'.

        Row `<unk>` of the source's embeddings stays, unread, where characters make the vectors.
        """
        config, scheme, weights = self.config, self.config.scheme, super().weights()
        Ec, H = config.character_embedding_size, config.hidden_size
        if self.characters is not None:
            weights |= character_weights(*self.characters, self._numbers[READER], Ec, scheme)
        if config.target_characters:
            weights |= speller_weights(SPELLER, self.speller_stack, self._numbers[SPELLER], Ec,
                                       config.output_bias, scheme)
        if config.seed_matrix:
            axes = axis("unit", H), axis("column", {"c": self.source.width, "h": H})
            weights[f"{SPELLER}.W_c"] = Weight(axes, scheme.matrix())
        return weights

    # --- training -------------------------------------------------------------------------------

    def noise(self, batch: Batch, rng: np.random.Generator, dtype: Any) -> Noise | None:
        """The translator's dropout masks, and `character_dropout`'s.

        Sites: each layer's input of a group of words, `{source,target}_characters.{group}.{l}`, and
        of the speller's top states `target_characters.{group}.output`, unless dropout is the
        author's, which has none after a top layer (erratum 29).
        """
        words, config = super().noise(batch, rng, dtype), self.config
        if config.character_dropout == 0.0:
            return words
        Ec, shapes = config.character_embedding_size, dict[str, tuple[int, ...]]()
        if self.characters is not None:
            shapes |= character_sites(*self.characters, Ec, batch.sources[0].characters)
        if config.target_characters:
            groups = batch.target.characters
            shapes |= character_sites(SPELLER, self.speller_stack, Ec, groups)
            if config.dropout_sites == "vertical":
                shapes |= {f"{SPELLER}.{g}.output": (*group.ids.shape, config.hidden_size)
                           for g, group in enumerate(groups)}
        return dict(words or {}) | {
            site: dropout_mask(rng, shape, config.character_dropout, dtype)
            for site, shape in shapes.items()}

    def loss(
        self, parameters: Mapping[str, Array], batch: Batch, noise: Noise | None = None
    ) -> tuple[Array, Any]:
        """J = J_w + alpha J_c (5.5), in nats, summed over words and characters.

        J_w is the translator's loss, `<unk>` among its words; J_c that of the characters of each
        target token outside the vocabulary and of the boundary after it. `</s>` is never spelled,
        and frequent words are not (the author's `charTgtSample` is 0). Spelling comes after all
        words are decoded: `<unk>` is fed back as its own embedding, "as is". The cache, a
        `HybridCache`, has both losses separately.
        Raises ValueError where the batch lacks the characters of an unknown word.
        """
        noise = noise or {}
        h, words = self._decode(parameters, batch, noise)
        J_w, output = output_forward("output", parameters, h, batch.target_out,
                                     batch.target.lengths, self.workspace)
        words = words._replace(output=output)
        if self.config.target_characters:
            _check_characters("target", batch.target_out, batch.target)
        groups = batch.target.characters if self.config.target_characters else ()
        if not groups:
            return J_w, HybridCache(words, None, J_w, None)
        t, b, joined, seeds = self._seeds(parameters, h, words, np.concatenate(
            [group.places for group in groups]))
        J_c, written = spelled_forward(SPELLER, self.speller_stack, parameters, seeds, groups,
                                       noise, self.workspace)
        spelling = SpellingCache(t, b, joined, seeds, written)
        return J_w + self.config.alpha * J_c, HybridCache(words, spelling, J_w, J_c)  # J  (5.5)

    def _seeds(
        self, parameters: Mapping[str, Array], h: Array, words: TranslatorCache, places: np.ndarray
    ) -> tuple[Array, Array, Array | None, Array]:
        """The spellers' initial states at places (N,) of the target's steps: t, b, joined, seeds.

        W' reads what W reads, [c_t; h_t] after its dropout mask (the author's `attnInfos.input`).
        """
        B = h.shape[1]
        t, b = to_device(places // B), to_device(places % B)
        if not self.config.seed_matrix:
            return t, b, None, h[t, b]                                     # h~_t, the same path
        joined = words.decoder.joined_at(t, b)                             # (N, He + H)
        return t, b, joined, attentional_forward(joined, parameters[f"{SPELLER}.W_c"])  # (5.6)

    def backward(self, cache: Any) -> Gradients:
        """The speller's gradient, alpha times, joins that of the words; then the translator's.

        A network that had no word in this batch has a gradient of zeros.
        """
        parameters = cache.words.parameters
        dh, gradients = output_backward(cache.words.output, self.workspace)
        d_joined = None
        if cache.spelling is not None:
            d_joined, more = self._spelling_backward(dh, cache.spelling, parameters)
            gradients |= more
        gradients |= self._decode_backward(dh, cache.words, d_joined)
        return gradients | {name: array_module(one).zeros_like(one)
                            for name, one in parameters.items()
                            if name.startswith((READER, SPELLER)) and name not in gradients}

    def _spelling_backward(
        self, dh: Array, cache: SpellingCache, parameters: Mapping[str, Array]
    ) -> tuple[Array | None, Gradients]:
        """Gradients of J_c: those of h~ are added to dh (T, B, H) on the path `same`, those of all
        [c_t; h_t] are returned on `separate` (else None); and those of the parameters by name."""
        t, b, joined, seeds, written = cache
        alpha, config = self.config.alpha, self.config
        d_seeds, gradients = spelled_backward(written, config.clip_elements, self.workspace)
        d_seeds = alpha * d_seeds                          # for the words' model too (5.5)
        gradients = {name: _scaled(one, alpha) for name, one in gradients.items()}
        if joined is None:
            dh[t, b] += d_seeds                            # places are distinct
            return None, gradients
        W = parameters[f"{SPELLER}.W_c"]
        d_rows, dz = attentional_backward(d_seeds, seeds, W)               # (5.6)
        gradients[f"{SPELLER}.W_c"] = matmul(dz.T, joined)
        d_joined = array_module(dh).zeros((*dh.shape[:2], W.shape[1]), dtype=dh.dtype)
        d_joined[t, b] = d_rows
        return d_joined, gradients

    def _read(
        self, parameters: Mapping[str, Array], sources: tuple[Side, ...], noise: Noise
    ) -> Any:
        """As the translator's, of a source that has the characters of its unknown words."""
        if self.characters is not None:
            _check_characters("source", sources[0].ids, sources[0])
        return super()._read(parameters, sources, noise)

    def word_vectors(self, parameters: Mapping[str, Array], source: Side) -> Array:
        """The encoder's input for each word, (S, B, E): see 5.3.2 for rare words."""
        _check_characters("source", source.ids, source)
        return vectors_forward("encoder", parameters, source, {}, self.workspace,
                               self.characters)[0]

    # --- search ---------------------------------------------------------------------------------

    def spelling(
        self, parameters: Mapping[str, Array], batch: Batch
    ) -> tuple[Searchable, list[State]]:
        """A model that searches for the spelling of each target `<unk>`, and its initial state.

        Search keeps no hidden states, so the translations that it found are force-decoded.
        Arguments: batch, these translations as targets. The state is of N words, the ids `<unk>` of
        `target_out`, sentence by sentence.
        """
        h, words = self._decode(parameters, batch, {})
        b, t = np.nonzero(unknown_steps(batch.target_out, batch.target.lengths).T)
        seeds = self._seeds(parameters, h, words, t * h.shape[1] + b)[3]
        return Speller(SPELLER, self.speller_stack), first_states(self.speller_stack, seeds)


def _scaled(gradient: Any, alpha: float) -> Any:
    """alpha times a gradient, an array or rows of a table."""
    if alpha == 1.0:
        return gradient
    if isinstance(gradient, RowGradient):
        return gradient._replace(values=alpha * gradient.values)
    return alpha * gradient


def _check_characters(name: str, steps: np.ndarray, side: Side) -> None:
    """Raise ValueError unless the side has the characters of each of its unknown words."""
    unknown = np.flatnonzero(unknown_steps(steps, side.lengths))
    places = [group.places for group in side.characters]
    given = np.sort(np.concatenate(places)) if places else np.zeros(0, np.int64)
    if not np.array_equal(given, unknown):
        raise ValueError(f"{name}: expected the characters of its {len(unknown)} words <unk>, at "
                         f"their places, got {len(given)}")


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
