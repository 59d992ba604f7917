"""Updates/s against ranks x threads, at a fixed and at a growing batch, and a model of the time.

The passes take a + b B/p seconds on p ranks that share B sentences. A sum of n bytes takes
2 (p - 1) alpha + 2 (p - 1)/p n beta, a ring's (Thakur, Rabenseifner and Gropp, 2005), or
log2(p) (alpha + n beta) by recursive doubling; what fits better is kept. alpha, seconds a message,
and beta, seconds a byte, are fitted to sums timed on this machine, and taken from NETWORKS for
what the model says of more of them. Needs mpi4py and mpiexec (extra `mpi`).
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from backend.command import positive
from backend.errors import UserError
from benchmarks.options import make_parser
from benchmarks.options import parse as read_options
from benchmarks.pictures import COLOURS, titled
from benchmarks.rank_worker import make_model
from benchmarks.record import publish_rows
from benchmarks.table import table
from benchmarks.timing import describe, environment

LENGTHS = [1 << 3, 1 << 12, 1 << 16, 1 << 20, 1 << 24]  # bytes of the sums that are fitted
THESIS = {"layers": 4, "hidden": 1000, "vocabulary": 50000, "length": 25}
NETWORKS = {"10 Gbit/s Ethernet": (30e-6, 8e-10), "100 Gbit/s InfiniBand": (2e-6, 8e-11)}
PREDICTED = (8, 64, 512)  # ranks
QUICK = {"hidden": 8, "layers": 1, "vocabulary": 50, "length": 4, "batch": 8, "repeats": 2}


def main(arguments: list[str]) -> None:
    """Measure, fit, print, and write `ranks-<kernels>.json`."""
    options = parse(arguments)
    print(describe(environment()))
    rows = [measure(options, *case) for case in cases(options)]
    fits = fit(rows)
    print("\n".join([*measured_table(rows), "", *model_lines(fits), "",
                     *predicted_table(fits, options)]))
    publish_rows("ranks", vars(options), [*rows, {"model": fits}], picture,
                 directory=options.output)


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line of this benchmark."""
    parser = make_parser("ranks", __doc__)
    for name, default in {"hidden": 512, "layers": 2, "vocabulary": 10000, "length": 25,
                          "batch": 128, "repeats": 7}.items():
        parser.add_argument(f"--{name}", type=positive, default=default, help=f"default {default}")
    options = read_options(parser, arguments)
    if options.quick:
        vars(options).update(QUICK)
    if not (find_spec("mpi4py") and launcher().exists()):
        raise UserError("ranks: expected mpi4py and mpiexec, found none; install the extra `mpi`")
    return options


def launcher() -> Path:
    """The mpiexec of this environment."""
    return Path(sys.executable).parent / "mpiexec"


def cases(options: argparse.Namespace) -> list[tuple[int, int, int, str]]:
    """Ranks, threads of each, sentences of all, and how the batch goes with the ranks."""
    B = options.batch
    found = [(p, t, B, "fixed") for p, t in ((1, 1), (1, 2), (2, 1), (4, 1))]
    return found + [(p, 1, B * p, "growing") for p in (1, 2, 4)]


def measure(
    options: argparse.Namespace, ranks: int, threads: int, batch: int, kind: str
) -> dict[str, Any]:
    """One row, from ranks started for it."""
    sizes = {name: getattr(options, name) for name in THESIS}
    lengths = [one for one in LENGTHS if not options.quick or one < 1 << 20]
    asked = {"sizes": sizes, "batch": batch, "repeats": options.repeats, "threads": threads,
             "lengths": lengths}
    done = subprocess.run([launcher(), "-n", str(ranks), sys.executable, "-m",
                           "benchmarks.rank_worker", json.dumps(asked)],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"ranks: mpiexec -n {ranks} ended with {done.returncode}: "
                        f"{done.stderr.strip()[-300:]}")
    row = {"ranks": ranks, "threads": threads, "batch": batch, "kind": kind, "lengths": lengths,
           **json.loads(done.stdout.splitlines()[-1])}
    return row | {"sentences_per_second": batch / sum(row["seconds"].values())}


# --- the model ------------------------------------------------------------------------------------


def ring(p: float, size: float) -> tuple[float, float]:
    """What alpha and beta are multiplied by."""
    return 2 * (p - 1), 2 * (p - 1) / p * size


def doubling(p: float, size: float) -> tuple[float, float]:
    """The same by recursive doubling."""
    return math.log2(p), math.log2(p) * size


ALGORITHMS = {"ring": ring, "recursive doubling": doubling}


