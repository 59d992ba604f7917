"""The cost of pruning counted by hand, and the content of files and pictures."""

import json
import math

import numpy as np
import pytest

from backend.errors import UserError
from lstm.parameters import Weight, axis
from nmt.analysis.redundancy import (
    Part,
    Point,
    Share,
    Trained,
    breakdown,
    stored_bytes,
    survivors,
    sweep,
)
from nmt.analysis.redundancy_pictures import draw_mask
from nmt.analysis.redundancy_report import Findings, draw, survivors_text, write
from nmt.evaluation import pictures
from nmt.evaluation.curves import Curve
from nmt.pruning.run import masks_for, prune, stored_parameters
from nmt.run_directory import RunDirectory
from nmt.system import System
from nmt.training.run import LAST

GATES = axis("gate", {"i": 2, "f": 2})
WEIGHTS = {
    "encoder.W_e": Weight((axis("word", 3), axis("input", 2)), None),
    "encoder.0.W": Weight((GATES, axis("column", {"x": 2, "h": 1})), None),
    "attention.v_a": Weight((axis("unit", 2),), None),
}
MASKS = {
    "encoder.W_e": np.array([[1, 0], [0, 0], [1, 1]], bool),
    "encoder.0.W": np.array([[1, 1, 0], [1, 0, 0], [0, 0, 1], [0, 0, 1]], bool),
    "attention.v_a": np.array([True, False]),
}
LEFT = survivors(WEIGHTS, MASKS, 50, "class-blind")
CURVE = Curve("base", [], [(10, 2.0), (20, 1.5)])
RUNS = [Trained("r80", "retrained", "class-blind", 80, 4.5, 30.0, 3.0, 6.0,
                Curve("r80", [], [(5, 1.4)])),
        Trained("s80", "sparse from the beginning", "class-blind", 80, 5.0, 28.0, 3.5, 6.0,
                Curve("s80", [], [(5, 1.8)]))]
POINTS = [Point("class-blind", 0, 4.0, 35.0, 100), Point("class-blind", 90, math.inf, 0.0, 12),
          Point("class-uniform", 0, 4.0, 35.0, 100), Point("class-uniform", 90, 80.0, 1.0, 12)]
PARTS = [Part(scheme, name, 6, 3, 0.2, change) for scheme in ("class-blind", "class-uniform")
         for name, change in (("source layer 1", 0.4), ("attention", 60.0))]


def test_survivors_by_class_gate_input_and_word():
    assert LEFT.classes == {"source layer 1": Share(5, 12), "attention": Share(1, 2),
                            "source embedding": Share(3, 6)}
    assert LEFT.gates == {"source layer 1": {
        "i": {"x": Share(3, 4), "h": Share(0, 2)}, "f": {"x": Share(0, 4), "h": Share(2, 2)}}}
    assert LEFT.words == {"source embedding": Share(2, 3)}
    text = survivors_text(LEFT)
    assert "source layer 1, f: x 0.0 %, h 100.0 %" in text
    assert "source embedding: words without a weight left: 1 of 3" in text


class Measured:
    """Counts the measurements. Its perplexity is the number of weights that are zero."""

    def __init__(self):
        self.calls = 0

    def __call__(self, system):
        self.calls += 1
        return {"perplexity": 1.0 + sum(int((a == 0).sum())
                                        for a in stored_parameters(system).values())}


def test_a_sweep_measures_each_pruned_model_and_the_whole_one_once(trained):
    system, measure, lines = System.open(trained / "model"), Measured(), []
    points = sweep(system, measure, (0, 50, 90), ("class-blind", "class-uniform"), lines.append)
    size = sum(mask.size for mask in masks_for(system, 0, "class-blind").values())
    assert measure.calls == 5 and len(lines) == 6
    for point in points:
        assert point.perplexity == 1 + round(point.percent * size / 100) and point.bleu is None
    assert points[0].bytes > points[1].bytes > points[2].bytes


