"""Pages of the explorer, opened in a real browser; skipped visibly where there is none."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from explored import data, fresh
from shared import made_once
from tiny_run import TEXT_RECIPE, nmt, write_corpus, write_recipe

from grads.derivations.scores import SCORES
from grads.stepper.explorer import build
from grads.stepper.explorer.page import DERIVATION
from nmt.pages.page import write_page
from nmt.recipe import Recipe
from nmt.system import System

# By name of a page: of which derivation, on what; with random weights but for the last two. Where
# only the derivation is named, the data are `explored.data`
PAGES: dict[str, dict[str, Any]] = {
    "rnn": {"name": "rnn", "sentence": "a page"},
    "nmt": {"name": "nmt", "sentence": "Seite ||| page", "layers": 1},
    "unfed": {"name": "attention", "sentence": "die Seite ||| page", "layers": 1, "score": "concat",
              "feeding": False},
    "rnnsearch": {"name": "rnnsearch", "sentence": "da ist die Seite ||| a page", "hidden": 4},
    "local": {"name": "attention", "sentence": "da ist die Seite ||| a page", "layers": 1,
              "hidden": 1, "window": "local-p"},
    "transformer": {"name": "transformer", "sentence": "die Seite ||| a page", "hidden": 2},
    **{name: {"name": name} for name in ("lstm", "attention", "gru", "gru-context", "gru-after")},
    **{score: {"name": "attention-step", "score": score} for score in SCORES},
    "trained": {"name": "attention"},  # the default page
    "own": {"name": "attention", "sentence": "one two <b> three", "target": "two one"},
}
OWN = {  # a model whose encoder reads from both ends, the last word first; local attention
    "data": {"corpus": "cldr", "reverse_source": True},
    "model": {"layers": 1, "hidden_size": 3, "embedding_size": 2, "bidirectional": True,
              "bridge": True, "attention": "local-m", "window": 1}}


@pytest.fixture(scope="session")
def page_for(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str],
                                                                   tuple[dict[str, Any], Path]]:
    """By name of PAGES: the data of a page, and the page."""
    directory = tmp_path_factory.mktemp("explorer")
    kept: dict[str, tuple[dict[str, Any], Path]] = {}

    def make(name: str) -> tuple[dict[str, Any], Path]:
        if name not in kept:
            page = directory / f"{name}.html"
            if name == "own":
                fresh(directory / "run", OWN, System, Recipe)
                kept[name] = build(**PAGES[name], model=directory / "run"), page
            elif PAGES[name] == {"name": name}:
                kept[name] = data(name), page
            elif name == "trained":
                kept[name] = data("attention", None), page
            else:
                kept[name] = made_once(f"page-{name}", lambda: build(**PAGES[name], seed=1)), page
            write_page(*kept[name], DERIVATION)
        return kept[name]

    return make


@pytest.fixture(scope="session")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run directories in one: `attention`, `second` of another seed, `reversed`, `plain` without
    attention, `lm`; a word of both sides is `<script>`."""
    directory = tmp_path_factory.mktemp("searched")
    write_corpus(directory)
    for path in directory.glob("*.??"):
        path.write_text(re.sub("four|vier", "<script>", path.read_text("utf-8")), "utf-8")
    for name, changes in {
        "attention": {"train": {"epochs": 12}}, "second": {"train": {"seed": 2}},
        "reversed": {"data": {"reverse_source": True}},
        "plain": {"model": {"attention": "none", "input_feeding": False}},
    }.items():
        changes = {**changes, "search": {"beam": 3, "minimum_steps": 2},
                   "train": {"epochs": 2, **changes.get("train", {})}}
        recipe = write_recipe(directory / "r.yaml", **changes)
        assert nmt("train", recipe, "--output", directory / name) == 0
    recipe = write_recipe(directory / "lm.yaml", TEXT_RECIPE, train={"epochs": 1})
    assert nmt("lm", "train", recipe, "--output", directory / "lm") == 0
    return directory


