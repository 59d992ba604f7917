"""Recipes: a system described by the names of its parts.

`nmt.recipe.file` reads and writes them; `docs/recipe.md`, made by `nmt.recipe.page`, lists every
key with what the comment behind its field says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from nmt.console.messages import nearest
from nmt.data.annotation import is_language
from nmt.data.factors import factor_tables
from nmt.data.monolingual import PAIRINGS
from nmt.data.tokenise import TOKENISERS
from nmt.evaluation.scores import TOKENISATIONS
from nmt.models.contract import CHARACTERS, character_tables, check_lengths_searched
from nmt.models.language_model import LanguageModelConfig
from nmt.models.registry import MODELS, architecture_of
from nmt.models.translator_config import ModelConfig
from nmt.recipe.parametrize import ParametrizeConfig
from nmt.search.interface import SearchOptions
from nmt.training.options import TrainOptions

DEFAULT_ARCHITECTURE = "luong"
GENERATED = ("cldr", "reverse")  # corpora that are made, not read
CORPORA = ("files", *PAIRINGS, *GENERATED)
PAIRS = 20_000  # to generate where data.train_size does not say
REQUIRED = {  # files that a corpus needs
    "files": ("train_source", "train_target"),
    **dict.fromkeys(PAIRINGS, ("train_source", "dev_source")),
}
KINDS: dict[str, dict[str, Any]] = {
    "bpe": {"size": None},  # of subwords: the keys that a kind does not use
    "sentencepiece": {"merges": None, "dropout": 0.0, "threshold": 1}}
TABLES = ("W_e", "W_hy")  # last parts of the names of parameters that have a row for each word
BLEU, CHARACTER_PERPLEXITY = "bleu", "character_perplexity"  # scores that not every recipe has
MISSING = {BLEU: ", which evaluate.bleu measures",
           CHARACTER_PERPLEXITY: ", which a hybrid model with target_characters has"}


class AnyRecipe:
    """The common fields of the recipes of all architectures."""

    model: Any  # of the type `MODELS[...].config`, which tells the architecture
    parametrize: ParametrizeConfig
    train: TrainOptions
    reverse_source = False  # whether the model reads its source from the end
    shared_vocabulary = False  # whether the target's words are the first of the source's


class TranslationRecipe(AnyRecipe):
    """A recipe of translators: of one, or of several tasks (`nmt.recipe.tasks`)."""


@dataclass(frozen=True)
class SubwordsConfig:
    """Subwords, by byte pair encoding (Sennrich et al., 2016) or SentencePiece; without any key,
    words are not cut."""

    kind: str = "bpe"  # bpe, or sentencepiece (raw text: with data.tokenise none)
    merges: int | None = None  # bpe: number of merges to learn from the training words
    size: int | None = None  # sentencepiece: number of pieces of the unigram model
    joint: bool = True  # learn from both sides together; false: for each side alone
    source_codes: str = ""  # file in data.directory: subword-nmt merges or a SentencePiece model
    target_codes: str = ""  # the same for the target; may be the same file
    more_text: list[str] = field(default_factory=list)  # more files in data.directory to learn from
    parent_codes: bool = False  # use the merges of the run that --init names
    threshold: int = 1  # pieces rarer than this in a side's training text are split
    dropout: float = 0.0  # probability to skip a merge in training, drawn anew each epoch

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind: expected one of {', '.join(KINDS)}, got {self.kind!r}")
        for name, default in KINDS[self.kind].items():
            if getattr(self, name) != default:
                raise ValueError(f"{name}: expected none of the kind {self.kind}, got "
                                 f"{getattr(self, name)}")
        _check_least(self, 1, "merges", "size", "threshold")
        if bool(self.source_codes) != bool(self.target_codes):
            raise ValueError("source_codes, target_codes: expected both or neither")
        if self.learned and self.source_codes:
            name = "merges" if self.size is None else "size"
            raise ValueError(f"{name}: expected null beside source_codes, which are learned")
        if not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"dropout: expected 0 <= dropout < 1, got {self.dropout}")
        if self.more_text and not (self.learned and self.joint):
            raise ValueError("more_text: expected merges, joint ones, to learn from it, got none")
        if self.parent_codes and (self.learned or self.source_codes):
            raise ValueError("parent_codes: expected no merges and no codes beside it, got some")
        for name in ("threshold", "dropout"):
            if getattr(self, name) > (name == "threshold") and not self.used:
                raise ValueError(f"{name}: expected merges or codes beside it, got neither")

    @property
    def learned(self) -> bool:
        """Whether merges or pieces are learned from the text."""
        return self.merges is not None or self.size is not None

    @property
    def used(self) -> bool:
        """Whether words are cut."""
        return self.learned or bool(self.source_codes) or self.parent_codes

    @property
    def alike(self) -> bool:
        """Whether both sides' words are cut by the same merges, or not at all."""
        return self.source_codes == self.target_codes and (self.joint or not self.learned)


