"""The data of the page of a search: every step of beam search and of greedy search, as JSON.

The search itself is `System.translate`, as in `nmt translate`, with a `Recorder` as observer: once
with the requested beam and once with a beam of 1, which is greedy search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from backend.errors import UserError
from nmt.data.annotation import method_of
from nmt.models.contract import counts_down
from nmt.search.interface import SearchOptions
from nmt.search.recorder import FATES, Recorder, words_of
from nmt.system import System
from nmt.translation import Translation

BEYOND = {"beam": 4, "greedy": 2}  # candidates shown after the last accepted one


def searches_of(system: System, words: list[str], options: SearchOptions) -> dict[str, Any]:
    """Both searches of a sentence of at least one word, with the texts of the page.

    Keys: "source", the words of an alignment's columns; "unknown", positions of words outside the
    vocabulary; "attention", whether the model has any; "fates", the outcomes of a candidate in
    words; "settings"; "searches", "beam" and "greedy", from `searched`; "notes", sentences. For a
    model that counts down, the search shown is that of the best translation's length. Raises
    UserError if that translation has no word.
    """
    options = replace(options, every_beam=False)  # no observer can follow every beam
    greedy = replace(options, beam=1, nbest=1, length_normalisation=0.0)
    searches = {"beam": searched(system, words, options, BEYOND["beam"]),
                "greedy": searched(system, words, greedy, BEYOND["greedy"])}
    return {
        "source": system.source_columns(words),
        "unknown": [s for s, i in enumerate(system.source_ids(words)) if not i],
        "attention": searches["beam"]["steps"][0]["weights"] is not None, "fates": FATES,
        "settings": {"beam": options.beam, "nbest": options.nbest,
                     "alpha": options.length_normalisation,
                     "length_factor": options.length_factor,
                     "minimum_steps": options.minimum_steps},
        "searches": searches, "notes": [*notes(system, words, options), *said_lengths(
            system, searches)],
    }


def searched(
    system: System, words: list[str], options: SearchOptions, beyond: int
) -> dict[str, Any]:
    """One search: its steps, its limit, and the hypotheses that it returned, best first."""
    recorder = Recorder(options, system.target.words, len(system.source_columns(words)), beyond,
                        counts_down(system.recipe.model))
    [hypotheses] = system.translate([words], options, recorder)
    if not recorder.steps:
        raise UserError("search: expected a translation with words to show, got an empty one: its "
                        "length has the largest product, "
                        f"log p {hypotheses[0].log_probability:.4f}")
    return {"beam": options.beam, "limit": recorder.limit, "steps": recorder.steps,
            "limit_penalty": recorder.penalty(recorder.limit), "first": recorder.first,
            "found": [result(system, recorder, translation, place)
                      for translation, place in zip(hypotheses, recorder.best, strict=True)]}


def result(
    system: System, recorder: Recorder, translation: Translation, place: tuple[int, int]
) -> dict[str, Any]:
    """A returned hypothesis: its position among the steps' hypotheses, its text and its scores.

    "words" are the words of the search, with `<unk>` where a hybrid model spells; "spelled" has the
    spelled words in its place. Both are in the order of the steps.
    """
    order = -1 if system.recipe.data.reverse_target else 1
    words = translation.unspelled[::order]
    assert words_of(recorder.steps, place) == words
    return {"at": list(place), "text": system.text(translation), "words": words,
            "spelled": translation.words[::order], "log_p": translation.log_probability,
            "score": translation.score, "finished": translation.finished}


def notes(system: System, words: Sequence[str], options: SearchOptions) -> list[str]:
    """The notes on the model and the sentence."""
    data, attention = system.recipe.data, system.recipe.model.attention
    return [note for note in (
        said_unknown("sentence", system.unknown_words(words), "source" in system.spellings),
        "The encoder reads the sentence from its end; columns stand in the order of the words as "
        "they are written." if data.reverse_source else "",
        "The decoder writes the sentence from its end, and so do the steps."
        if data.reverse_target else "",
        "This model has no attention." if attention == "none" else "",
        "The search may not produce <unk> (search.unknown)." if not options.unknown else "",
        said_annotated(method_of(system.target.words)),
    ) if note]


def said_lengths(system: System, searches: dict[str, Any]) -> list[str]:
    """The note on a model that counts down, with the length of each search."""
    if not counts_down(system.recipe.model):
        return []
    lengths = " and ".join(f"{search['limit']} words ({name}, log p {search['first']:.4f})"
                           for name, search in searches.items())
    return ["This model predicts the length first, with which log p begins; shown are the searches "
            f"of the lengths with the best product: {lengths}. There is no </s>."]


def said_annotated(method: str | None) -> str:
    """The note on a model of annotated text; "" for any other model."""
    source = " In the sentence too, unknown words have to be marked (nmt annotate)." \
        if method == "copyable" else ""
    return (f"Trained on annotated text ({method}): symbols in angle brackets say which source "
            f"word an unknown word comes from; nmt restore puts words in their place.{source}"
            if method else "")


def said_unknown(name: str, unknown: Sequence[str], by_character: bool = False) -> str:
    """The note on words outside a vocabulary; "" if there are none.

    by_character: whether the model reads such words by their characters.
    """
    treatment = "outside the vocabulary, by character" if by_character else "read as <unk>"
    return f"{name}: {treatment}: {', '.join(unknown)}." if unknown else ""