AGAIN = """(address) => {
    const all = document.getElementById("all");
    if (all.checked) all.click();
    document.activeElement?.blur();
    scrollTo(0, 0);
    history.replaceState(null, "", address || "#");
    dispatchEvent(new Event("hashchange"));
}"""  # as if the page had been opened at an address


class Opened:
    """A page in a window of its own, with what it asked for and complained of."""

    def __init__(self, browser: Any, path: Path, address: str, **options: Any) -> None:
        viewport = options.pop("viewport", {"width": 1280, "height": 900})
        self.context = browser.new_context(viewport=viewport, **options)
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(path.as_uri() + address)
        self.page.wait_for_selector("html[data-ready]")

    def again(self, address: str) -> Opened:
        """The same window, as if it had been opened at another address."""
        self.page.evaluate(AGAIN, address)
        return self

    def step(self) -> int:
        """The number of the step that is shown, from 1."""
        return int(self.page.inner_text("#where b").removeprefix("Step "))

    def address(self) -> str:
        """The part behind `#`, which is written when the steps pause."""
        return str(self.page.evaluate(
            "new Promise((done) => setTimeout(() => done(location.hash), 200))"))

    def written(self) -> dict[int, list[str]]:
        """The titles of the numbers that the step writes, by tensor."""
        return {int(name): titles for name, titles in self.page.evaluate(f"{WRITTEN}()")}

    def walk(self, steps: list[int] | None = None) -> list[dict[str, Any]]:
        """Go to steps, numbers from 1, or to all: the number of each, what is odd in its words,
        what it writes, whether numbers are put in; how high the page is and whether it is as wide
        as the window, by the last of them that was laid out."""
        walked: list[dict[str, Any]] = self.page.evaluate(WALK, steps)
        return walked


WRITTEN = """(() => {
    document.querySelectorAll(".side.writes .more").forEach((button) => button.click());
    return [...document.querySelectorAll(".side.writes [data-tensor]")].map((figure) =>
        [figure.dataset.tensor, [...figure.querySelectorAll(".cell")].map((cell) => cell.title)]);
})"""
EVERY = 7  # steps, between two of a walk that are laid out
WALK = f"""(steps) => {{
    const walked = [], page = document.documentElement, slider = document.getElementById("slider");
    let [height, fits] = [0, true];
    const said = () => [...document.body.children].filter((part) => part.tagName !== "SCRIPT")
        .map((part) => part.textContent).join(" ");
    const every = Array.from({{ length: Number(slider.max) }}, (_, k) => k + 1);
    for (const step of steps ?? every) {{
        slider.value = step;
        slider.dispatchEvent(new Event("input"));
        if (walked.length % {EVERY} === 0 || step === Number(slider.max)) {{
            [height, fits] = [page.scrollHeight, page.scrollWidth <= innerWidth];
        }}
        walked.push({{ where: document.getElementById("where").textContent, height, fits,
            odd: said().match(
                /\\b(null|undefined|NaN)\\b|\\[object|(^|[\\s"'(])(\\/\\w+){{2,}}/)?.[0],
            written: {WRITTEN}(), numbers: Boolean(document.querySelector(".numbers")) }});
    }}
    return walked;
}}"""


@pytest.fixture(scope="session")
def opened(browser: Any, page_for: Any) -> Iterator[Callable[..., Opened]]:
    """Opens a page of PAGES: opened("lstm", "#step=3", viewport={...}); in the window that
    showed it before, if it was as large, unless a `fresh` one is wanted, which nobody else gets."""
    windows: dict[str, Opened] = {}
    alone: dict[str, Opened] = {}

    def open_page(name: str, address: str = "", fresh: bool = False, **options: Any) -> Opened:
        window = f"{name} {options}"
        if window in windows and not fresh:
            return windows[window].again(address)
        kept = alone if fresh else windows
        if window in kept:
            kept[window].context.close()
        kept[window] = Opened(browser, page_for(name)[1], address, **options)
        return kept[window]

    yield open_page
    for opened_window in (*windows.values(), *alone.values()):
        opened_window.context.close()
