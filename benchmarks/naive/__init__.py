"""Times textbook LSTM code, then one structural idea after another, up to the product's kernel.

All forms compute the forward and backward of a layer. They do the same arithmetic in another order.
They must agree in float64 up to rounding before they are timed in float32, interleaved in one
process.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from backend.workspace import Workspace
from benchmarks.case import Case, Prepared, furthest
from benchmarks.naive import forms
from benchmarks.pictures import Chart, Panel
from benchmarks.records import middle, ratios, sizes_of
from benchmarks.runner import Benchmark, Record

Form = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], forms.Result]
FORMS: Mapping[str, Form] = {
    "0 textbook: a product for each gate": forms.one_gate_at_a_time,
    "1 products of all gates and steps outside the loop": forms.products_outside_the_loop,
    "2 in place, one tanh for all gates (lstm.recurrent)": forms.product_kernel,
    "3 buffers kept (lstm.recurrent)": partial(forms.product_kernel, workspace=Workspace()),
}
# T, B, H: bound by NumPy's calls, by memory traffic, by the matrix products
SIZES = ((30, 8, 64), (30, 256, 128), (30, 64, 512))
TOLERANCE = 1e-12  # of an array's norm in float64: thousands of roundings, no mistake


def draw_inputs(T: int, B: int, H: int, dtype: str) -> list[np.ndarray]:
    """x (T, B, H), W (4H, 2H), b (4H,), dh_out (T, B, H)."""
    rng = np.random.default_rng(1)
    shapes = (T, B, H), (4 * H, 2 * H), (4 * H,), (T, B, H)
    x, W, b, dh_out = (rng.normal(size=shape) for shape in shapes)
    return [array.astype(dtype) for array in (x, W / np.sqrt(2 * H), b, dh_out)]


def check_forms(T: int, B: int, H: int) -> float:
    """The largest difference of a form's result from form 0's, in float64, relative to the norm.

    Raises AssertionError naming the form and the array if the difference is more than rounding.
    """
    inputs, largest = draw_inputs(T, B, H, "float64"), 0.0
    results = {name: dict(zip(("h", "dx", "dW", "db"), form(*inputs), strict=True))
             for name, form in FORMS.items()}
    trusted, *compared = results
    for name in compared:
        away, array = furthest(results[name], results[trusted])
        assert away <= TOLERANCE, f"form {name}: {array} differs by {away:.1e} of its norm"
        largest = max(largest, away)
    return largest


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """A case for each size, all forms in it."""
    for sizes in ((3, 2, 4),) if options.quick else SIZES:
        def prepare(_: Any, sizes: tuple[int, int, int] = sizes) -> Prepared:
            worst, inputs = check_forms(*sizes), draw_inputs(*sizes, "float32")
            return Prepared({name: partial(form, *inputs) for name, form in FORMS.items()},
                            {"forms": worst})

        yield Case("LSTM layer, forward and backward", dict(zip("TBH", sizes, strict=True)),
                   prepare)


def chart(record: Record) -> Chart:
    """A panel for each size: the time of each form."""
    panels = [Panel("bars", {"": {name: middle(timing) for name, timing in
                                  row["seconds"].items()}}, "milliseconds",
                    title=f"{sizes_of(row, ', ')}: {max(ratios(row).values()):.1f} x")
              for row in record["rows"]]
    return Chart("One LSTM layer, forward and backward: from textbook code to the kernel",
                 "each row keeps the ideas of those above it; shorter is better. Above a panel its "
                 "size, and how many times as fast the best row is as the first.", panels)


BENCHMARKS = {"naive": Benchmark(cases, seconds=15.0, chart=chart)}
