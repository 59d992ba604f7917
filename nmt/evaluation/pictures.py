"""Pictures of evaluations, as PNG through matplotlib (the extra `plot`)."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from backend.errors import UserError
from nmt.evaluation.curves import Curve
from nmt.evaluation.lengths import Bucket

MISSING = "matplotlib is not installed (pip install matplotlib, or this package's extra 'plot')"
MARKERS = "osD^vP*X"  # with the lines' styles they tell systems apart without colours
LEGIBLE = 3  # runs whose restless training curves can still be told apart
STYLES = ("-", "--", "-.", ":")


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def require_drawing(wanted: str) -> None:
    """Raise UserError, naming what was asked for, unless matplotlib is installed."""
    if not can_draw():
        raise UserError(f"{wanted}: {MISSING}")


def draw_lengths(systems: Mapping[str, Sequence[Bucket]], path: Path) -> None:
    """BLEU against the length of the source, a line for each system (Figure 4.6 of the thesis).

    systems: buckets by the system's name, the same buckets for all. The number of sentences stands
    below each bucket's name; a bucket without a sentence is left out.
    Raises UserError without matplotlib.
    """
    require_drawing(str(path))
    from matplotlib.figure import Figure

    buckets = next(iter(systems.values()))
    used = [i for i, bucket in enumerate(buckets) if bucket.sentences]
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for number, (name, own) in enumerate(systems.items()):
        values: list[Any] = [own[i].bleu for i in used]  # None where another system has none
        axes.plot(range(len(used)), values, label=name, **style(number))
    axes.set_xticks(range(len(used)), [f"{buckets[i].label}\n(n = {buckets[i].sentences})"
                                       for i in used])
    axes.set(xlabel="source words", ylabel="BLEU", ylim=(0, None))
    finish(figure, axes, path)


def draw_curves(curves: Sequence[Curve], path: Path) -> None:
    """Cost against updates, a line for each run (Figure 4.5 of the thesis).

    Lines with markers are the dev set's, after each epoch; thin ones, of up to three runs, the
    training set's. The cost is ln perplexity; the axis ends a tenth above the dev set's highest.
    Raises UserError without matplotlib.
    """
    require_drawing(str(path))
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for number, curve in enumerate(curves):
        chosen = style(number)
        if curve.train_cost and len(curves) <= LEGIBLE:
            axes.plot(*zip(*curve.train_cost, strict=True), color=chosen["color"], linewidth=0.7,
                      alpha=0.5)
        axes.plot(*(zip(*curve.test_cost, strict=True) if curve.test_cost else ((), ())),
                  label=curve.name, **chosen)
    axes.set(xlabel="updates", ylabel="cost (ln perplexity)")
    highest = max((cost for curve in curves for _, cost in curve.test_cost), default=None)
    if highest is not None:  # what the training set costs before the first epoch ends is off scale
        axes.set_ylim(0, 1.1 * highest)
    finish(figure, axes, path)


def style(number: int) -> dict[str, Any]:
    """Colour, marker and line of the system with this number."""
    return {"color": f"C{number % 10}", "marker": MARKERS[number % len(MARKERS)],
            "linestyle": STYLES[number % len(STYLES)], "markersize": 5, "linewidth": 1.4}


def finish(figure: Any, axes: Any, path: Path) -> None:
    """Grid, legend, file."""
    axes.grid(True, linewidth=0.4, alpha=0.6)
    for text in axes.legend().get_texts():
        text.set_parse_math(False)  # a dollar sign in a name is one
    save(figure, path)


def save(figure: Any, path: Path, dpi: int = 120) -> None:
    """Write the file."""
    try:
        figure.savefig(path, dpi=dpi)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from error