def fit(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """alpha, beta, their algorithm and its mean relative error; a and b of the passes."""
    timed = [(row["ranks"], size, seconds) for row in rows if row["ranks"] > 1
             for size, seconds in zip(row["lengths"], row["sums"], strict=True)]
    found = {name: relative_fit([cost(p, size) for p, size, _ in timed],
                                [seconds for *_, seconds in timed])
             for name, cost in ALGORITHMS.items()}
    name = min(found, key=lambda one: found[one][1])
    (alpha, beta), error = found[name]
    single = [row for row in rows if row["ranks"] == row["threads"] == 1 or row["ranks"] == 2]
    (a, b), _ = relative_fit([(1.0, row["batch"] / row["ranks"]) for row in single],
                             [row["seconds"]["passes"] for row in single])
    return {"algorithm": name, "alpha": alpha, "beta": beta, "error": error, "a": a, "b": b}


def relative_fit(
    factors: list[tuple[float, float]], seconds: list[float]
) -> tuple[tuple[float, float], float]:
    """Two coefficients, neither negative, that make up the seconds, and the mean relative error:
    each row weighs the same, short or long."""
    y = np.array(seconds)
    X = np.array(factors) / y[:, None]
    found = np.linalg.lstsq(X, np.ones(len(y)), rcond=None)[0]
    if found.min() < 0:  # then one of them is zero
        alone = X.sum(axis=0) / (X**2).sum(axis=0)
        k = int(np.argmin(((X * alone - 1) ** 2).sum(axis=0)))
        found = np.where(np.arange(2) == k, alone, 0.0)
    return (float(found[0]), float(found[1])), float(np.abs(X @ found - 1).mean())


def gradient_bytes(sizes: dict[str, int], sentences: float) -> tuple[int, float]:
    """Of dense gradients, and of the rows that a rank's sentences touch, at most, in float32."""
    weights = make_model(sizes).weights()
    dense = sum(math.prod(one.shape) for name, one in weights.items() if not name.endswith("W_e"))
    rows = 2 * min(sentences * sizes["length"], sizes["vocabulary"])
    return 4 * dense, 4 * rows * sizes["hidden"]


def predict(p: int, batch: int, network: tuple[float, float]) -> float:
    """Seconds of the sums of p ranks at thesis size: a ring's, and the rows of every other rank."""
    dense, rows = gradient_bytes(THESIS, batch / p)
    alpha, beta = network
    return sum(x * y for x, y in zip(ring(p, dense), network, strict=True)) + (
        (p - 1) * (alpha + rows * beta))


def predicted_table(fits: dict[str, Any], options: argparse.Namespace) -> list[str]:
    """What the model says for 128 sentences in all, and for 128 a rank. A sentence's passes take b,
    times the ratio of the multiplications."""
    sizes = {name: getattr(options, name) for name in THESIS}
    b, lines = fits["b"] * work(THESIS) / work(sizes), list[str]()
    for network, numbers in NETWORKS.items():
        for kind in ("fixed", "growing"):
            for p in PREDICTED:
                batch = 128 if kind == "fixed" else 128 * p
                passes, sums = b * max(1, batch / p), predict(p, batch, numbers)
                lines.append(f"{network} | {kind} | {p} | {passes:.3g} s | {sums:.3g} s | "
                             f"{b * batch / (passes + sums) / p:.0%}")
    return table("thesis size, predicted | batch | ranks | passes | sums | efficiency", lines)


def work(sizes: dict[str, int]) -> float:
    """Multiplications of a sentence, about: all dense parameters at each step."""
    return float(gradient_bytes(sizes, 0)[0]) / 4 * sizes["length"]


# --- what is shown --------------------------------------------------------------------------------


def measured_table(rows: list[dict[str, Any]]) -> list[str]:
    """Time of the parts, bytes that a rank hands over, and efficiency against one rank."""
    base = {row["kind"]: row["sentences_per_second"] for row in rows[::-1]
            if row["ranks"] == row["threads"] == 1}
    return table("batch | ranks x threads | sentences | passes | sums | update | MB a rank | "
                 "efficiency", [
        f"{row['kind']} | {row['ranks']} x {row['threads']} | {row['batch']} | "
        + " | ".join(f"{1e3 * row['seconds'][name]:.3g} ms" for name in row["seconds"])
        + f" | {row['bytes'] / 1e6:.3g} | "
        f"{row['sentences_per_second'] / base[row['kind']] / row['ranks'] / row['threads']:.0%}"
        for row in rows])


def model_lines(fits: dict[str, Any]) -> list[str]:
    """The fitted numbers."""
    return [f"sums: {fits['algorithm']}, alpha {1e6 * fits['alpha']:.3g} us, beta "
            f"{1e9 * fits['beta']:.3g} ns/byte, mean relative error {fits['error']:.0%}",
            f"passes: {1e3 * fits['a']:.3g} ms + {1e3 * fits['b']:.3g} ms a sentence of a rank"]


def picture(plt: Any, record: dict[str, Any]) -> Any:
    """Efficiency against ranks, a line for each kind of batch."""
    figure, axes = plt.subplots(figsize=(5, 3.5))
    for kind, colour in zip(("fixed", "growing"), COLOURS, strict=False):
        own = [row for row in record["rows"] if row.get("kind") == kind and row["threads"] == 1]
        axes.plot([row["ranks"] for row in own],
                  [row["sentences_per_second"] / own[0]["sentences_per_second"] for row in own],
                  marker="o", color=colour, label=f"{kind} batch")
    axes.set_xlabel("ranks")
    axes.set_ylabel("speed, one rank = 1")
    axes.legend()
    titled(figure, "Data-parallel training", record["environment"],
           "a growing batch has as many sentences a rank as one rank alone; higher is better.")
    return figure
