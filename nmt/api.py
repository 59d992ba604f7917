"""A trained translator from Python: `nmt.load`, `nmt.train` and what they return.

Sentences are plain text; the model's recipe says how they are tokenised. An invalid value raises
`backend.errors.UserError`, whose one line says what was expected. A wrong type raises TypeError.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, overload

import numpy as np

from backend.errors import UserError
from nmt.checkpoint_option import DEFAULT as CHECKPOINT
from nmt.data.corpora import tokenisers
from nmt.data.corpus import LONGEST
from nmt.data.vocabulary import END, SPECIALS
from nmt.evaluation import alignment_map
from nmt.evaluation.pictures import require_drawing
from nmt.recipe import Recipe
from nmt.recipe.file import load_recipe
from nmt.run_directory import resumable
from nmt.search.combine import AVERAGES
from nmt.search.interface import chosen
from nmt.system import System
from nmt.training.progress import ConsoleObserver, Observer
from nmt.translation import Translation
from nmt.translator_training import train as train_system


class Candidate(NamedTuple):
    """One translation of an n-best list."""

    text: str
    log_probability: float  # of the words and the end marker given the source, in nats
    score: float  # the sort key: log_probability divided by the length penalty
    finished: bool  # False: cut at the limit on length


@dataclass(frozen=True, eq=False)
class Attention:
    """What the decoder attended to when it wrote a translation.

    weights: (T, S) float; row t is a_t, a softmax over the source (Eq. 4.7 of the thesis), with
    zeros outside the window of local attention. target: T words, the last of which is `</s>`.
    source: S words.
    """

    source: list[str]
    target: list[str]
    weights: np.ndarray

    def __str__(self) -> str:
        """The map in characters, as `nmt attention` draws it."""
        return alignment_map.in_terminal(self.source, self.target, self.weights)

    def save(self, path: str | Path) -> None:
        """Draw the map into a file whose name ends in .png, .svg or .pdf. Raises UserError without
        matplotlib (the extra `plot`)."""
        require_drawing(str(path))
        alignment_map.save_map(self.source, self.target, self.weights, Path(path))


class LoadedTranslator:
    """A translator, or an ensemble of several, ready to use.

    system: the `nmt.system.System` underneath, which works on words, alignments and batches instead
    of text.
    """

    def __init__(self, system: System) -> None:
        self.system = system

    @property
    def recipe(self) -> Recipe:
        """The recipe of the training. An ensemble has the recipe that `System.together` makes."""
        return self.system.recipe

    @overload
    def translate(  # type: ignore[overload-overlap]
        self, text: str, *, beam: int | None = ..., length_normalisation: float | None = ...,
        length_factor: float | None = ...,
    ) -> str: ...

    @overload
    def translate(
        self, text: Sequence[str], *, beam: int | None = ..., length_normalisation: float | None
        = ..., length_factor: float | None = ...,
    ) -> list[str]: ...

    def translate(
        self, text: str | Sequence[str], *, beam: int | None = None,
        length_normalisation: float | None = None, length_factor: float | None = None,
    ) -> str | list[str]:
        """Translate a sentence, or each of several, by beam search.

        An option that is None has the recipe's value (`SearchOptions`). An empty sentence has an
        empty translation. Raises UserError for an option out of range, and for a sentence longer
        than the recipe's `data.max_translate_length`.
        """
        sentences = self._sentences(text)
        search = chosen(self.recipe.search, beam, None, length_factor, length_normalisation)
        nbests = self.system.translate(sentences, search)
        texts = [self.system.text(nbest[0]) for nbest in nbests]
        return texts[0] if isinstance(text, str) else texts

    def nbest(
        self, text: str, n: int, *, beam: int | None = None,
        length_normalisation: float | None = None, length_factor: float | None = None,
    ) -> list[Candidate]:
        """The n best translations of a beam search, best first. A default beam below n is raised to
        n. Raises as `translate`."""
        search = chosen(self.recipe.search, beam, n, length_factor, length_normalisation)
        (translations,) = self.system.translate(self._sentences(self._checked(text)), search)
        return [Candidate(self.system.text(translation), translation.log_probability,
                          translation.score, translation.finished)
                for translation in translations]

    def score(self, source: str, target: str) -> float:
        """log p(target, `</s>` | source) in nats, the sum over the target's words.

        A word outside the vocabulary counts as `<unk>`. Raises UserError for an empty side.
        """
        return self._forced(source, target)[1].log_probability

    def word_scores(self, source: str, target: str) -> list[tuple[str, float]]:
        """The target's words and then `</s>`, each with its log-probability (nats) given the words
        before it."""
        _, forced = self._forced(source, target)
        assert forced.steps is not None
        return list(zip([*forced.words, SPECIALS[END]], map(float, forced.steps), strict=True))

    def attention(self, source: str, target: str | None = None) -> Attention:
        """What the decoder attends to when it writes `target`; by default, its own translation.

        Raises UserError for a model without attention, and for an empty side.
        """
        if target is None:
            target = self.translate(self._checked(source))
        words, forced = self._forced(source, target)
        if forced.alignment is None:
            raise UserError("attention: expected a model with attention, got one without")
        rows = [*forced.words, SPECIALS[END]][: len(forced.alignment)]
        return Attention(self.system.source_columns(words), rows, forced.alignment)

    def unknown(self, text: str) -> list[str]:
        """The words of a source sentence that are not in the model's vocabulary."""
        (words,) = self._sentences(self._checked(text))
        return self.system.unknown_words(words)

    def _sentences(self, text: str | Sequence[str]) -> list[list[str]]:
        """The words of each sentence. Raises UserError for one that is too long to translate."""
        lines = [text] if isinstance(text, str) else text
        sentences = [self.system.cut_source(self._checked(line)) for line in lines]
        self.system.check_sources(sentences, "sentence")
        return sentences

    def _checked(self, text: str) -> str:
        """The sentence, checked; a model of several sources takes a line of each."""
        return _checked(text, len(self.system.readers))

    def _forced(self, source: str, target: str) -> tuple[list[str], Translation]:
        """The source's words, and the force-decoded target."""
        (words,) = self._sentences(self._checked(source))
        target_words = tokenisers(self.recipe.data)[1].tokenise(_checked(target))
        for name, side in (("source", words), ("target", target_words)):
            if not side:
                raise UserError(f"{name}: expected a sentence, got an empty one")
        (forced,) = self.system.force([(words, target_words)])
        return words, forced


