"""Where the GPU overtakes the CPU: an LSTM layer's forward and backward over batch and hidden size.

The same kernels, NumPy's time beside CuPy's, compared on a few steps of the smallest width first. A
small layer is bound by the launches of its kernels and is faster on the CPU, a large one by its
matrix products. Without a GPU the grid has the CPU's times only.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from benchmarks.implementations import check_equal, find_cupy, implementations_of
from benchmarks.kernel_list import recurrent
from benchmarks.options import make_parser, parse
from benchmarks.paired import Row, cupy_line, timed, torch_line
from benchmarks.pictures import number, titled
from benchmarks.record import publish_rows
from benchmarks.timing import describe, environment

STEPS = 20  # T
BATCHES, HIDDEN = (1, 4, 16, 64, 256), (64, 128, 256, 512, 1024)


def main(arguments: list[str]) -> None:
    """Time the grid, print it, write `results/crossover-<kernels>.json` and draw it."""
    parser = make_parser("crossover", __doc__, 1.5)
    options = parse(parser, arguments)
    batches, hidden = ((1, 2), (2, 4)) if options.quick else (BATCHES, HIDDEN)
    print(describe(environment()))
    print(f"{torch_line()}; {cupy_line()}")
    check_equal(implementations_of(recurrent.layer("lstm", 3, batches[-1], hidden[0])))
    rows: list[Row] = []
    for B, H in product(batches, hidden):
        found = time_cell(B, H, options.seconds)
        print(line(found), flush=True)
        rows += found
    gpu = find_cupy()[0] is not None
    publish_rows("crossover", vars(options), rows, picture, directory=options.output, gpu=gpu)


def time_cell(B: int, H: int, seconds: float) -> list[Row]:
    """NumPy's row and CuPy's, which without a GPU says that it was not run."""
    kernel = recurrent.layer("lstm", STEPS, B, H).own()
    implementations = implementations_of(kernel)
    timings = timed({name: one.timeable("both") for name, one in implementations.items()}, seconds)
    sizes, operations = dict(kernel.sizes), kernel.work["both"]
    rows: list[Row] = [{"sizes": sizes, "implementation": name, **timing._asdict(), "note": None,
                        "rate": operations / timing.median} for name, timing in timings.items()]
    if "CuPy" not in timings:
        note = f"not run: {find_cupy()[1]}"
        rows.append({"sizes": sizes, "implementation": "CuPy", "median": None, "note": note})
    return rows


def line(rows: list[Row]) -> str:
    """One cell of the grid."""
    numpy, cupy = rows
    text = (f"B={numpy['sizes']['B']:<4} H={numpy['sizes']['H']:<5} NumPy "
            f"{1e3 * numpy['median']:9.4g} ms ({1e3 * numpy['low']:.4g}-{1e3 * numpy['high']:.4g})"
            f" {numpy['rate'] / 1e9:7.1f} GFLOP/s")
    if cupy["median"] is None:
        return text + "   CuPy not run"
    return (text + f"   CuPy {1e3 * cupy['median']:9.4g} ms ({1e3 * cupy['low']:.4g}-"
            f"{1e3 * cupy['high']:.4g}), NumPy / CuPy {numpy['median'] / cupy['median']:.2f}")


def grid(rows: list[Row], name: str, key: str) -> tuple[list[int], list[int], np.ndarray]:
    """Batches, hidden sizes, one implementation's values (batches, hidden); nan where not run."""
    batches, hidden = (sorted({row["sizes"][letter] for row in rows}) for letter in "BH")
    values = np.full((len(batches), len(hidden)), np.nan)
    for row in rows:
        if row["implementation"] == name and row["median"] is not None:
            place = batches.index(row["sizes"]["B"]), hidden.index(row["sizes"]["H"])
            values[place] = row[key]
    return batches, hidden, values


def picture(plt: Any, record: dict[str, Any]) -> Any:
    """The CPU's times and rates; the ratio of its times to the GPU's, or a note that it was not
    run."""
    rows = record["rows"]
    figure, panels = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
    batches, hidden, cpu = grid(rows, "NumPy", "median")
    gpu = grid(rows, "CuPy", "median")[2]
    heat(plt, panels[0], batches, hidden, 1e3 * cpu, "NumPy, milliseconds", "viridis_r")
    heat(plt, panels[1], batches, hidden, grid(rows, "NumPy", "rate")[2] / 1e9, "NumPy, GFLOP/s",
         "viridis")
    if np.isnan(gpu).all():
        heat_axes(panels[2], batches, hidden, "NumPy's time / CuPy's")
        panels[2].text(0.5, 0.5, "CuPy: not run: no GPU", transform=panels[2].transAxes,
                       ha="center", va="center", color="#666666", fontsize=11)
    else:
        ratio = cpu / gpu
        heat(plt, panels[2], batches, hidden, ratio, "NumPy's time / CuPy's (line: 1)", "coolwarm")
        if ratio.min() < 1 < ratio.max():
            panels[2].contour(np.log(ratio), levels=[0.0], colors="black")
    titled(figure, f"An LSTM layer by batch and width, T={STEPS}, forward and backward",
           record["environment"],
           "left, milliseconds, fewer is better; middle, operations a second, more is better; "
           "right, how many times as fast the GPU is.")
    return figure


def heat_axes(axes: Any, batches: list[int], hidden: list[int], title: str) -> None:
    """The frame of one grid."""
    axes.set(title=title, xlabel="hidden size H", ylabel="batch B", xlim=(-0.5, len(hidden) - 0.5),
             ylim=(-0.5, len(batches) - 0.5))
    axes.set_xticks(range(len(hidden)), hidden)
    axes.set_yticks(range(len(batches)), batches)


def heat(
    plt: Any, axes: Any, batches: list[int], hidden: list[int], values: np.ndarray, title: str,
    colours: str,
) -> None:
    """One grid, coloured by the logarithm, with its numbers; a ratio's colours change at 1."""
    from matplotlib.colors import LogNorm

    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if colours == "coolwarm":
        high = max(high, 1 / low)
        low = 1 / high
    image = axes.imshow(values, origin="lower", aspect="auto", cmap=colours,
                        norm=LogNorm(low, high if high > low else 2 * low))
    for (row, column), value in np.ndenumerate(values):
        red, green, blue, _ = image.cmap(image.norm(value))
        dark = 0.3 * red + 0.59 * green + 0.11 * blue < 0.5
        axes.text(column, row, number(value), ha="center", va="center", fontsize=8,
                  color="white" if dark else "black")
    heat_axes(axes, batches, hidden, title)
