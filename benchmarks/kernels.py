"""Times each kernel against PyTorch, and against the machine's limit.

Forward, and forward and backward together, are timed in float32, interleaved in one process, on the
CPU or on a GPU. Kernels bound by matrix products are stated in floating-point operations per
second, beside a large float32 product. Kernels bound by memory are stated in bytes per second,
beside a large copy. Product and copy are timed in the same iterations. Before the timing, all
results and gradients of all implementations are compared.

`peers` compares an LSTM layer with PyTorch's nn.LSTM, a loop over nn.LSTMCell, eager and under
torch.compile, JAX's scan, and the plain NumPy LSTM of the course CS231n. `crossover` finds the
batch and width from which on the GPU is faster than the CPU. `scaling` measures the growth of time
with length, width, batch and vocabulary; each sweep doubles one size.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import chain, product
from typing import Any

from benchmarks import peer_lstm
from benchmarks.case import Case, Prepared
from benchmarks.devices import CPU, Device
from benchmarks.kernel import Kernel, our_passes
from benchmarks.kernel_list import all_kernels, lstm_layers, recurrent, words
from benchmarks.pictures import Chart, Panel
from benchmarks.records import Row, exponent, medians, middle, nested, ratios, sizes_of, timings
from benchmarks.runner import Benchmark, Record

ROOFLINE_GOAL = 0.88  # of NumPy's own GEMM, for the layer of ROOFLINE_SIZES, both passes
ROOFLINE_SIZES = {"T": 30, "B": 64, "H": 512}
BOTH = "LSTM layer, forward and backward"


def kernels_chart(record: Record) -> Chart:
    """Left: our time over each peer's; right: the share of the limit that ours reaches."""
    limits = {"FLOP": "of a matrix product's rate", "B": "of a copy's rate"}

    def place(row: Row, peer: str) -> str:
        return f"{row['case'].partition(', ')[0]} {sizes_of(row).replace('=', '')} / {peer}"

    def pass_of(row: Row) -> str:
        return row["case"].partition(", ")[2] if "forward" in row["case"] else "update, norm"

    beside = nested((pass_of(row), place(row, name), ratio)
                    for row in record["rows"] for name, ratio in ratios(row).items())
    shares = nested((limits[row["unit"]], place(row, next(iter(ratios(row)), "alone")), share(row))
                    for row in record["rows"] if pass_of(row) != "forward")
    return Chart("Each kernel beside other implementations, and beside what the machine can do",
                 "left, time here over the other's, left of 1 is faster here; right, the share of "
                 "the rate that a matrix product (GEMM) of the library reaches, or a copy of "
                 "memory where a kernel only moves numbers; 1 is the most.",
                 [Panel("points", beside, "time here / time there (left of 1: faster here)",
                        log=True, line_at_1=True, numbers=False),
                  Panel("points", {name: shares[name] for name in limits.values()
                                   if name in shares},
                        "rate here / the machine's, all passes", line_at_1=True)])


def has_share_goal(row: Row) -> bool:
    """Whether a row is the LSTM layer for which a share of NumPy's matrix product is the goal."""
    return (row["case"], row["sizes"]) == (BOTH, ROOFLINE_SIZES)


def share(row: Row) -> float:
    """Our rate over the machine's limit."""
    return float(row["amount"] / next(iter(medians(row).values())) / row["limit"])


# --- an LSTM layer beside others ------------------------------------------------------------------


def peer_cases(options: argparse.Namespace) -> Iterator[Case]:
    """Both passes of the layers with a goal."""
    peers = {"CS231n NumPy": peer_lstm.cs231n, "JAX scan": peer_lstm.jax_scan}
    compiled = {} if options.quick else {"torch.compile loop": recurrent.compiled_loop}
    for kernel in lstm_layers(options.quick):
        packages = dict.fromkeys((*kernel.theirs, *compiled), "torch") | {"JAX scan": "jax"}
        absent = {name: "not installed" for name, package in packages.items()
                  if find_spec(package) is None}
        installed = {name: make for name, make in peers.items() if name not in absent}
        yield from replace(kernel, others=installed, theirs={**kernel.theirs, **compiled}).cases(
            absent)


def peers_chart(record: Record) -> Chart:
    """A panel for each size: bars of milliseconds, forward beside forward and backward."""
    panels = nested((sizes_of(row, ", "), row["case"].partition(", ")[2], name, middle(timing))
                    for row, name, timing in timings(record))
    return Chart("One LSTM layer: this project's (NumPy) beside others",
                 "a panel for each size (T steps, batch B, width H); shorter bars are better.",
                 [Panel("bars", series, "milliseconds", title=size)
                  for size, series in panels.items()])


# --- where the GPU overtakes the CPU --------------------------------------------------------------


def crossover_cases(options: argparse.Namespace) -> Iterator[Case]:
    """An LSTM layer's forward and backward by batch and width, with NumPy and with CuPy."""
    for B, H in product(options.batches, options.hidden):
        kernel = replace(recurrent.layer("lstm", options.steps, B, H), theirs={})

        def prepare(device: Device, kernel: Kernel = kernel) -> Prepared:
            prepared = kernel.prepare("both", device)
            if device.name == "cpu":
                return prepared._replace(limit=None, absent={"CuPy": "not run: no GPU"})
            numpy = CPU.finished(our_passes(kernel, kernel.draw(), CPU).run["both"])
            return prepared._replace(limit=None, calls={"NumPy": numpy} | dict(prepared.calls))

        yield Case(BOTH, kernel.sizes, prepare, kernel.work["both"], "FLOP")


