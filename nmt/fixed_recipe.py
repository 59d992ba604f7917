"""Which values of a recipe must not change after training, and the check that they have not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backend.errors import UserError
from nmt.checkpoint_option import DEFAULT
from nmt.recipe import AnyRecipe
from nmt.recipe.file import as_mapping, load_recipe
from nmt.recipe.tasks import PRIVATE, RATIOS, SHARE, TASKS, VOCABULARIES
from nmt.run_files import RECIPE, checkpoint_path
from nmt.training import checkpoint

# What a resumed run may change: paths of files, and options of translation only.
FREE = {"data.directory", "data.max_translate_length", "data.subwords.source_codes",
        "data.subwords.target_codes", "data.subwords.more_text", "data.lexicon",
        "text.train", "text.dev", "text.vocabulary",
        *(f"data.{part}_{side}" for part in ("train", "dev", "test")
          for side in ("source", "second_source", "target"))}
MADE_BY = ("data", "text", "model", "parametrize")  # sections that a model is made by
MIXED_BY = (RATIOS, SHARE, VOCABULARIES, PRIVATE)  # keys that a mixture of tasks is made by
RESUME = "resume"
NAMED = {"parametrize.tied", "parametrize.normalized", "model.factors"}  # whose keys are names
SCORED_BY = ("evaluate.bleu", "evaluate.bleu_tokenize")  # the best checkpoint depends on them too


def check_same(path: Path, recipe: AnyRecipe, what: str = RESUME) -> None:
    """Raise UserError if the run in `path` has another model, or other training data.

    For RESUME also if the validation scores, or the parameters that tasks share, differ.
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
    """The values of a recipe that must not change after training: dotted key -> value, as in
    JSON."""
    flat = _flat(as_mapping(recipe))
    return json.loads(json.dumps({key: value for key, value in flat.items()
                                  if _is_fixed(_of_its_task(key))}))


def _is_fixed(key: str) -> bool:
    """Whether a key of a single task's recipe must not change after training."""
    return key not in FREE and (key.split(".")[0] in (*MADE_BY, *MIXED_BY) or key in SCORED_BY)


def check_recipe(
    path: Path, recipe: AnyRecipe, metadata: Mapping[str, Any], trained: Path
) -> None:
    """Raise UserError if a run's recipe is not the one that its checkpoint was trained with.

    The options of scoring may differ. Older checkpoints, without a recipe, are not checked.
    """
    before = metadata.get("model", {}).get("recipe", {})
    changes = _changes({key: value for key, value in before.items()
                        if _of_its_task(key) not in SCORED_BY}, fixed_values(recipe), "here")
    if changes:
        raise UserError(f"{path}: this is not the recipe that {trained.name} was trained by: "
                        f"{changes}")


def _changes(before: Mapping[str, Any], now: Mapping[str, Any], when: str) -> str:
    """The differences between the keys that both have: another version of the program may have
    more."""
    return "; ".join(f"{key}: was {was!r}, {when} {now[key]!r}" for key, was in before.items()
                     if key in now and was != now[key])


def _of_its_task(key: str) -> str:
    """A key of a mixture of tasks as in the recipe of its task; other keys unchanged."""
    return key.split(".", 2)[-1] if key.startswith(f"{TASKS}.") else key


def _flat(mapping: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by dotted key."""
    flat: dict[str, Any] = {}
    for name, value in mapping.items():
        key = prefix + name
        nested = isinstance(value, dict) and _of_its_task(key) not in NAMED
        flat |= _flat(value, f"{key}.") if nested else {key: value}
    return flat
