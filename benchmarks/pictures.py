"""Pictures of the records; matplotlib (extra `plot`) is imported when one is drawn."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
GREY = "#888888"


def draw(path: Path, make: Callable[[Any], Any]) -> None:
    """Let `make` draw and write it to `path`, or say in one line why there is no picture.

    Arguments: path of the PNG; make takes `matplotlib.pyplot` and returns the figure.
    """
    if find_spec("matplotlib") is None:
        print("no picture: matplotlib is not installed (extra `plot`); the numbers are written")
        return
    import matplotlib
    from cycler import cycler

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with pyplot.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False,
                            "axes.prop_cycle": cycler(color=COLOURS)}):
        figure = make(pyplot)
        figure.savefig(path, dpi=130, bbox_inches="tight")
        pyplot.close(figure)
    print(f"drawn: {path.name}")


def number(value: float) -> str:
    """Three digits, and no power of ten."""
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def headline(record_environment: dict[str, Any]) -> str:
    """Processor, cores and BLAS mode, for a figure's title."""
    found = record_environment
    return f"{found['cpu']}, {found['cores']} cores, mode {found['mode']}, float32"
