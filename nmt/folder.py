"""Model directories: made for a new run, checked for a resumed one, taken back if nothing comes."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from backend import Array
from backend.errors import UserError
from nmt.recipe_file import load_recipe, save_recipe
from nmt.text.vocabulary import Vocabulary
from nmt.training import checkpoint
from nmt.training.trainer import BEST, LAST, LOG

RECIPE = "recipe.yaml"
# What a resumed run may change: where the files lie, and what only translation looks at.
FREE = ("folder", "train", "dev", "train_source", "train_target", "dev_source", "dev_target",
        "test_source", "test_target", "max_translate_length")


def check_new(folder: Path) -> None:
    """Raise UserError unless a new run may write here: no folder yet, or nothing visible in it."""
    if (folder / LAST).exists():
        raise UserError(f"{folder / LAST}: a training run is here already; resume it or choose "
                        "another folder")
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: expected a folder, found a file")
    found = sorted(p.name for p in folder.iterdir() if not p.name.startswith(".")) \
        if folder.is_dir() else []
    if found:
        raise UserError(f"{folder}: expected a new or empty folder, found {found[0]} in it")


@contextmanager
def new_run(folder: Path, recipe: Any, vocabularies: Mapping[str, Vocabulary]) -> Iterator[None]:
    """Write the recipe and the vocabularies of a new run, by file name, and let it run.

    An error before the first checkpoint takes everything away again.
    Raises UserError as `check_new`, or when a file cannot be written.
    """
    check_new(folder)
    made = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: cannot make the folder: {error.strerror}") from error
    try:
        for name, vocabulary in vocabularies.items():
            vocabulary.write(folder / name)
        save_recipe(recipe, folder / RECIPE)
        yield
    except BaseException:
        if not (folder / LAST).exists():
            _take_back(folder, [RECIPE, LOG, BEST, *vocabularies], made)
        raise


def _take_back(folder: Path, names: Iterable[str], made: bool) -> None:
    """Remove the files, and the folder if it was made for them, as far as that can be done."""
    with suppress(OSError):
        for name in names:
            (folder / name).unlink(missing_ok=True)
        if made:
            folder.rmdir()


def check_resumed(folder: Path, recipe: Any) -> None:
    """Raise UserError if the run in `folder` has another model, or its data are made otherwise.

    The trainer itself looks after its own options.
    """
    before = dataclasses.asdict(load_recipe(type(recipe), folder / RECIPE))
    now = dataclasses.asdict(recipe)
    changes = [f"{section}.{key}: was {was!r}, now {now[section][key]!r}"
               for section in before if section in ("data", "text", "model")
               for key, was in before[section].items()
               if key not in FREE and was != now[section][key]]
    if changes:
        raise UserError(f"{folder}: cannot resume with other options: {'; '.join(changes)}")


def check_model(folder: Path, kind: str, files: Sequence[str]) -> None:
    """Raise UserError unless `folder` is a model directory with these files."""
    for file in (RECIPE, *files):
        if not (folder / file).is_file():
            found = "a file" if folder.is_file() else "no such folder"
            found = f"no {file} in it" if folder.is_dir() else found
            raise UserError(f"{folder}: expected the model directory of a {kind}, found {found}")


def load_best(
    folder: Path, ours: Mapping[str, Any], vocabularies: Mapping[str, str],
    template: Mapping[str, Array],
) -> dict[str, Array]:
    """The best parameters of a model directory, or the last where no score was kept.

    Arguments: ours, what the model says of itself, to be compared with what the checkpoint says;
    vocabularies, file name by key of `ours`; template, parameters of the right names and shapes.
    Raises UserError when the checkpoint is of another kind, vocabulary or shape.
    """
    path = folder / (BEST if (folder / BEST).is_file() else LAST)
    saved = checkpoint.load(path)
    theirs = saved.metadata.get("model", {})
    if theirs.get("kind") != ours["kind"]:
        raise UserError(f"{path}: expected a {ours['kind']}, found a {theirs.get('kind')}")
    for key, file in vocabularies.items():
        if theirs.get(key) != ours[key]:
            raise UserError(f"{folder / file}: this is not the vocabulary that the model in "
                            f"{path.name} was trained with")
    return checkpoint.parameters_of(saved, path, template)


def fingerprint(lines: Iterable[str]) -> str:
    """A digest that tells vocabularies and corpora apart."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
