"""The files that `nmt demo` writes: the next demo in a directory replaces these, and nothing else.

The manifest, `.demo`, lists their names. What is not listed stays.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from backend.errors import UserError
from nmt.files import UNFINISHED, make_directory, write_text
from nmt.training.directory_lock import FILE as LOCK
from nmt.training.directory_lock import DirectoryLock

MANIFEST = ".demo"
PICTURE = "attention.png"


def check(directory: Path) -> list[str]:
    """The files of an earlier demo, those that its manifest names; none in a new directory.

    Raises UserError for a directory of something else.
    """
    if not directory.exists():
        return []
    if (directory / MANIFEST).is_file():
        return _listed(directory / MANIFEST)
    files = {MANIFEST} if not directory.is_dir() else {
        name for name in os.listdir(directory) if name != LOCK and not UNFINISHED.fullmatch(name)}
    if files:
        raise UserError(f"{directory}: expected a new directory or an earlier demo's, found other "
                        "files")
    return []


def replace(directory: Path, names: Iterable[str]) -> set[str]:
    """Remove an earlier demo's files before a demo writes files `names`; return the other files'
    names.

    Raises UserError as `check`, and where a process is training there.
    """
    make_directory(directory)
    with DirectoryLock(directory, ()):
        for name in check(directory):
            (directory / name).unlink(missing_ok=True)
        write_text(directory / MANIFEST, json.dumps([*names, PICTURE]) + "\n")
        return set(os.listdir(directory)) - {MANIFEST, LOCK}


def _listed(manifest: Path) -> list[str]:
    """The names in a manifest: of files beside it, never elsewhere."""
    try:
        names = json.loads(manifest.read_bytes())
    except (OSError, ValueError):
        names = None
    if not isinstance(names, list) or not all(
            isinstance(name, str) and Path(name).name == name for name in names):
        raise UserError(f"{manifest}: expected a list of the files that a demo wrote")
    return names
