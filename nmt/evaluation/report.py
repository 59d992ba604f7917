"""Evaluations side by side: as a table of plain text, as JSON, as pictures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.cells import cell_len

from nmt.data.corpus import write_lines
from nmt.evaluation.curves import Curve
from nmt.evaluation.evaluate import Evaluation, Subject
from nmt.evaluation.pictures import MISSING, can_draw, draw_curves, draw_lengths
from nmt.evaluation.speed import TrainingSpeed

JSON, LENGTHS, CURVES = "evaluation.json", "bleu-by-length.png", "learning-curves.png"
NONE = "-"


def as_text(found: Sequence[Evaluation]) -> str:
    """A row for each question, a column for each system; below it the scores' signatures."""
    subjects = [one.subject for one in found]
    rows = [["", *(one.name for one in subjects)],
            ["checkpoint (epochs)", *map(_checkpoint, subjects)]]

    def add(label: str, values: Sequence[float | None], form: str) -> None:
        rows.append([label, *(NONE if v is None else format(v, form) for v in values)])

    add("perplexity", [one.perplexity for one in found], ".2f")
    add("BLEU", [one.bleu.score for one in found], ".2f")
    add("chrF", [one.chrf.score for one in found], ".2f")
    add("unknown words", [one.unknown for one in found], "d")
    for convention in found[0].replaced:
        add(f"BLEU, unk replaced ({convention})",
            [one.replaced[convention].score for one in found], ".2f")
    for convention in found[0].alignment:
        scores = [one.alignment[convention] for one in found]
        add(f"AER ({convention})", [score.error_rate for score in scores], ".3f")
        add("  precision", [score.precision for score in scores], ".3f")
        add("  recall", [score.recall for score in scores], ".3f")
    for i, bucket in enumerate(found[0].lengths):
        label = f"BLEU, {bucket.label} words (n = {bucket.sentences})"
        add(label, [one.lengths[i].bleu for one in found], ".2f")
    add("words translated a second", [one.words / max(one.seconds, 1e-9) for one in found], ".0f")
    speeds = [one.speed or TrainingSpeed(None, None) for one in subjects]
    if any(speed.cpu for speed in speeds):
        add("training, target tokens/s of CPU time", [speed.cpu for speed in speeds], ".0f")
    if any(speed.fastest and not speed.cpu for speed in speeds):
        add("training, target tokens/s, fastest quarter", [speed.fastest for speed in speeds],
            ".0f")
    signatures = dict.fromkeys(f"{name} {score.signature}" for one in found
                               for name, score in (("BLEU", one.bleu), ("chrF", one.chrf)))
    return "\n".join([*_aligned(rows), "", *signatures])


def _checkpoint(subject: Subject) -> str:
    """Which one, and after how many epochs."""
    return subject.checkpoint + (f" ({subject.epochs})" if subject.epochs is not None else "")


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines: the first column to the left, the others to the right."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [first + " " * (widths[0] - cell_len(first))]
        cells += [" " * (width - cell_len(cell)) + cell
                  for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return lines


def write(found: Sequence[Evaluation], curves: Sequence[Curve], directory: Path) -> list[str]:
    """Write JSON and pictures into a directory that is there.

    Returns a line about each file; without matplotlib one that says so instead of the pictures.
    """
    text = json.dumps({"systems": [one.to_json() for one in found]}, indent=1, allow_nan=False,
                      ensure_ascii=False)
    write_lines(directory / JSON, text.split("\n"))
    said = [str(directory / JSON)]
    if not can_draw():
        return [*said, f"no pictures: {MISSING}"]
    if any(bucket.sentences for bucket in found[0].lengths):
        draw_lengths({one.subject.name: one.lengths for one in found}, directory / LENGTHS)
        said.append(str(directory / LENGTHS))
    if curves:
        draw_curves(curves, directory / CURVES)
        said.append(str(directory / CURVES))
    return said
