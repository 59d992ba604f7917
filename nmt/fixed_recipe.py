"""The values of a recipe that must not change after training, and the check that they have not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from backend.errors import UserError
from nmt.checkpoint_option import DEFAULT
from nmt.recipe import GENERATED, AnyRecipe
from nmt.recipe.file import as_mapping, load_recipe
from nmt.recipe.tasks import PRIVATE, RATIOS, SHARE, TASKS, VOCABULARIES
from nmt.recipe.unused import unused_keys
from nmt.run_files import RECIPE, checkpoint_path
from nmt.training import checkpoint

R = TypeVar("R", bound=AnyRecipe)
# What a resumed run may change: the paths of files, and options that only translation uses. The
# number of pairs is fixed by the training data, whose fingerprint must stay.
FREE = {"data.directory", "data.cache", "data.max_translate_length", "data.train_size",
        "data.subwords.source_codes", "data.subwords.target_codes",
        "data.subwords.more_text", "data.lexicon",
        "data.source_vocabulary", "data.target_vocabulary",
        "text.train", "text.dev", "text.vocabulary",
        *(f"data.{evaluation_set}_{side}" for evaluation_set in ("train", "dev", "test")
          for side in ("source", "second_source", "target"))}
MADE_BY = ("data", "text", "model", "parametrize")  # sections that determine a model
MIXED_BY = (RATIOS, SHARE, VOCABULARIES, PRIVATE)  # keys that determine a mixture of tasks
RESUME = "resume"
NAMED = {"parametrize.tied", "parametrize.normalized", "model.factors"}  # mappings by free names
SCORED_BY = ("evaluate.bleu", "evaluate.bleu_tokenize")  # the best checkpoint depends on these too


def run_recipe(
    kind: type[R], directory: Path, overrides: Sequence[str] = (), saved: Path | None = None
) -> R:
    """The recipe of a run directory. Overrides and errors are those of `load_recipe`; saved: the
    checkpoint to open, by default the best one.

    Older checkpoints recorded `data.train_size`, which only generated corpora used at that time.
    Runs on files had all pairs, and so the value is dropped.
    """
    before = _recorded(saved or checkpoint_path(directory, DEFAULT))
    unset = [f"--{key.removeprefix(f'{TASKS}.')}=null" for key in before
             if _of_its_task(key) == "data.train_size"
             and before.get(key.replace("train_size", "corpus")) not in GENERATED]
    return load_recipe(kind, directory / RECIPE, [*unset, *overrides], of_run=True)


def _recorded(saved: Path) -> Mapping[str, Any]:
    """The recipe's values that a checkpoint records; none in an older run."""
    known = checkpoint.load_metadata(saved).get("model", {}) if saved.is_file() else {}
    recorded: Mapping[str, Any] = known.get("recipe", {})
    return recorded


def check_same(path: Path, recipe: AnyRecipe, action: str = RESUME) -> None:
    """Raise UserError if the run in `path` has another model, or other training data.

    With RESUME, also if the validation scores or the parameters that tasks share would differ.
    action: what the command does with the run, for the error.
    """
    before = (_recorded(checkpoint_path(path, DEFAULT))
              or fixed_values(run_recipe(type(recipe), path)))
    sections = (*MADE_BY, *MIXED_BY, "evaluate") if action == RESUME else MADE_BY[:3]
    unused = dict(unused_keys(recipe, before))
    before = {key: value for key, value in before.items()
              if _of_its_task(key).split(".")[0] in sections and key not in unused}
    changes = _changes(before, fixed_values(recipe), "now")
    if changes:
        raise UserError(f"{path}: cannot {action} with other options: {changes}")


def fixed_values(recipe: AnyRecipe) -> dict[str, Any]:
    """The values of a recipe that must not change after training: dotted key -> JSON value."""
    flat = _flat(as_mapping(recipe))
    return json.loads(json.dumps({key: value for key, value in flat.items()
                                  if _is_fixed(_of_its_task(key))}))


def _is_fixed(key: str) -> bool:
    """Whether a key of a single task's recipe must not change after training."""
    return key not in FREE and (key.split(".")[0] in (*MADE_BY, *MIXED_BY) or key in SCORED_BY)


def check_recipe(path: Path, recipe: AnyRecipe, metadata: Mapping[str, Any], trained: Path) -> None:
    """Raise UserError unless a run's recipe is that of its checkpoint.

    The options of scoring may differ. Older checkpoints hold no recipe and are not checked.
    """
    before = metadata.get("model", {}).get("recipe", {})
    changes = _changes({key: value for key, value in before.items()
                        if _of_its_task(key) not in SCORED_BY}, fixed_values(recipe), "here")
    if changes:
        raise UserError(f"{path}: this is not the recipe that {trained.name} was trained by: "
                        f"{changes}")


def _changes(before: Mapping[str, Any], current: Mapping[str, Any], moment: str) -> str:
    """The differences between two recipes, in the keys that both have: another version of the
    program may have more keys."""
    return "; ".join(f"{key}: was {old!r}, {moment} {current[key]!r}" for key, old in before.items()
                     if key in current and old != current[key])


def _of_its_task(key: str) -> str:
    """The key without `tasks.NAME.`, as in the recipe of its task; other keys are unchanged."""
    return key.split(".", 2)[-1] if key.startswith(f"{TASKS}.") else key


def _flat(mapping: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A nested mapping as one mapping by dotted key."""
    flat: dict[str, Any] = {}
    for name, value in mapping.items():
        key = prefix + name
        nested = isinstance(value, dict) and _of_its_task(key) not in NAMED
        flat |= _flat(value, f"{key}.") if nested else {key: value}
    return flat
