"""What of a recipe no one may change once a model was trained by it, and what has changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backend.errors import UserError
from nmt.checkpoint_option import DEFAULT
from nmt.recipe import AnyRecipe
from nmt.recipe.file import as_mapping, load_recipe
from nmt.recipe.tasks import RATIOS, SHARE, TASKS, VOCABULARIES
from nmt.run_files import RECIPE, checkpoint_path
from nmt.training import checkpoint

# What a resumed run may change: where the files lie, and what only translation reads.
FREE = {"data.directory", "data.max_translate_length", "data.subwords.source_codes",
        "data.subwords.target_codes", "text.train", "text.dev", "text.vocabulary",
        *(f"data.{part}_{side}" for part in ("train", "dev", "test")
          for side in ("source", "second_source", "target"))}
MADE_BY = ("data", "text", "model", "parametrize")  # sections that a model is made by
MIXED_BY = (RATIOS, SHARE, VOCABULARIES)  # keys that a mixture of tasks is made by
RESUME = "resume"
NAMED = {"parametrize.tied", "parametrize.normalized", "model.factors"}  # whose keys are names
SCORED_BY = ("evaluate.bleu", "evaluate.bleu_tokenize")  # what is best goes by them too


def check_same(path: Path, recipe: AnyRecipe, what: str = RESUME) -> None:
    """Raise UserError if the run in `path` has another model, or its data are made otherwise.

    For RESUME, scores of the dev data, and what tasks share, too.
    """
    saved = checkpoint_path(path, DEFAULT)
    known = checkpoint.load_metadata(saved).get("model", {}) if saved.is_file() else {}
    before = known.get("recipe") or fixed_values(load_recipe(type(recipe), path / RECIPE))
    sections = (*MADE_BY, *MIXED_BY, "evaluate") if what == RESUME else MADE_BY[:3]
    before = {key: value for key, value in before.items()
              if _of_its_task(key).split(".")[0] in sections}
    changes = _changes(before, fixed_values(recipe), "now")
    if changes:
        raise UserError(f"{path}: cannot {what} with other options: {changes}")


def fixed_values(recipe: AnyRecipe) -> dict[str, Any]:
    """What no one may change of a recipe that was trained by: value by dotted key, as in JSON."""
    flat = _flat(as_mapping(recipe))
    return json.loads(json.dumps({key: value for key, value in flat.items()
                                  if _is_fixed(_of_its_task(key))}))


def _is_fixed(key: str) -> bool:
    """Whether a value of a recipe of one task decides what is trained."""
    return key not in FREE and (key.split(".")[0] in (*MADE_BY, *MIXED_BY) or key in SCORED_BY)


def check_recipe(
    path: Path, recipe: AnyRecipe, metadata: Mapping[str, Any], trained: Path
) -> None:
    """Raise UserError if a run's recipe is not the one that its checkpoint was trained by.

    How a model is scored may change here. Checkpoints that were written before they held their
    recipe say nothing.
    """
    before = metadata.get("model", {}).get("recipe", {})
    changes = _changes({key: value for key, value in before.items()
                        if _of_its_task(key) not in SCORED_BY}, fixed_values(recipe), "here")
    if changes:
        raise UserError(f"{path}: this is not the recipe that {trained.name} was trained by: "
                        f"{changes}")


def _changes(before: Mapping[str, Any], now: Mapping[str, Any], when: str) -> str:
    """What differs of the keys that both have: versions of the program may know more."""
    return "; ".join(f"{key}: was {was!r}, {when} {now[key]!r}" for key, was in before.items()
                     if key in now and was != now[key])


def _of_its_task(key: str) -> str:
    """A key as the recipe of its task has it; others as they are."""
    return key.split(".", 2)[-1] if key.startswith(f"{TASKS}.") else key


def _flat(mapping: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by dotted key."""
    flat: dict[str, Any] = {}
    for name, value in mapping.items():
        key = prefix + name
        nested = isinstance(value, dict) and _of_its_task(key) not in NAMED
        flat |= _flat(value, f"{key}.") if nested else {key: value}
    return flat
