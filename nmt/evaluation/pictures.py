"""Pictures of evaluations, as PNG, SVG or PDF through matplotlib (the extra `plot`)."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from backend.errors import UserError, missing
from nmt.analysis.lengths import Group
from nmt.console.progress import busy
from nmt.evaluation.curves import Curve
from nmt.files import write_file

MISSING = missing("matplotlib", "plot")
MARKERS = "osD^vP*X"  # with line styles, they distinguish systems without colours
LEGIBLE = 3  # the most runs whose noisy training curves are drawn
NAMES = {"bleu": "BLEU"}  # labels of scores whose keys are no words
STYLES = ("-", "--", "-.", ":")
BAR = 0.4  # width of a bar; systems are 1 apart
FORMATS = ("png", "svg", "pdf")


class BeforeAfter(NamedTuple):
    """The BLEU of a system before and after unknown words are replaced."""

    perplexity: str
    before: float  # BLEU
    after: float


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def require_drawing(request: str) -> None:
    """Raise UserError, naming the request, unless matplotlib is installed."""
    if not can_draw():
        raise UserError(f"{request}: {MISSING}")


def draw_groups(
    systems: Mapping[str, Sequence[Group]], xlabel: str, path: Path, ylabel: str = "BLEU"
) -> None:
    """Draw BLEU of groups of sentences, a line for each system (Figures 3.5 and 4.6 of the thesis).

    systems: groups by the system's name; all systems have the same groups. xlabel: the property
    that sentences are grouped by. ylabel: the score. The number of sentences is below each group's
    name, and empty groups are left out. Raises UserError without matplotlib.
    """
    figure, axes = new_axes(path)
    groups = next(iter(systems.values()))
    used = [i for i, group in enumerate(groups) if group.sentences]
    for number, (name, groups_of_system) in enumerate(systems.items()):
        scores: list[Any] = [groups_of_system[i].score for i in used]  # None where others have one
        axes.plot(range(len(used)), scores, label=name, **style(number))
    axes.set_xticks(range(len(used)), [f"{groups[i].label}\n(n = {groups[i].sentences})"
                                       for i in used])
    axes.set(xlabel=xlabel, ylabel=ylabel, ylim=(0, None))
    finish(figure, axes, path, f"{ylabel} of groups of sentences")


def draw_replacement(systems: Mapping[str, BeforeAfter], path: Path) -> None:
    """Draw BLEU before and after unknown words are replaced, as two bars for each system, with its
    name and perplexity below (Figures 3.6 and 3.7 of the thesis).

    Raises UserError without matplotlib.
    """
    figure, axes = new_axes(path, max(6.4, 1.2 * len(systems)))
    for number, label in enumerate(("before", "after")):
        places = [i + (number - 0.5) * BAR for i in range(len(systems))]
        bars = axes.bar(places, [getattr(pair, label) for pair in systems.values()], BAR,
                        label=label, color=f"C{number}", alpha=(0.5, 1.0)[number])
        axes.bar_label(bars, fmt="%.1f", fontsize=8)
    axes.set_xticks(range(len(systems)), [f"{name}\n({pair.perplexity})"
                                          for name, pair in systems.items()], fontsize=8)
    for text in axes.get_xticklabels():
        text.set_parse_math(False)
    axes.set(xlabel="system (perplexity)", ylabel="BLEU")
    axes.margins(y=0.2)  # for the legend
    finish(figure, axes, path, "BLEU before and after unknown words are replaced", grid="y")


def draw_stages(curves: Sequence[Curve], path: Path) -> None:
    """Draw BLEU against perplexity of the dev set after each epoch, a line for each run (Figure 3.8
    of the thesis).

    Raises UserError without matplotlib.
    """
    figure, axes = new_axes(path)
    for number, curve in enumerate(curves):
        axes.plot(*zip(*curve.stages, strict=True), label=curve.name, **style(number))
    axes.set(xlabel="perplexity", ylabel="BLEU", ylim=(0, None))
    finish(figure, axes, path, "Dev set after each epoch: BLEU against perplexity")


def draw_curves(curves: Sequence[Curve], path: Path) -> None:
    """Draw cost against updates, a line for each run (Figure 4.5 of the thesis).

    Lines with markers are the dev set's, after each epoch. Thin lines, for up to three runs, are
    the training set's. The cost is ln perplexity. The axis ends a tenth above the dev set's highest
    cost. Raises UserError without matplotlib.
    """
    figure, axes = new_axes(path)
    thin = len(curves) <= LEGIBLE
    for number, curve in enumerate(curves):
        chosen = style(number)
        if curve.train_cost and thin:
            axes.plot(*zip(*curve.train_cost, strict=True), color=chosen["color"], linewidth=0.7,
                      alpha=0.5)
        axes.plot(*(zip(*curve.test_cost, strict=True) if curve.test_cost else ((), ())),
                  label=curve.name, **chosen)
    axes.set(xlabel="updates", ylabel="cost (ln perplexity)")
    highest = max((cost for curve in curves for _, cost in curve.test_cost), default=None)
    if highest is not None:  # the training set's cost in the first epoch is off scale
        axes.set_ylim(0, 1.1 * highest)
    finish(figure, axes, path, "Cost of the dev set (markers)" + " and the training set" * thin)


def draw_scores(curves: Sequence[Curve], score: str, path: Path) -> None:
    """Draw a score of the dev set, or else a number of the updates such as the gradient's norm
    (Nguyen, 2019, Figure 3.5), against updates, a line for each run that has it.

    Raises UserError without matplotlib, and if no run has the score.
    """
    known = list(dict.fromkeys(name for curve in curves for name in (*curve.scores,
                                                                     *curve.updates)))
    if score not in known:
        raise UserError(f"score: expected one of the runs' logs, "
                        f"{', '.join(known) or 'none'}, got {score!r}")
    of_dev_set = any(score in curve.scores for curve in curves)
    figure, axes = new_axes(path)
    for number, curve in enumerate(curves):
        points = (curve.scores if of_dev_set else curve.updates).get(score)
        if points:
            chosen = style(number) if of_dev_set else {**style(number), "marker": "",
                                                       "linewidth": 0.8}
            axes.plot(*zip(*points, strict=True), label=curve.name, **chosen)
    label = NAMES.get(score, score.replace("_", " "))
    axes.set(xlabel="updates", ylabel=f"{label}, dev set" if of_dev_set else label)
    finish(figure, axes, path,
           f"Dev set while training: {label}" if of_dev_set else f"While training: {label}")


def new_figure(path: Path, width: float = 6.4, height: float = 4.2) -> Any:
    """A figure of this size in inches. Raises UserError, with the path, without matplotlib."""
    require_drawing(str(path))
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def new_axes(path: Path, width: float = 6.4, height: float = 4.2) -> tuple[Any, Any]:
    """A figure of this size in inches, and its axes. Errors as `new_figure`."""
    figure = new_figure(path, width, height)
    return figure, figure.add_subplot()


def style(number: int) -> dict[str, Any]:
    """The colour, marker and line style of system `number`."""
    return {"color": f"C{number % 10}", "marker": MARKERS[number % len(MARKERS)],
            "linestyle": STYLES[number % len(STYLES)], "markersize": 5, "linewidth": 1.4}


def finish(figure: Any, axes: Any, path: Path, title: str, grid: str = "both") -> None:
    """Add title, grid along these axes and legend, and write the file."""
    figure.suptitle(title, fontsize=11)
    add_legend(axes, grid)
    save(figure, path)


def add_legend(axes: Any, grid: str = "both", below: Any = None) -> None:
    """Add a grid along these axes, and a legend. below: a figure at whose foot the legend goes,
    where it covers no lines; None: it goes into the axes."""
    axes.set_axisbelow(True)
    axes.grid(True, axis=grid, linewidth=0.4, alpha=0.6)
    legend = axes.legend() if below is None else below.legend(loc="outside lower center")
    for text in legend.get_texts():
        text.set_parse_math(False)  # dollar signs are no mathematics


def save(figure: Any, path: Path, dpi: int = 120, **settings: Any) -> None:
    """Write a figure to a file in the format of its suffix, by default PNG.

    settings: for matplotlib's `savefig`. Raises UserError if the file cannot be written.
    """
    ending, picture = path.suffix[1:].lower(), io.BytesIO()
    known = ending in figure.canvas.get_supported_filetypes()
    with busy(f"drawing {path.name}"):
        figure.savefig(picture, dpi=dpi, format=ending if known else "png", **settings)
    write_file(path, [picture.getvalue()])
