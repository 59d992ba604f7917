"""The page that steps through beam search: a trained model's own search of a user's sentence.

Nothing is searched here: `System.translate`, what `nmt translate` runs, tells a `Recorder` of each
step, once with the beam asked for and once with a beam of 1, which is greedy search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from backend.errors import UserError
from grads.stepper import trained as package
from grads.stepper.explorer.examples import quoted, shown
from grads.stepper.explorer.models import PHRASE, said_unknown
from grads.stepper.explorer.page import SEARCH, write_page
from grads.stepper.explorer.search_steps import FATES, Recorder, words_of
from nmt.checkpoint_option import DEFAULT
from nmt.data.corpora import check_lengths, tokenisers
from nmt.data.rare_words import UNK
from nmt.search.combine import AVERAGES
from nmt.search.interface import SearchOptions, chosen
from nmt.system import System
from nmt.translation import Translation

NAME, PAGE = "search", "search.html"
OWN = "attention"  # of the package's models, the one that is searched
OWN_BEAM = 3
OWN_SENTENCE = "Sonntag oder vor 12 Sekunden"  # the beam finds better than greedy search
BEYOND = {"beam": 4, "greedy": 2}  # candidates shown after the last one that was accepted
VERSION = 1


@dataclass(frozen=True)
class SearchSettings:
    """Arguments of `grads explore search`; None where nothing was said. Without a model the
    package's own is searched."""

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
                raise UserError(f"{key}: expected a model too, --model DIR")

    def command(self) -> str:
        """The command line that makes the page again."""
        words = ["grads explore", NAME]
        for key, value in vars(self).items():
            if value not in (None, ()):
                values = value if key == "ensemble" else [value]
                words += [f"--{key.replace('_', '-')}", *(quoted(shown(one)) for one in values)]
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
    one = replace(options, beam=1, nbest=1, length_normalisation=0.0)
    searches = {"beam": searched(system, words, options, BEYOND["beam"]),
                "greedy": searched(system, words, one, BEYOND["greedy"])}
    return {
        "version": VERSION, "title": "Beam search, stepped",
        "settings": described(settings, options), "command": settings.command(),
        "notes": notes(system, words, options, settings.model is None),
        "source": system.source_columns(words),
        "unknown": [s for s, i in enumerate(system.source_ids(words)) if not i],
        "attention": searches["beam"]["steps"][0]["weights"] is not None, "fates": FATES,
        "searches": searches,
    }


def searched(
    system: System, words: list[str], options: SearchOptions, beyond: int
) -> dict[str, Any]:
    """One search: its steps, its limit, the hypotheses it returned, best first."""
    recorder = Recorder(options, system.target.words, len(system.source_columns(words)), beyond)
    [found] = system.translate([words], options, recorder)
    return {"beam": options.beam, "limit": recorder.limit, "steps": recorder.steps,
            "limit_penalty": float(options.length_penalty(recorder.limit)),
            "found": [result(system, recorder, translation, at)
                      for translation, at in zip(found, recorder.best, strict=True)]}


def result(
    system: System, recorder: Recorder, translation: Translation, at: tuple[int, int]
) -> dict[str, Any]:
    """A hypothesis that was returned: which of the steps' it is, as the command line has it."""
    words = [UNK if place in translation.spelled else word  # a hybrid model's, before it spells
             for place, word in enumerate(translation.words)]
    order = -1 if system.recipe.data.reverse_target else 1
    assert words_of(recorder.steps, at) == words[::order]
    return {"at": list(at), "text": system.text(translation), "words": words,
            "log_p": translation.log_probability, "score": translation.score,
            "finished": translation.finished}


def described(settings: SearchSettings, options: SearchOptions) -> dict[str, Any]:
    """The settings as they are, for the page."""
    return {"model": [shown(one) for one in settings.directories], "beam": options.beam,
            "nbest": options.nbest, "alpha": options.length_normalisation,
            "length_factor": options.length_factor, "minimum_steps": options.minimum_steps}


def notes(system: System, words: list[str], options: SearchOptions, own: bool) -> list[str]:
    """What is to be said about the model and the sentence."""
    data, attention = system.recipe.data, system.recipe.model.attention
    return [note for note in (
        package.note(OWN) if own else "",
        said_unknown("sentence", system.source_columns(words), system.source_ids(words)),
        "The encoder reads the sentence from its end; columns stand in the order of the words as "
        "they are written." if data.reverse_source else "",
        "The decoder writes the sentence from its end, and so do the steps."
        if data.reverse_target else "",
        "This model has no attention." if attention == "none" else "",
        "The search may not produce <unk> (search.unknown)." if not options.unknown else "",
    ) if note]
