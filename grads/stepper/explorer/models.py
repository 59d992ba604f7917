"""A trained model's own weights and a user's own sentence, for a derivation to be run on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from backend import to_host
from backend.errors import UserError
from grads.derivations.attention_step import Variant
from grads.derivations.examples import END, UNKNOWN, Example
from nmt.data.corpora import tokenisers
from nmt.language_models import LanguageSystem, tokens_of
from nmt.models.registry import name_of
from nmt.search.interface import SearchOptions
from nmt.system import System

PHRASE = "good morning"  # where the user gave none
# A one-layer language model's parameters by the derivation's names
LANGUAGE_NAMES = {"W_e": "W_e", "rnn.0.W": "T", "rnn.0.b": "b", "output.W_hy": "W_hy",
                  "output.b": "b_hy"}


@dataclass(frozen=True)
class Trained:
    """What a derivation is run on, from a run directory."""

    example: Example
    notes: tuple[str, ...]


def open_model(
    name: str, directory: Path, sentence: str | None, target: str | None, which: str
) -> Trained:
    """The example of the derivation `name` with the weights in a run directory.

    which: best or last, of its checkpoints.
    Raises `UserError` for a directory without a run, a model that the derivation does
    not cover, and a sentence without words.
    """
    if sentence is not None and not sentence.strip():
        raise UserError(f"sentence: expected at least one word, got {sentence!r}")
    if name in ("rnn", "lstm"):
        if System.is_in(directory):
            raise UserError(f"{directory}: {name} is a language model, and this is a translator; "
                            "expected the name nmt or attention")
        return language(name, directory, sentence or PHRASE, which)
    if LanguageSystem.is_in(directory):
        raise UserError(f"{directory}: {name} is a translator, and this is a language model; "
                        "expected the name rnn or lstm")
    return translation(name, directory, sentence or PHRASE, target, which)


def language(name: str, directory: Path, sentence: str, which: str) -> Trained:
    """A language model; it reads the end marker first, as it was trained to."""
    system = LanguageSystem.open(directory, which)
    config = system.recipe.model
    refuse(directory, name, {f"unit {config.unit}": config.unit != name,
                          f"{config.layers} layers": config.layers != 1})
    words = tokens_of([sentence], system.recipe.text.level)
    ids = system.vocabulary.ids(words)
    ids = [END if word == "</s>" else i for word, i in zip(words, ids, strict=True)]
    parameters = {ours: exact(system.parameters[theirs])
                  for theirs, ours in LANGUAGE_NAMES.items() if theirs in system.parameters}
    example = Example((parameters, [END, *ids[:-1]], ids), {},
                      {"W_e": list(system.vocabulary.words)})
    return Trained(example, notes(config.dropout, config.clip_elements, [
        said_unknown("sentence", words, ids)]))


def translation(
    name: str, directory: Path, sentence: str, target: str | None, which: str
) -> Trained:
    """A translator; where no target is given, its own greedy translation is."""
    system = System.open(directory, which)
    config, data = system.recipe.model, system.recipe.data
    if name_of(config) != "luong":
        raise UserError(f"{directory}: the derivation {name} does not cover this model: it is of "
                        f"the architecture {name_of(config)}")
    refuse(directory, name, {
        f"unit {config.unit}": config.unit != "lstm",
        "a bidirectional encoder": config.bidirectional,
        "a bridge": config.bridge and not config.bidirectional,
        "attention": name == "nmt" and config.attention != "none",
        "no attention": name == "attention" and config.attention == "none",
        f"attention {config.attention}": config.attention not in ("none", "global"),
        f"the score {config.score}": config.attention != "none" and (
            config.score not in ("dot", "general"))})
    source_cut, target_cut = (one.tokenise for one in tokenisers(data))
    x = source_cut(sentence)
    own = target is None
    y = system.translate([x], SearchOptions())[0][0].words if target is None else target_cut(target)
    if not x or not (y or own):
        raise UserError(f"{'target' if x else 'sentence'}: expected at least one word")
    s, t = system.source_ids(x), system.target.ids(y)
    parameters = {key: exact(value) for key, value in system.parameters.items()}
    named = {"variant": Variant(config.score)} if name == "attention" else {}
    example = Example((parameters, s[::-1] if data.reverse_source else s, t), named, {
        "encoder.W_e": list(system.source.words), "decoder.W_e": list(system.target.words)})
    return Trained(example, notes(config.dropout, config.clip_elements, [
        said_unknown("sentence", x, s), said_unknown("target", y, t),
        "The target is the model's own greedy translation." if own else "",
        "The encoder reads the sentence from its end." if data.reverse_source else ""]))


def refuse(directory: Path, name: str, features: dict[str, bool]) -> None:
    """UserError naming what a model has that the derivation has not."""
    found = [feature for feature, present in features.items() if present]
    if found:
        raise UserError(f"{directory}: the derivation {name} does not cover this model: it has "
                        f"{' and '.join(found)}")


def exact(parameter: Any) -> np.ndarray:
    """A parameter in float64: the derivatives are compared to more digits than float32 has."""
    return np.asarray(to_host(parameter), np.float64)


def notes(dropout: float, clip: float | None, more: Sequence[str]) -> tuple[str, ...]:
    """What is to be said about the model."""
    return tuple(note for note in (
        "Trained weights; computed in float64.",
        "Without the dropout of training." if dropout else "",
        "Without the clipping of dh in training." if clip is not None else "", *more) if note)


def said_unknown(name: str, words: Sequence[str], ids: Sequence[int]) -> str:
    """Which words the vocabulary does not have."""
    unknown = dict.fromkeys(word for word, i in zip(words, ids, strict=True) if i == UNKNOWN)
    return f"{name}: read as <unk>: {', '.join(unknown)}." if unknown else ""
