"""Paired timing of a kernel's implementations, beside the roofline; rows of numbers and lines."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.implementations import (
    Differences,
    Implementation,
    Kernel,
    check_equal,
    find_cupy,
    find_torch,
    implementations_of,
)
from benchmarks.roofline import Roofline, make_roofline
from benchmarks.timing import Timing, interleave, rest

Row = dict[str, Any]
ITERATIONS = 5, 50  # at least, at most
TITLES = {"forward": "forward", "both": "forward+backward"}


def timed(
    implementations: Mapping[str, Callable[[], Any]], seconds: float, least: int = ITERATIONS[0]
) -> dict[str, Timing]:
    """`interleave` for about `seconds`, with at least `least` iterations; a first one warms up and
    estimates the time of one."""
    most = ITERATIONS[1]
    first = interleave(implementations, 1, 0)
    one = sum(timing.median + rest(timing.median) for timing in first.values())
    return interleave(implementations, max(least, min(most, int(seconds / one))), 0)


def run_kernel(
    kernel: Kernel, seconds: float, quick: bool, *, doubted: Collection[str] = (),
    absent: Mapping[str, str] | None = None,
) -> list[Row]:
    """Compare all implementations' results, then time every pass of them: a row for each.

    Arguments: seconds, about how long a pass is timed; quick, whether the rooflines may be tiny;
    doubted, as `check_equal`; absent, missing implementations with the reason. A row has kernel,
    sizes, pass, implementation, the quartiles of the time in seconds (None, with the reason in
    `note`), rate in operations or bytes a second, roofline, fraction of it, NumPy's time / the
    implementation's as `ratio`, the goal of that ratio, and the difference found.
    """
    absent = dict(absent or {})
    cupy, reason = find_cupy()
    if cupy is None:
        absent["CuPy"] = f"not run: {reason}"
    implementations = implementations_of(kernel)
    differences = check_equal(implementations, doubted, kernel.tolerance)
    rooflines = {False: make_roofline(kernel.unit, np, lambda: None, gpu=False, quick=quick)}
    if cupy is not None:
        wait = cupy.cuda.Device().synchronize
        rooflines[True] = make_roofline(kernel.unit, cupy, wait, gpu=True, quick=quick)
    rows: list[Row] = []
    for pass_ in kernel.work:
        able = {name: one for name, one in implementations.items()
                if pass_ in one.passes.run and equal(kernel, differences, name, pass_)}
        rows += time_pass(kernel, pass_, able, rooflines, seconds)
        for name in implementations.keys() - able.keys():
            rows.append(row_without(kernel, pass_, name, why_not(differences, name, pass_)))
        rows += [row_without(kernel, pass_, name, note) for name, note in absent.items()]
    for row in rows:
        found = differences.get((row["implementation"], row["pass"]))
        row["difference"] = found.size if found else None
    return rows


def equal(kernel: Kernel, differences: Differences, name: str, pass_: str) -> bool:
    """Whether an implementation's pass was found to agree; the first agrees with itself."""
    found = differences.get((name, pass_))
    return found is None or found.size <= kernel.tolerance


def why_not(differences: Differences, name: str, pass_: str) -> str:
    """Why an implementation's pass is not timed."""
    found = differences.get((name, pass_))
    if found is None:
        return "does not have it"
    return f"wrong, not timed: {found.name} differs by {found.size:.2g} of its norm"


def time_pass(
    kernel: Kernel, pass_: str, implementations: Mapping[str, Implementation],
    rooflines: Mapping[bool, Roofline], seconds: float,
) -> Iterator[Row]:
    """One pass of all implementations and the rooflines of their devices, interleaved."""
    calls = {name: one.timeable(pass_) for name, one in implementations.items()}
    limits = {f"roofline {gpu}": roofline.run for gpu, roofline in rooflines.items()}
    timings = timed(calls | limits, seconds)
    ours = timings["NumPy"].median
    for name, one in implementations.items():
        timing, roofline = timings[name], rooflines.get(one.gpu)
        rate = kernel.work[pass_] / timing.median
        best = (None if roofline is None
                else roofline.work / timings[f"roofline {one.gpu}"].median)
        yield row_without(kernel, pass_, name, None) | timing._asdict() | {
            "rate": rate, "roofline": best, "fraction": None if best is None else rate / best,
            "ratio": ours / timing.median, "goal": kernel.goals.get((name, pass_)),
        }


def row_without(kernel: Kernel, pass_: str, name: str, note: str | None) -> Row:
    """A row without a time, and the reason in `note`."""
    return {"kernel": kernel.name, "sizes": dict(kernel.sizes), "pass": pass_,
            "implementation": name, "median": None, "unit": f"{kernel.unit}/s", "note": note}


def cupy_line() -> str:
    """The line on whether CuPy is timed."""
    cupy, reason = find_cupy()
    return f"CuPy: not run: {reason}" if cupy is None else f"CuPy {cupy.__version__}"


def torch_line() -> str:
    """The line on whether PyTorch is installed."""
    torch = find_torch()
    if torch is None:
        return "PyTorch: not installed (extra `oracle`), ours is not compared"
    return f"PyTorch {torch.__version__}, CUDA: {torch.version.cuda or 'none'}"


# --- for the terminal -----------------------------------------------------------------------------


def title(row: Row) -> str:
    """The kernel and its size."""
    return f"{row['kernel']}  " + " ".join(f"{name}={n}" for name, n in row["sizes"].items())


def print_rows(rows: list[Row]) -> None:
    """One kernel's rows: milliseconds, rate, fraction of the roofline, NumPy's time / theirs."""
    worst = max((row["difference"] for row in rows
                 if row["difference"] is not None and row["median"] is not None), default=None)
    print(title(rows[0]) + ("" if worst is None else f"   (equal to {worst:.0e})"))
    for row in rows:
        if row["implementation"] == "CuPy" and row["median"] is None:
            continue  # already in `cupy_line`
        title_of_pass = TITLES.get(row["pass"], row["pass"])
        print(f"  {title_of_pass:17}{row['implementation']:22}{line(row)}", flush=True)


def line(row: Row) -> str:
    """The line of a measurement, or of the reason why there is none."""
    if row["median"] is None:
        return str(row["note"])
    digits = 3 if row["median"] < 0.1 else 1
    ms = [f"{1e3 * row[key]:.{digits}f}" for key in ("median", "low", "high")]
    text = f"{ms[0]:>8} ms ({ms[1]}-{ms[2]})".ljust(30) + f"{row['rate'] / 1e9:7.1f} G{row['unit']}"
    text += "" if row["fraction"] is None else f"{row['fraction']:6.0%} of roofline"
    if row["implementation"] != "NumPy":
        text += f"   NumPy / it {row['ratio']:.2f}"
    return text + ("" if row["goal"] is None else f", goal {row['goal']}")