@dataclass(frozen=True)
class DataConfig:
    """The sentence pairs, and how they become ids."""

    corpus: str = "files"  # files; text: copy, halves, neighbours, dummy; generated: cldr, reverse
    directory: str = "."  # where the files below are
    train_source: str = ""  # files, text: training sources, UTF-8, one sentence per line
    train_second_source: str = ""  # files: the second source, for two_sources
    train_target: str = ""  # files: their translations, line by line
    dev_source: str = ""  # files, text: for validation; files: "" draws dev_size pairs
    dev_second_source: str = ""  # files: the second source, for two_sources
    dev_target: str = ""  # files: their translations
    test_source: str = ""  # files, text: scored at the end of training; optional
    test_second_source: str = ""  # files: the second source, for two_sources
    test_target: str = ""  # files: their translations
    lexicon: str = ""  # files: p_lex from nmt align --lexicon; for model.lexicon_epsilon
    source_language: str = "en"  # language code for the tokeniser; cldr: a locale
    second_source_language: str = "fr"  # the same for the second source
    target_language: str = "fr"  # the same for the target
    tokenise: str = "joiner"  # files, text: joiner, moses, characters, natural, letters, none
    transliterate: bool = False  # write the source's Arabic letters (Uyghur) in Latin ones
    train_size: int | None = None  # training pairs, of files the first; null: all, 20000 generated
    dev_size: int = 500  # validation pairs: generated, or drawn from files (a tenth at most)
    test_size: int = 500  # generated pairs to score at the end; may be 0
    seed: int = 1  # for generated pairs and for drawn validation pairs
    max_length: int | None = 50  # most words of a training sentence; longer ones are left out
    cut_long: bool = False  # files: truncate them to max_length instead (thesis, 5.4.2)
    max_translate_length: int = 1000  # most words of a sentence to translate; longer: an error
    source_vocabulary: str = ""  # a file of words or pieces, other programs' formats too
    target_vocabulary: str = ""  # the same for the target; "" counts the training words
    min_frequency: int = 1  # rarer words become <unk>
    max_vocabulary: int | None = None  # words kept per language, <unk> and </s> included
    shared_vocabulary: bool = False  # the source uses the words of both sides, the target's first
    word_dropout: float = 0.0  # probability in training to read a word as <unk>
    max_characters: int = 200  # hybrid: characters kept per language, those in most words
    reverse_source: bool = False  # the encoder reads the sentence backwards (section 4.3.1)
    reverse_target: bool = False  # the decoder writes the sentence backwards, for reranking
    target_token: str = ""  # files: put before each source to name the language, <2de>
    source_end: bool = False  # the encoder reads </s> after the sentence (Bahdanau, Figure 3)
    subwords: SubwordsConfig = field(default_factory=SubwordsConfig)

    def __post_init__(self) -> None:
        if self.corpus not in CORPORA:
            raise ValueError(f"corpus: expected one of {', '.join(CORPORA)}, got {self.corpus!r}"
                             f"{nearest(self.corpus, CORPORA)}")
        if self.tokenise not in TOKENISERS:
            raise ValueError(f"tokenise: expected one of {', '.join(TOKENISERS)}, got "
                             f"{self.tokenise!r}")
        if self.target_token and not (is_language(self.target_token) and self.corpus == "files"):
            raise ValueError("target_token: expected <2 and a language's code>, such as <2de>, of "
                             f"a corpus of files, got {self.target_token!r}")
        _check_least(self, 1, "max_length", "min_frequency", "max_translate_length", "train_size",
                     "dev_size", "max_characters")
        _check_least(self, 0, "test_size", "seed")
        _check_least(self, 2, "max_vocabulary")  # <unk> and </s>
        if not 0.0 <= self.word_dropout < 1.0:
            raise ValueError(f"word_dropout: expected 0 <= word_dropout < 1, got "
                             f"{self.word_dropout}")
        if self.shared_vocabulary and not self.subwords.alike:
            raise ValueError("shared_vocabulary: expected both sides cut by the same codes "
                             "(subwords.joint, or one file of codes), got two")
        for name in REQUIRED.get(self.corpus, ()):
            if not getattr(self, name):
                raise ValueError(f"{name}: expected the name of a file, got nothing")
        if self.subwords.used and self.subwords.kind == "sentencepiece" and self.tokenise != "none":
            raise ValueError("tokenise: expected 'none' beside subwords.kind sentencepiece, which "
                             f"reads raw text, got {self.tokenise!r}")
        if self.corpus == "files":
            for name in ("dev", "test"):
                if bool(getattr(self, f"{name}_source")) != bool(getattr(self, f"{name}_target")):
                    raise ValueError(f"{name}_source, {name}_target: expected both or neither")
        self._check_second_source()

    def _check_second_source(self) -> None:
        """Raise ValueError unless every set has a second source, or none."""
        for name in ("train", "dev", "test"):
            is_expected = bool(self.train_second_source and getattr(self, f"{name}_source"))
            given = getattr(self, f"{name}_second_source")
            if bool(given) != is_expected:
                expected = "the name of a file, as train_second_source" if is_expected else \
                    f"none without {name}_source and train_second_source"
                raise ValueError(f"{name}_second_source: expected {expected}, got "
                                 f"{repr(given) if given else 'nothing'}")
        if self.train_second_source and self.corpus != "files":
            raise ValueError(f"train_second_source: expected none of the corpus {self.corpus}, got "
                             f"{self.train_second_source!r}")
        if self.train_second_source and self.subwords.source_codes:
            raise ValueError("subwords.source_codes: expected none of two sources, whose merges "
                             f"are learned (subwords.merges), got {self.subwords.source_codes!r}")


