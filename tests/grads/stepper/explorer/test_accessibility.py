"""What axe-core finds on each kind of page: nothing grave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from axe import findings

from grads.stepper.explorer.data import explore
from grads.stepper.explorer.search import SearchSettings, explore_search
from grads.stepper.explorer.vanishing import explore_vanishing
from tests.grads.stepper.explorer.conftest import Opened
from tests.grads.stepper.test_own_verification import SOURCE


@pytest.mark.parametrize("name", ["lstm", "transformer"])
@pytest.mark.parametrize("width", [1400, 390])
def test_derivations(name: str, width: int, opened: Any) -> None:
    window = opened(name, "#step=20", viewport={"width": width, "height": 900})
    assert findings(window.page) == []


@pytest.mark.parametrize("key", ["c", "p", "b"])
def test_practice(key: str, opened: Any) -> None:
    window = opened("lstm", "#step=40", fresh=True)
    window.page.keyboard.press(key)
    assert findings(window.page) == []


@pytest.mark.parametrize("kind", ["own", "search", "vanishing"])
def test_others(kind: str, browser: Any, tmp_path: Path) -> None:
    """A user's wrong function opens at its red line."""
    path = tmp_path / f"{kind}.html"
    if kind == "own":
        wrong = SOURCE.replace("dU += np.outer(da, h[t - 1])", "dU += np.outer(da, h[t])")
        (tmp_path / "mine.py").write_text(wrong)
        explore(f"{tmp_path / 'mine.py'}:loop", path)
    elif kind == "search":
        explore_search(path, SearchSettings())
    else:
        explore_vanishing(path)
    window = Opened(browser, path, "")
    assert (kind != "own") == (window.page.query_selector(".line.wrong.current") is None)
    assert findings(window.page) == []
    window.context.close()


def test_a_finding_is_found(browser: Any) -> None:
    page = browser.new_page()
    page.set_content("<html lang=en><title>Title</title><style>@media (prefers-color-scheme: dark)"
                     " { h1 { color: #eee } }</style><main><h1>Title</h1><button></button></main>")
    assert [finding.partition(":")[0] for finding in findings(page)] == [
        "button-name, light", "color-contrast, dark"]
    page.close()
