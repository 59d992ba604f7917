"""The page that steps through beam search: a trained model's own search of a user's sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backend.errors import UserError
from grads.stepper import trained as package
from grads.stepper.explorer.examples import quoted, shown
from grads.stepper.explorer.models import PHRASE
from nmt.checkpoint_option import DEFAULT
from nmt.data.corpora import check_lengths, tokenisers
from nmt.pages.page import SEARCH, write_page
from nmt.pages.search import searches_of
from nmt.search.combine import AVERAGES
from nmt.search.interface import chosen
from nmt.system import System

NAME, PAGE = "search", "search.html"
OWN = "attention"  # of the package's models, the one that is searched
OWN_BEAM = 3
OWN_SENTENCE = "vor 2 Minuten, Samstag und vor 5 Sekunden"  # beam search is right, greedy not


@dataclass(frozen=True)
class SearchSettings:
    """The arguments of `grads explore search`. None means that an argument was not given. Without a
    model, the package's own model is searched."""

    model: Path | None = None
    ensemble: Sequence[Path] = ()  # searched as one with the model
    sentence: str | None = None
    checkpoint: str | None = None
    average: str | None = None
    beam: int | None = None
    nbest: int | None = None
    length_factor: float | None = None
    length_normalisation: float | None = None

    @property
    def directories(self) -> list[Path]:
        """All run directories."""
        return [package.DIRECTORY / OWN if self.model is None else self.model, *self.ensemble]

    @property
    def text(self) -> str:
        """The sentence, or one that the model may know."""
        usual = OWN_SENTENCE if self.model is None else PHRASE
        return usual if self.sentence is None else self.sentence

    def check(self) -> None:
        """Raise UserError for what only a model of the user's own has."""
        for key in ("ensemble", "checkpoint") if self.model is None else ():
            if getattr(self, key) not in (None, ()):
                raise UserError(f"{key}: it needs a trained model: name the model by --model DIR")

    def command(self) -> str:
        """The command line that makes the page again."""
        words = ["grads explore", NAME]
        for key, value in vars(self).items():
            if value not in (None, ()):
                values = value if key == "ensemble" else [value]
                words += [f"--{key.replace('_', '-')}", *(
                    quoted(shown(value) if isinstance(value, Path) else str(value))
                    for value in values)]
        return " ".join([*words, f"-o {PAGE}"])


def explore_search(output: str | Path | None, settings: SearchSettings) -> Path:
    """Write the page of `build_search(settings)` and return its path, search.html if None.

    Raises `UserError` as `build_search`, and for a path that cannot be written.
    """
    path = Path(PAGE if output is None else output)
    write_page(build_search(settings), path, SEARCH)
    return path


def build_search(settings: SearchSettings) -> dict[str, Any]:
    """Every step of both searches, and what they found, ready for JSON.

    Raises `UserError` for a directory without a translator, members that do not fit, a sentence
    without words or with too many, and a setting out of range.
    """
    settings.check()
    system = System.open_all(settings.directories, settings.average or AVERAGES[0],
                             settings.checkpoint or DEFAULT)
    words = tokenisers(system.recipe.data)[0].tokenise(settings.text)
    if not words:
        raise UserError(f"sentence: expected at least one word, got {settings.text!r}")
    check_lengths([words], system.recipe.data, "sentence")
    beam = OWN_BEAM if settings.model is None and settings.beam is None else settings.beam
    options = chosen(system.recipe.search, beam, settings.nbest, settings.length_factor,
                     settings.length_normalisation)
    searches = searches_of(system, words, options)
    model_notes = [package.note(OWN)] if settings.model is None else []
    return {
        **searches, "title": "Beam search, stepped",
        "settings": {"model": [shown(directory) for directory in settings.directories],
                     **searches["settings"]},
        "command": settings.command(), "notes": [*model_notes, *searches["notes"]],
    }
