"""Pages of trained models in a browser: the package's own, and one whose order is mirrored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from explored import values_of

SIZES = ({"viewport": {"width": 390, "height": 844}},
         {"viewport": {"width": 1400, "height": 900}, "color_scheme": "dark"})
EXCESS = """(steps) => steps.map((step) => {
    const slider = document.getElementById("slider");
    slider.value = step;
    slider.dispatchEvent(new Event("input"));
    const parts = [document.documentElement, ...document.querySelectorAll(".bench > *")];
    return Math.max(...parts.map((part) => part.scrollWidth - part.clientWidth));
})"""
SHOWN = """() => ({
    head: [...document.querySelectorAll("thead th[scope=col]")].map((one) => one.textContent),
    rows: [...document.querySelectorAll("tbody tr:has(td[title])")].map((row) =>
        [...row.querySelectorAll("td")].map((one) => one.title)),
    edges: [...document.querySelectorAll(".attend:not([hidden]) title")].map(
        (one) => one.textContent),
    along: document.querySelectorAll(".edge.along").length})"""


@pytest.mark.parametrize("name", ["trained", "own"])
@pytest.mark.parametrize("options", SIZES, ids=["narrow", "dark"])
def test_no_complaint_and_nothing_wider_than_its_space(
    name: str, options: dict[str, Any], opened: Any, page_for: Any
) -> None:
    steps = page_for(name)[0]["steps"]
    texts = [step["text"] for step in steps]
    lines = [texts.index(text) + 1 for text in dict.fromkeys(texts)]
    window = opened(name, "#all=1", **options)
    assert max(window.page.evaluate(EXCESS, lines)) <= 0
    window.page.keyboard.press("End")
    assert window.step() == len(steps)
    assert window.complaints == [] and window.requests == [page_for(name)[1].as_uri()]
    assert page_for(name)[1].stat().st_size < 1_000_000


@pytest.mark.parametrize("name", ["trained", "own"])
def test_weights_stand_at_the_words_that_they_are_of(name: str, opened: Any, page_for: Any) -> None:
    data = page_for(name)[0]
    source = [column["word"] for column in data["network"]["columns"]
              if column["side"] == "encoder"]
    written = source[::-1] if name == "own" else source
    window = opened(name, f"#step={data['attention'][1]['step'] + 1}", fresh=True)
    shown = window.page.evaluate(SHOWN)
    assert shown["head"] == written
    for row, known in zip(shown["rows"], data["attention"], strict=True):
        weights = values_of(data, known["tensor"]).ravel()
        assert len(row) == len(weights)
        for title, word, weight in zip(row, written, weights, strict=True):
            assert said(title, f"{word}: ") == pytest.approx(weight, rel=0.01, abs=1e-3)
    weights = values_of(data, data["attention"][1]["tensor"]).ravel()
    for title, word, weight in zip(shown["edges"], source, (
            weights[::-1] if name == "own" else weights), strict=True):
        assert said(title, f"weight of {word}: ") == pytest.approx(weight, rel=0.01, abs=1e-3)


def test_an_encoder_from_both_ends_has_arrows_both_ways(opened: Any, page_for: Any) -> None:
    data = page_for("own")[0]
    columns, layers = data["network"]["columns"], data["network"]["layers"]
    encoder = sum(column["side"] == "encoder" for column in columns)
    forward = len(columns) - encoder - 1
    along = opened("own").page.evaluate(SHOWN)["along"]
    assert along == layers * (2 * (encoder - 1) + forward)
    assert data["network"]["both_ends"] and data["network"]["mirrored"]


def test_notes_and_words_of_an_own_model(opened: Any, page_for: Any) -> None:
    text = opened("own").page.text_content("body")
    assert "read as <unk>: <, b, >." in text
    assert "bidirectional encoder, bridge, attention (general, local-m)" in text
    assert "The encoder reads the sentence from its end." in text


def said(title: str, before: str) -> float:
    """The number of a title."""
    assert title.startswith(before), title
    text = title.removeprefix(before).translate(str.maketrans("−⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "--0123456789"))
    mantissa, _, power = text.replace("\u202f", " ").replace("\u2009", " ").partition("× 10")
    return float(np.float64(mantissa.strip()) * 10.0 ** int(power or 0))
