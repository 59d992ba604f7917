"""The files of a run directory: names, reading, and checks that they exist."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from backend.errors import UserError, check_among
from nmt.checkpoint_option import CHECKPOINTS
from nmt.data.pieces import SUFFIX as CODES
from nmt.data.pieces import read_vocabulary
from nmt.data.stored import DIGITS, StoredTexts
from nmt.data.vocabulary import Vocabulary
from nmt.recipe.tasks import TASKS, is_of_tasks
from nmt.recipe.tree import read_tree
from nmt.training.directory_lock import FILE as LOCK
from nmt.training.directory_lock import left_by_killed
from nmt.training.kept import SUFFIX, kept
from nmt.training.run import BEST, LAST, LOG

RECIPE = "recipe.yaml"
INIT = "init.json"
LEXICON = "lexicon.tsv"
HASHED = 256  # lines of a corpus that are hashed at once


def vocabulary_file(name: str) -> str:
    """The name of a vocabulary's file."""
    return f"{name}.vocab"


def codes_file(name: str) -> str:
    """The name of the file of codes of a vocabulary of pieces."""
    return f"{name}{CODES}"


def checkpoint_path(directory: Path, which: str) -> Path:
    """The path of a run's checkpoint, `best` or `last`. A run without a best one has `last` for
    both; a `directory` with the suffix of checkpoints is itself the file.

    Raises ValueError unless `which` is one of `nmt.checkpoint_option.CHECKPOINTS`.
    """
    check_among("which", which, CHECKPOINTS)
    if directory.suffix == SUFFIX and not directory.is_dir():
        return directory
    best = directory / BEST
    return best if which == "best" and best.is_file() else directory / LAST


def checkpoints_in(directory: Path) -> list[str]:
    """The names of a run directory's checkpoints, with `last` at the end."""
    paths = [*kept(directory), directory / BEST, directory / LAST]
    return [path.name for path in paths if path.is_file()]


def read_vocabularies(directory: Path, names: Iterable[str]) -> dict[str, Vocabulary]:
    """The vocabularies of a run directory by name."""
    return {name: read_vocabulary(directory / vocabulary_file(name)) for name in names}


def check_new(path: Path, beside: Collection[str] = ()) -> None:
    """Raise UserError unless a new run may write here: the directory is new or has no visible file
    but those named in `beside`, and those of a run that was killed before its first checkpoint."""
    if (path / LAST).exists():
        raise UserError(f"{path / LAST}: a training run is here already; --resume {path} "
                        "continues it, another --output starts a new run")
    if path.exists() and not path.is_dir():
        raise UserError(f"{path}: expected a directory, found a file")
    abandoned = left_by_killed(path)
    known = {Path(name).parts[0] for name in {*beside, *abandoned, *([LOG] if abandoned else [])}}
    names = sorted(entry.name for entry in path.iterdir()) if path.is_dir() else []
    strangers = [name for name in names if not name.startswith(".") and name not in known]
    if strangers:
        raise UserError(f"{path}: expected a new or empty directory, found {strangers[0]} in it")


def need(directory: Path, description: str, files: Iterable[str]) -> None:
    """Raise UserError unless the directory has these files. description: for the error."""
    for file in files:
        if not (directory / file).is_file():
            actual = "a file" if directory.is_file() else "no such directory"
            actual = f"no {file} in it" if directory.is_dir() else actual
            raise UserError(f"{directory}: expected {description}, found {actual}")


def take_back(directory: Path, names: Sequence[str], is_new: bool) -> None:
    """Remove as far as possible the files in this order, then their directories, then the lock.

    The lock goes last, since it says which run the files belong to. is_new: whether the directory
    goes too.
    """
    with suppress(OSError):
        for name in names:
            (directory / name).unlink(missing_ok=True)
        for inner in {(directory / name).parent for name in names} - {directory}:
            inner.rmdir()
        (directory / LOCK).unlink(missing_ok=True)
        if is_new:
            directory.rmdir()


def tasks_hint(directory: Path) -> str:
    """A hint on where the translators of a run of several tasks are; "" for any other run."""
    tree = read_tree(directory / RECIPE)
    tasks = tree[TASKS].value if is_of_tasks(tree) else {}
    return f"; its tasks are {', '.join(str(directory / name) for name in tasks)}" if tasks else ""


def fingerprint(lines: Iterable[str]) -> str:
    """A digest that identifies a vocabulary or a corpus; of stored sentences it is known."""
    if isinstance(lines, StoredTexts):
        return lines.fingerprint
    digest, remaining, between = hashlib.sha256(), iter(lines), ""
    while block := list(islice(remaining, HASHED)):
        digest.update((between + "\n".join(block)).encode())
        between = "\n"
    return digest.hexdigest()[:DIGITS]