def crossover_chart(record: Record) -> Chart:
    """NumPy's times by width, a line for each batch; with a GPU the ratio to CuPy's."""
    rows = [(f"batch {row['sizes']['B']}", row["sizes"]["H"], row) for row in record["rows"]]
    times = nested((B, H, middle(row["seconds"]["NumPy"])) for B, H, row in rows)
    overtaken = nested((B, H, ratios(row)["CuPy"]) for B, H, row in rows if ratios(row))
    panels = [Panel("lines", times, "hidden size H", "NumPy, milliseconds", log=True)]
    if overtaken:
        panels.append(Panel("lines", overtaken, "hidden size H", "NumPy's time / CuPy's", log=True,
                            line_at_1=True))
    return Chart("An LSTM layer by batch and width, T=20, forward and backward",
                 "left, milliseconds, fewer is better; right, where a GPU was there, how many "
                 "times as fast it is: above 1 it has overtaken the CPU.", panels)


# --- growth ---------------------------------------------------------------------------------------


def sweep_case(
    name: str, letter: str, values: Sequence[int], make: Callable[[int], Kernel]
) -> Case:
    """A sweep of one size. The results for the smallest are compared with PyTorch."""
    def prepare(device: Device) -> Prepared:
        first = make(values[0]).prepare("both", device)
        calls = {str(value): device.finished(
            our_passes(make(value), make(value).draw(), device).run["both"]) for value in values}
        return Prepared(calls, first.differences, fields=lambda _: {
            "letter": letter, "implementation": device.ours,
            "operations": {str(value): make(value).work["both"] for value in values},
            "fitted": [str(value) for value in values[-max(3, (len(values) + 1) // 2):]]})

    sizes = make(values[0]).sizes
    return Case(name, {"growing": letter} | {key: n for key, n in sizes.items() if key != letter},
                prepare, 1.0)


def sweep_cases(options: argparse.Namespace) -> Iterator[Case]:
    """All sweeps; tiny with --quick."""
    small = 16 if options.quick else 1  # what sizes are divided by

    def doubling(first: int, number: int) -> list[int]:
        return [max(1, first // (4 if options.quick else 1)) * 2**k
                for k in range(4 if options.quick else number)]

    H, B = 256 // small, 32 // small
    layer = recurrent.layer
    yield sweep_case("LSTM layer", "T", doubling(8, 6), lambda T: layer("lstm", T, B, H))
    yield sweep_case("LSTM layer", "H", doubling(32 // small + 4 * options.quick, 6),
                     lambda H: layer("lstm", 10, B, H))
    yield sweep_case("LSTM layer", "B", doubling(8, 7), lambda B: layer("lstm", 10, B, H))
    yield sweep_case("prediction layer", "V", doubling(1000 // small, 7),
                     lambda V: words.prediction(256 // small, H, V))


def growth_lines(record: Record) -> list[str]:
    """The exponents of the times, and of the operations."""
    return [f"{row['case']}, time ~ {row['letter']}^{exponent(row, medians(row)):.2f}"
            + (f", operations ~ {row['letter']}^{exponent(row, row['operations']):.2f}"
               if row["operations"] else "") for row in record["rows"]]


def growth_chart(record: Record) -> Chart:
    """A panel for each size: medians and quartiles; exponents in the legend."""
    def title(row: Row) -> str:
        return (f"{row['case']}, {row['letter']}: exponent {exponent(row, medians(row)):.2f}, "
                f"operations {exponent(row, row['operations']):.2f}")

    panels = nested((row["letter"], title(row), float(size), middle(timing))
                    for row, size, timing in timings(record))
    return Chart("Time of forward and backward as one size grows", "the legend has the power of "
                 "the size that the time grows by, and the number of operations.",
                 [Panel("lines", series, letter, "milliseconds", log=True)
                  for letter, series in panels.items()])


GRID: dict[str, Any] = {"batches": [1, 4, 16, 64, 256], "hidden": [64, 128, 256, 512, 1024],
                        "steps": 20}
BENCHMARKS = {
    "kernels": Benchmark(lambda options: chain.from_iterable(
        kernel.cases() for kernel in all_kernels(options.quick)), seconds=1.5, gpu=True,
        chart=kernels_chart, summary=lambda record: [
            f"LSTM layer, {share(row):.0%} of the GEMM, goal {ROOFLINE_GOAL:.0%}"
            for row in record["rows"] if has_share_goal(row)]),
    "peers": Benchmark(peer_cases, seconds=9.0, chart=peers_chart),
    "crossover": Benchmark(crossover_cases, GRID, {"batches": [1, 2], "hidden": [2, 4], "steps": 3},
                           seconds=1.5, gpu=True, chart=crossover_chart),
    "scaling": Benchmark(sweep_cases, seconds=5.0, gpu=True, chart=growth_chart,
                         summary=growth_lines),
}
