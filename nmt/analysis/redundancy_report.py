"""Files of the analyses of pruning: JSON, a table of tab-separated values, pictures."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from lstm.parameters import Weight
from nmt.analysis import redundancy_pictures as pictures
from nmt.analysis.redundancy import Part, Point, Share, Survivors, Trained
from nmt.data.corpus import write_lines
from nmt.evaluation.curves import Curve
from nmt.evaluation.pictures import FORMATS, MISSING, can_draw
from nmt.evaluation.scores import finite
from nmt.pruning.run import RETRAINED
from nmt.pruning.schemes import Masks

JSON, TSV = "redundancy.json", "redundancy.tsv"


class Findings(NamedTuple):
    """All results on the redundancy of a run."""

    about: dict[str, Any]  # run, checkpoint, evaluation set, as JSON values
    points: Sequence[Point]
    parts: Sequence[Part]
    survivors: Survivors
    trained: Sequence[Trained]
    curve: Curve | None  # the curve of the run itself


def write(findings: Findings, directory: Path) -> list[str]:
    """Write numbers and tables into a directory; return a line on each file."""
    text = json.dumps(as_mapping(findings), indent=1, ensure_ascii=False, allow_nan=False)
    write_lines(directory / JSON, text.split("\n"))
    write_lines(directory / TSV, table(findings))
    return [f"{directory / JSON}: all figures", f"{directory / TSV}: a line for each model"]


def as_mapping(findings: Findings) -> dict[str, Any]:
    """The findings as JSON values; a perplexity that is not finite is null."""
    survivors = findings.survivors
    return {
        **findings.about,
        "points": [{key: _plain(value) for key, value in point._asdict().items()}
                   for point in findings.points],
        "breakdown": [{key: _plain(value) for key, value in effect._asdict().items()}
                      for effect in findings.parts],
        "survivors": survivors._asdict() | {
            "classes": {name: share._asdict() for name, share in survivors.classes.items()},
            "gates": {layer: {gate: {key: share._asdict() for key, share in row.items()}
                              for gate, row in rows.items()}
                      for layer, rows in survivors.gates.items()},
            "words": {name: share._asdict() for name, share in survivors.words.items()}},
        "trained": [{key: _plain(value) for key, value in run._asdict().items() if key != "curve"}
                    for run in findings.trained],
    }


def _plain(value: Any) -> Any:
    """A value for JSON: numbers that are not finite become None."""
    return finite(value) if isinstance(value, float) else value


def table(findings: Findings) -> list[str]:
    """Lines of tab-separated values, one for each model."""
    rows = [["model", "scheme", "percent", "perplexity", "BLEU", "bytes", "train perplexity"]]
    rows += [["pruned", point.scheme, f"{point.percent:g}", f"{point.perplexity:.4f}",
              _score(point.bleu), str(point.bytes), ""] for point in findings.points]
    rows += [[run.how, run.scheme, f"{run.percent:g}", f"{run.perplexity:.4f}", _score(run.bleu),
              "", f"{run.train_perplexity:.4f}"] for run in findings.trained]
    return ["\t".join(row) for row in rows]


def _score(bleu: float | None) -> str:
    return "" if bleu is None else f"{bleu:.2f}"


def survivors_text(survivors: Survivors) -> str:
    """The percentages of weights left, as text: by class, by gate and input, and by word."""
    lines = [f"weights left with {survivors.percent:g} % pruned, {survivors.scheme}:"]
    lines += [f"  {name}: {_percent(share)}" for name, share in survivors.classes.items()]
    for layer, rows in survivors.gates.items():
        for gate, row in rows.items():
            cells = ", ".join(f"{key} {_percent(share)}" for key, share in row.items())
            lines.append(f"  {layer}, {gate}: {cells}")
    lines += [f"  {name}: words without a weight left: {share.size - share.kept} of {share.size}"
              for name, share in survivors.words.items()]
    return "\n".join(lines)


def _percent(share: Share) -> str:
    return f"{100 * share.kept / share.size:.1f} %"


def draw(
    findings: Findings, weights: Mapping[str, Weight], masks: Masks, directory: Path,
    ending: str = FORMATS[0],
) -> list[str]:
    """Draw all findings into a directory; return a line on each picture, or one that matplotlib is
    missing.

    masks: the masks of `findings.survivors`. ending: the ending of the pictures' names.
    """
    if not can_draw():
        return [f"no pictures: {MISSING}"]
    lines = []
    for name, caption, picture in _pictures(findings):
        path = (directory / name).with_suffix(f".{ending}")
        picture(path)
        lines.append(f"{path}: {caption}")
    for weight, mask in masks.items():
        path = directory / f"weights-{weight}.{ending}"
        pictures.draw_mask(weight, weights[weight], mask, path)
        lines.append(f"{path}: Figure 6.11, black is pruned")
    return lines


def _pictures(findings: Findings) -> Iterator[tuple[str, str, Callable[[Path], None]]]:
    """File name, caption and drawing function of each picture that has findings."""
    yield "schemes.png", "Figure 6.6", partial(pictures.draw_schemes, findings.points)
    yield "survivors.png", "section 6.2.3", partial(pictures.draw_survivors, findings.survivors)
    if findings.parts:
        yield "classes.png", "Figure 6.7", partial(pictures.draw_classes, findings.parts)
        yield "largest-deleted.png", "Figure 6.8", partial(pictures.draw_largest, findings.parts)
    if findings.trained:
        yield ("retraining.png", "Figure 6.9",
               partial(pictures.draw_retraining, findings.points, findings.trained))
    if findings.curve is not None and any(run.how == RETRAINED for run in findings.trained):
        yield ("retraining-curves.png", "Figure 6.10",
               partial(pictures.draw_retraining_curves, findings.curve, findings.trained))
