"""The page of a search in a browser: it loads nothing, and shows what the search recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grads.stepper.explorer.search import SearchSettings, build_search
from nmt.pages.page import SEARCH, write_page
from tests.grads.stepper.explorer.conftest import Opened
from tests.grads.stepper.explorer.test_page import NARROW, TO, number, slow_steps

WIDE = {"width": 1400, "height": 900}
SENTENCE = "one two ten <script>"
GIVEN: dict[str, dict[str, Any]] = {
    "attention": {"beam": 3, "nbest": 2, "length_normalisation": 0.8}, "plain": {"beam": 2}}
ROWS = """(name) => [...document.querySelectorAll(`tr[data-of=${name}]`)].map((row) => ({
    word: row.querySelector(".words button").textContent,
    before: row.querySelector(".before")?.textContent.trim() ?? "",
    numbers: [...row.querySelectorAll("td[title]")].map((cell) => cell.title),
    why: row.querySelector(".why").textContent,
    chosen: row.classList.contains("chosen") }))"""
NODES = """(name) => [...document.querySelectorAll(`.lane.${name} .hypothesis`)]
    .filter((node) => getComputedStyle(node).visibility === "visible")
    .map((node) => node.querySelector(".word").textContent)"""
WEIGHTS = """() => [...document.querySelectorAll("#attention tbody tr")].map((row) =>
    [...row.querySelectorAll("td")].map((cell) => Number(cell.style.getPropertyValue("--weight"))))
