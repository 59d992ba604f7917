"""Runs of other kinds on the page: annotated, hybrid, deep fusion, Transformer, mixed tasks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from explored import fresh
from tiny_run import complaint, nmt, write_corpus, write_recipe

from nmt.console.terminal import escaped
from nmt.recipe import Recipe
from nmt.serving.page import served_page
from nmt.serving.server import Server
from nmt.serving.service import Limits, Service
from nmt.system import System
from tests.nmt.serving.conftest import DATA, MODEL, OPTIONS
from tests.nmt.serving.test_service import service_of

SYMBOLS = {"copyable": "<unk_1>", "posall": "<p_-1>", "posunk": "<unkpos_null>"}
MIXED = """\
tasks:
  there: r.yaml
  back:
    base: r.yaml
    data: {train_source: train.de, train_target: train.en, dev_source: dev.de, dev_target: dev.en}
share: {encoder: [], decoder: []}
"""


def annotated(directory: Path, method: str) -> Service:
    """A model whose vocabularies have a symbol of the method."""
    system = fresh(directory / "run", {"data": DATA, "model": MODEL}, System, Recipe,
                   ("one", "two", SYMBOLS[method]))
    return Service(system, OPTIONS, Limits())


@pytest.fixture
def opened(serving: Any, visit: Any) -> Callable[[Service], Any]:
    """Opens the page of a service in the browser."""
    def open_(service: Service) -> Any:
        server: Server = serving()
        server.service, server.page = service, served_page(service, 1)
        return visit(server)

    return open_


@pytest.mark.parametrize("kind", [*SYMBOLS, "hybrid", "deep fusion", "transformer"])
def test_the_page_translates(kind: str, opened: Any, tmp_path: Path) -> None:
    service = annotated(tmp_path, kind) if kind in SYMBOLS else service_of(tmp_path, kind)
    shown = opened(service)
    shown.translate("one two zebra <b>")
    answer = service.answer({"text": "one two zebra <b>"})
    assert shown.page.inner_text("#translation") == (answer["translation"] or "(empty)")
    assert shown.texts("#read .unknown") == ["zebra", "<b>"]
    assert shown.texts("#words .value") == [word["word"] for word in answer["nbest"][0]["words"]]
    assert not shown.complaints
    notes = " ".join(answer["notes"])
    assert (f"annotated text ({kind})" in notes) is (kind in SYMBOLS)
    assert ("nmt annotate" in notes) is (kind == "copyable")
    assert all(note in shown.page.inner_text("body") for note in answer["notes"])


def test_a_task_of_a_mixture_is_served_and_the_mixture_says_why_not(
    opened: Any, tmp_path: Path, capsys: Any
) -> None:
    write_corpus(tmp_path)
    write_recipe(tmp_path / "r.yaml", train={"epochs": 1})
    (tmp_path / "mixed.yaml").write_text(MIXED)
    assert nmt("train", tmp_path / "mixed.yaml", "--output", tmp_path / "run") == 0
    shown = opened(Service(System.open(tmp_path / "run" / "back"), OPTIONS, Limits()))
    shown.translate("eins zwei")
    assert not shown.complaints and shown.page.is_visible("#tree")
    said = complaint(capsys, "serve", "--model", tmp_path / "run", "--port", "0")
    assert "task" in said and escaped(said) == said
