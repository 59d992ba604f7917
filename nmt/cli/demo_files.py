"""The files that `nmt demo` writes. The next demo in a directory replaces these and no others.

The manifest, `.demo`, lists their names. A file is the demo's if it is listed and begins as files
of its kind do. Files that are not listed stay. Older versions of the demo left an empty `.demo`.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from backend.errors import UserError
from nmt.files import UNFINISHED, make_directory, write_text
from nmt.run_files import RECIPE
from nmt.training.directory_lock import FILE as LOCK
from nmt.training.directory_lock import DirectoryLock
from nmt.training.run import BEST, LAST, LOG

MANIFEST = ".demo"
PICTURE = "attention.png"
BEFORE = (RECIPE, "source.vocab", "target.vocab", LAST, BEST, LOG, PICTURE)  # of an empty manifest
HEAD = 4096  # bytes at the beginning of a file, which show its kind
KINDS = {  # end of a file's name -> pattern of its first bytes
    RECIPE: rb"data:\n(.*\n)*model:\n",
    ".vocab": rb"<unk>\n</s>\n",
    ".safetensors": rb'.{8}\{"__metadata__":\{"nmt-checkpoint":',
    LOG: rb'(\{"event"|$)',
    PICTURE: rb"\x89PNG\r\n",
}


def check(directory: Path) -> None:
    """Raise UserError unless the directory is new or an earlier demo's."""
    if not directory.exists():
        return
    entries = {MANIFEST} if not directory.is_dir() else {
        name for name in os.listdir(directory) if name != LOCK and not UNFINISHED.fullmatch(name)}
    if entries and not (directory / MANIFEST).is_file():
        raise UserError(f"{directory}: expected a new directory or an earlier demo's, found other "
                        "files")
    for name in _listed(directory):
        if os.path.lexists(directory / name) and not _is_ours(directory / name):
            raise UserError(f"{directory / name}: expected what an earlier demo wrote, found "
                            "something else; move it, or choose another directory")


def replace(directory: Path, names: Iterable[str]) -> set[str]:
    """Remove an earlier demo's files, and list those that the new demo will write, `names`. Return
    the names of the other files.

    Raises UserError as `check`, and if a process is training there.
    """
    make_directory(directory)
    with DirectoryLock(directory, ()):
        check(directory)
        for name in _listed(directory):
            (directory / name).unlink(missing_ok=True)
        write_text(directory / MANIFEST, json.dumps([*names, PICTURE]) + "\n")
        return set(os.listdir(directory)) - {MANIFEST, LOCK}


def _listed(directory: Path) -> list[str]:
    """The files that the manifest lists, except those of kinds that a demo does not write."""
    try:
        text = (directory / MANIFEST).read_text("utf-8")
        names = json.loads(text) if text else BEFORE
    except FileNotFoundError:
        return []
    except (OSError, ValueError):
        names = None
    if not isinstance(names, list | tuple):
        raise UserError(f"{directory / MANIFEST}: expected a list of the files that a demo wrote")
    return [name for name in names if isinstance(name, str) and "/" not in name
            and name.endswith(tuple(KINDS))]


def _is_ours(path: Path) -> bool:
    """Whether a file is a regular one that begins as files of its kind do."""
    if not stat.S_ISREG(os.lstat(path).st_mode):
        return False
    with open(path, "rb") as file:
        head = file.read(HEAD)
    [pattern] = [kind for end, kind in KINDS.items() if path.name.endswith(end)]
    return re.match(pattern, head, re.DOTALL if b".{8}" in pattern else 0) is not None
