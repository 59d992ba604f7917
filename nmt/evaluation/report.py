"""Reports of several evaluations: a table of plain text, JSON, pictures."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from textwrap import wrap

from rich.cells import cell_len

from nmt.data.corpus import write_lines
from nmt.evaluation.beams import OfBeam, as_rows
from nmt.evaluation.curves import Curve
from nmt.evaluation.evaluate import CONVENTIONS, REPLACEMENTS, Evaluation, Subject
from nmt.evaluation.pictures import (
    FORMATS,
    MISSING,
    BeforeAfter,
    can_draw,
    draw_curves,
    draw_groups,
    draw_replacement,
    draw_stages,
)
from nmt.evaluation.rare import Group
from nmt.evaluation.side_by_side import side_by_side
from nmt.evaluation.speed import TrainingSpeed

JSON, OUTPUTS, BEAMS = "evaluation.json", "outputs.txt", "beams.json"
LENGTHS, CURVES = "bleu-by-length.png", "learning-curves.png"
TREE_LENGTHS = "f1-by-length.png"
RARITY, REPLACED, STAGES = "bleu-by-rarity.png", "bleu-replaced.png", "bleu-by-perplexity.png"
NONE = "-"
COLUMNS = 5  # most systems that are columns of the table
HEADING = 13  # characters of a heading's line, unless one word is longer
Row = list[str]  # a label and each system's value


def as_text(found: Sequence[Evaluation]) -> str:
    """A table of the results by system; below it the scores' signatures.

    Up to COLUMNS systems are columns and the results rows. More systems are rows, as in the papers'
    tables, with the results as columns, a table for each kind.
    """
    first = [["", *(one.subject.name for one in found)],
             ["checkpoint (epochs)", *(_checkpoint(one.subject) for one in found)]]
    kinds = [rows for rows in (_settings(found) + _scores(found), _brackets(found),
                               _without_unknown(found),
                               _alignment(found), _lengths(found), _rarity(found), _speed(found))
             if rows]
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
    """The row of one result, formatted by `form`."""
    return [label, *(NONE if value is None else format(value, form) for value in values)]


def _settings(found: Sequence[Evaluation]) -> list[Row]:
    """Depth and vocabulary, where systems differ in them (Figure 3.7, Table 3.2)."""
    subjects = [one.subject for one in found]
    rows = [_row("layers", (one.layers for one in subjects), "d")]
    for side, label in enumerate(("source vocabulary", "target vocabulary")):
        rows.append(_row(label, (one.vocabulary and one.vocabulary[side] for one in subjects), "d"))
    return [row for row in rows if len({*row[1:]} - {NONE}) > 1]


def _scores(found: Sequence[Evaluation]) -> list[Row]:
    """Perplexity and scores of the translations, unknown words among them."""
    rows = [_row("perplexity", (one.perplexity for one in found), ".2f"),
            *(_row(f"  of {name}", (one.classes.get(name) for one in found), ".2f")
              for name in ("words", "positions") if any(one.classes for one in found)),
            _row("BLEU", (one.bleu.score for one in found), ".2f"),
            _row("chrF", (one.chrf.score for one in found), ".2f"),
            _row("chrF3", (one.chrf3.score for one in found), ".2f"),
            _row("unknown words", (one.unknown for one in found), "d")]
    if any(one.character_perplexity is not None for one in found):
        rows.insert(1, _row("character perplexity", (one.character_perplexity for one in found),
                            ".2f"))
        rows += [_row("spelled words", (one.spelled for one in found), "d"),
                 _row("spelled words cut", (one.cut_words for one in found), "d")]
    return rows


def _without_unknown(found: Sequence[Evaluation]) -> list[Row]:
    """Scores after unknown words were replaced, and of sentences without any."""
    rows = []
    for how in _replacements(found):
        for name, scores in (("BLEU", [one.replaced.get(how) for one in found]),
                             ("chrF3", [one.replaced_chrf3.get(how) for one in found])):
            rows.append(_row(f"{name}, unk replaced ({how})",
                             (score and score.score for score in scores), ".2f"))
    known = [one.known for one in found if one.known]
    if known:
        rows += [_row("BLEU, sentences without unknown words",
                      (one.bleu and one.bleu.score for one in known), ".2f"),
                 _row("  number of them", (one.sentences for one in known), "d")]
    return rows


def _replacements(found: Sequence[Evaluation]) -> list[str]:
    """The methods of replacement that any system used."""
    return [how for how in REPLACEMENTS if any(how in one.replaced for one in found)]


def _alignment(found: Sequence[Evaluation]) -> list[Row]:
    """Alignment error rates, if any system has one."""
    rows = []
    for convention in CONVENTIONS if any(one.alignment for one in found) else ():
        scores = [one.alignment.get(convention) for one in found]
        rows += [_row(f"AER ({convention})", (one and one.error_rate for one in scores), ".3f"),
                 _row("  precision", (one and one.precision for one in scores), ".3f"),
                 _row("  recall", (one and one.recall for one in scores), ".3f")]
    return rows


def _brackets(found: Sequence[Evaluation]) -> list[Row]:
    """Bracketing scores of linear trees, if requested, and F1 by the length of the sentence."""
    scores = [one.brackets for one in found if one.brackets]
    if not scores:
        return []
    return [_row("F1", (one.f1 for one in scores), ".2f"),
            _row("  precision", (one.precision for one in scores), ".2f"),
            _row("  recall", (one.recall for one in scores), ".2f"),
            _row("exact trees", (one.exact for one in scores), "d"),
            _row("trees of another number of words", (one.unfit for one in scores), "d"),
            *(_row(f"F1, {bucket.label} words (n={bucket.sentences})",
                   (one.brackets_by_length[i].f1 for one in found), ".2f")
              for i, bucket in enumerate(found[0].brackets_by_length))]


def _lengths(found: Sequence[Evaluation]) -> list[Row]:
    """BLEU by the length of the source."""
    return [_row(f"BLEU, {bucket.label} words (n={bucket.sentences})",
                 (one.lengths[i].bleu for one in found), ".2f")
            for i, bucket in enumerate(found[0].lengths)]


def _rarity(found: Sequence[Evaluation]) -> list[Row]:
    """BLEU by the rarity of the source's words, if requested, before and after replacement."""
    sets = [("BLEU, by rarity", [one.rarity for one in found])]
    sets += [(f"  replaced ({how})", [one.rarity_replaced.get(how, ()) for one in found])
             for how in _replacements(found)]
    return [_row(f"{label} {group.label}", (own[i].bleu if own else None for own in groups), ".2f")
            for label, groups in sets for i, group in enumerate(found[0].rarity)]


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
    """The checkpoint, and after how many epochs it was written."""
    return subject.checkpoint + (f" ({subject.epochs})" if subject.epochs is not None else "")


