"""Each kernel: ours on NumPy and CuPy against PyTorch on CPU and CUDA, and against the roofline.

Forward, and forward and backward together, in float32, interleaved in one process. Kernels bound by
matrix products are stated in floating-point operations a second beside one large float32 product,
kernels bound by memory in bytes a second beside one large copy, both timed in the same iterations.
All results and gradients of all implementations are compared before anything is timed.
"""

from __future__ import annotations

import argparse
from typing import Any

from backend.errors import UserError
from benchmarks.implementations import find_cupy
from benchmarks.kernel_list import ROOFLINE_GOAL, ROOFLINE_SIZES, all_kernels
from benchmarks.options import make_parser, parse
from benchmarks.paired import TITLES, Row, cupy_line, print_rows, run_kernel, torch_line
from benchmarks.pictures import COLOURS, GREY, HATCHES, number, titled
from benchmarks.record import publish_rows
from benchmarks.timing import describe, environment


def main(arguments: list[str]) -> None:
    """Compare, print, write `results/kernels-<kernels>.json` and draw the picture beside it."""
    parser = make_parser("kernels", __doc__, 1.5)
    parser.add_argument("--only", metavar="TEXT", help="kernels whose name contains it")
    options = parse(parser, arguments)
    print(describe(environment()))
    print(f"{torch_line()}; {cupy_line()}")
    rows: list[Row] = []
    for make in all_kernels(options.quick):
        kernel = make()
        if options.only is None or options.only.lower() in kernel.name.lower():
            found = run_kernel(kernel, options.seconds, options.quick)
            print_rows(found)
            rows += found
    if not rows:
        raise UserError(f"kernels: --only: no kernel's name contains {options.only!r}")
    print(roofline_summary(rows))
    finish(options, rows)


def roofline_summary(rows: list[Row]) -> str:
    """The fraction of NumPy's own matrix product that the LSTM layer of the goal reaches."""
    for row in rows:
        if (row["kernel"], row["sizes"], row["pass"], row["implementation"]) == (
                "LSTM layer", ROOFLINE_SIZES, "both", "NumPy"):
            return f"LSTM layer, {row['fraction']:.0%} of NumPy's GEMM, goal {ROOFLINE_GOAL:.0%}"
    return "LSTM layer of the roofline's goal: not run"


def finish(options: argparse.Namespace, rows: list[Row]) -> None:
    """Record and picture."""
    gpu = find_cupy()[0] is not None
    publish_rows("kernels", vars(options), rows, picture, directory=options.output, gpu=gpu)


TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10)  # of a ratio


def picture(plt: Any, record: dict[str, Any]) -> Any:
    """Left: NumPy's time over each peer's; right: the fraction of the roofline that NumPy
    reaches."""
    rows = [row for row in record["rows"] if row["median"] is not None]
    places = list(dict.fromkeys(label(row) for row in rows if row["implementation"] != "NumPy"))
    compared = {kernel_label(row) for row in rows if row["implementation"] != "NumPy"}
    places += [name for name in dict.fromkeys(map(kernel_label, rows)) if name not in compared]
    figure, panels = plt.subplots(1, 2, figsize=(11, 2.4 + 0.25 * len(places)), sharey=True,
                                  width_ratios=[3, 2], layout="constrained")
    draw_ratios(panels[0], [row for row in rows if row["implementation"] != "NumPy"], places)
    draw_fractions(panels[1], [row for row in rows if row["implementation"] == "NumPy"], places)
    for axes in panels:
        axes.set_ylim(len(places) - 0.4, -0.6)
        axes.grid(axis="x", color="#dddddd", linewidth=0.5)
        axes.axvline(1, color=GREY, linewidth=0.8)
        axes.set_axisbelow(True)
    panels[0].legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, fontsize=8)
    panels[1].legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=1, frameon=False, fontsize=8)
    titled(figure, "Each kernel beside other implementations, and beside what the machine can do",
           record["environment"],
           "left, time here over the other's, left of 1 is faster here; right, the share of the "
           "rate that a matrix product (GEMM) of the library reaches, or a copy of memory where a "
           "kernel only moves numbers; 1 is the most.")
    return figure


def draw_ratios(axes: Any, peers: list[Row], places: list[str]) -> None:
    """NumPy's time over each peer's, a mark for each pass, and the goals."""
    kinds = {"forward": "o", "both": "s", "other": "^"}
    for colour, (kind, mark) in zip(COLOURS, kinds.items(), strict=False):
        own = [row for row in peers if kind == (row["pass"] if row["pass"] in TITLES else "other")]
        axes.plot([row["ratio"] for row in own], [places.index(label(row)) for row in own], mark,
                  color=colour, label=TITLES.get(kind, "update, norm"))
    goals = [row for row in peers if row["goal"] is not None]
    axes.plot([row["goal"] for row in goals], [places.index(label(row)) for row in goals], "|",
              color="black", markersize=12, markeredgewidth=2, label="goal, forward+backward")
    axes.set(xscale="log", xlabel="time here / time there (left of 1: faster here)")
    shown = [row["ratio"] for row in peers]
    axes.set_xticks([n for n in TICKS if min(shown) / 2 <= n <= max(shown) * 2])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    axes.set_yticks(range(len(places)), places)


def draw_fractions(axes: Any, ours: list[Row], places: list[str]) -> None:
    """The rate of the longest pass of each kernel, of its roofline's."""
    longest = {kernel_label(row): row for row in ours if row["pass"] != "forward"}
    for unit, colour, hatch, roofline in (
            ("FLOP/s", COLOURS[1], HATCHES[0], "of a matrix product's rate"),
            ("B/s", COLOURS[4], HATCHES[1], "of a copy's rate")):
        for name, row in longest.items():
            if row["unit"] == unit:
                place = next(k for k, text in enumerate(places) if text.startswith(name))
                axes.barh(place, row["fraction"], color=colour, hatch=hatch, edgecolor="white")
                axes.text(row["fraction"], place, f" {number(row['rate'] / 1e9)} G{unit}",
                          va="center", fontsize=8)
        axes.barh([0], [0], color=colour, hatch=hatch, edgecolor="white", label=roofline)
    axes.set(xlabel="rate here / the machine's, all passes", xlim=(0, None))
    axes.margins(x=0.25)


def kernel_label(row: Row) -> str:
    """The kernel and its size, in short."""
    return f"{row['kernel']} " + " ".join(f"{name}{n}" for name, n in row["sizes"].items())


def label(row: Row) -> str:
    """The kernel, its size and the peer."""
    return f"{kernel_label(row)} / {row['implementation']}"
