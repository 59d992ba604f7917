"""`nmt plot`: curves of several runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tiny_run import nmt

from nmt.evaluation.curves import read_curve
from nmt.training.log import read_log


@pytest.mark.parametrize("ending, begins", [("png", b"\x89PNG"), ("svg", b"<?xml"),
                                            ("pdf", b"%PDF")])
def test_pictures_of_two_runs(trained: Path, ending: str, begins: bytes,
                              capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(trained / "model", trained / "other")
    for score in ("cost", "bleu", "gradient_norm"):
        picture = trained / f"{score}.{ending}"
        assert nmt("plot", trained / "model", trained / "other", "--score", score, "-o",
                   picture) == 0
        assert picture.read_bytes().startswith(begins)
        assert capsys.readouterr().out == f"{picture}\n"


def test_a_curve_has_the_scores_of_the_log(trained: Path) -> None:
    curve = read_curve(trained / "model", "model")
    epochs = [record for record in read_log(trained / "model" / "log.jsonl")
              if record["event"] == "epoch"]
    assert curve.scores["bleu"] == [(record["step"], record["scores"]["bleu"])
                                    for record in epochs]
    updates = [record for record in read_log(trained / "model" / "log.jsonl")
               if record["event"] == "update"]
    assert curve.updates["gradient_norm"] == [(record["step"], record["gradient_norm"])
                                              for record in updates] != []


@pytest.mark.parametrize("arguments, said", [
    (["model", "--score", "chrf"], "score: expected one of the runs' logs, perplexity"),
    (["."], ".: expected a run directory, found no log.jsonl in it"),
    (["none"], "none: expected a run directory, found no such directory"),
])
@pytest.mark.usefixtures("trained")
def test_errors(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert nmt("plot", *arguments, "-o", "x.png") == 2
    assert said in capsys.readouterr().err and not Path("x.png").exists()
