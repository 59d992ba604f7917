"""Learning curves from logs, and the content of pictures."""

import importlib.util
import math

import pytest

from backend.errors import UserError
from nmt.analysis.lengths import Group
from nmt.evaluation.curves import Curve, read_curve
from nmt.evaluation.pictures import (
    BeforeAfter,
    draw_curves,
    draw_groups,
    draw_replacement,
    draw_stages,
)

LOG = """{"event": "update", "step": 2, "epoch": 1, "loss": 3.5}
{"event": "update", "step": 4, "epoch": 1, "loss": 2.5}
{"event": "epoch", "step": 4, "epoch": 1, "loss": 3.0, "scores": {"perplexity": 8.0, "bleu": 1.5}}
{"event": "epoch", "step": 8, "epoch": 2, "loss": 2.0, "scores": {"perplexity": null}}
{"event": "epoch", "step": 12, "epoch": 3, "loss": 2.0, "scores": {"perplexity": 4.0, "bleu": 9}}
"""
CURVE = Curve("run", [(2, 3.5), (4, 2.5)], [(4, math.log(8)), (12, math.log(4))],
              [(8.0, 1.5), (4.0, 9)],
              {"perplexity": [(4, 8.0), (12, 4.0)], "bleu": [(4, 1.5), (12, 9)]},
              {"loss": [(2, 3.5), (4, 2.5)]})


def test_a_curve_is_read_from_the_log(tmp_path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "log.jsonl").write_text(LOG)
    assert read_curve(tmp_path / "run", "run") == CURVE


@pytest.mark.parametrize("bad", ["{", "[1]", '{"event": "epoch"}', ""])
def test_a_bad_log_is_named_with_its_line(tmp_path, bad) -> None:
    (tmp_path / "log.jsonl").write_text(LOG + bad + "\n")
    with pytest.raises(UserError, match=r"log.jsonl:6: expected a record of a training log, got"):
        read_curve(tmp_path, "run")
    (tmp_path / "log.jsonl").unlink()
    with pytest.raises(UserError, match=r"expected a run directory, found no"):
        read_curve(tmp_path, "run")


def buckets(first, last):
    return [Group("1-5", 3, first, 9), Group("6-7", 0, None, 0), Group("8+", 2, last, 20)]


BUCKETS = {"a$x$": buckets(40.0, 20.0), "b": buckets(30.0, 10.0)}


@pytest.fixture
def plotted(monkeypatch):
    pytest.importorskip("matplotlib")
    from matplotlib.axes import Axes

    lines = []
    plot = Axes.plot

    def spy(self, x, y, **settings):
        lines.append((settings.get("label"), list(x), list(y)))
        return plot(self, x, y, **settings)

    monkeypatch.setattr(Axes, "plot", spy)
    return lines


def test_groups(tmp_path, plotted) -> None:
    draw_groups(BUCKETS, "words", tmp_path / "p.png")
    assert plotted == [("a$x$", [0, 1], [40.0, 20.0]), ("b", [0, 1], [30.0, 10.0])]
    assert (tmp_path / "p.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize(("ending", "first"), [("svg", b"<?xml"), ("pdf", b"%PDF"),
                                               ("png", b"\x89PNG")])
def test_the_suffix_decides_and_a_picture_has_a_title(tmp_path, monkeypatch, ending, first) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    titles, suptitle = [], Figure.suptitle
    monkeypatch.setattr(Figure, "suptitle", lambda self, text, **settings: (
        titles.append(text), suptitle(self, text, **settings))[1])
    draw_groups(BUCKETS, "words", tmp_path / f"p.{ending}")
    assert (tmp_path / f"p.{ending}").read_bytes().startswith(first)
    assert titles == ["BLEU of groups of sentences"]


def test_stages_are_bleu_against_perplexity(tmp_path, plotted) -> None:
    draw_stages([CURVE], tmp_path / "p.png")
    assert plotted == [("run", [8.0, 4.0], [1.5, 9])]


def test_bars_before_and_after_replacement(tmp_path, monkeypatch) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.axes import Axes

    drawn, bar, ticks = [], Axes.bar, []
    monkeypatch.setattr(Axes, "bar", lambda self, x, height, width, **settings: (
        drawn.append((settings["label"], list(x), list(height), width)),
        bar(self, x, height, width, **settings))[1])
    set_xticks = Axes.set_xticks
    monkeypatch.setattr(Axes, "set_xticks", lambda self, *given, **settings: (
        ticks.extend(given[1]), set_xticks(self, *given, **settings))[1])
    draw_replacement({"a$x$": BeforeAfter("5.30 / 1.37", 20.0, 21.5),
                      "b": BeforeAfter("5.32", 30.0, 29.0)}, tmp_path / "p.png")
    (before, left, low, width), (after, right, high, _) = drawn
    assert (before, after) == ("before", "after") and (low, high) == ([20.0, 30.0], [21.5, 29.0])
    assert left + right == pytest.approx([-width / 2, 1 - width / 2, width / 2, 1 + width / 2])
    assert ticks == ["a$x$\n(5.30 / 1.37)", "b\n(5.32)"]
    assert (tmp_path / "p.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_curves(tmp_path, plotted) -> None:
    draw_curves([CURVE, Curve("young", [(2, 5.0)], [])], tmp_path / "p.png")
    assert plotted == [(None, [2, 4], [3.5, 2.5]),
                       ("run", [4, 12], [math.log(8), math.log(4)]),
                       (None, [2], [5.0]), ("young", [], [])]
    assert (tmp_path / "p.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_many_curves_are_those_of_the_dev_set_alone(tmp_path, plotted) -> None:
    draw_curves([CURVE._replace(name=name) for name in "abcd"], tmp_path / "p.png")
    assert [label for label, _, _ in plotted] == list("abcd")


def test_a_picture_that_cannot_be_written(tmp_path) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(UserError, match=r"absent/p.png: cannot be written: No such file"):
        draw_groups(BUCKETS, "words", tmp_path / "absent" / "p.png")


def test_without_matplotlib_it_says_so(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for draw, what in ((draw_groups, (BUCKETS, "words")), (draw_curves, ([CURVE],)),
                       (draw_stages, ([CURVE],)),
                       (draw_replacement, ({"a": BeforeAfter("5", 1.0, 2.0)},))):
        with pytest.raises(UserError, match=r"p.png: matplotlib is not installed \(pip install"):
            draw(*what, tmp_path / "p.png")
    assert not any(tmp_path.iterdir())
