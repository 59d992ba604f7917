"""Runs the sides of a kernel against each other and against the roof; rows of numbers and lines."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.roofs import Roof, make_roof
from benchmarks.sides import (
    Differences,
    Kernel,
    Side,
    check_equal,
    find_cupy,
    find_torch,
    sides_of,
)
from benchmarks.timing import Timing, interleave, rest

Row = dict[str, Any]
ROUNDS = 5, 50  # at least, at most
TITLES = {"forward": "forward", "both": "forward+backward"}


def timed(rivals: Mapping[str, Callable[[], Any]], seconds: float) -> dict[str, Timing]:
    """`interleave` for about that long, after a round that warms up and tells how long it takes."""
    least, most = ROUNDS
    first = interleave(rivals, 1, 0)
    a_round = sum(timing.median + rest(timing.median) for timing in first.values())
    return interleave(rivals, max(least, min(most, int(seconds / a_round))), 0)


def run_kernel(
    kernel: Kernel, seconds: float, quick: bool, *, doubted: Collection[str] = (),
    absent: Mapping[str, str] | None = None,
) -> list[Row]:
    """Compare all sides' results, then time every pass of them: a row for each.

    Arguments: seconds, about how long a pass is timed; quick, whether the roofs may be tiny;
    doubted, as `check_equal`; absent, sides that are not here, with the reason. A row holds kernel,
    sizes, pass, side, the quartiles of the time in seconds (None where `note` says why), rate in
    operations or bytes a second, roof, fraction of it, NumPy's time / the side's as `ratio`, the
    goal of that ratio, and the difference found.
    """
    absent = dict(absent or {})
    cupy, reason = find_cupy()
    if cupy is None:
        absent["CuPy"] = f"not run: {reason}"
    sides = sides_of(kernel)
    differences = check_equal(sides, doubted, kernel.tolerance)
    roofs = {False: make_roof(kernel.unit, np, lambda: None, gpu=False, quick=quick)}
    if cupy is not None:
        wait = cupy.cuda.Device().synchronize
        roofs[True] = make_roof(kernel.unit, cupy, wait, gpu=True, quick=quick)
    rows: list[Row] = []
    for pass_ in kernel.work:
        able = {name: side for name, side in sides.items()
                if pass_ in side.passes.run and equal(kernel, differences, name, pass_)}
        rows += time_pass(kernel, pass_, able, roofs, seconds)
        for name in sides.keys() - able.keys():
            rows.append(row_without(kernel, pass_, name, why_not(differences, name, pass_)))
        rows += [row_without(kernel, pass_, name, note) for name, note in absent.items()]
    for row in rows:
        found = differences.get((row["side"], row["pass"]))
        row["difference"] = found.size if found else None
    return rows


def equal(kernel: Kernel, differences: Differences, name: str, pass_: str) -> bool:
    """Whether a side's pass was found to agree; the first side agrees with itself."""
    found = differences.get((name, pass_))
    return found is None or found.size <= kernel.tolerance


def why_not(differences: Differences, name: str, pass_: str) -> str:
    """Why a side's pass is not timed."""
    found = differences.get((name, pass_))
    if found is None:
        return "does not have it"
    return f"wrong, not timed: {found.name} differs by {found.size:.2g} of its norm"


def time_pass(
    kernel: Kernel, pass_: str, sides: Mapping[str, Side], roofs: Mapping[bool, Roof],
    seconds: float,
) -> Iterator[Row]:
    """One pass of all sides and the roofs of their devices, interleaved."""
    rivals = {name: side.timeable(pass_) for name, side in sides.items()}
    timings = timed(rivals | {f"roof {gpu}": roof.run for gpu, roof in roofs.items()}, seconds)
    ours = timings["NumPy"].median
    for name, side in sides.items():
        timing, roof = timings[name], roofs.get(side.gpu)
        rate = kernel.work[pass_] / timing.median
        best = None if roof is None else roof.work / timings[f"roof {side.gpu}"].median
        yield row_without(kernel, pass_, name, None) | timing._asdict() | {
            "rate": rate, "roof": best, "fraction": None if best is None else rate / best,
            "ratio": ours / timing.median, "goal": kernel.goals.get((name, pass_)),
        }


def row_without(kernel: Kernel, pass_: str, side: str, note: str | None) -> Row:
    """A row that says what it would be of, and why there is no time."""
    return {"kernel": kernel.name, "sizes": dict(kernel.sizes), "pass": pass_, "side": side,
            "median": None, "unit": f"{kernel.unit}/s", "note": note}


def cupy_line() -> str:
    """Whether CuPy's column is there, in words."""
    cupy, reason = find_cupy()
    return f"CuPy: not run: {reason}" if cupy is None else f"CuPy {cupy.__version__}"


def torch_line() -> str:
    """Whether PyTorch is there to compare with, in words."""
    torch = find_torch()
    if torch is None:
        return "PyTorch: not installed (extra `oracle`), ours compared with nobody's"
    return f"PyTorch {torch.__version__}, CUDA: {torch.version.cuda or 'none'}"


# --- for the terminal -----------------------------------------------------------------------------


def title(row: Row) -> str:
    """The kernel and its size."""
    return f"{row['kernel']}  " + " ".join(f"{name}={n}" for name, n in row["sizes"].items())


def print_rows(rows: list[Row]) -> None:
    """One kernel's rows: milliseconds, rate, fraction of the roof, NumPy's time / theirs."""
    worst = max((row["difference"] for row in rows
                 if row["difference"] is not None and row["median"] is not None), default=None)
    print(title(rows[0]) + ("" if worst is None else f"   (equal to {worst:.0e})"))
    for row in rows:
        if row["side"] == "CuPy" and row["median"] is None:
            continue  # `cupy_line` has said it
        print(f"  {TITLES.get(row['pass'], row['pass']):17}{row['side']:22}{line(row)}", flush=True)


def line(row: Row) -> str:
    """What was measured, or why nothing was."""
    if row["median"] is None:
        return str(row["note"])
    digits = 3 if row["median"] < 0.1 else 1
    ms = [f"{1e3 * row[key]:.{digits}f}" for key in ("median", "low", "high")]
    text = f"{ms[0]:>8} ms ({ms[1]}-{ms[2]})".ljust(30) + f"{row['rate'] / 1e9:7.1f} G{row['unit']}"
    text += "" if row["fraction"] is None else f"{row['fraction']:6.0%} of roof"
    if row["side"] != "NumPy":
        text += f"   NumPy / it {row['ratio']:.2f}"
    return text + ("" if row["goal"] is None else f", goal {row['goal']}")
