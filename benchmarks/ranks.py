"""Measures updates/s by ranks and threads, at a fixed and a growing batch, and models the time.

The passes take a + b B/p seconds on p ranks that share B sentences. a and b are fitted to processor
seconds, which other programs on the machine do not lengthen. A sum of n bytes takes
2 (p - 1) alpha + 2 (p - 1)/p n beta in a ring (Thakur, Rabenseifner and Gropp, 2005), or
log2(p) (alpha + n beta) by recursive doubling; the formula that fits better is kept. alpha, seconds
per message, and beta, seconds per byte, are fitted to sums timed on this machine. For predictions
on several machines, they are taken from NETWORKS. Needs mpi4py and mpiexec (extra `mpi`).
`tests/nmt/training/test_world.py` tests that n ranks make the same updates as one.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from backend.errors import UserError, install
from benchmarks.case import Case, Prepared
from benchmarks.pictures import Chart, Panel
from benchmarks.rank_worker import make_model
from benchmarks.records import nested
from benchmarks.runner import Benchmark, Record
from benchmarks.table import table

LENGTHS = [1 << 3, 1 << 12, 1 << 16, 1 << 20, 1 << 24]  # bytes of the sums that are fitted
THESIS = {"layers": 4, "hidden": 1000, "vocabulary": 50000, "length": 25}
NETWORKS = {"10 Gbit/s Ethernet": (30e-6, 8e-10), "100 Gbit/s InfiniBand": (2e-6, 8e-11)}
PREDICTED = (8, 64, 512)  # ranks


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """A case for each number of ranks and threads, with a fixed batch or a growing one."""
    launcher = Path(sys.executable).parent / "mpiexec"
    if not launcher.exists():
        raise UserError("ranks: expected mpiexec beside this Python, found none; "
                        f"{install('mpi')}")
    B = options.batch
    lengths = [length for length in LENGTHS if not options.quick or length < 1 << 20]
    settings = [(p, t, B, "fixed") for p, t in ((1, 1), (1, 2), (2, 1), (4, 1))]
    for ranks, threads, batch, kind in settings + [(p, 1, B * p, "growing") for p in (1, 2, 4)]:
        asked = {"sizes": {name: getattr(options, name) for name in THESIS}, "batch": batch,
                 "repeats": options.repeats, "threads": threads, "lengths": lengths}

        def prepare(_: Any, ranks: int = ranks, asked: dict[str, Any] = asked) -> Prepared:
            process = subprocess.run([launcher, "-n", str(ranks), sys.executable, "-m",
                                      "benchmarks.rank_worker", json.dumps(asked)],
                                     capture_output=True, text=True, check=False)
            if process.returncode:
                raise UserError(f"ranks: mpiexec -n {ranks} ended with {process.returncode}: "
                                f"{process.stderr.strip()[-300:]}")
            fields = {"lengths": lengths, **json.loads(process.stdout.splitlines()[-1])}
            return Prepared({}, fields=lambda _: fields)

        yield Case(f"{kind} batch", {"ranks": ranks, "threads": threads, "batch": batch}, prepare,
                   batch, "sentences")


# The factors of alpha (messages) and of beta (bytes) for a sum of n bytes over p ranks.
ALGORITHMS: dict[str, Callable[[float, float], tuple[float, float]]] = {
    "ring": lambda p, n: (2 * (p - 1), 2 * (p - 1) / p * n),
    "recursive doubling": lambda p, n: (math.log2(p), math.log2(p) * n),
}


def fit(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """alpha, beta, their algorithm and its mean relative error; a and b of the passes."""
    timed = [(row["sizes"]["ranks"], size, seconds) for row in rows if row["sizes"]["ranks"] > 1
             for size, seconds in zip(row["lengths"], row["sums"], strict=True)]
    fits = {name: relative_fit([cost(p, size) for p, size, _ in timed],
                               [seconds for *_, seconds in timed])
             for name, cost in ALGORITHMS.items()}
    name = min(fits, key=lambda candidate: fits[candidate][1])
    (alpha, beta), error = fits[name]
    single = [row for row in rows if row["sizes"]["threads"] == 1]
    (a, b), _ = relative_fit([(1.0, row["sizes"]["batch"] / row["sizes"]["ranks"])
                              for row in single], [row["cpu"]["passes"] for row in single])
    return {"algorithm": name, "alpha": alpha, "beta": beta, "error": error, "a": a, "b": b}


def relative_fit(
    factors: list[tuple[float, float]], seconds: list[float]
) -> tuple[tuple[float, float], float]:
    """The two coefficients, neither negative, of the seconds, and the mean relative error. Short
    and long rows have the same weight."""
    y = np.array(seconds)
    X = np.array(factors) / y[:, None]
    coefficients = np.linalg.lstsq(X, np.ones(len(y)), rcond=None)[0]
    if coefficients.min() < 0:  # then one of them is zero
        alone = X.sum(axis=0) / (X**2).sum(axis=0)
        k = int(np.argmin(((X * alone - 1) ** 2).sum(axis=0)))
        coefficients = np.where(np.arange(2) == k, alone, 0.0)
    error = float(np.abs(X @ coefficients - 1).mean())
    return (float(coefficients[0]), float(coefficients[1])), error


def gradient_bytes(sizes: dict[str, int], sentences: float) -> tuple[int, float]:
    """The bytes, in float32, of dense gradients, and at most of the rows that a rank's sentences
    use."""
    weights = make_model(sizes).weights()
    dense = sum(math.prod(weight.shape) for name, weight in weights.items()
                if not name.endswith("W_e"))
    rows = 2 * min(sentences * sizes["length"], sizes["vocabulary"])
    return 4 * dense, 4 * rows * sizes["hidden"]


def predicted_table(fits: dict[str, Any], options: dict[str, Any]) -> list[str]:
    """The predicted times for 128 sentences in all, and for 128 sentences per rank. Dense gradients
    are summed by a ring, and each rank sends its rows to every other rank. The time b of a
    sentence's passes is scaled by the number of multiplications, which is that of the dense
    parameters per word."""
    def work(sizes: dict[str, int]) -> float:
        return gradient_bytes(sizes, 0)[0] * sizes["length"]

    b = fits["b"] * work(THESIS) / work({name: options[name] for name in THESIS})
    lines = []
    for (network, (alpha, beta)), kind, p in product(NETWORKS.items(), ("fixed", "growing"),
                                                     PREDICTED):
        batch = 128 if kind == "fixed" else 128 * p
        dense, rows = gradient_bytes(THESIS, batch / p)
        messages, sent = ALGORITHMS["ring"](p, dense)
        sums = messages * alpha + sent * beta + (p - 1) * (alpha + rows * beta)
        passes = b * max(1, batch / p)
        lines.append(f"{network} | {kind} | {p} | {passes:.3g} s | {sums:.3g} s | "
                     f"{b * batch / (passes + sums) / p:.0%}")
    return table("thesis size, predicted | batch | ranks | passes | sums | efficiency", lines)


def speed(row: dict[str, Any]) -> float:
    """Sentences per second."""
    return float(row["amount"] / sum(row["parts"].values()))


def measured_table(rows: list[dict[str, Any]]) -> list[str]:
    """The time of each part, the bytes that a rank sends, the processor time of a rank for the
    parts, and the efficiency relative to one rank: by the clock, and by processor time for all
    parts and for the passes."""
    lines = []
    for row in rows:
        p, threads, batch = row["sizes"].values()
        base = next(candidate for candidate in rows if candidate["case"] == row["case"]
                    and list(candidate["sizes"].values())[:2] == [1, 1])
        lines.append(f"{row['case']} | {p} x {threads} | {batch} | "
                     + " | ".join(f"{1e3 * seconds:.3g} ms" for seconds in row["parts"].values())
                     + f" | {row['bytes'] / 1e6:.3g} | "
                     + " / ".join(f"{1e3 * row['cpu'][stage]:.3g}" for stage in row["parts"])
                     + f" ms | {speed(row) / speed(base) / p / threads:.0%} | "
                     + " / ".join(f"{processor(row, *of) / processor(base, *of):.0%}"
                                  for of in (tuple(row["parts"]), ("passes",))))
    return table("batch | ranks x threads | sentences | passes | sums | update | MB a rank | "
                 "by CPU | efficiency | by CPU, of the passes", lines)


def processor(row: dict[str, Any], *parts: str) -> float:
    """Sentences of a rank per second of processor time that it spends on these parts."""
    return float(row["amount"] / row["sizes"]["ranks"] / sum(row["cpu"][name] for name in parts))


def summary(record: Record) -> list[str]:
    """The tables, and the fitted numbers."""
    fits = fit(record["rows"])
    return [*measured_table(record["rows"]), "",
            f"sums: {fits['algorithm']}, alpha {1e6 * fits['alpha']:.3g} us, beta "
            f"{1e9 * fits['beta']:.3g} ns/byte, mean relative error {fits['error']:.0%}",
            f"passes: {1e3 * fits['a']:.3g} ms + {1e3 * fits['b']:.3g} ms a sentence of a rank", "",
            *predicted_table(fits, record["options"])]


def chart(record: Record) -> Chart:
    """Speed against ranks, a line for each kind of batch."""
    series = nested((row["case"], row["sizes"]["ranks"], speed(row))
                    for row in record["rows"] if row["sizes"]["threads"] == 1)
    relative = {kind: {p: rate / rates[1] for p, rate in rates.items()}
                for kind, rates in series.items()}
    return Chart("Data-parallel training", "a growing batch has as many sentences a rank as one "
                 "rank alone; higher is better.",
                 [Panel("lines", relative, "ranks", "speed, one rank = 1")])


BENCHMARKS = {"ranks": Benchmark(
    cases, {"hidden": 512, "layers": 2, "vocabulary": 10000, "length": 25, "batch": 128,
            "repeats": 7},
    {"hidden": 8, "layers": 1, "vocabulary": 50, "length": 4, "batch": 8, "repeats": 2},
    needs=("mpi4py",), chart=chart, summary=summary)}
