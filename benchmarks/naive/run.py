"""Textbook LSTM code, then one structural idea after another, up to the product's kernel.

Forward and backward of one layer; every form does the same arithmetic and only its order differs.
All of them agree in float64 to rounding before they are timed in float32, interleaved in one
process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from benchmarks.implementations import distance
from benchmarks.naive.memory import KeptBuffers, in_place, product_kernel
from benchmarks.naive.structure import input_before_loop, weights_after_loop
from benchmarks.naive.textbook import Result, one_gate_at_a_time, one_product
from benchmarks.options import make_parser, parse
from benchmarks.paired import Row, timed
from benchmarks.pictures import COLOURS, GREY, number, titled
from benchmarks.record import publish_rows
from benchmarks.timing import describe, environment

Form = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], Result]
FORMS: Mapping[str, Form] = {
    "0 textbook: a product for each gate": one_gate_at_a_time,
    "1 one product for all gates": one_product,
    "2 input's product before the loop": input_before_loop,
    "3 weights' products after the loop": weights_after_loop,
    "4 in place over buffers": in_place,
    "5 one tanh for all gates (lstm.recurrent)": product_kernel,
    "6 buffers kept (lstm.recurrent)": KeptBuffers(),
}
# T, B, H: bound by NumPy's calls, by memory traffic, by the matrix products
SIZES = ((30, 8, 64), (30, 256, 128), (30, 64, 512))
TOLERANCE = 1e-12  # of an array's norm in float64: thousands of roundings, no mistake


def main(arguments: list[str]) -> None:
    """Compare, print, write `results/naive-<kernels>.json` and draw the picture beside it."""
    parser = make_parser("naive", __doc__)
    parser.set_defaults(seconds=15.0)
    options = parse(parser, arguments)
    print(describe(environment()))
    rows: list[Row] = []
    for sizes in ((3, 2, 4),) if options.quick else SIZES:
        worst = check_forms(*sizes)
        found = list(time_forms(*sizes, options.seconds, worst))
        print_forms(found)
        rows += found
    publish_rows("naive", vars(options), rows, picture, directory=options.output)


def draw_inputs(T: int, B: int, H: int, dtype: str) -> list[np.ndarray]:
    """x (T, B, H), W (4H, 2H), b (4H,), dh_out (T, B, H)."""
    rng = np.random.default_rng(1)
    shapes = (T, B, H), (4 * H, 2 * H), (4 * H,), (T, B, H)
    x, W, b, dh_out = (rng.normal(size=shape) for shape in shapes)
    return [array.astype(dtype) for array in (x, W / np.sqrt(2 * H), b, dh_out)]


def check_forms(T: int, B: int, H: int) -> float:
    """The largest difference of any form's result from form 0's, in float64, of its norm.

    Raises AssertionError naming the form and the array where that is more than rounding.
    """
    inputs, worst = draw_inputs(T, B, H, "float64"), 0.0
    trusted, *others = FORMS.items()
    expected = trusted[1](*inputs)
    for name, form in others:
        for array, got, b in zip(("h", "dx", "dW", "db"), form(*inputs), expected, strict=True):
            away = distance(got, b)
            assert away <= TOLERANCE, f"form {name}: {array} differs by {away:.1e} of its norm"
            worst = max(worst, away)
    return worst


def time_forms(T: int, B: int, H: int, seconds: float, worst: float) -> list[Row]:
    """A row for each form: its quartiles, how often it beats form 0 and the form before it."""
    inputs = draw_inputs(T, B, H, "float32")
    timings = timed({name: partial(form, *inputs) for name, form in FORMS.items()}, seconds)
    first = before = timings[next(iter(FORMS))].median
    rows = []
    for name, timing in timings.items():
        rows.append({"form": name, "sizes": {"T": T, "B": B, "H": H}, **timing._asdict(),
                     "times form 0": first / timing.median, "times the one before":
                     before / timing.median, "difference": worst})
        before = timing.median
    return rows


def print_forms(rows: list[Row]) -> None:
    """One size."""
    sizes = " ".join(f"{name}={n}" for name, n in rows[0]["sizes"].items())
    print(f"LSTM layer, forward+backward, {sizes}, float32 (equal in float64 to "
          f"{rows[0]['difference']:.0e})")
    for row in rows:
        spread = f"({1e3 * row['low']:.4g}-{1e3 * row['high']:.4g})"
        print(f"  {row['form']:38}{1e3 * row['median']:9.4g} ms {spread:18}"
              f"{row['times form 0']:6.2f} x form 0 {row['times the one before']:6.2f} x before",
              flush=True)


def picture(plt: Any, record: dict[str, Any]) -> Any:
    """A panel for each size: the time of each form, in red where it was no gain."""
    rows = record["rows"]
    sizes = list(dict.fromkeys(str(row["sizes"]) for row in rows))
    names = list(dict.fromkeys(row["form"] for row in rows))
    figure, panels = plt.subplots(
        1, len(sizes), figsize=(2.5 + 3 * len(sizes), 1.8 + 0.33 * len(names)), sharey=True,
        squeeze=False, layout="constrained")
    for axes, size in zip(panels[0], sizes, strict=True):
        own = [row for row in rows if str(row["sizes"]) == size]
        for place, row in enumerate(own):
            ms, gain = 1e3 * row["median"], row["times the one before"]
            axes.barh(place, ms, color=GREY if place == 0 else COLOURS[0 if gain > 1 else 1],
                      hatch="" if place == 0 or gain > 1 else "///", edgecolor="white")
            axes.plot([1e3 * row["low"], 1e3 * row["high"]], [place, place], color="black")
            axes.text(max(ms, 1e3 * row["high"]), place,
                      f"  {number(ms)} ms, {row['times form 0']:.1f}x", va="center", fontsize=8)
        axes.set(title=", ".join(f"{name}={n}" for name, n in own[0]["sizes"].items()),
                 xlabel="milliseconds", xlim=(0, 1.55e3 * max(row["high"] for row in own)))
        axes.set_yticks(range(len(names)), names)
    panels[0][0].invert_yaxis()
    titled(figure, "One LSTM layer, forward and backward: from textbook code to the kernel",
           record["environment"], "each row keeps the ideas of those above it; shorter is better, "
           "hatched where a row was no gain on the one above. On the right, how many times as fast "
           "as the first row.")
    return figure
