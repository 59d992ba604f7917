"""Draws pictures of the records: panels of bars, points, stacks or lines, with declared axes.

matplotlib (extra `plot`) is imported when a picture is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np

from benchmarks.records import Value
from benchmarks.timing import KERNELS
from nmt.console.terminal import print
from nmt.evaluation.pictures import MISSING, save

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
HATCHES = ("", "///", "...", "xxx", "---", "|||", "++")  # they tell bars apart in grey, as marks do
MARKS = "os^Dv*P"                                       # with lines


class Panel(NamedTuple):
    """One pair of axes."""

    kind: str  # bars, points (bars without a zero), stack: of places; lines: of numbers
    series: Mapping[str, Mapping[Any, Value]]  # by name, the value at each place or number
    x: str  # what the axes show
    y: str = ""
    title: str = ""
    log: bool = False  # both axes of lines, the axis of values elsewhere
    line_at_1: bool = False
    numbers: bool = True  # at the ends of bars


class Chart(NamedTuple):
    """A figure."""

    title: str
    how: str  # to read it, in sentences
    panels: list[Panel]
    dtype: str = "float32"


def draw_record(path: Path, chart: Chart, record: Mapping[str, Any]) -> None:
    """Write a record's picture, in the format of its file extension, or say why there is none."""
    if find_spec("matplotlib") is None:
        print(f"no picture: {MISSING}; the numbers are written")
        return
    chart = chart._replace(panels=[panel for panel in chart.panels if panel.series])
    if not chart.panels:
        print("no picture: nothing was compared; the numbers are written")
        return
    import matplotlib
    from cycler import cycler

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with pyplot.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False,
                            "axes.prop_cycle": cycler(color=COLOURS), "hatch.linewidth": 0.4,
                            "svg.hashsalt": path.stem}):
        figure = figure_of(pyplot, chart, record["environment"])
        save(figure, path, dpi=130, bbox_inches="tight")
        pyplot.close(figure)
    print(f"drawn: {path.name}")


def figure_of(plt: Any, chart: Chart, environment: Mapping[str, Any]) -> Any:
    """A chart's panels side by side, with the same places on their vertical axes."""
    panels = chart.panels
    lines = panels[0].kind == "lines"
    places = list(dict.fromkeys(place for panel in panels for values in panel.series.values()
                                for place in values))
    bars = max(len(panel.series) if panel.kind == "bars" else 1 for panel in panels)
    height = 4.3 if lines else 2.2 + 0.22 * len(places) * max(bars, 1.5)
    width = 2 + 4.2 * len(panels) + 2 * (not lines)
    figure, axes = plt.subplots(1, len(panels), figsize=(width, height), sharey=not lines,
                                squeeze=False, layout="constrained")
    for ax, panel in zip(axes[0], panels, strict=True):
        DRAWN[panel.kind](ax, panel, places)
        ax.set(xlabel=panel.x, ylabel=panel.y, title=panel.title)
        if panel.line_at_1:
            (ax.axhline if lines else ax.axvline)(1, color="#888888", linewidth=0.8)
    if not lines:
        axes[0][0].set_yticks(range(len(places)), places)
        axes[0][0].set_ylim(len(places) - 0.4, -0.6)
    names: dict[str, Any] = {}
    for ax in axes[0]:
        names |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    if len(names) > 1:
        figure.legend(names.values(), names, loc="outside lower center", ncols=min(len(names), 4),
                      frameon=False, fontsize=8)
    gpu = environment.get("gpu")
    device = f", {gpu['name']} (matrix products in {gpu['gemm']})" if gpu else ""
    where = (f"{environment['cpu']}, {environment['cores']} cores, "
             f"{KERNELS[environment['kernels']]}, {chart.dtype}{device}")
    text = chart.title, where, f"How to read this: {chart.how}"
    figure.suptitle("\n".join(fill(line, int(13 * width)) for line in text), x=0.01, ha="left",
                    fontsize="medium", linespacing=1.4)
    return figure


def draw_bars(ax: Any, panel: Panel, places: list[Any]) -> None:
    """A group of bars, or of points, at each place, with quartiles."""
    step = 0.8 / len(panel.series)
    for order, (name, values) in enumerate(panel.series.items()):
        at = [places.index(place) - 0.4 + step * (order + 0.5) for place in values]
        value, low, high = triples(values.values())
        how: dict[str, Any] = {"color": COLOURS[order % 7], "label": name}
        if panel.kind == "points":
            ax.errorbar(value, at, xerr=[value - low, high - value], fmt=MARKS[order % 7], **how)
        else:
            ax.barh(at, value, 0.9 * step, hatch=HATCHES[order % 7], edgecolor="white",
                    linewidth=0, xerr=[value - low, high - value], error_kw={"linewidth": 0.8},
                    **how)
        for place, middle, end in zip(at, value, high, strict=True):
            if panel.numbers:
                ax.text(end, place, f"  {number(middle)}", va="center", fontsize=7)
    ax.margins(x=0.15)
    if panel.log:
        ax.set_xscale("log")
        plain_numbers(ax, ax.xaxis)


def draw_stack(ax: Any, panel: Panel, places: list[Any]) -> None:
    """One bar at each place, of a piece for each series."""
    from matplotlib import colormaps

    start, many = np.zeros(len(places)), len(panel.series) > len(COLOURS)
    colours = [colormaps["tab20"](n) for n in range(20)] if many else COLOURS
    for order, (name, values) in enumerate(panel.series.items()):
        pieces = np.array([values.get(place, 0.0) for place in places], dtype=float)
        ax.barh(range(len(places)), pieces, left=start, color=colours[order], label=name,
                hatch=HATCHES[order % 7], edgecolor="white", linewidth=0)
        start += pieces


def draw_lines(ax: Any, panel: Panel, _: list[Any]) -> None:
    """A line with a band of its quartiles for each series."""
    for order, (name, values) in enumerate(panel.series.items()):
        x, (value, low, high) = list(values), triples(values.values())
        colour = COLOURS[order % 7]
        ax.plot(x, value, f"{MARKS[order % 7]}{'-' if order < 7 else '--'}", color=colour,
                label=name, markersize=4)
        ax.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
    if panel.log:
        ticks = sorted({x for values in panel.series.values() for x in values})
        ax.set(xscale="log", yscale="log")
        ax.set_xticks(ticks, [f"{x:g}" for x in ticks])
        plain_numbers(ax, ax.yaxis)
    else:
        ax.set_ylim(0, None)


DRAWN: Mapping[str, Callable[[Any, Panel, list[Any]], None]] = {
    "bars": draw_bars, "points": draw_bars, "stack": draw_stack, "lines": draw_lines}


def triples(values: Any) -> np.ndarray:
    """Medians and quartiles (3, n); a plain number has no spread."""
    return np.array([value if isinstance(value, tuple) else (value,) * 3 for value in values],
                    dtype=float).reshape(-1, 3).T


def number(value: float) -> str:
    """Three digits, and no power of ten."""
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def plain_numbers(ax: Any, axis: Any) -> None:
    """A logarithmic axis marked at 1, 2 and 5 of each power of ten, without powers of ten."""
    from matplotlib.ticker import LogLocator

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:g}")
    ax.minorticks_off()
