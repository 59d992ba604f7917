"""A browser for the pages of the checker and of the explorer: one a process, as Playwright asks."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Debian's chromium, driven by Playwright."""
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no chromium")
    with api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM)
        yield running
        with suppress(api.Error):
            running.close()
