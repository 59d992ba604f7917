"""Reports of several evaluations: a plain-text table, JSON, pictures."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from textwrap import wrap

from rich.cells import cell_len

from nmt.analysis.lengths import Group
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
from nmt.evaluation.side_by_side import side_by_side
from nmt.evaluation.speed import TrainingSpeed

JSON, OUTPUTS, BEAMS = "evaluation.json", "outputs.txt", "beams.json"
LENGTHS, CURVES = "bleu-by-length.png", "learning-curves.png"
TREE_LENGTHS = "f1-by-length.png"
RARITY, REPLACED, STAGES = "bleu-by-rarity.png", "bleu-replaced.png", "bleu-by-perplexity.png"
NONE = "-"
COLUMNS = 5  # the most systems that are columns of the table
HEADING = 13  # the most characters of a heading's line, unless a word is longer
Row = list[str]  # a label, and each system's value


def as_text(results: Sequence[Evaluation]) -> str:
    """A table of the results by system, and below it the scores' signatures.

    Up to COLUMNS systems are the columns of a table. More systems are rows, as in the papers'
    tables; there is then a table for each kind of result.
    """
    first = [["", *(result.subject.name for result in results)],
             ["checkpoint (epochs)", *(_checkpoint(result.subject) for result in results)]]
    kinds = [rows for rows in (_settings(results) + _scores(results), _brackets(results),
                               _without_unknown(results), _alignment(results),
                               _lengths(results), _rarity(results), _speed(results))
             if rows]
    if len(results) <= COLUMNS:
        lines = _aligned([row for rows in (first, *kinds) for row in rows])
    else:
        kinds[0] = first[1:] + kinds[0]
        lines = [line for rows in kinds for line in (*_by_system([first[0], *rows]), "")][:-1]
    signatures = dict.fromkeys(
        f"{name} {score.signature}" for result in results
        for name, score in (("BLEU", result.bleu), ("chrF", result.chrf), ("chrF3", result.chrf3)))
    return "\n".join([*lines, "", *signatures])


def _row(label: str, values: Iterable[float | None], form: str) -> Row:
    """The row of a result, whose values are formatted by `form`."""
    return [label, *(NONE if value is None else format(value, form) for value in values)]


def _settings(results: Sequence[Evaluation]) -> list[Row]:
    """Depth and vocabulary, if systems differ in them (Figure 3.7, Table 3.2)."""
    subjects = [result.subject for result in results]
    rows = [_row("layers", (subject.layers for subject in subjects), "d")]
    for side, label in enumerate(("source vocabulary", "target vocabulary")):
        rows.append(_row(label, (subject.vocabulary and subject.vocabulary[side]
                                 for subject in subjects), "d"))
    return [row for row in rows if len({*row[1:]} - {NONE}) > 1]


def _scores(results: Sequence[Evaluation]) -> list[Row]:
    """Perplexity, and scores of the translations with their unknown words."""
    rows = [_row("perplexity", (result.perplexity for result in results), ".2f"),
            *(_row(f"  of {name}", (result.classes.get(name) for result in results), ".2f")
              for name in ("words", "positions") if any(result.classes for result in results)),
            _row("BLEU", (result.bleu.score for result in results), ".2f"),
            _row("chrF", (result.chrf.score for result in results), ".2f"),
            _row("chrF3", (result.chrf3.score for result in results), ".2f"),
            _row("unknown words", (result.unknown for result in results), "d")]
    if any(result.character_perplexity is not None for result in results):
        rows.insert(1, _row("character perplexity",
                            (result.character_perplexity for result in results), ".2f"))
        rows += [_row("spelled words", (result.spelled for result in results), "d"),
                 _row("spelled words cut", (result.cut_words for result in results), "d")]
    return rows


def _without_unknown(results: Sequence[Evaluation]) -> list[Row]:
    """Scores after unknown words are replaced, and of sentences without unknown words."""
    rows = []
    for method in _replacements(results):
        for name, scores in (("BLEU", [result.replaced.get(method) for result in results]),
                             ("chrF3", [result.replaced_chrf3.get(method) for result in results])):
            rows.append(_row(f"{name}, unk replaced ({method})",
                             (score and score.score for score in scores), ".2f"))
    known = [result.known for result in results if result.known]
    if known:
        rows += [_row("BLEU, sentences without unknown words",
                      (result.bleu and result.bleu.score for result in known), ".2f"),
                 _row("  number of them", (result.sentences for result in known), "d")]
    return rows


def _replacements(results: Sequence[Evaluation]) -> list[str]:
    """The methods of replacement that the results have."""
    used = {method for result in results for method in result.replaced}
    return [method for method in REPLACEMENTS if method in used]


def _alignment(results: Sequence[Evaluation]) -> list[Row]:
    """Alignment error rates, if any system has one."""
    rows = []
    for convention in CONVENTIONS if any(result.alignment for result in results) else ():
        scores = [result.alignment.get(convention) for result in results]
        rows += [_row(f"AER ({convention})", (score and score.error_rate for score in scores),
                      ".3f"),
                 _row("  precision", (score and score.precision for score in scores), ".3f"),
                 _row("  recall", (score and score.recall for score in scores), ".3f")]
    return rows


def _brackets(results: Sequence[Evaluation]) -> list[Row]:
    """Bracketing scores of linear trees, if requested, and F1 by the length of the sentence."""
    scores = [result.brackets for result in results if result.brackets]
    if not scores:
        return []
    return [_row("F1", (result.f1 for result in scores), ".2f"),
            _row("  precision", (result.precision for result in scores), ".2f"),
            _row("  recall", (result.recall for result in scores), ".2f"),
            _row("exact trees", (result.exact for result in scores), "d"),
            _row("trees with a wrong number of words", (result.unfit for result in scores), "d"),
            *(_row(f"F1, {bucket.label} words (n={bucket.sentences})",
                   (result.brackets_by_length[i].score for result in results), ".2f")
              for i, bucket in enumerate(results[0].brackets_by_length))]


def _lengths(results: Sequence[Evaluation]) -> list[Row]:
    """BLEU by the length of the source."""
    return [_row(f"BLEU, {bucket.label} words (n={bucket.sentences})",
                 (result.lengths[i].score for result in results), ".2f")
            for i, bucket in enumerate(results[0].lengths)]


def _rarity(results: Sequence[Evaluation]) -> list[Row]:
    """BLEU by the rarity of the source's words, if requested, before and after replacement."""
    sets = [("BLEU, by rarity", [result.rarity for result in results])]
    sets += [(f"  replaced ({method})",
              [result.rarity_replaced.get(method, ()) for result in results])
             for method in _replacements(results)]
    return [_row(f"{label} {group.label}",
                 (groups[i].score if groups else None for groups in groups_by_system), ".2f")
            for label, groups_by_system in sets for i, group in enumerate(results[0].rarity)]


