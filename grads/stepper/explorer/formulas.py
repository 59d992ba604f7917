"""Finds the typeset equation of a line of a derivation.

`assets/formulas.json` is generated during development from `typeset/formulas.txt`. It holds KaTeX's
HTML and MathML by statement. Because the statement is the key, a changed line never shows an
outdated equation.
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
    """By statement: "tag", the number of the equation; "html", the equation; "note", an
    explanation."""
    typeset: dict[str, dict[str, str]] = json.loads(
        (ASSETS / "formulas.json").read_text(encoding="utf-8"))
    return typeset


def key(text: str, places: Iterable[str] = ()) -> str | None:
    """The key of a statement's equation; None if it has none. White space does not matter.

    Argument places: the functions around the statement, innermost first. The first with an equation
    for this statement decides, because the softmax of attention has another equation than that of a
    prediction.
    """
    statement = " ".join(text.split())
    known = (*(f"{{{place}}} {statement}" for place in places), statement)
    return next((text for text in known if text in formulas()), None)


def functions(trace: Trace, step: Step) -> list[str]:
    """The functions around a step, innermost first. NAME_grad is called NAME."""
    frame: int | None = step.frame
    names = []
    while frame is not None:
        names.append(trace.calls[frame].function.removesuffix("_grad"))
        frame = trace.calls[frame].caller
    return names


def used(steps: Iterable[dict[str, Any]]) -> dict[str, dict[str, str]]:
    """The equations that the steps of a page refer to."""
    keys = dict.fromkeys(step.get("formula") for step in steps)
    return {name: formulas()[name] for name in keys if name in formulas()}
