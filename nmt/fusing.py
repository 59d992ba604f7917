"""Shallow fusion: a translator that searches together with a language model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from backend.errors import UserError
from nmt.language_models import LanguageSystem
from nmt.models.contract import counts_down
from nmt.search.combine import Ensemble
from nmt.search.fusion import ShallowFusion
from nmt.system import System


def with_language_model(system: System, language: LanguageSystem, beta: float, name: str) -> System:
    """The system with a search that adds beta times a language model's log p (`ShallowFusion`).

    name: the language model's, for errors. Raises UserError as `check_language_model`.
    """
    check_language_model(system, language, name)
    model: Any = ShallowFusion(system.model, language.model, beta)
    parameters = Ensemble.joined([system.parameters, language.parameters])
    return replace(system, model=model, parameters=parameters, parametrized=None, stored={},
                   pruning=None)


def check_language_model(system: System, language: LanguageSystem, name: str) -> None:
    """Raise UserError for a language model that cannot be combined with a translator: their target
    vocabularies must be equal, and the translator must write words from the first to `</s>`."""
    language_words, target_words = language.vocabulary.words, system.target.words
    if language.recipe.text.level != "words" or language_words != target_words:
        raise UserError(f"{name}: expected a language model of the translator's "
                        f"{len(target_words)} target words (text.vocabulary), got one of "
                        f"{len(language_words)} other {language.recipe.text.level}")
    if system.recipe.data.reverse_target:
        raise UserError(f"{name}: expected a translator that writes from the first word beside a "
                        "language model, got one with data.reverse_target")
    if "target" in system.spellings:
        raise UserError(f"{name}: expected a translator of words beside a language model, got one "
                        "that spells")
    if counts_down(system.recipe.model):
        raise UserError(f"{name}: expected a translator that predicts </s> beside a language "
                        "model, got one with model.target_positions countdown")
