"""Evaluations side by side: as a table of plain text, as JSON, as pictures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import wrap

from rich.cells import cell_len

from nmt.data.corpus import write_lines
from nmt.evaluation.curves import Curve
from nmt.evaluation.evaluate import CONVENTIONS, Evaluation, Subject
from nmt.evaluation.pictures import MISSING, can_draw, draw_curves, draw_lengths
from nmt.evaluation.speed import TrainingSpeed

JSON, LENGTHS, CURVES = "evaluation.json", "bleu-by-length.png", "learning-curves.png"
NONE = "-"
COLUMNS = 5  # systems that stand side by side on a screen
HEADING = 13  # characters of a line of a heading, unless one word has more
Row = list[str]  # a question and each system's answer


def as_text(found: Sequence[Evaluation]) -> str:
    """What was found out, by question and system; below it the scores' signatures.

    Up to COLUMNS systems are columns, the questions rows. More are rows, as in the papers' tables,
    and the questions, a table for each kind, columns.
    """
    first = [["", *(one.subject.name for one in found)],
             ["checkpoint (epochs)", *(_checkpoint(one.subject) for one in found)]]
    kinds = [rows for rows in (_scores(found), _alignment(found), _lengths(found),
                               _rarity(found), _speed(found)) if rows]
    if len(found) <= COLUMNS:
        lines = _aligned([row for rows in (first, *kinds) for row in rows])
    else:
        kinds[0] = first[1:] + kinds[0]
        lines = [line for rows in kinds for line in (*_by_system([first[0], *rows]), "")][:-1]
    signatures = dict.fromkeys(
        f"{name} {score.signature}" for one in found
        for name, score in (("BLEU", one.bleu), ("chrF", one.chrf), ("chrF3", one.chrf3)))
    return "\n".join([*lines, "", *signatures])


def _row(label: str, values: Iterable[float | None], form: str) -> Row:
    """The answers to one question."""
    return [label, *(NONE if value is None else format(value, form) for value in values)]


def _scores(found: Sequence[Evaluation]) -> list[Row]:
    """Perplexity and scores of the translations, unknown words among them."""
    rows = [_row("perplexity", (one.perplexity for one in found), ".2f"),
            _row("BLEU", (one.bleu.score for one in found), ".2f"),
            _row("chrF", (one.chrf.score for one in found), ".2f"),
            _row("chrF3", (one.chrf3.score for one in found), ".2f"),
            _row("unknown words", (one.unknown for one in found), "d")]
    if any(one.character_perplexity is not None for one in found):
        rows.insert(1, _row("character perplexity", (one.character_perplexity for one in found),
                            ".2f"))
        rows += [_row("spelled words", (one.spelled for one in found), "d"),
                 _row("spelled words cut", (one.cut_words for one in found), "d")]
    if any(one.replaced for one in found):
        for convention in CONVENTIONS:
            scores = [one.replaced.get(convention) for one in found]
            rows.append(_row(f"BLEU, unk replaced ({convention})",
                             (score and score.score for score in scores), ".2f"))
    known = [one.known for one in found if one.known]
    if known:
        rows += [_row("BLEU, sentences without unknown words",
                      (one.bleu and one.bleu.score for one in known), ".2f"),
                 _row("  number of them", (one.sentences for one in known), "d")]
    return rows


def _alignment(found: Sequence[Evaluation]) -> list[Row]:
    """Alignment error rates, if any system has one."""
    rows = []
    for convention in CONVENTIONS if any(one.alignment for one in found) else ():
        scores = [one.alignment.get(convention) for one in found]
        rows += [_row(f"AER ({convention})", (one and one.error_rate for one in scores), ".3f"),
                 _row("  precision", (one and one.precision for one in scores), ".3f"),
                 _row("  recall", (one and one.recall for one in scores), ".3f")]
    return rows


def _lengths(found: Sequence[Evaluation]) -> list[Row]:
    """BLEU by the length of the source."""
    return [_row(f"BLEU, {bucket.label} words (n={bucket.sentences})",
                 (one.lengths[i].bleu for one in found), ".2f")
            for i, bucket in enumerate(found[0].lengths)]


def _rarity(found: Sequence[Evaluation]) -> list[Row]:
    """BLEU by the rarity of the source's words, if asked for."""
    return [_row(f"BLEU, by rarity {group.label}", (one.rarity[i].bleu for one in found), ".2f")
            for i, group in enumerate(found[0].rarity)]


def _speed(found: Sequence[Evaluation]) -> list[Row]:
    """Speed of translation and of training."""
    rows = [_row("words translated a second",
                 (one.words / max(one.seconds, 1e-9) for one in found), ".0f")]
    speeds = [one.subject.speed or TrainingSpeed(None, None) for one in found]
    if any(speed.cpu for speed in speeds):
        rows.append(_row("training, target tokens/s of CPU time",
                         (speed.cpu for speed in speeds), ".0f"))
    if any(speed.fastest and not speed.cpu for speed in speeds):
        rows.append(_row("training, target tokens/s, fastest quarter",
                         (speed.fastest for speed in speeds), ".0f"))
    return rows


def _checkpoint(subject: Subject) -> str:
    """Which one, and after how many epochs."""
    return subject.checkpoint + (f" ({subject.epochs})" if subject.epochs is not None else "")


def _by_system(rows: Sequence[Row]) -> list[str]:
    """Rows as lines, with a line for each system; headings stand on as many as they need."""
    headings = [wrap(label.strip(), HEADING, break_on_hyphens=False) for label, *_ in rows]
    height = max(map(len, headings))
    columns = [[""] * (height - len(heading)) + heading + list(values)
               for heading, (_, *values) in zip(headings, rows, strict=True)]
    return _aligned(list(zip(*columns, strict=True)))


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
