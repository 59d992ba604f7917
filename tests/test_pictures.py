"""The pictures for slides are SVG files that need nothing else."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

DIRECTORY = Path(__file__).resolve().parents[1] / "docs" / "lessons"
SVG = "{http://www.w3.org/2000/svg}"


def test_pictures_of_pages(browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib draws the lessons' figures")
    monkeypatch.syspath_prepend(str(DIRECTORY))
    import make_pictures

    for name in ("rnn", "vanishing"):
        make_pictures.write_graphs(browser.new_page(), tmp_path, name)
    sys.modules.pop("make_pictures")
    names = {path.name for path in tmp_path.iterdir()}
    assert {"rnn-network.svg", "flow-vanilla-rnn.svg", "vanishing-lstm.svg"} <= names
    for path in tmp_path.iterdir():
        picture = ElementTree.parse(path).getroot()
        assert picture.tag == f"{SVG}svg" and "var(" not in path.read_text("utf-8")
        texts = [text for text in picture.iter(f"{SVG}text") if text.text]
        assert texts and all("font-size: 1" in text.attrib["style"] for text in texts)
        page = browser.new_page()
        page.goto(path.as_uri())
        size = page.evaluate("(() => { const box = document.documentElement"
                             ".getBoundingClientRect(); return [box.width, box.height]; })()")
        assert size == [float(picture.attrib[side]) for side in ("width", "height")]
        page.close()
