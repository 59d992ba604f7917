"""Takes the README's pictures, docs/stepper.png and docs/served.png: `python website/screenshot.py`
(extra `browser`), in a window of 1400 x 800.

The first page is what `grads explore lstm` writes, at line 8 of Algorithm 2. The second page
is what `nmt serve` shows of a tiny translator that comes with the package.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from grads.stepper.explorer import explore
from grads.stepper.trained import DIRECTORY

PICTURES = Path(__file__).resolve().parents[1] / "docs"
STEP = 110
SENTENCE = "vor 12 Wochen oder Montag"


def main(pictures: Path = PICTURES) -> None:
    """Write both pictures into a directory."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium)
        window = browser.new_page(viewport={"width": 1400, "height": 800},
                                  color_scheme="light")
        window.set_default_timeout(120_000)
        show_stepper(window)
        window.screenshot(path=pictures / "stepper.png")
        with served() as address:
            translate(window, address)
            window.screenshot(path=pictures / "served.png")
        browser.close()


def show_stepper(window: Page) -> None:
    """Open the stepper at its step."""
    with tempfile.TemporaryDirectory() as directory:
        page = explore("lstm", Path(directory) / "lstm.html")
        window.goto(f"{page.as_uri()}#step={STEP}")
        window.wait_for_timeout(2000)


@contextmanager
def served() -> Iterator[str]:
    """Context of `nmt serve`: the address of its page."""
    command = [sys.executable, "-m", "nmt", "serve", "--port", "0", "--beam", "4"]
    with subprocess.Popen([*command, "--model", str(DIRECTORY / "attention")], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdout
        try:
            yield server.stdout.readline().split()[0]
        finally:
            server.terminate()


def translate(window: Page, address: str) -> None:
    """Translate the sentence on the page."""
    window.goto(address)
    window.fill("#text", SENTENCE)
    window.click("#go")
    window.wait_for_selector("#translation:not(:empty)")
    window.wait_for_timeout(2000)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
