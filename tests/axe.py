"""Checks the accessibility of a page in a browser with axe-core."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

GRAVE = ("serious", "critical")  # the impacts that no page may have
COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}
FOUND = {"resultTypes": ["violations"]}  # selectors of elements that pass would take half the time
RUNS = {"light": FOUND, "dark": COLOURS | FOUND}


def findings(page: Any, schemes: Iterable[str] = RUNS) -> list[str]:
    """The serious findings in each colour scheme: the rule, and the first elements that break it.
    Skips if the package with axe-core (extra `browser`) is not installed."""
    package = find_spec("axe_playwright_python")
    if package is None or package.origin is None:
        pytest.skip("axe-core (extra `browser`) is not installed")
    page.evaluate(Path(package.origin).with_name("axe.min.js").read_text("utf-8"))
    messages = []
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme)
        violations = page.evaluate("(options) => axe.run(options)", RUNS[scheme])["violations"]
        messages += [f"{violation['id']}, {scheme}: "
                     f"{[node['html'][:160] for node in violation['nodes'][:5]]}"
                     for violation in violations if violation["impact"] in GRAVE]
    return messages