def test_a_breakdown_prunes_one_class_at_a_time(trained):
    system, measure = System.open(trained / "model"), Measured()
    effects = breakdown(system, measure, 50, ("class-uniform", "class-blind"))
    uniform = [effect for effect in effects if effect.scheme == "class-uniform"]
    assert len(effects) == 12 and all(abs(p.pruned - p.size / 2) <= 0.5 for p in uniform)
    assert all(effect.change == effect.pruned for effect in effects)
    W = abs(system.parameters["output.W_hy"])
    largest = {effect.name: effect.largest for effect in uniform}["softmax"]
    assert largest == pytest.approx(np.sort(W.reshape(-1))[W.size // 2 - 1])


def test_bytes_are_those_of_the_parameters_in_a_sparse_file(trained):
    system = System.open(trained / "model")
    for percent in (30, 80):
        pruned = prune(system, percent, "class-blind", "model")
        output = trained / f"s{percent}"
        RunDirectory(output, system.recipe, resume=False).write(pruned, {}, sparse=True)
        with open(output / LAST, "rb") as file:
            header = int.from_bytes(file.read(8), "little")
        payload = (output / LAST).stat().st_size - 8 - header
        assert payload == stored_bytes(system, pruned.pruning.masks)


def findings(**changes):
    about = {"run": "base", "set": "dev", "beam": 1, "checkpoint": "best"}
    return Findings(about, POINTS, PARTS, LEFT, RUNS, CURVE)._replace(**changes)


def test_files_have_every_figure_and_null_for_infinity(tmp_path):
    write(findings(), tmp_path)
    report = json.loads((tmp_path / "redundancy.json").read_text())
    assert report["points"][1] == {"scheme": "class-blind", "percent": 90, "perplexity": None,
                                   "bleu": 0.0, "bytes": 12}
    assert report["survivors"]["gates"]["source layer 1"]["i"]["x"] == {"kept": 3, "size": 4}
    assert [run["how"] for run in report["trained"]] == ["retrained", "sparse from the beginning"]
    rows = [line.split("\t") for line in (tmp_path / "redundancy.tsv").read_text().splitlines()]
    assert {len(row) for row in rows} == {7} and len(rows) == 7
    assert rows[5] == ["retrained", "class-blind", "80", "4.5000", "30.00", "", "3.0000"]


def test_pictures_are_drawn_for_what_was_found(tmp_path):
    names = {line.split(": ")[0].split("/")[-1]
             for line in draw(findings(), WEIGHTS, MASKS, tmp_path)}
    assert names == {path.name for path in tmp_path.iterdir()} == {
        "schemes.png", "survivors.png", "classes.png", "largest-deleted.png", "retraining.png",
        "retraining-curves.png", *(f"weights-{name}.png" for name in MASKS)}
    (tmp_path / "few").mkdir()
    names = {line.split(": ")[0].split("/")[-1] for line in draw(
        findings(parts=[], trained=[], curve=None), WEIGHTS, {}, tmp_path / "few")}
    assert names == {"schemes.png", "survivors.png"}


def test_a_picture_of_a_mask_shows_each_weight(tmp_path):
    """White where a weight is left; a table's words from left to right."""
    from matplotlib.image import imread

    mask = np.zeros((300, 40), bool)
    mask[:100], mask[150, 7] = True, True
    table = Weight((axis("word", 300), axis("input", 40)), None)
    draw_mask("decoder.W_e", table, mask, tmp_path / "w.png")
    image = imread(tmp_path / "w.png")[..., 0]
    top, left = 40, 90
    inside = image[top:top + 40, left:left + 300]
    assert (inside[:, :100] > 0.99).all() and (inside[:, 100:150] < 0.01).all()
    assert inside[7, 150] > 0.99 and (inside[:, 151:] < 0.01).all()


def test_without_matplotlib_a_line_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("nmt.analysis.redundancy_report.can_draw", lambda: False)
    (line,) = draw(findings(), WEIGHTS, MASKS, tmp_path)
    assert "matplotlib is not installed" in line and not list(tmp_path.iterdir())
    monkeypatch.setattr(pictures, "can_draw", lambda: False)
    with pytest.raises(UserError, match="matplotlib is not installed"):
        draw_mask("x", WEIGHTS["encoder.W_e"], MASKS["encoder.W_e"], tmp_path / "x.png")
