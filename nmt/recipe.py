"""Recipes: a system described by the names of its parts; `recipe_file` reads and writes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from nmt.evaluate import TOKENISATIONS
from nmt.models.config import ModelConfig
from nmt.models.language_model import LanguageModelConfig
from nmt.models.rnnsearch import RNNSearchConfig
from nmt.search.interface import SearchOptions
from nmt.training.options import TrainOptions


@dataclass(frozen=True)
class DataConfig:
    """Where the sentence pairs come from and how they become ids."""

    corpus: str = "files"  # files; or generated: cldr, the embedded corpus, reverse, of numbers
    folder: str = "."  # files: where the four or six below are
    train_source: str = ""  # line-aligned UTF-8 text
    train_target: str = ""
    dev_source: str = ""
    dev_target: str = ""
    test_source: str = ""  # optional: scored at the end of training
    test_target: str = ""
    source_language: str = "en"  # language codes, for the tokeniser; cldr: the two locales
    target_language: str = "fr"
    tokenise: str = "moses"  # files: moses, characters, or none (words stand between spaces)
    train_size: int = 20000  # cldr, reverse: pairs to generate
    dev_size: int = 500
    test_size: int = 500
    seed: int = 1  # cldr, reverse: of the pairs drawn
    max_length: int | None = 50  # words a training sentence may have; longer ones are counted
    max_translate_length: int = 1000  # words a sentence to translate may have; longer: refused
    min_frequency: int = 1  # rarer words become <unk>
    max_vocabulary: int | None = None  # words kept per language, <unk> and </s> included
    reverse_source: bool = False  # the encoder reads the sentence from its end (section 4.3.1)

    def __post_init__(self) -> None:
        if self.corpus not in ("files", "cldr", "reverse"):
            raise ValueError(f"corpus: expected files, cldr or reverse, got {self.corpus!r}")
        if self.tokenise not in ("moses", "characters", "none"):
            raise ValueError(
                f"tokenise: expected moses, characters or none, got {self.tokenise!r}"
            )
        _check_least(self, 1, "max_length", "min_frequency", "max_translate_length", "train_size",
                     "dev_size")
        _check_least(self, 0, "test_size", "seed")
        _check_least(self, 2, "max_vocabulary")  # <unk> and </s>
        if self.corpus == "files":
            for name in ("train_source", "train_target", "dev_source", "dev_target"):
                if not getattr(self, name):
                    raise ValueError(f"{name}: expected the name of a file, got nothing")
            if bool(self.test_source) != bool(self.test_target):
                raise ValueError("test_source, test_target: expected both or neither")


@dataclass(frozen=True)
class EvaluateConfig:
    """How a translator is scored."""

    bleu_tokenize: str = "13a"  # sacrebleu's tokenisation: 13a for plain text, none for tokens
    bleu: bool = True  # translate the dev set greedily at the end of each epoch and score it
    batch_size: int = 64  # sentences translated at once

    def __post_init__(self) -> None:
        if self.bleu_tokenize not in TOKENISATIONS:
            raise ValueError(f"bleu_tokenize: expected one of {', '.join(TOKENISATIONS)}, got "
                             f"{self.bleu_tokenize!r}")
        _check_least(self, 1, "batch_size")


@dataclass(frozen=True)
class Recipe:
    """A translation system: data, model, training, search, evaluation."""

    data: DataConfig
    model: ModelConfig | RNNSearchConfig = field(default_factory=ModelConfig)  # by architecture
    train: TrainOptions = field(default_factory=TrainOptions)
    search: SearchOptions = field(default_factory=lambda: SearchOptions(beam=5))
    evaluate: EvaluateConfig = field(default_factory=EvaluateConfig)

    def __post_init__(self) -> None:
        scores = ("perplexity", "bleu") if self.evaluate.bleu else ("perplexity",)
        _check_criterion(self.train, scores)


@dataclass(frozen=True)
class TextConfig:
    """The text of a language model."""

    train: str = ""  # UTF-8 text
    dev: str = ""  # UTF-8 text; "" takes the last tenth of `train`
    level: str = "words"  # words or characters
    min_frequency: int = 1  # rarer ones become <unk>
    max_vocabulary: int | None = None
    dev_share: float = 0.1  # where dev is "": the share taken from the end of `train`
    streams: int = 32  # B, parallel streams of text
    length: int = 35  # T, steps of truncated backpropagation

    def __post_init__(self) -> None:
        if self.level not in ("words", "characters"):
            raise ValueError(f"level: expected words or characters, got {self.level!r}")
        if not self.train:
            raise ValueError("train: expected the name of a file, got nothing")
        _check_least(self, 1, "streams", "length", "min_frequency")
        _check_least(self, 2, "max_vocabulary")  # <unk> and </s>
        if not 0.0 < self.dev_share < 1.0:
            raise ValueError(f"dev_share: expected 0 < dev_share < 1, got {self.dev_share}")


@dataclass(frozen=True)
class LanguageModelRecipe:
    """A language model: text, model, training."""

    text: TextConfig
    model: LanguageModelConfig = field(default_factory=LanguageModelConfig)
    train: TrainOptions = field(default_factory=TrainOptions)

    def __post_init__(self) -> None:
        _check_criterion(self.train, ("perplexity",))


def _check_least(section: Any, least: int, *names: str) -> None:
    """Raise ValueError for the first named field below `least`; None stands for no limit."""
    for name in names:
        value = getattr(section, name)
        if value is not None and value < least:
            raise ValueError(f"{name}: expected at least {least}, got {value}")


def _check_criterion(train: TrainOptions, scores: Sequence[str]) -> None:
    """Raise ValueError unless validation gives the score that decides what is best."""
    if train.criterion not in scores:
        raise ValueError(f"train.criterion: expected {' or '.join(scores)}, got "
                         f"{train.criterion!r}")
