"""The typeset equation of a line of a derivation.

`assets/formulas.json` is made at development time from `typeset/formulas.txt`: KaTeX's HTML and
MathML by statement. The statement itself is the key, so a changed line never shows a stale one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

ASSETS = Path(__file__).parent / "assets"


@cache
def formulas() -> dict[str, dict[str, str]]:
    """By statement: "tag", the equation's number; "html", the equation; "note", in words."""
    found: dict[str, dict[str, str]] = json.loads(
        (ASSETS / "formulas.json").read_text(encoding="utf-8"))
    return found


def key(text: str, inside: str = "") -> str | None:
    """The key of a statement's equation, None where there is none; white space does not matter.

    inside: "attention" for what serves attention: its softmax has another equation than that of
    the predictions.
    """
    statement = " ".join(text.split())
    known = (f"{{{inside}}} {statement}", statement)
    return next((one for one in known if one in formulas()), None)


def used(steps: Iterable[dict[str, Any]]) -> dict[str, dict[str, str]]:
    """The equations that the steps of a page speak of."""
    keys = dict.fromkeys(step.get("formula") for step in steps)
    return {name: formulas()[name] for name in keys if name in formulas()}
