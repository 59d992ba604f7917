"""Files that are either whole or as they were."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from backend.errors import UserError


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text beside `path`, then put it in its place in one move.

    Raises UserError naming the path where it cannot be written; nothing is left behind then.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    except OSError as error:
        raise UserError(f"{path}: expected to write it, got: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            temporary.unlink()
