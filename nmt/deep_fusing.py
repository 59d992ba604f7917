"""The start of deep fusion: a translator and a language model that were trained separately."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from backend.errors import UserError
from nmt.fixed_recipe import run_recipe
from nmt.fusing import check_language_model
from nmt.language_models import LanguageSystem
from nmt.models.heads.fusion import LANGUAGE
from nmt.models.registry import name_of
from nmt.models.rnnsearch_config import RNNSearchConfig
from nmt.recipe import Recipe
from nmt.system import System

TRAINED = "output"  # prefix of the parameters that are trained
OF_LANGUAGE = ("unit", "layers", "hidden_size", "embedding_size", "biases")


def fusion_recipe(
    directory: Path, system: System, language: LanguageSystem, overrides: Sequence[str] = ()
) -> Recipe:
    """The translator's recipe with deep fusion; all parameters but the output layer's are frozen.

    directory: the translator's run. overrides: `--section.key=value`. Raises UserError for a
    translator that is not RNNsearch, for a residual language model, for overrides of the model,
    and as `run_recipe`.
    """
    if type(system.recipe.model) is not RNNSearchConfig:
        raise UserError(f"{directory}: expected a run of the architecture rnnsearch for deep "
                        f"fusion, got {name_of(system.recipe.model)}")
    if language.recipe.model.residual:
        raise UserError("model.residual: expected false for deep fusion, got a language model with "
                        "residual connections")
    model = dataclasses.asdict(system.recipe.model)
    model |= {f"lm_{name}": getattr(language.recipe.model, name) for name in OF_LANGUAGE}
    parts = dict.fromkeys(name.split(".")[0] for name in system.parameters)
    frozen = [f"{prefix}.*" for prefix in (*parts, LANGUAGE) if prefix != TRAINED]
    given = {"model.architecture": "deep_fusion", "parametrize.frozen": json.dumps(frozen),
             **{f"model.{name}": value if isinstance(value, str) else json.dumps(value)
                for name, value in model.items()}}
    for override in overrides:
        if override.startswith(("--model.", "--parametrize.")):
            raise UserError(f"{override}: cannot be changed: the model is that of the two runs")
    fixed = [f"--{key}={value}" for key, value in given.items()]
    return run_recipe(Recipe, directory, [*fixed, *overrides])


def fusion_start(recipe: Recipe, system: System, language: LanguageSystem, name: str) -> System:
    """A system with the parameters of both models; L_o and the gate have initial values.

    name: the language model's, for errors. Raises UserError unless both have the same target words.
    """
    check_language_model(system, language, name)
    fused = System.create(recipe, system.vocabularies)
    known = {**system.parameters, **{_renamed(key): array for key, array in
                                     language.parameters.items()}}
    stored = fused.stored or fused.parameters
    for key in stored.keys() & known.keys():
        stored[key] = known[key].copy()
    return dataclasses.replace(fused, parameters=fused.plain(stored),
                               stored=stored if fused.stored else {})


def _renamed(name: str) -> str:
    """The name in deep fusion of a language model's parameter. Those of the prediction layer get a
    name that no parameter has, since they are not used."""
    if name == "W_e":
        return f"{LANGUAGE}.W_e"
    return name.replace("rnn.", f"{LANGUAGE}.", 1) if name.startswith("rnn.") else f"/{name}"
