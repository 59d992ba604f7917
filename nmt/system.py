"""A translator with its recipe and vocabularies: open, translate, score, force-decode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np

from backend import Array, gemm, to_host
from backend.errors import UserError
from backend.memory import check_fits, too_large
from backend.products import for_search
from nmt.checkpoint_option import DEFAULT as CHECKPOINT
from nmt.console.messages import several
from nmt.console.progress import counted
from nmt.data.align import Link
from nmt.data.attention_links import DEFAULT, best_links, resolve, weights_of_words
from nmt.data.batches import Side, make_sources
from nmt.data.corpora import EvaluationSet, tokenisers
from nmt.data.corpus import Pair
from nmt.data.rare_words import UNK, UnkReplacement, replace_unknown
from nmt.data.vocabulary import UNKNOWN
from nmt.evaluation.scores import Score, bleu, perplexity
from nmt.members import check_members
from nmt.models.contract import Model, check_lengths_searched, check_positions
from nmt.processes import map_in_processes
from nmt.search.beam import beam_search
from nmt.search.combine import Ensemble
from nmt.search.constraint import BeginsWith, Restriction
from nmt.search.every_beam import every_beam_search
from nmt.search.force import force_decode
from nmt.search.interface import Hypothesis, SearchOptions
from nmt.search.sample import best_of_draws
from nmt.search.shortlist import Find
from nmt.search.spell import SpelledWord, spell
from nmt.search.steps import SearchObserver
from nmt.texts import Texts
from nmt.training.accuracy import loss_cost
from nmt.training.finite import naming_overflow
from nmt.translation import Translation, WordVectors

Search = Callable[..., list[list[Hypothesis]]]  # (model, parameters, sources, options)
PROGRESS = "translating, batches"
FEWER = "a smaller evaluate.batch_size, or beam, needs less"


@contextmanager
def _running(parameters: Mapping[str, Array], sentences: int) -> Iterator[None]:
    """Context of a batch. Raises UserError with the number of sentences if the batch does not fit
    into memory, and with the name of a parameter that is so large that the model overflows."""
    try:
        with naming_overflow(parameters):
            yield
    except MemoryError as error:
        raise too_large(error, f"a batch of {several(sentences, 'sentence')}", FEWER) from error


@dataclass
class System(Texts):
    """Recipe, vocabularies, model and parameters of a translator, or of an ensemble."""

    model: Model | Ensemble

    @classmethod
    def together(cls, names: Sequence[str], systems: Sequence[System], average: str) -> System:
        """The ensemble of systems that read and write the same words in the same order.

        average: see `Ensemble`. The recipe, for search, batches, scores and alignments, is that of
        the first member with attention, or else of the first member; the limit on sources is the
        smallest of the members' limits. Raises UserError naming a system that does not fit.
        """
        check_members(names, systems)
        model = Ensemble([system.model for system in systems], average)
        return cls._joined(systems, model, attends=True)

    @classmethod
    def _joined(
        cls, systems: Sequence[System], model: Ensemble, attends: bool, **fields: Any
    ) -> Self:
        """The system of several members. Its recipe is that of the first member with attention, or
        without if not `attends`, with the smallest limit on sources. fields: further fields."""
        recipe = next((system.recipe for system in systems
                       if attends == (system.recipe.model.attention != "none")), systems[0].recipe)
        longest = min(system.recipe.data.max_translate_length for system in systems)
        recipe = replace(recipe, data=replace(recipe.data, max_translate_length=longest))
        parameters = Ensemble.joined([system.parameters for system in systems])
        return cls(recipe, systems[0].vocabularies, model, parameters, **fields)

    @classmethod
    def open_all(cls, directories: Sequence[Path], average: str, which: str = CHECKPOINT) -> System:
        """The system of one directory, or the ensemble of several. Errors as `open`, `together`."""
        systems = [cls.open(directory, which) for directory in directories]
        if len(systems) == 1:
            return systems[0]
        return cls.together([str(directory) for directory in directories], systems, average)

    # --- use --------------------------------------------------------------------------------------

    def word_vectors(self, words: Sequence[str]) -> WordVectors:
        """The encoder's input vector of each word. Raises UserError for a model without them."""
        if "encoder.W_e" not in self.parameters:
            raise UserError("--model: expected a translator with a table of source word vectors "
                            f"(encoder.W_e), got {type(self.model).__name__}")
        ids = np.array(self.source.ids(words), np.int64)  # (N,)
        rare = self._rare("source", [[word] for word in words])
        if rare is None:
            rows = to_host(self.parameters["encoder.W_e"])[ids]
            return WordVectors(np.asarray(rows, np.float64), ids != UNKNOWN)
        model: Any = self.model
        (side,) = make_sources(ids[:, None].tolist(), False, rare)
        rows = to_host(model.word_vectors(self.parameters, side))[0]
        return WordVectors(np.asarray(rows, np.float64), np.ones(len(ids), bool))

    def perplexity(self, pairs: Sequence[Pair]) -> float:
        """exp of the mean negative log-likelihood per target word, `</s>` included."""
        return self.perplexities(pairs)["perplexity"]

    def perplexities(self, pairs: Sequence[Pair]) -> dict[str, float]:
        """`perplexity`, and the others that the model has: for a hybrid model
        `character_perplexity`, per character of the target's unknown words and the boundary after
        each; for a model that counts down `length_perplexity`, per sentence."""
        return {f"{name}perplexity": perplexity(*loss) for name, loss in self.losses(pairs).items()}

    def losses(self, pairs: Sequence[Pair]) -> dict[str, tuple[float, int]]:
        """Prefix of a name in `perplexities` -> nats of all pairs, and the number of words,
        characters or sentences that they are summed over. The nats of "", for words, are -log p of
        all targets."""
        source = self.batches(pairs, self.recipe.evaluate.batch_size)
        totals = {"": 0.0, "character_": 0.0, "length_": 0.0}
        counts = {"": 0, "character_": 0, "length_": 0}
        for batch in source.in_order("perplexity, batches"):
            with _running(self.parameters, len(batch.indices)):
                _, cache = self.model.loss(self.parameters, batch)
            words, characters, lengths = cache.losses
            totals[""] += float(to_host(words))
            counts[""] += source.tokens(batch)
            if characters is not None:
                totals["character_"] += float(to_host(characters))
                counts["character_"] += sum(int(group.lengths.sum())
                                            for group in batch.target.characters)
            if lengths is not None:
                totals["length_"] += float(to_host(lengths))
                counts["length_"] += len(batch.indices)
        return {name: (totals[name], number) for name, number in counts.items()
                if number or not name}

    def translate(
        self, sentences: Sequence[Sequence[str]], options: SearchOptions,
        observer: SearchObserver | None = None, restriction: Restriction | None = None,
        jobs: int = 1, prefix: Sequence[str] = (), search: Search | None = None,
    ) -> list[list[Translation]]:
        """Translate sentences of words by beam search; the n-best list of each, best score first.

        The lists are those of `beam_search`; hypotheses cut at the step limit are not `finished`.
        An empty sentence has one empty translation, so that lines stay aligned. Long sentences are
        not cut: the caller refuses those over the limit (`check_sources`).

        observer: is told of each step of each batch's search, except with `every_beam`.
        restriction: for example a `Shortlist`, or valid trees only. jobs: how many processes share
        the batches; the batches are the same for any number. prefix: the words that each
        translation begins with; not with a restriction. search: called as `beam_search`, in place
        of a beam search. A hybrid model spells its unknown words. Raises UserError as `prefix_ids`,
        and for options that the model does not have.
        """
        if prefix:
            restriction, options = self._beginning(prefix, options)
        if search is None:
            search = every_beam_search if options.every_beam else \
                partial(beam_search, observer=observer)
        find = partial(search, options=options)
        check_lengths_searched(self.recipe.model, options.lengths)
        if options.minimum_length and self.model.counts_down:
            raise UserError("search.minimum_length: expected 0 with a model that counts down, got "
                            f"{options.minimum_length}")
        results: list[list[Translation]] = [[Translation([], 0.0, 0.0, None)] for _ in sentences]
        batches = self._by_length(sentences)
        blocks = [[sentences[i] for i in places] for places in batches]
        finds = [restriction.limited(find, block) if restriction else find for block in blocks]
        largest = max(map(len, blocks), default=0) * options.beam * options.lengths
        parameters = for_search(self.parameters, largest)
        nbests: list[list[list[Translation]]] = []
        if min(jobs, len(batches)) > 1:
            nbests = map_in_processes(
                lambda k: self._nbests(blocks[k], finds[k], parameters, options), len(batches),
                jobs, PROGRESS)
        else:
            for block, find_of_block in zip(counted(blocks, PROGRESS), finds, strict=True):
                nbests.append(self._nbests(block, find_of_block, parameters, options))
        for place, translations in zip(chain(*batches), chain(*nbests), strict=True):
            results[place] = translations
        return self._spelled(sentences, results, options) if "target" in self.spellings else results

    def sample(
        self, sentences: Sequence[Sequence[str]], options: SearchOptions, temperature: float,
        rng: np.random.Generator, draws: int = 1, prefix: Sequence[str] = (),
        restriction: Restriction | None = None,
    ) -> list[list[Translation]]:
        """As `translate`, but each translation is drawn from softmax(logits / temperature). With
        several draws, it is the most probable of them."""

        def search(model: Model, parameters: dict[str, Array], sources: tuple[Side, ...],
                   options: SearchOptions) -> list[list[Hypothesis]]:
            drawn = best_of_draws(model, parameters, sources, options, temperature, rng, draws)
            return [[hypothesis] for hypothesis in drawn]

        return self.translate(sentences, options, restriction=restriction, prefix=prefix,
                              search=search)

    def _beginning(
        self, prefix: Sequence[str], options: SearchOptions
    ) -> tuple[Restriction, SearchOptions]:
        """The restriction and the options of a search for translations that begin with a prefix.
        The limit on steps does not count the prefix."""
        ids = self.prefix_ids(prefix)
        return (BeginsWith(ids, len(self.target)),
                replace(options, minimum_steps=options.minimum_steps + len(ids)))

    def prefix_ids(self, words: Sequence[str]) -> list[int]:
        """The ids of the words that translations begin with.

        Raises UserError for a word outside the target vocabulary, and for a model that counts down
        or writes from the end.
        """
        if words and (self.model.counts_down or self.recipe.data.reverse_target):
            raise UserError("prefix: expected a model that writes from the first word to </s>, got "
                            "one that counts down or writes from the end")
        pieces = self.target.pieces(words)
        ids = self.target.ids(pieces)
        if UNKNOWN in ids:
            unknown = [piece for piece, i in zip(pieces, ids, strict=True) if i == UNKNOWN]
            raise UserError(f"prefix: expected words of the target vocabulary, got "
                            f"{', '.join(unknown)}")
        return ids

    def force(self, pairs: Sequence[Pair]) -> list[Translation]:
        """Force-decode the targets: their log-probabilities and alignments under the model.

        The results have the words, or pieces, that were given, also where the model reads `<unk>`.
        A pair with an empty side has no alignment, and log-probability 0.
        """
        results = [Translation(list(self.target.pieces(target)), 0.0, 0.0, None)
                   for _, target in pairs]
        places = [i for i, (source, target) in enumerate(pairs) if source and target]
        if not places:
            return results
        batches = self.batches([pairs[i] for i in places], self.recipe.evaluate.batch_size)
        for batch in batches.in_order("scoring, batches"):
            with _running(self.parameters, len(batch.indices)):
                hypotheses = force_decode(self.model, self.parameters, batch)
            for index, hypothesis in zip(batch.indices, hypotheses, strict=True):
                place = places[index]
                results[place] = replace(self._translation(hypothesis), words=results[place].words)
        return results

    def precision_cost(self, pairs: Sequence[Pair]) -> str:
        """A message on what reduced precision changes in the loss of a batch; "" in float32."""
        filled = [pair for pair in pairs if all(pair)][: self.recipe.evaluate.batch_size]
        if gemm.precision() == "float32" or not filled:
            return ""
        batch = next(self.batches(filled, len(filled)).in_order())
        return loss_cost(self.model, self.parameters, batch)

    def links(self, translation: Translation, aligned_word: str = DEFAULT) -> list[Link]:
        """Links from each target word, or piece, to the source word that it attends to most
        (section 4.4.4). No links without attention. aligned_word: see `nmt.data.attention_links`.
        """
        if translation.alignment is None:
            return []
        return best_links(self.word_weights(translation, aligned_word), self.recipe.data.source_end)

    def word_weights(self, translation: Translation, aligned_word: str) -> np.ndarray:
        """(words, S): the attention weights of each word of a translation that has an alignment."""
        assert translation.alignment is not None
        return weights_of_words(translation.alignment, len(translation.words),
                                resolve(aligned_word, self.recipe.model),
                                self.recipe.data.reverse_target)

    def word_links(
        self, translation: Translation, source: Sequence[str], aligned_word: str = DEFAULT
    ) -> list[Link]:
        """The links between the words of `source` and of its translation: two words are linked if
        pieces of them are."""
        links = self.links(translation, aligned_word)
        if self.source.codes is None:
            return links
        of_source = self.source.places(self.reader.pieces(source))
        of_target = self.target.places(translation.words)
        return list(dict.fromkeys((of_source[i], of_target[j]) for i, j in links))

    def text_without_unknown(
        self, translation: Translation, source: Sequence[str], replacement: UnkReplacement
    ) -> str:
        """A translation of `source` as plain text, with its unknown words or pieces replaced."""
        links = self.links(translation, replacement.aligned_word)
        replaced = replace_unknown(translation.words, self.reader.pieces(source), links,
                                   replacement.dictionary)
        return self.detokenise(self.target.whole(replaced))

    def _nbests(
        self, sentences: list[Sequence[str]], find: Find, parameters: Mapping[str, Array],
        options: SearchOptions,
    ) -> list[list[Translation]]:
        """The translations that `find` gives for each sentence of a batch."""
        sources = self.reader.sides(make_sources(
            [self.reader.numbers(words) for words in sentences], self.recipe.data.reverse_source,
            self._rare("source", sentences)))
        check_positions(self.recipe.model, sources[0].lengths[:, None],
                        lambda row, _: sentences[row])
        rows = options.beam * options.lengths
        check_fits(2 * 4 * len(sentences) * rows * len(self.target),  # logits, and their sums
                   f"{several(len(sentences), 'sentence')}, "
                   f"{several(rows, 'hypothesis', 'hypotheses')} each", FEWER)
        with _running(self.parameters, len(sentences)):
            nbests = find(self.model, parameters, sources)
        return [[self._translation(hypothesis) for hypothesis in nbest] for nbest in nbests]

    def _spelled(
        self, sentences: Sequence[Sequence[str]], nbests: list[list[Translation]],
        options: SearchOptions,
    ) -> list[list[Translation]]:
        """The n-best lists with spelled words in place of `<unk>`."""
        places = [(i, k) for i, nbest in enumerate(nbests) for k, translation in enumerate(nbest)
                  if UNK in translation.words]
        pairs = [(list(sentences[i]), nbests[i][k].words) for i, k in places]
        batches = self.batches(pairs, self.recipe.evaluate.batch_size).in_order(
            "spelling, batches") if pairs else ()
        model: Any = self.model
        for batch in batches:
            with _running(self.parameters, len(batch.indices)):
                spelled = spell(model, self.parameters, batch, options)
            for index, words in zip(batch.indices, spelled, strict=True):
                i, k = places[index]
                nbests[i][k] = self._with_words(nbests[i][k], words)
        return nbests

    def _with_words(self, translation: Translation, spelled: list[SpelledWord]) -> Translation:
        """The translation with spelled words in place of `<unk>`."""
        words, spelling = list(translation.words), self.spellings["target"]
        places = tuple(place for place, word in enumerate(words) if word == UNK)
        for place, word in zip(places, spelled, strict=True):
            words[place] = spelling.word(word.characters)
        return replace(translation, words=words, spelled=places,
                       cut_words=sum(not word.finished for word in spelled))

    def text(self, translation: Translation) -> str:
        """A translation as plain text."""
        return self.detokenise(self.whole_words(translation))

    def whole_words(self, translation: Translation) -> list[str]:
        """The words of a translation; pieces are joined."""
        return self.target.whole(translation.words)

    def detokenise(self, words: Sequence[str]) -> str:
        """Target words as plain text."""
        return tokenisers(self.recipe.data)[1].detokenise(words)

    def _by_length(self, sentences: Sequence[Sequence[str]]) -> list[list[int]]:
        """The indices of non-empty sentences, in batches of similar length."""
        order = sorted((i for i, s in enumerate(sentences) if s), key=lambda i: len(sentences[i]))
        size = self.recipe.evaluate.batch_size
        return [order[k : k + size] for k in range(0, len(order), size)]

    def _translation(self, hypothesis: Hypothesis) -> Translation:
        """A hypothesis as words, in reading order."""
        words, alignment = self.target.tokens(hypothesis.tokens), hypothesis.alignment
        steps = hypothesis.steps
        if self.recipe.data.reverse_target:
            m = len(words)
            words = words[::-1]
            alignment, steps = (
                None if values is None else np.concatenate([values[:m][::-1], values[m:]])
                for values in (alignment, steps))
        return Translation(words, hypothesis.log_probability, hypothesis.score, alignment,
                           hypothesis.finished, steps, beam=hypothesis.beam)


def score_bleu(
    system: System, evaluation: EvaluationSet, nbests: Sequence[Sequence[Translation]]
) -> Score:
    """BLEU of the system's best translations of an evaluation set, with the recipe's tokenisation.
    """
    return bleu([system.text(nbest[0]) for nbest in nbests], evaluation.references,
                system.recipe.evaluate.bleu_tokenize)
