"""Learning curves, read from the log of a run directory (Figures 3.8 and 4.5 of the thesis)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from nmt.run_files import need
from nmt.training.log import read_log
from nmt.training.run import LOG

POSITION = ("step", "epoch")  # numbers of a log's line that are no scores


class Curve(NamedTuple):
    """The curves of a training run: points (updates made, value)."""

    name: str
    train_cost: list[tuple[int, float]]  # nats a word since the log's last line, with dropout
    test_cost: list[tuple[int, float]]  # ln perplexity of the dev set after each epoch
    stages: Sequence[tuple[float, float]] = ()  # (perplexity, BLEU) of the dev set
    scores: Mapping[str, Sequence[tuple[int, float]]] = {}  # of the dev set, by name
    updates: Mapping[str, Sequence[tuple[int, float]]] = {}  # numbers of updates, by name


def read_curve(directory: str | Path, name: str) -> Curve:
    """The learning curve of a run directory. name: the curve's name.

    "Cost" is ln perplexity, in nats per target word, as in Figure 4.5. Values that were not finite
    are null in the log and left out. "Stages" are those of Figure 3.8, one after each epoch. Raises
    UserError if there is no log, and, with the line, if it is not a training log.
    """
    stages: list[tuple[float, float]] = []
    scores_by_name: dict[str, list[tuple[int, float]]] = {}
    updates: dict[str, list[tuple[int, float]]] = {}
    curve = Curve(name, [], [], stages, scores_by_name, updates)
    need(Path(directory), "a run directory", [LOG])
    for record in read_log(Path(directory) / LOG):
        scores = record.get("scores", {})
        update = record if record["event"] == "update" else {}
        perplexity = scores.get("perplexity")
        costs = [(curve.train_cost, update.get("loss")),
                 (curve.test_cost, None if perplexity is None else math.log(perplexity))]
        if perplexity is not None and scores.get("bleu") is not None:
            stages.append((perplexity, scores["bleu"]))
        for points_by_name, record_values in ((scores_by_name, scores), (updates, update)):
            for key, value in record_values.items():
                if isinstance(value, (int, float)) and key not in POSITION:
                    points_by_name.setdefault(key, []).append((record["step"], value))
        for points, value in costs:
            if value is not None:
                points.append((record["step"], value))
    return curve
