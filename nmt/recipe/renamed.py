"""Keys of a recipe that were renamed: the old name still works, and a message says so.

To rename a key, give its field the new name and enter the old one in `RENAMED`. The entry stays for
at least one minor version.
"""

from __future__ import annotations

from nmt.console.notes import note

RENAMED: dict[str, str] = {}  # old dotted key -> new one, such as "train.clip": "train.max_norm"


def current_name(key: str, place: str) -> str:
    """The present name of a dotted key. For an old name, a line on stderr names both.

    place: where the key stands, for that line.
    """
    if key not in RENAMED:
        return key
    note(f"renamed {key}", f"{place}: {key} is now {RENAMED[key]}; the old name will go")
    return RENAMED[key]
