"""Attention maps in the terminal and as PNG."""

import importlib.util

import numpy as np
import pytest
from rich.cells import cell_len

from nmt.evaluation.alignment_map import in_terminal, save_map

MAP = np.array([[1.0, 0.0], [0.05, 0.95], [0.5, 0.5]])  # the last row is that of the end marker


def test_the_drawing_is_this_one() -> None:
    assert in_terminal(["ein", "Haus"], ["a", "house"], MAP).split("\n") == [
        "    a |@@    ",
        "house |   @@ ",
        "      +------",
        "       1  2  ",
        "       1 ein  2 Haus",
    ]


def test_darker_shades_are_larger_weights() -> None:
    weights = np.linspace(0.0, 1.0, 11)[None]
    line = in_terminal(["w"] * 11, ["t"], weights).split("\n")[0]
    assert line == "t |" + "".join(2 * shade + " " for shade in " .:-=+*#%@@")


def test_wide_characters_keep_the_frame_straight() -> None:
    lines = in_terminal(["a", "b"], ["日本", "x"], MAP).split("\n")
    assert {cell_len(line[: line.index("|")]) for line in lines[:2]} == {5}


def test_an_empty_translation_has_an_empty_map() -> None:
    assert in_terminal(["a"], [], np.ones((1, 1))).split("\n")[0] == " +---"




def test_the_picture_shows_every_weight_and_takes_words_literally(tmp_path, monkeypatch) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.axes import Axes

    shown = []
    draw = Axes.imshow
    monkeypatch.setattr(Axes, "imshow", lambda self, a, **k: shown.append(a) or draw(self, a, **k))
    path = tmp_path / "map.png"
    assert save_map(["$x$", r"$\frac$"], ["a", "b"], MAP, path)  # no mathematics
    np.testing.assert_array_equal(shown[0], MAP[:2])
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_without_matplotlib_there_is_no_picture(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert save_map(["a", "b"], ["x"], MAP, tmp_path / "map.png") is False
    assert not any(tmp_path.iterdir())