def _speed(results: Sequence[Evaluation]) -> list[Row]:
    """Speed of translation and of training."""
    rows = [_row("words translated a second",
                 (result.words / max(result.seconds, 1e-9) for result in results), ".0f")]
    speeds = [result.subject.speed or TrainingSpeed(None, None) for result in results]
    if any(speed.cpu for speed in speeds):
        rows.append(_row("training, target tokens/s of CPU time",
                         (speed.cpu for speed in speeds), ".0f"))
    if any(speed.fastest and not speed.cpu for speed in speeds):
        rows.append(_row("training, target tokens/s, fastest quarter",
                         (speed.fastest for speed in speeds), ".0f"))
    return rows


def _checkpoint(subject: Subject) -> str:
    """The checkpoint, and the number of epochs that it was trained for."""
    return subject.checkpoint + (f" ({subject.epochs})" if subject.epochs is not None else "")


def _by_system(rows: Sequence[Row]) -> list[str]:
    """The transposed table: a line for each system, below headings of one or several lines."""
    headings = [wrap(label.strip(), HEADING, break_on_hyphens=False) for label, *_ in rows]
    height = max(map(len, headings))
    columns = [[""] * (height - len(heading)) + heading + list(values)
               for heading, (_, *values) in zip(headings, rows, strict=True)]
    return _aligned(list(zip(*columns, strict=True)))


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines of text. The first column is aligned to the left, the others to the right."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [first + " " * (widths[0] - cell_len(first))]
        cells += [" " * (width - cell_len(cell)) + cell
                  for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return lines


def of_beams(results: Sequence[OfBeam]) -> str:
    """A table of systems and beam sizes, and below it the scores' signatures."""
    signatures = dict.fromkeys(f"BLEU {result.bleu.signature}" for result in results)
    return "\n".join([*_aligned(as_rows(results)), "", *signatures])


def write_beams(results: Sequence[OfBeam], directory: Path) -> str:
    """Write results by beam size as JSON into an existing directory; return the file's name."""
    text = json.dumps({"beams": [result.to_json() for result in results]}, indent=1,
                      ensure_ascii=False)
    write_lines(directory / BEAMS, text.split("\n"))
    return str(directory / BEAMS)


def write(
    results: Sequence[Evaluation], curves: Sequence[Curve], lines: Sequence[list[str]],
    directory: Path, ending: str = FORMATS[0],
) -> list[str]:
    """Write JSON, the translations side by side, and pictures into an existing directory.

    lines: the lines of the source and of the target. ending: the ending of the pictures' names.
    Returns a line on each file. Without matplotlib, a line says so instead of the pictures.
    """
    text = json.dumps({"systems": [result.to_json() for result in results]}, indent=1,
                      allow_nan=False, ensure_ascii=False)
    write_lines(directory / JSON, text.split("\n"))
    outputs = {result.subject.name: result.outputs for result in results}
    write_lines(directory / OUTPUTS, side_by_side(lines[0], lines[1], outputs))
    messages = [str(directory / JSON), str(directory / OUTPUTS)]
    if not can_draw():
        return [*messages, f"no pictures: {MISSING}"]
    for name, draw in _pictures(results, curves).items():
        path = (directory / name).with_suffix(f".{ending}")
        draw(path)
        messages.append(str(path))
    return messages


def _pictures(
    results: Sequence[Evaluation], curves: Sequence[Curve]
) -> dict[str, Callable[[Path], None]]:
    """File name -> drawing function, for the pictures that have results."""
    pictures: dict[str, Callable[[Path], None]] = {}
    if any(bucket.sentences for bucket in results[0].lengths):
        lengths = {result.subject.name: result.lengths for result in results}
        pictures[LENGTHS] = partial(draw_groups, lengths, "source words")
    if any(bucket.sentences for bucket in results[0].brackets_by_length):
        trees = {result.subject.name: result.brackets_by_length for result in results}
        pictures[TREE_LENGTHS] = partial(draw_groups, trees, "words", ylabel="F1")
    if results[0].rarity:
        pictures[RARITY] = partial(draw_groups, _by_rarity(results),
                                   "sentences, those of frequent words first")
    replaced = {result.subject.name: _before_after(result) for result in results if result.replaced}
    if replaced:
        pictures[REPLACED] = partial(draw_replacement, replaced)
    if curves:
        pictures[CURVES] = partial(draw_curves, curves)
    stages = [curve for curve in curves if curve.stages]
    if stages:
        pictures[STAGES] = partial(draw_stages, stages)
    return pictures


def _by_rarity(results: Sequence[Evaluation]) -> dict[str, Sequence[Group]]:
    """The groups of each system, and those after its unknown words are replaced by the first
    method."""
    systems: dict[str, Sequence[Group]] = {}
    for result in results:
        systems[result.subject.name] = result.rarity
        if result.rarity_replaced:
            replaced = next(iter(result.rarity_replaced.values()))
            systems[f"{result.subject.name}, replaced"] = replaced
    return systems


def _before_after(result: Evaluation) -> BeforeAfter:
    """The bars of a system."""
    values = [*result.classes.values()] or [result.perplexity]
    return BeforeAfter(" / ".join(f"{value:.2f}" for value in values), result.bleu.score,
                       next(iter(result.replaced.values())).score)
