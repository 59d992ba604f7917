"""Finds a table's entry by name, and names the nearest entry in the error message."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from backend.errors import UserError


def nearest(table: Mapping[str, Any], name: str, kind: str) -> Any:
    """Find the entry of a table by its name. Raises `UserError`, with the nearest name, if there is
    none."""
    if name in table:
        return table[name]
    close = difflib.get_close_matches(name, table, 1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise UserError(f"no {kind} is called {name!r}: {hint}there are {', '.join(table) or 'none'}")
