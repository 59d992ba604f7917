"""The growth of time with sequence length, hidden size, batch, vocabulary, window, source length.

Each sweep doubles one size and leaves the others. The exponent p of time = a size^p is fitted to
the upper half of the sweep by least squares on logarithms; beside it is the exponent that the
same fit gives for the number of operations. Fixed costs of a call lower the fitted exponent, arrays
that no longer fit a cache raise it. The smallest size is compared with PyTorch first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from attention.scores import Variant
from benchmarks.implementations import Kernel, check_equal, find_cupy, implementations_of
from benchmarks.kernel_list import attention, models, recurrent, words
from benchmarks.options import make_parser, parse
from benchmarks.paired import Row, cupy_line, timed, torch_line
from benchmarks.pictures import COLOURS, MARKS, plain_numbers, titled
from benchmarks.record import publish_rows
from benchmarks.timing import describe, environment

LETTERS = {"T": "sequence length T", "H": "hidden size H", "B": "batch B", "V": "vocabulary V",
           "D": "window D", "S": "source length S"}


class Sweep(NamedTuple):
    """One size that grows."""

    name: str
    letter: str
    values: Sequence[int]
    make: Callable[[int], Kernel]


def sweeps(quick: bool) -> list[Sweep]:
    """All of them; quick ones are tiny."""
    small = 16 if quick else 1  # what sizes are divided by

    def doubling(first: int, number: int) -> list[int]:
        return [max(1, first // (4 if quick else 1)) * 2**k for k in range(4 if quick else number)]

    H, B = 256 // small, 32 // small
    step = attention.attention_step
    return [
        Sweep("LSTM layer", "T", doubling(8, 6), lambda T: recurrent.layer("lstm", T, B, H)),
        Sweep("LSTM layer", "H", doubling(32 // small + 4 * quick, 6),
              lambda H: recurrent.layer("lstm", 10, B, H)),
        Sweep("LSTM layer", "B", doubling(8, 7), lambda B: recurrent.layer("lstm", 10, B, H)),
        Sweep("prediction layer", "V", doubling(1000 // small, 7),
              lambda V: words.prediction(256 // small, H, V)),
        Sweep("translator, S = T", "T", doubling(8, 6),
              lambda T: models.translator(T, T, B, H // 2, 2000 // small)),
        Sweep("attention step, local-m, dot", "D", doubling(4, 7),
              lambda D: step(Variant("dot", "local-m", D), 1024 // small, B, H)),
        Sweep("attention step, local-m, D = 10", "S", doubling(32, 6),
              lambda S: step(Variant(window="local-m"), S, B, H)),
        Sweep("attention step, global", "S", doubling(32, 6),
              lambda S: step(Variant(), S, B, H)),
    ]


def main(arguments: list[str]) -> None:
    """Sweep, print, write `results/scaling-<kernels>.json` and draw the picture beside it."""
    parser = make_parser("scaling", __doc__, 5.0)
    options = parse(parser, arguments)
    print(describe(environment()))
    print(f"{torch_line()}; {cupy_line()}")
    rows: list[Row] = []
    for sweep in sweeps(options.quick):
        check_equal(implementations_of(sweep.make(sweep.values[0])))
        found = run_sweep(sweep, options.seconds)
        print_sweep(found)
        rows += found
    gpu = find_cupy()[0] is not None
    publish_rows("scaling", vars(options), rows, picture, directory=options.output, gpu=gpu)


def run_sweep(sweep: Sweep, seconds: float) -> list[Row]:
    """A row for each size and implementation of ours, with the exponents of its sweep."""
    kernels = {value: sweep.make(value).own() for value in sweep.values}
    rows: list[Row] = []
    for name in implementations_of(kernels[sweep.values[0]]):
        timings = timed({str(value): implementations_of(kernel)[name].timeable("both")
                         for value, kernel in kernels.items()}, seconds)
        operations = [kernel.work["both"] for kernel in kernels.values()]
        medians = [timings[str(value)].median for value in sweep.values]
        exponent, r2 = fit(sweep.values, medians)
        expected, _ = fit(sweep.values, operations)
        for value, kernel, count in zip(kernels, kernels.values(), operations, strict=True):
            rows.append({"sweep": sweep.name, "letter": sweep.letter, "value": value,
                         "implementation": name, "sizes": dict(kernel.sizes), "operations": count,
                         **timings[str(value)]._asdict(), "exponent": exponent, "r2": r2,
                         "expected": expected})
    return rows


def upper(values: Sequence[Any]) -> slice:
    """The part of a sweep that is fitted: its larger half, three sizes at least."""
    return slice(len(values) - max(3, (len(values) + 1) // 2), None)


def fit(sizes: Sequence[int], amounts: Sequence[float]) -> tuple[float, float]:
    """The exponent p of amount = a size^p in the upper part, and R^2 of the fit of logarithms.

    R^2 is the share of the logarithm's variance that the line explains; 1 if there is no variance.
    """
    x, y = (np.log(np.asarray(values[upper(values)], dtype=float)) for values in (sizes, amounts))
    slope, intercept = np.polyfit(x, y, 1)
    left, all_of_it = ((y - slope * x - intercept) ** 2).sum(), ((y - y.mean()) ** 2).sum()
    return round(float(slope), 6) + 0.0, float(1 - left / all_of_it) if all_of_it > 1e-12 else 1.0


def print_sweep(rows: list[Row]) -> None:
    """One line for the sizes, one for each implementation."""
    fixed = {name: n for name, n in rows[0]["sizes"].items() if n == rows[-1]["sizes"][name]}
    print(f"{rows[0]['sweep']}, {LETTERS[rows[0]['letter']]}; other sizes "
          + " ".join(f"{name}={n}" for name, n in fixed.items()))
    for name in dict.fromkeys(row["implementation"] for row in rows):
        own = [row for row in rows if row["implementation"] == name]
        points = "  ".join(f"{row['value']}: {1e3 * row['median']:.3g} "
                           f"({1e3 * row['low']:.3g}-{1e3 * row['high']:.3g})" for row in own)
        print(f"  {name}, ms  {points}\n  exponent {own[0]['exponent']:.2f} (R^2 "
              f"{own[0]['r2']:.3f}), of the operations {own[0]['expected']:.2f}", flush=True)


def picture(plt: Any, record: dict[str, Any]) -> Any:
    """A panel for each size: medians and quartiles, the fit, and the operations' slope."""
    rows = record["rows"]
    letters = list(dict.fromkeys(row["letter"] for row in rows))
    figure, panels = plt.subplots(2, 3, figsize=(12, 8), layout="constrained")
    figure.get_layout_engine().set(h_pad=0.42)  # inches, for the text above each panel
    for axes, letter in zip(panels.flat, letters, strict=True):
        own = [row for row in rows if row["letter"] == letter]
        keys = list(dict.fromkeys((row["sweep"], row["implementation"]) for row in own))
        for colour, mark, key in zip(COLOURS, MARKS, keys, strict=False):
            draw_sweep(axes, [row for row in own
                              if (row["sweep"], row["implementation"]) == key], colour, mark)
        values = sorted({row["value"] for row in own})
        axes.set(xscale="log", yscale="log", xlabel=LETTERS[letter], ylabel="milliseconds")
        axes.set_xticks(values, [f"{value:g}" for value in values])
        plain_numbers(axes.yaxis)
        axes.minorticks_off()
        axes.grid(color="#dddddd", linewidth=0.5)
        axes.legend(loc="lower left", bbox_to_anchor=(-0.05, 1), frameon=False,
                    fontsize=8).set_in_layout(False)
    titled(figure, "Time of forward and backward as one size grows", record["environment"],
           "points with quartiles; dashed, the power law through the upper ones; dotted, how the "
           "number of operations grows. Dashed below dotted: it scales better than its operations.")
    return figure


def draw_sweep(axes: Any, rows: list[Row], colour: str, mark: str) -> None:
    """Points with quartiles, and the two lines through the middle of the fitted part."""
    x, y = (np.array([row[key] for row in rows], dtype=float) for key in ("value", "median"))
    y *= 1e3
    low, high = (1e3 * np.array([row[key] for row in rows]) for key in ("low", "high"))
    first = rows[0]
    axes.errorbar(x, y, [y - low, high - y], fmt=mark, color=colour, markersize=4, label=(
        f"{first['sweep']}, {first['implementation']}\nexponent {first['exponent']:.2f} "
        f"($R^2$ {first['r2']:.3f}), operations {first['expected']:.2f}"))
    part = upper(rows)
    centre, height = np.exp(np.log(x[part]).mean()), np.exp(np.log(y[part]).mean())
    for exponent, style in ((first["exponent"], "--"), (first["expected"], ":")):
        axes.plot(x[part], height * (x[part] / centre) ** exponent, style, color=colour)
