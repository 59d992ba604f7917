"""The pages of a derivation and of vanishing gradients, and the files that they are made of. Some
of the files are in `nmt/pages/assets`."""

from __future__ import annotations

import html
from typing import Any

from grads.stepper.explorer.formulas import ASSETS, used
from nmt.pages.page import ASSETS as SHARED
from nmt.pages.page import Layout


def _equations(data: dict[str, Any]) -> dict[str, Any]:
    """The typeset equations of the steps."""
    return used(data["steps"])


def _listing(data: dict[str, Any]) -> str:
    """The functions that are stepped through, as text for a browser without JavaScript."""
    return "\n".join(
        f"<h2>{source['function']}, {html.escape(source['file'])}</h2>\n"
        f"<pre>{html.escape(chr(10).join(source['lines']))}</pre>" for source in data["sources"])


STYLES = ("stepping.css", "inside.css", "derivation.css", "practice.css")
DERIVATION = Layout(("derivation",), ("katex.css", *STYLES), (
    "format", "packed", "weights", "data", "evaluate", "address", "state", "tape", "live", "code",
    "heatmap", "network", "inside", "alignment", "heads", "logits", "charts", "formula",
    "verification", "breaks", "flow", "guide", "jumps", "keys", "play", "change", "mistakes",
    "predict", "hunt", "practice", "player"),
    "take fewer words, fewer layers or a smaller hidden size", (ASSETS, SHARED),
    {"formulas": _equations}, {"listing": _listing})
VANISHING = Layout(("vanishing",), STYLES, ("format", "packed", "charts", "tape", "vanishing"), "",
                   (ASSETS, SHARED))
