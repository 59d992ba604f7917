"""The page of a derivation: what it is put together from, here and in `nmt/pages/assets`."""

from __future__ import annotations

from typing import Any

from grads.stepper.explorer.formulas import ASSETS, used
from nmt.pages.page import ASSETS as SHARED
from nmt.pages.page import Layout


def _equations(data: dict[str, Any]) -> dict[str, Any]:
    """The typeset equations of the steps."""
    return used(data["steps"])


DERIVATION = Layout(("derivation",), ("katex.css", "stepping.css", "derivation.css"), (
    "format", "packed", "weights", "data", "evaluate", "address", "state", "code", "heatmap",
    "network", "alignment", "heads", "logits", "charts", "formula", "verification", "breaks",
    "flow", "guide", "jumps", "keys", "play", "player"),
    "take fewer words, fewer layers or a smaller hidden size", (ASSETS, SHARED),
    {"formulas": _equations})
