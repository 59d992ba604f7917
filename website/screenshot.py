"""Takes docs/stepper.png, the README's picture: `python website/screenshot.py` (extra `browser`).

The page is what `grads explore lstm` writes, at line 8 of Algorithm 2, in a window of 1400 x 800.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from grads.stepper.explorer import explore

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "stepper.png"
STEP = 110
SIZE = {"width": 1400, "height": 800}


def main(picture: Path = PICTURE) -> None:
    """Write the picture."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with tempfile.TemporaryDirectory() as directory, sync_playwright() as playwright:
        page = explore("lstm", Path(directory) / "lstm.html")
        browser = playwright.chromium.launch(executable_path=chromium)
        window = browser.new_page(viewport=SIZE, color_scheme="light")
        window.set_default_timeout(120_000)
        window.goto(f"{page.as_uri()}#step={STEP}")
        window.wait_for_timeout(2000)
        window.screenshot(path=picture)
        browser.close()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