def load(
    directory: str | Path | Sequence[str | Path], *, checkpoint: str = CHECKPOINT,
    average: str = AVERAGES[0],
) -> LoadedTranslator:
    """Open the translator of a run directory, or the ensemble of several directories.

    checkpoint: `best` or `last`. average: what an ensemble averages at each step, `probabilities`
    or their `logs`. Raises UserError for a directory that is no translator's run, and for models
    that cannot form an ensemble.
    """
    is_single = isinstance(directory, (str, Path))
    paths = [Path(directory)] if is_single else [Path(path) for path in directory]  # type: ignore
    if not paths:
        raise UserError("directory: expected a run directory or several, got none")
    return LoadedTranslator(System.open_all(paths, average, checkpoint))


def train(
    recipe: str | Path | Recipe | None, output: str | Path, *,
    overrides: Mapping[str, object] | None = None, resume: bool = False,
    observer: Observer | None = None,
) -> LoadedTranslator:
    """Train a translator, and return it with its best parameters.

    recipe: a YAML file or a `Recipe`; None with `resume`. output: the run directory, new or empty.
    overrides: values that replace those of the file, or of the run that is resumed, such as
    {"train.epochs": 3}. observer: receives progress; the default prints a line for each epoch to
    stdout. Raises UserError as the command `nmt train` does.
    """
    changes = [f"--{key}={value if isinstance(value, str) else json.dumps(value)}"
               for key, value in (overrides or {}).items()]
    if resume != (recipe is None):
        raise UserError("recipe: expected one, or none with resume=True")
    if isinstance(recipe, Recipe):
        if changes:
            raise UserError("overrides: cannot be used with a Recipe; dataclasses.replace changes "
                            "it")
        chosen_recipe = recipe
    elif recipe is None:
        chosen_recipe = resumable(Recipe, Path(output), changes)
    else:
        chosen_recipe = load_recipe(Recipe, recipe, changes)
    return LoadedTranslator(train_system(chosen_recipe, output, observer or ConsoleObserver(),
                                         resume=resume))


def _checked(text: str, sources: int = 1) -> str:
    """The sentence itself, checked. Raises TypeError for a value that is not text, and UserError
    for text too long to tokenise, and for several lines where the model reads one source."""
    if not isinstance(text, str):
        raise TypeError(f"text: expected str, got {type(text).__name__}")
    if len(text) > LONGEST:
        raise UserError(f"text: expected at most {LONGEST:,} characters, got {len(text):,}")
    if sources == 1 and "\n" in text.strip("\n"):
        raise UserError("text: expected one sentence, got several lines; pass them as a list")
    return text
