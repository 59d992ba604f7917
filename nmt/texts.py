"""Words as a translator reads and predicts them: pieces, ids and batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from operator import itemgetter

import numpy as np

from backend.errors import UserError
from nmt.base_system import BaseSystem
from nmt.data.batches import IdPair, Rare, TextBatches, lengths_of
from nmt.data.bpe import Draw
from nmt.data.characters import Spelling
from nmt.data.corpora import check_lengths, tokenisers
from nmt.data.corpus import Pair
from nmt.data.drawn import DrawnBatches, DrawnPairs
from nmt.data.factors import Factors, check_tags, tagged
from nmt.data.pieces import PieceVocabulary
from nmt.data.rare_copy import WithRareCopy
from nmt.data.reading import SourceReader, SourcesReader
from nmt.data.sources import longest
from nmt.data.stored import Mapped
from nmt.data.vocabulary import Vocabulary
from nmt.models.contract import CHARACTERS, check_positions
from nmt.recipe import Recipe
from nmt.training.options import ONCE


@dataclass
class Texts(BaseSystem):
    """Converts the words of both sides to the ids that a translator reads and predicts."""

    kind, recipes, names = "translator", Recipe, ("source", "target")

    recipe: Recipe

    @property
    def source(self) -> Vocabulary:
        """The source's vocabulary."""
        return self.vocabularies["source"]

    @property
    def target(self) -> Vocabulary:
        """The target's vocabulary."""
        return self.vocabularies["target"]

    @cached_property
    def cut_source(self) -> Callable[[str], list[str]]:
        """The function that tokenises a source text; with several sources, a line for each."""
        return tokenisers(self.recipe.data)[0].tokenise

    def check_sources(
        self, sentences: Sequence[Sequence[str]], name: str | Sequence[str],
        numbers: Sequence[int] | None = None,
    ) -> None:
        """Raise UserError, with name and line, for a sentence that is too long to translate, or has
        a word without its tags. Arguments as in `check_lengths`."""
        check_lengths(sentences, self.recipe.data, name, numbers)
        if (limit := getattr(self.recipe.model, "positions", None)) is not None:
            for number, words in zip(numbers or count(1), sentences, strict=False):
                if (length := len(self.source_ids(words))) > limit:
                    raise UserError(f"{name if isinstance(name, str) else name[0]}:{number}: "
                                    f"expected at most {limit} words or pieces (model.positions), "
                                    f"got {length}")
        self.check_tags(sentences, name if isinstance(name, str) else name[0], numbers)

    def check_tags(
        self, sentences: Iterable[Sequence[str]], name: str, numbers: Iterable[int] | None = None
    ) -> None:
        """Raise UserError as `nmt.data.factors.check_tags` does, where the model reads tags."""
        if tagged(self.readers[0].factors.names):
            check_tags(self.readers[0].factors, sentences, name, numbers)

    def batches(
        self, pairs: Sequence[Pair], batch_size: int, budget: int | None = None,
        seed: int | None = None,
    ) -> TextBatches:
        """Batches of word pairs; the ids are looked up when a batch is made."""
        return TextBatches(Mapped(self._pair_ids, pairs), batch_size,
                           self.recipe.data.reverse_source, self.recipe.train.sorted_within,
                           self._rare_of(pairs), self._lengths(pairs), budget, seed,
                           self.reader.batch)

    def training_batches(self, pairs: Sequence[Pair]) -> TextBatches:
        """Batches to train on: of the recipe's size, with word dropout, BPE dropout, a share of
        frequent words that are spelled, and a copy without rare words. With BPE dropout, epochs are
        sorted by the lengths that pairs have without it."""
        data, train = self.recipe.data, self.recipe.train
        seed = train.seed if train.shuffle == ONCE else None
        share = getattr(self.recipe.model, "character_sample", 0.0)
        if not (data.subwords.dropout or data.word_dropout or share or data.rare_copy):
            return self.batches(pairs, train.batch_size, train.batch_tokens, seed)
        ids: Sequence[IdPair] = DrawnPairs(pairs, self._drawn_ids) if data.subwords.dropout else \
            Mapped(self._pair_ids, pairs)
        lengths = self._lengths(pairs)
        if data.rare_copy:
            ids, lengths = WithRareCopy(ids, data.rare_copy), np.tile(lengths, (2, 1))
        characters = [*map(self.spellings["target"].spelled, self.target.words)] if share else []
        return DrawnBatches(ids, train.batch_size, data.reverse_source, train.sorted_within,
                            self._rare_of(pairs), lengths, train.batch_tokens, seed,
                            self.reader.batch, word_dropout=data.word_dropout,
                            spelled=(share, characters))

    def _lengths(self, pairs: Sequence[Pair]) -> np.ndarray:
        """(N, 2) int, how many ids of each pair are read and predicted."""
        if len(self.readers) == 1 and self.source.codes is None:
            lengths = lengths_of(pairs)
        else:
            counts = (number for source, target in pairs
                      for number in (longest(self.reader.pieces(source)),
                                     len(self.target.pieces(target))))
            lengths = np.fromiter(counts, np.int32).reshape(-1, 2)
        if self.recipe.data.source_end:
            lengths = lengths.copy()
            lengths[:, 0] += lengths[:, 0] > 0
        check_positions(self.recipe.model, lengths, lambda row, side: pairs[row][side])
        return lengths

    def _pair_ids(self, pair: Pair) -> IdPair:
        """The ids that are read of a pair, and those that are predicted."""
        return self.reader.numbers(pair[0]), self.target_ids(pair[1])

    def _drawn_ids(self, pair: Pair, draw: Draw) -> IdPair:
        """The ids of a pair with BPE dropout."""
        dropout, target = self.recipe.data.subwords.dropout, self.target
        assert isinstance(target, PieceVocabulary)
        source_pieces = self.reader.drawn(pair[0], dropout, draw)
        target_pieces = target.drawn(pair[1], dropout, draw)
        return (self.reader.numbers(pair[0], source_pieces),
                self._from_start_or_end(self.target.ids(target_pieces)))

    def _rare(self, side: str, sentences: Sequence[Sequence[str]]) -> Rare:
        """The characters of the unknown words of each sentence, where the model reads them."""
        spelling = self.spellings.get(side)
        return None if spelling is None else Mapped(spelling.rare, sentences)

    def _rare_of(self, pairs: Sequence[Pair]) -> tuple[Rare, Rare]:
        """As `_rare`, of the sources and of the targets of pairs."""
        return (self._rare("source", Mapped(itemgetter(0), pairs)),
                self._rare("target", Mapped(itemgetter(1), pairs)))

    @cached_property
    def spellings(self) -> dict[str, Spelling]:
        """Side -> its `Spelling`, for the sides whose characters a hybrid model has."""
        return {side: Spelling(self.vocabularies[side], self.vocabularies[name])
                for side, name in zip(self.names, CHARACTERS, strict=True)
                if name in self.vocabularies}

    @cached_property
    def readers(self) -> tuple[SourceReader, ...]:
        """The reader of each encoder's source."""
        factors = Factors(tuple(getattr(self.recipe.model, "factors", ())), self.vocabularies)
        return tuple(SourceReader(self.vocabularies[name], factors, self.recipe.data.source_end)
                     for name in self.sides_of(self.recipe)[:-1])

    @property
    def reader(self) -> SourceReader | SourcesReader:
        """The reader of sentences, in one source or in several."""
        return self.readers[0] if len(self.readers) == 1 else SourcesReader(self.readers)

    def source_ids(self, words: Sequence[str]) -> list[int]:
        """The ids that the encoder reads of a sentence, in written order."""
        return self.reader.ids(self.reader.pieces(words))

    def target_ids(self, words: Sequence[str]) -> list[int]:
        """The ids that the decoder predicts for a sentence, in its order, without `</s>`."""
        return self._from_start_or_end(self.target.ids(self.target.pieces(words)))

    def _from_start_or_end(self, ids: list[int]) -> list[int]:
        """Target ids in the order in which the decoder predicts them."""
        return ids[::-1] if self.recipe.data.reverse_target else ids

    def unknown_words(self, words: Sequence[str]) -> list[str]:
        """The words or pieces of a source sentence that are not in the vocabulary, without
        repetition."""
        return list(dict.fromkeys(self.reader.unknown(words)))

    def source_columns(self, words: Sequence[str]) -> list[str]:
        """The words or pieces that the columns of an alignment with a sentence stand for."""
        return self.reader.columns(words)
