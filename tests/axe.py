"""What axe-core, which judges the accessibility of pages, finds on a page in a browser."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

GRAVE = ("serious", "critical")  # the impacts that no page may have
COLOURS = ("light", "dark")


def findings(page: Any) -> list[str]:
    """What is grave: the rule, and the first elements that break it. Skips where the package that
    brings axe-core (extra `browser`) is not installed."""
    package = find_spec("axe_playwright_python")
    if package is None or package.origin is None:
        pytest.skip("axe-core (extra `browser`) is not installed")
    page.evaluate(Path(package.origin).with_name("axe.min.js").read_text("utf-8"))
    found = page.evaluate("axe.run({ resultTypes: ['violations'] })")["violations"]
    return [f"{one['id']}: {one['help']}: {[node['html'][:160] for node in one['nodes'][:5]]}"
            for one in found if one["impact"] in GRAVE]