@dataclass(frozen=True)
class EvaluateConfig:
    """The scoring of a translator."""

    bleu_tokenize: str = "13a"  # sacrebleu's tokenisation: 13a for plain text, none for tokens
    bleu: bool = True  # translate the dev set greedily at each validation and score it
    samples: int = 2  # dev sentences shown with their translations at each validation
    batch_size: int = 64  # sentences translated at once

    def __post_init__(self) -> None:
        if self.bleu_tokenize not in TOKENISATIONS:
            raise ValueError(f"bleu_tokenize: expected one of {', '.join(TOKENISATIONS)}, got "
                             f"{self.bleu_tokenize!r}")
        _check_least(self, 1, "batch_size")
        _check_least(self, 0, "samples")


@dataclass(frozen=True)
class Recipe(TranslationRecipe):
    """A translation system: data, model, training, search, evaluation."""

    data: DataConfig
    model: Any = field(default_factory=ModelConfig)
    parametrize: ParametrizeConfig = field(default_factory=ParametrizeConfig)
    train: TrainOptions = field(default_factory=TrainOptions)
    search: SearchOptions = field(default_factory=lambda: SearchOptions(beam=5))
    evaluate: EvaluateConfig = field(default_factory=EvaluateConfig)

    def __post_init__(self) -> None:
        tables = character_tables(self.model)
        _check_sources(self.data, self.model)
        if self.data.subwords.used and tables:
            raise ValueError("data.subwords: expected none with a model of characters, which reads "
                             "whole words, got some")
        _check_positions(self.data, self.model)
        check_lengths_searched(self.model, self.search.lengths, ValueError)
        if self.data.reverse_target and tables:
            raise ValueError("data.reverse_target: expected false with a model of characters, got "
                             "true")
        for name in ("word_dropout", "shared_vocabulary"):
            if getattr(self.data, name) and tables:
                raise ValueError(f"data.{name}: expected none with a model of characters, got "
                                 f"{str(getattr(self.data, name)).lower()}")
        _check_tied(self)
        _check_lexicon(self)
        if factor_tables(self.model) and self.data.tokenise != "none":
            raise ValueError("data.tokenise: expected 'none' where words have tags "
                             f"(model.factors), got {self.data.tokenise!r}")
        if factor_tables(self.model) and self.data.target_token:
            raise ValueError("data.target_token: expected none where words have tags "
                             f"(model.factors), got {self.data.target_token!r}")
        spells = CHARACTERS[1] in tables
        _check_criterion(self.train, ("perplexity", *[CHARACTER_PERPLEXITY] * spells,
                                      *[BLEU] * self.evaluate.bleu))

    @property
    def reverse_source(self) -> bool:  # type: ignore[override]
        """Whether the model reads its source from the end."""
        return self.data.reverse_source

    @property
    def shared_vocabulary(self) -> bool:  # type: ignore[override]
        """Whether the target's words are the first of the source's."""
        return self.data.shared_vocabulary


