"""Tiny trained models included in the package. The explorer's pages show them by default.

Each model is a run directory of `nmt` for one derivation: `recipe.yaml`, the vocabularies and
`best.safetensors`. The models were trained on phrases generated from Unicode CLDR (`phrases.py`) by

    python -m grads.stepper.trained OUTPUT

which reads the recipes here and writes each model's directory below OUTPUT. `models.json` has facts
about each model. The translators translate German to English; the language models read the English
side.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

DIRECTORY = Path(__file__).parent
COMMAND = "python -m grads.stepper.trained"
FACTS = "models.json"  # by name: bytes and sha256 of best.safetensors, dev perplexity
WHAT = "a tiny trained model"  # as a page's first lines say
SENTENCE = "vor 8 Stunden oder Montag"  # one that the translators were not trained on
TEXT = "8 hours ago or Monday"  # the same for the language models


@cache
def facts() -> dict[str, dict[str, Any]]:
    """The facts about each model, by the name of its derivation."""
    known: dict[str, dict[str, Any]] = json.loads((DIRECTORY / FACTS).read_text(encoding="utf-8"))
    return known


def note(name: str) -> str:
    """The note on its model that a page shows."""
    fact = facts()[name]
    return (f"The weights are those of a tiny model that comes with the package "
            f"(grads/stepper/trained/{name}, {fact['bytes'] / 1000:.0f} kB), trained on "
            f"{fact['phrases']} phrases generated from Unicode CLDR by {COMMAND}; perplexity "
            f"{fact['perplexity']:.3g} on {fact['dev']} others.")
