"""Recipes: a system as a YAML file that names its parts, with overrides from the command line."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml
from jsonargparse import ArgumentParser

from backend.errors import UserError
from lstm.language_model import LanguageModelConfig
from nmt.models.config import ModelConfig
from nmt.search.interface import SearchOptions
from nmt.text.corpus import write_lines
from nmt.training.options import TrainOptions

R = TypeVar("R")


@dataclass(frozen=True)
class DataConfig:
    """Where the sentence pairs come from and how they become ids."""

    corpus: str = "files"  # files, or cldr: the embedded corpus, generated
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
    train_size: int = 20000  # cldr: phrases to generate
    dev_size: int = 500
    test_size: int = 500
    seed: int = 1  # cldr: of the phrases drawn
    max_length: int | None = 50  # words a training sentence may have; longer ones are counted
    max_translate_length: int = 1000  # words a sentence to translate may have; longer: refused
    min_frequency: int = 1  # rarer words become <unk>
    max_vocabulary: int | None = None  # words kept per language, <unk> and </s> included
    reverse_source: bool = False  # the encoder reads the sentence from its end (section 4.3.1)

    def __post_init__(self) -> None:
        if self.corpus not in ("files", "cldr"):
            raise ValueError(f"corpus: expected files or cldr, got {self.corpus!r}")
        if self.tokenise not in ("moses", "characters", "none"):
            raise ValueError(
                f"tokenise: expected moses, characters or none, got {self.tokenise!r}"
            )
        for name in ("max_length", "max_vocabulary"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name}: expected at least 1 or null, got {value}")
        for name in ("min_frequency", "max_translate_length"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}")
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


@dataclass(frozen=True)
class Recipe:
    """A translation system: data, model, training, search, evaluation."""

    data: DataConfig
    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainOptions = field(default_factory=TrainOptions)
    search: SearchOptions = field(default_factory=lambda: SearchOptions(beam=5))
    evaluate: EvaluateConfig = field(default_factory=EvaluateConfig)


@dataclass(frozen=True)
class TextConfig:
    """The text of a language model."""

    train: str  # UTF-8 text
    dev: str  # UTF-8 text; "" takes the last tenth of `train`
    level: str = "words"  # words or characters
    min_frequency: int = 1  # rarer ones become <unk>
    max_vocabulary: int | None = None
    dev_share: float = 0.1  # where dev is "": the share taken from the end of `train`
    streams: int = 32  # B, parallel streams of text
    length: int = 35  # T, steps of truncated backpropagation

    def __post_init__(self) -> None:
        if self.level not in ("words", "characters"):
            raise ValueError(f"level: expected words or characters, got {self.level!r}")
        for name in ("streams", "length", "min_frequency"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}")
        if not 0.0 < self.dev_share < 1.0:
            raise ValueError(f"dev_share: expected 0 < dev_share < 1, got {self.dev_share}")


@dataclass(frozen=True)
class LanguageModelRecipe:
    """A language model: text, model, training."""

    text: TextConfig
    model: LanguageModelConfig = field(default_factory=LanguageModelConfig)
    train: TrainOptions = field(default_factory=TrainOptions)


def load_recipe(kind: type[R], path: str | Path, overrides: Sequence[str] = ()) -> R:
    """Read a recipe and apply overrides such as `--train.epochs 5`.

    Arguments: kind, `Recipe` or `LanguageModelRecipe`; path of the YAML file.
    Raises UserError: unreadable file, not YAML, an unknown key (with the nearest known one), a
    value of the wrong type or out of range.
    """
    try:
        content = yaml.safe_load(Path(path).read_bytes())
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        where = getattr(error, "problem_mark", None)
        line = f":{where.line + 1}" if where else ""
        problem = getattr(error, "problem", None) or error
        raise UserError(f"{path}{line}: expected YAML, got: {problem}") from None
    if not isinstance(content, dict):
        raise UserError(f"{path}: expected a mapping of sections, got {type(content).__name__}")
    known = dict(_leaves(kind))
    for key in _keys(content):
        _check_key(f"{path}: key", key, known)
    for argument in overrides:
        if argument.startswith("-"):
            _check_key("override", argument.lstrip("-").split("=")[0], known)
    return _parse(kind, ["--config", str(path), *overrides], str(path))


def save_recipe(recipe: Any, path: str | Path) -> None:
    """Write the resolved recipe, every default filled in, in full or not at all."""
    text = yaml.safe_dump(dataclasses.asdict(recipe), sort_keys=False, allow_unicode=True)
    write_lines(path, text.rstrip("\n").split("\n"))


def _parse(kind: type[R], arguments: list[str], source: str) -> R:
    """Types and ranges, by jsonargparse and by the dataclasses themselves."""
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--config", action="config")
    for section in dataclasses.fields(kind):  # type: ignore[arg-type]
        parser.add_argument(f"--{section.name}", type=_type(kind, section.name))
    try:
        namespace = parser.parse_args(arguments)
        made = parser.instantiate(namespace)
        return kind(**{f.name: made[f.name] for f in dataclasses.fields(kind)  # type: ignore[arg-type]
                       if made.get(f.name) is not None})
    except UserError:
        raise
    except Exception as error:  # jsonargparse raises many kinds for one thing: a bad value
        message = " ".join(str(error).split())
        raise UserError(f"{source}: {message}") from None


def _type(kind: type, name: str) -> Any:
    """The dataclass of a section; annotations are strings here."""
    return {"data": DataConfig, "evaluate": EvaluateConfig, "text": TextConfig,
            "search": SearchOptions, "train": TrainOptions,
            "model": ModelConfig if kind is Recipe else LanguageModelConfig}[name]


def _leaves(kind: type) -> Iterator[tuple[str, Any]]:
    """All dotted keys of a recipe: `model`, `model.layers` and so on."""
    for section in dataclasses.fields(kind):
        yield section.name, section
        for leaf in dataclasses.fields(_type(kind, section.name)):
            yield f"{section.name}.{leaf.name}", leaf


def _keys(content: Mapping[str, Any]) -> Iterator[str]:
    """All dotted keys of a recipe file."""
    for section, value in content.items():
        yield str(section)
        if isinstance(value, dict):
            yield from (f"{section}.{key}" for key in value)


def _check_key(what: str, key: str, known: Mapping[str, Any]) -> None:
    """Raise UserError for an unknown key, suggesting the nearest known one."""
    if key in known:
        return
    nearest = difflib.get_close_matches(key, known, n=1, cutoff=0.4)
    hint = f"; did you mean '{nearest[0]}'?" if nearest else ""
    raise UserError(f"{what} '{key}' is not known{hint}")