"""
EXCESS = """() => Math.max(...[document.documentElement, ...document.querySelectorAll(
    ".bench > *, .stage, .strip, .head")].map((part) => part.scrollWidth - part.clientWidth))"""


@pytest.fixture(scope="module")
def pages(
    searched: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[dict[str, Any], Path]]:
    """By name of a model: the data of its page, and the page."""
    directory = tmp_path_factory.mktemp("pages")
    built = {name: (build_search(SearchSettings(searched / name, sentence=SENTENCE, **choices)),
                    directory / f"{name}.html") for name, choices in GIVEN.items()}
    for data, path in built.values():
        write_page(data, path, SEARCH)
    return built


@pytest.fixture
def opened(browser: Any, pages: Any) -> Iterator[Callable[..., Opened]]:
    """Opens a page: opened("attention", "#step=3", viewport={...})."""
    windows: list[Opened] = []

    def open_page(name: str = "attention", address: str = "", **options: Any) -> Opened:
        windows.append(Opened(browser, pages[name][1], address, **options))
        return windows[-1]

    yield open_page
    for window in windows:
        window.context.close()


def test_loads_nothing_and_complains_of_nothing(opened: Any, pages: Any) -> None:
    for name in GIVEN:
        window = opened(name, color_scheme="dark")
        for key in ("End", "ArrowLeft", "ArrowDown", "Home", "ArrowUp"):
            window.page.keyboard.press(key)
        assert window.requests == [pages[name][1].as_uri()]
        assert window.complaints == []


def test_each_step_shows_what_the_search_recorded(opened: Any, pages: Any) -> None:
    data, _ = pages["attention"]
    window = opened()
    longest = max(len(search["steps"]) for search in data["searches"].values())
    for step in range(1, longest + 1):
        assert window.step() == step
        for name, search in data["searches"].items():
            so_far = [candidate for past in search["steps"][:step]
                      for candidate in past["candidates"]]
            assert window.page.evaluate(NODES, name) == [candidate["word"] for candidate in so_far]
            if step > len(search["steps"]):
                text = window.page.inner_text("#candidates .ended")
                assert f"Ended at step {len(search['steps'])}" in text
                continue
            candidates = search["steps"][step - 1]["candidates"]
            rows = window.page.evaluate(ROWS, name)
            assert [row["word"] for row in rows] == [candidate["word"] for candidate in candidates]
            for row, candidate in zip(rows, candidates, strict=True):
                shown = [number(f"x = {title}") for title in row["numbers"]]
                expected = [candidate["word_log_p"], candidate["log_p"],
                            candidate["score"]][: len(shown)]
                np.testing.assert_allclose(shown, expected, rtol=1e-8, atol=1e-12)
                parent = search["steps"][step - 2]["candidates"][candidate["parent"]]["word"] \
                    if step > 1 else ""
                assert row["before"].endswith(parent)
        window.page.keyboard.press("ArrowRight")
    assert window.step() == longest


def test_a_hypothesis_is_chosen_in_the_tree_and_in_the_list(opened: Any, pages: Any) -> None:
    data, _ = pages["attention"]
    steps = data["searches"]["beam"]["steps"]
    window = opened(address="#step=3")
    node = len(steps[0]["candidates"]) + 2
    for step, at, place in ((3, 1, "tr[data-of=beam][data-at='1'] button"),
                            (2, 2, f".lane.beam .hypothesis >> nth={node}")):
        window.page.click(place)
        window.page.mouse.move(0, 0)
        candidate = steps[step - 1]["candidates"][at]
        assert window.address() == f"#step={step}&at={at + 1}"
        words = window.page.eval_on_selector_all(
            "#hypothesis .value", "all => all.map(x => x.textContent)")
        assert len(words) == step and words[-1] == candidate["word"]
        put_in = window.page.get_attribute("#hypothesis .put-in", "title")
        assert number(f"x = {put_in}") == pytest.approx(candidate["log_p"], rel=1e-8)
        weights = window.page.evaluate(WEIGHTS)
        assert len(weights) == step
        assert weights[-1] == steps[step - 1]["weights"][candidate["parent"]]
    heads = window.page.eval_on_selector_all(
        "#attention thead th", "all => all.map(x => [x.textContent, x.className])")
    assert heads == [["one", ""], ["two", ""], ["ten", "unknown"], ["<script>", ""]]
    assert "Read as <unk>: ten." in window.page.inner_text("#attention")


def test_pointing_shows_and_leaving_restores(opened: Any) -> None:
    window = opened(address="#step=2")
    before = window.page.inner_text("#hypothesis")
    window.page.hover("tr[data-of=beam][data-at='3']")
    assert window.page.inner_text("#hypothesis") != before
    assert [row["chosen"] for row in window.page.evaluate(ROWS, "beam")].index(True) == 3
    window.page.mouse.move(0, 0)
    assert window.page.inner_text("#hypothesis") == before


def test_keys_and_links(opened: Any, pages: Any) -> None:
    data, _ = pages["attention"]
    last = max(len(search["steps"]) for search in data["searches"].values())
    window = opened()
    press, seen = window.page.keyboard.press, []
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "End", "ArrowRight", "Home", "ArrowLeft"):
        press(key)
        seen.append(window.step())
    assert seen == [2, 3, 2, last, last, 1, 1]
    for _ in data["searches"]["beam"]["steps"][0]["candidates"]:
        press("ArrowDown")
    address = window.address()
    assert address.startswith("#step=1&at=") and address.endswith("&of=greedy")
    press("Space")
    window.page.wait_for_selector("#where b:text-is('Step 2')")
    press("Space")
    assert window.page.get_attribute("#play", "aria-label") == "Play"
    window.page.evaluate("location.hash = '#step=2&at=2&of=greedy'")
    window.page.wait_for_selector("tr.chosen[data-of=greedy][data-at='1']")
    for address, step in (("#step=0&of=nothing", 1), ("#step=999&at=999", last), ("#step=x", 1)):
        window.page.evaluate("address => { location.hash = address; }", address)
        window.page.wait_for_selector(f"#where b:text-is('Step {step}')")
    assert opened(address="#step=-1&at=99").step() == 1 and window.complaints == []


def test_what_was_found(opened: Any, pages: Any) -> None:
    data, _ = pages["attention"]
    window = opened(address="#step=999")
    for name, search in data["searches"].items():
        texts = window.page.eval_on_selector_all(
            f".found dd[data-of={name}] a", "all => all.map(x => x.textContent)")
        assert texts == [hypothesis["text"] for hypothesis in search["found"]]
    best = window.page.query_selector_all(".lane.beam .hypothesis.best")
    assert len(best) == data["searches"]["beam"]["found"][0]["at"][0] + 1
    assert data["searches"]["beam"]["found"][0]["text"] in window.page.inner_text("#about")


def test_a_model_without_attention_says_so(opened: Any) -> None:
    window = opened("plain", "#step=2")
    assert "This model has no attention" in window.page.inner_text("#attention")
    assert not window.page.query_selector("#attention table")


@pytest.mark.parametrize("options", [
    {"viewport": WIDE}, {"viewport": NARROW}, {"viewport": WIDE, "color_scheme": "dark"}], ids=str)
def test_nothing_is_wider_than_its_space(options: Any, opened: Any, pages: Any) -> None:
    window = opened(**options)
    for _ in pages["attention"][0]["searches"]["beam"]["steps"]:
        assert window.page.evaluate(EXCESS) <= 0
        window.page.keyboard.press("ArrowRight")
    window.page.click(".guide summary")
    assert window.page.evaluate(EXCESS) <= 0 and window.complaints == []


@pytest.mark.alone
def test_a_step_takes_no_time(opened: Any) -> None:
    """A step by a key, and its layout: the fastest tenth, as other work only adds."""
    decile = opened(viewport=WIDE).page.evaluate("""() => { const all = [];
        for (let k = 0; k < 60; k += 1) {
            const start = performance.now();
            const key = k % 6 < 3 ? "ArrowRight" : "ArrowLeft";
            document.dispatchEvent(new KeyboardEvent("keydown", { key }));
            document.body.getBoundingClientRect();
            all.push(performance.now() - start);
        }
        return all.sort((a, b) => a - b)[6]; }""")
    assert decile < 30


@pytest.mark.alone
def test_a_step_takes_less_than_50_ms(opened: Any) -> None:
    page = opened().page
    steps = list(range(2, int(page.get_attribute("#slider", "max")) + 1))
    assert steps and slow_steps(page, TO, steps, 5) == []
