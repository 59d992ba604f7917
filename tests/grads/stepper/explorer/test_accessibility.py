"""What axe-core finds on each kind of page, in light and dark colours: nothing grave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from axe import COLOURS, findings

from grads.stepper.explorer.data import explore
from grads.stepper.explorer.search import SearchSettings, explore_search
from grads.stepper.explorer.vanishing import explore_vanishing
from tests.grads.stepper.explorer.conftest import Opened
from tests.grads.stepper.test_own_verification import SOURCE

PHONE = {"width": 390, "height": 844}


@pytest.mark.parametrize("colours", COLOURS)
@pytest.mark.parametrize("name", ["lstm", "trained", "transformer"])
def test_derivations(name: str, colours: str, opened: Any) -> None:
    for viewport in ({"width": 1400, "height": 900}, PHONE):
        window = opened(name, "#step=20", fresh=True, viewport=viewport, color_scheme=colours)
        assert findings(window.page) == []


@pytest.mark.parametrize("colours", COLOURS)
@pytest.mark.parametrize("key", ["c", "p", "b"])
def test_practice(key: str, colours: str, opened: Any) -> None:
    window = opened("lstm", "#step=40", fresh=True, color_scheme=colours)
    window.page.keyboard.press(key)
    assert findings(window.page) == []


@pytest.mark.parametrize("colours", COLOURS)
@pytest.mark.parametrize("kind", ["own", "search", "vanishing"])
def test_others(kind: str, colours: str, browser: Any, tmp_path: Path) -> None:
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
    window = Opened(browser, path, "", color_scheme=colours)
    assert (kind != "own") == (window.page.query_selector(".line.wrong.current") is None)
    assert findings(window.page) == []
    window.context.close()


def test_a_finding_is_found(browser: Any) -> None:
    page = browser.new_page()
    page.set_content("<html lang=en><title>x</title><main><h1>x</h1><button></button></main>")
    assert [one.partition(":")[0] for one in findings(page)] == ["button-name"]
    page.close()
