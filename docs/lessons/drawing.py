"""What the lessons share: colours, sizes, heat maps with numbers in their cells, and one thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from threadpoolctl import threadpool_limits

BLUE, ORANGE, GREEN, RED, PURPLE, GREY = (
    "#0072b2", "#e69f00", "#009e73", "#d55e00", "#7a5195", "#888888",
)  # told apart without red-green vision (after Okabe and Ito)

threadpool_limits(1)  # the lessons' arrays are small: one core is faster than several
plt.rcParams.update({
    "figure.dpi": 110, "figure.constrained_layout.use": True, "font.size": 9,
    "axes.titlesize": 10, "axes.spines.top": False, "axes.spines.right": False,
    "axes.prop_cycle": plt.cycler(color=[BLUE, ORANGE, GREEN, RED, PURPLE, GREY]),
    "legend.frameon": False, "lines.linewidth": 1.6,
})


def heat_map(
    axes: Axes, values: Any, title: str = "", rows: Sequence[Any] = (), columns: Sequence[Any] = (),
    *, signed: bool = True, top: float | None = None, numbers: str = "{:.2f}",
) -> Any:
    """A matrix as coloured cells, blue below and red above zero; one colour where not signed.

    Arguments: rows and columns, names along the axes; top, the largest absolute value of the
    colours, that of the matrix if None; numbers, the format of what is written into the cells, ""
    for nothing. Returns the image, for a colour bar.
    """
    values = np.asarray(values)
    top = top or float(np.abs(values).max()) or 1.0
    image = axes.imshow(values, cmap="RdBu_r" if signed else "Blues", aspect="auto",
                        vmin=-top if signed else 0, vmax=top)
    axes.spines[:].set_visible(False)
    axes.set_title(title)
    axes.set_xticks(range(len(columns)), columns, parse_math=False)
    axes.set_yticks(range(len(rows)), rows, parse_math=False)
    axes.tick_params(length=0)
    for (i, j), value in np.ndenumerate(values):
        if numbers:
            dark = abs(value) > 0.6 * top
            written = numbers.format(value)
            if float(written) == 0:
                written = written.lstrip("-")  # no -0.00
            axes.text(j, i, written, ha="center", va="center", fontsize=7,
                      color="white" if dark else "black")
    return image
