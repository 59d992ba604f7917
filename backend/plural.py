"""Numbers of things in messages."""

from __future__ import annotations


def several(count: int, one: str, more: str = "") -> str:
    """`1 check`, `2 checks`; `more`, what is said of several where an s at the end is not enough.
    """
    return f"{count} {one if count == 1 else more or f'{one}s'}"