def _by_system(rows: Sequence[Row]) -> list[str]:
    """The rows transposed: a line for each system, below headings of one or more lines."""
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


def of_beams(found: Sequence[OfBeam]) -> str:
    """A table of systems and beam sizes; below it the scores' signatures."""
    signatures = dict.fromkeys(f"BLEU {one.bleu.signature}" for one in found)
    return "\n".join([*_aligned(as_rows(found)), "", *signatures])


def write_beams(found: Sequence[OfBeam], directory: Path) -> str:
    """Write the same as JSON into a directory that is there; the file's name."""
    text = json.dumps({"beams": [one.to_json() for one in found]}, indent=1, ensure_ascii=False)
    write_lines(directory / BEAMS, text.split("\n"))
    return str(directory / BEAMS)


def write(
    found: Sequence[Evaluation], curves: Sequence[Curve], lines: tuple[list[str], list[str]],
    directory: Path, ending: str = FORMATS[0],
) -> list[str]:
    """Write JSON, the translations side by side and pictures into a directory that is there.

    lines: of the source and of the target. ending: of the pictures' names. Returns a line about
    each file; without matplotlib one that says so instead of the pictures.
    """
    text = json.dumps({"systems": [one.to_json() for one in found]}, indent=1, allow_nan=False,
                      ensure_ascii=False)
    write_lines(directory / JSON, text.split("\n"))
    outputs = {one.subject.name: one.outputs for one in found}
    write_lines(directory / OUTPUTS, side_by_side(*lines, outputs))
    said = [str(directory / JSON), str(directory / OUTPUTS)]
    if not can_draw():
        return [*said, f"no pictures: {MISSING}"]
    for name, draw in _pictures(found, curves).items():
        path = (directory / name).with_suffix(f".{ending}")
        draw(path)
        said.append(str(path))
    return said


def _pictures(
    found: Sequence[Evaluation], curves: Sequence[Curve]
) -> dict[str, Callable[[Path], None]]:
    """File name -> drawing function of each picture for which there are results."""
    pictures: dict[str, Callable[[Path], None]] = {}
    if any(bucket.sentences for bucket in found[0].lengths):
        lengths = {one.subject.name: one.lengths for one in found}
        pictures[LENGTHS] = partial(draw_groups, lengths, "source words")
    if any(bucket.sentences for bucket in found[0].brackets_by_length):
        trees = {one.subject.name: one.brackets_by_length for one in found}
        pictures[TREE_LENGTHS] = partial(draw_groups, trees, "words", ylabel="F1")
    if found[0].rarity:
        pictures[RARITY] = partial(draw_groups, _by_rarity(found),
                                   "sentences, those of frequent words first")
    replaced = {one.subject.name: _before_after(one) for one in found if one.replaced}
    if replaced:
        pictures[REPLACED] = partial(draw_replacement, replaced)
    if curves:
        pictures[CURVES] = partial(draw_curves, curves)
    stages = [curve for curve in curves if curve.stages]
    if stages:
        pictures[STAGES] = partial(draw_stages, stages)
    return pictures


def _by_rarity(found: Sequence[Evaluation]) -> dict[str, Sequence[Group]]:
    """Groups of each system, followed by those with unknown words replaced by the first method."""
    systems: dict[str, Sequence[Group]] = {}
    for one in found:
        systems[one.subject.name] = one.rarity
        if one.rarity_replaced:
            systems[f"{one.subject.name}, replaced"] = next(iter(one.rarity_replaced.values()))
    return systems


def _before_after(one: Evaluation) -> BeforeAfter:
    """The bars of one system."""
    values = [*one.classes.values()] or [one.perplexity]
    return BeforeAfter(" / ".join(f"{value:.2f}" for value in values), one.bleu.score,
                       next(iter(one.replaced.values())).score)
