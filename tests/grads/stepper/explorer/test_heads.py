"""Attention heads: their maps in the data, and as the page draws them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from explored import data

from grads.stepper.explorer import heads
from grads.stepper.explorer.examples import open_example
from grads.stepper.explorer.settings import Settings
from grads.stepper.explorer.steps import Steps
from grads.stepper.explorer.tensors import Table
from tests.grads.stepper.explorer.test_page import values

DRAWN = """() => [...document.querySelectorAll(".heads-map")].map((map) =>
    ["known", "back", "now"].map((name) => map.classList.contains(name)))"""
CELLS = """() => [...document.querySelectorAll(".heads-map")].map((map) =>
    [...map.querySelectorAll("td[class]")].map((cell) => [
        cell.className, parseFloat(cell.style.getPropertyValue("--weight"))]))"""


def matrix(data: dict[str, Any], head: dict[str, Any], which: str) -> np.ndarray:
    """The numbers of a map."""
    return np.reshape(values(data, head[which]["tensor"]), (len(head["rows"]), -1))


def test_a_map_for_each_head(page_for: Any) -> None:
    data, _ = page_for("transformer")
    x, read, predicted = ["die", "Seite"], ["</s>", "a", "page"], ["a", "page", "</s>"]
    maps = {(head["side"], head["source"], head["head"]): head for head in data["heads"]}
    assert list(maps) == [(side, source, head) for side, source in (
        ("encoder", False), ("decoder", False), ("decoder", True)) for head in (1, 2)]
    for (side, source, _), head_map in maps.items():
        rows = x if side == "encoder" else predicted if source else read
        assert (head_map["rows"], head_map["columns"]) == (rows, x if source else rows)
        weights, gradients = (matrix(data, head_map, name) for name in ("weights", "gradients"))
        np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=1e-8)
        np.testing.assert_allclose(gradients.sum(axis=1), 0.0, atol=1e-8)
        causal = side == "decoder" and not source
        assert head_map["weights"]["dead"] == ([1, 2, 5] if causal else [])
        assert not weights.ravel()[head_map["weights"]["dead"]].any()
        for place, function in ((head_map["weights"], "head_forward"),
                                (head_map["gradients"], "head_forward_grad")):
            first, last = (data["sources"][data["steps"][place[end]]["source"]]["function"]
                           for end in ("first", "last"))
            assert first == last == function


def test_of_many_cells_the_ends_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "CELLS", 20)
    example = open_example("transformer", Settings(sentence="a ||| b", layers=6, hidden=2, seed=1))
    table = Table(example.run, example.shown.steps)
    head_maps = heads.heads_json(table, Steps(example.run, table, []))
    assert {head["layer"] for head in head_maps} == {1, 3}


def test_heads_by_themselves_have_numbered_words() -> None:
    [head] = data("attention-head")["heads"]
    assert head["rows"] == head["columns"] == ["1", "2", "3"]
    assert head["weights"]["dead"] == [1, 2, 5]


def test_the_maps_fill_forward_and_backward(opened: Any, page_for: Any) -> None:
    data, _ = page_for("transformer")
    window = opened("transformer", "#step=1")
    for number in (1, data["heads"][2]["weights"]["first"] + 2,
                   data["heads"][3]["gradients"]["last"] + 1):
        window.page.evaluate(f"location.hash = '#step={number}'")
        window.page.wait_for_selector(f"#where b:text-is('Step {number}')")
        here = number - 1
        backward = data["steps"][here]["pass"] == "backward"
        expected = []
        for head in data["heads"]:
            now = head["gradients" if backward else "weights"]
            expected.append([head["weights"]["last"] <= here, head["gradients"]["last"] <= here,
                             now["first"] <= here <= now["last"]])
        assert window.page.evaluate(DRAWN) == expected
    for head, cells in zip(data["heads"], window.page.evaluate(CELLS), strict=True):
        crossed = [k for k, (name, _) in enumerate(cells) if name == "dead"]
        assert crossed == head["weights"]["dead"]
        np.testing.assert_allclose([weight for _, weight in cells],
                                   matrix(data, head, "weights").ravel(), atol=1e-6)
    assert window.page.locator(".drawing").is_hidden()
