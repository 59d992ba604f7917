"""Pictures of the records; matplotlib (extra `plot`) is imported when one is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from benchmarks.timing import KERNELS
from nmt.evaluation.pictures import save

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
HATCHES = ("", "///", "...", "xxx", "---", "|||", "++")  # they tell bars apart in grey, as marks do
MARKS = "os^Dv*P"                                       # with lines
GREY = "#888888"
LABELS = {"ours": "here", "pytorch": "PyTorch"}  # labels of a record's implementations


def draw(path: Path, make: Callable[[Any], Any]) -> None:
    """Write the figure of `make` to `path`, or print a line why there is no picture.

    Arguments: path of the picture, in the format that its name ends in; make takes
    `matplotlib.pyplot` and returns the figure.
    """
    if find_spec("matplotlib") is None:
        print("no picture: matplotlib is not installed (extra `plot`); the numbers are written")
        return
    import matplotlib
    from cycler import cycler

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with pyplot.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False,
                            "axes.prop_cycle": cycler(color=COLOURS), "hatch.linewidth": 0.4,
                            "svg.hashsalt": path.stem}):
        figure = make(pyplot)
        save(figure, path, dpi=130, bbox_inches="tight")
        pyplot.close(figure)
    print(f"drawn: {path.name}")


def number(value: float) -> str:
    """Three digits, and no power of ten."""
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def plain_numbers(axis: Any) -> None:
    """A logarithmic axis marked at 1, 2 and 5 of each power of ten, without powers of ten."""
    from matplotlib.ticker import LogLocator

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:g}")


def headline(found: Mapping[str, Any], dtype: str = "float32") -> str:
    """Processor, cores, BLAS kernels and GPU of a record's environment, for a figure's title."""
    gpu = found.get("gpu")
    device = f", {gpu['name']} (matrix products in {gpu['gemm']})" if gpu else ""
    return f"{found['cpu']}, {found['cores']} cores, {KERNELS[found['kernels']]}, {dtype}{device}"


def titled(
    figure: Any, what: str, found: Mapping[str, Any], how: str, dtype: str = "float32"
) -> None:
    """Add a title to a figure: what it shows, on which machine, and how to read it.

    Arguments: found, the record's environment; how, sentences.
    """
    width = int(13 * figure.get_figwidth())  # characters of this size
    lines = (what, headline(found, dtype), f"How to read this: {how}")
    figure.suptitle("\n".join(fill(line, width) for line in lines), x=0.01, ha="left",
                    fontsize="medium", linespacing=1.4)


def bars(
    plt: Any, rows: Mapping[str, Mapping[str, Mapping[str, float]]], log: bool = False
) -> Any:
    """Milliseconds with quartiles: a group of bars for each row, a bar for each of its
    implementations; points with `log`, since a bar's length says nothing where there is no zero.

    Arguments: rows, by name, of implementations, by name, of "median", "low" and "high" in seconds.
    """
    names = list(dict.fromkeys(name for own in rows.values() for name in own))
    step = 0.8 / len(names)
    figure, axes = plt.subplots(figsize=(8.5, 1.8 + 0.22 * len(rows) * len(names)),
                                layout="constrained")
    for order, name in enumerate(names):
        own = [(place, row[name]) for place, row in enumerate(rows.values()) if name in row]
        low, median, high = (np.array([1e3 * timing[key] for _, timing in own])
                             for key in ("low", "median", "high"))
        places = [place - 0.4 + step * (order + 0.5) for place, _ in own]
        spread, label = [median - low, high - median], LABELS.get(name, name)
        if log:
            axes.errorbar(median, places, xerr=spread, fmt=MARKS[order], color=COLOURS[order],
                          label=label)
        else:
            axes.barh(places, median, 0.9 * step, color=COLOURS[order], hatch=HATCHES[order],
                      edgecolor="white", linewidth=0, label=label, xerr=spread,
                      error_kw={"linewidth": 0.8})
        for place, value, end in zip(places, median, high, strict=True):
            axes.text(end, place, f" {number(value)}", va="center", fontsize=7)
    axes.set_yticks(range(len(rows)), rows)
    axes.set(xlabel=f"milliseconds ({'points' if log else 'bars'}: medians, lines: quartiles)",
             xscale="log" if log else "linear", ylim=(len(rows) - 0.5, -0.5))
    axes.margins(x=0.12)
    if log:
        plain_numbers(axes.xaxis)
    figure.legend(loc="outside lower center", ncols=len(names), frameon=False)
    return figure
