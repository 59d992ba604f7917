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

from grads.stepper.trace import Step, Trace

ASSETS = Path(__file__).parent / "assets"


@cache
def formulas() -> dict[str, dict[str, str]]:
    """By statement: "tag", the equation's number; "html", the equation; "note", in words."""
    typeset: dict[str, dict[str, str]] = json.loads(
        (ASSETS / "formulas.json").read_text(encoding="utf-8"))
    return typeset


def key(text: str, places: Iterable[str] = ()) -> str | None:
    """The key of a statement's equation, None where there is none; white space does not matter.

    places: where the statement stands, the nearest first; the first that has an equation of its own
    decides, as the softmax of attention has another one than that of the predictions.
    """
    statement = " ".join(text.split())
    known = (*(f"{{{place}}} {statement}" for place in places), statement)
    return next((text for text in known if text in formulas()), None)


def functions(trace: Trace, step: Step) -> list[str]:
    """The functions that a step is in, from the innermost outward; NAME_grad is called NAME."""
    frame: int | None = step.frame
    names = []
    while frame is not None:
        names.append(trace.calls[frame].function.removesuffix("_grad"))
        frame = trace.calls[frame].caller
    return names


def used(steps: Iterable[dict[str, Any]]) -> dict[str, dict[str, str]]:
    """The equations that the steps of a page speak of."""
    keys = dict.fromkeys(step.get("formula") for step in steps)
    return {name: formulas()[name] for name in keys if name in formulas()}