@dataclass(frozen=True)
class TextConfig:
    """The text of a language model, and how it becomes ids."""

    train: str = ""  # UTF-8 text
    dev: str = ""  # UTF-8 text; "" takes the last tenth of train
    level: str = "words"  # words or characters
    vocabulary: str = ""  # a file of words, such as a translator's target.vocab
    min_frequency: int = 1  # rarer words become <unk>
    max_vocabulary: int | None = None  # words kept per language, <unk> and </s> included
    dev_share: float = 0.1  # if dev is "": the share taken from the end of train
    streams: int = 32  # B, parallel streams of text
    length: int = 35  # T, steps of truncated backpropagation

    def __post_init__(self) -> None:
        if self.level not in ("words", "characters"):
            raise ValueError(f"level: expected words or characters, got {self.level!r}")
        if not self.train:
            raise ValueError("train: expected the name of a file, got nothing")
        if self.vocabulary and (self.max_vocabulary is not None or self.min_frequency > 1):
            raise ValueError("vocabulary: expected none beside min_frequency or max_vocabulary, "
                             f"which make one, got {self.vocabulary!r}")
        _check_least(self, 1, "streams", "length", "min_frequency")
        _check_least(self, 2, "max_vocabulary")  # <unk> and </s>
        if not 0.0 < self.dev_share < 1.0:
            raise ValueError(f"dev_share: expected 0 < dev_share < 1, got {self.dev_share}")


@dataclass(frozen=True)
class LanguageModelRecipe(AnyRecipe):
    """A language model: text, model, training."""

    text: TextConfig
    model: Any = field(default_factory=LanguageModelConfig)
    parametrize: ParametrizeConfig = field(default_factory=ParametrizeConfig)
    train: TrainOptions = field(default_factory=TrainOptions)

    def __post_init__(self) -> None:
        _check_criterion(self.train, ("perplexity",))
        if self.train.batch_tokens is not None:
            raise ValueError("train.batch_tokens: expected null for a language model, which has "
                             f"text.streams and text.length, got {self.train.batch_tokens}")


def kind_of(architecture: str) -> type[AnyRecipe]:
    """The kind of recipe that an architecture has: a translator's, or one of streams of text."""
    return Recipe if MODELS[architecture].sources else LanguageModelRecipe


def _check_least(section: Any, least: int, *names: str) -> None:
    """Raise ValueError for the first named field below `least`; None stands for no limit."""
    for name in names:
        value = getattr(section, name)
        if value is not None and value < least:
            raise ValueError(f"{name}: expected at least {least}, got {value}")


def _check_sources(data: DataConfig, model: Any) -> None:
    """Raise ValueError unless the data have as many sources as the model reads."""
    reads, given = architecture_of(model).sources, data.train_second_source
    if reads == 2 and not given:
        raise ValueError("data.train_second_source: expected the name of a file, since the model "
                         "reads two sources, got nothing")
    if reads < 2 and given:
        raise ValueError("data.train_second_source: expected none of a model of one source "
                         f"(architecture two_sources reads two), got {given!r}")


def _check_positions(data: DataConfig, model: Any) -> None:
    """Raise ValueError for data options that a Transformer does not support."""
    most = getattr(model, "positions", None)
    if most is None:
        return
    if data.reverse_source:
        raise ValueError("data.reverse_source: expected false with the architecture transformer: "
                         "it reads all words at once, whose order their positions tell; got true")
    if data.max_translate_length > most:
        raise ValueError(f"data.max_translate_length: expected at most model.positions, {most}, "
                         f"got {data.max_translate_length}")


def _check_tied(recipe: Recipe) -> None:
    """Raise ValueError for a source's table that is a target's too, where words have other ids."""
    for pair in recipe.parametrize.tied.items():
        sides = {name.startswith("encoder.") for name in pair if name.endswith(TABLES)}
        if len(sides) == 2 and not recipe.shared_vocabulary:
            raise ValueError("parametrize.tied: expected tables of one side, or "
                             f"data.shared_vocabulary, got {pair[0]}: {pair[1]}")


def _check_lexicon(recipe: Recipe) -> None:
    """Raise ValueError unless a lexicon and its epsilon are given together."""
    epsilon, file = getattr(recipe.model, "lexicon_epsilon", None), recipe.data.lexicon
    if bool(file) != (epsilon is not None):
        raise ValueError("data.lexicon: expected the name of a file exactly where "
                         f"model.lexicon_epsilon is given, got {file!r} with {epsilon}")


def _check_criterion(train: TrainOptions, scores: Sequence[str]) -> None:
    """Raise ValueError unless validation measures the score that decides the best checkpoint."""
    if train.criterion not in scores:
        raise ValueError(f"train.criterion: expected {' or '.join(scores)}, got "
                         f"{train.criterion!r}{MISSING.get(train.criterion, '')}")
