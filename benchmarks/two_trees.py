"""Times the same work in two work trees: an LSTM layer, a training step, beam search, three sizes.

Each tree works in its own process, which imports only this tree's packages. The processes take
turns. A second process of the other tree shows the noise: its time over that of the first should be
1. The trees' results are compared in float32 before the timing.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from backend.errors import UserError
from benchmarks.case import Case, Prepared
from benchmarks.pictures import Chart, Panel
from benchmarks.records import medians, middle, nested, sizes_of, timings
from benchmarks.runner import Benchmark, Record

ROOT = Path(__file__).resolve().parents[1]
SAME = 1e-3  # relative difference of a sum over a layer, a loss, a log-probability in float32
SHAPES = (8, 64), (32, 256), (64, 512)  # sentences, hidden units
CALLS = {(8, 64): 10, (32, 256): 2}  # of the work in a timed turn, so that it outlasts a message
TRANSLATOR = {"L": 2, "T": 20, "V": 10_000, "feeding": 1}
WORKS: dict[str, tuple[str, Mapping[str, int]]] = {  # what the worker does, and its other sizes
    "LSTM layer": ("layer", {"T": 30}),
    "step, feeding": ("step", TRANSLATOR),
    "step, no feeding": ("step", {**TRANSLATOR, "feeding": 0}),
    "beam search": ("beam", {**TRANSLATOR, "K": 10}),
}
QUICK = {"T": 3, "V": 20, "K": 2, "H": 4, "B": 2}


class Worker:
    """A process with the packages of one tree, ready to do one piece of work."""

    def __init__(self, tree: Path, asked: Mapping[str, Any]) -> None:
        """Raise UserError if the tree's work ends in an error."""
        script = Path(__file__).with_name("tree_worker.py")
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(script), json.dumps(asked)], cwd=tree, text=True,
            env=os.environ | {"PYTHONPATH": str(tree)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.value = float(self._answer())

    def __call__(self) -> None:
        """Do the work once more, and wait for its end."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self._answer()

    def end(self) -> None:
        """End the process, by closing its input."""
        self._process.communicate()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        if not answer:
            raise UserError("two-trees: a worker ended, for the reason above")
        return answer


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """Every kind of work at every size. Raises UserError if --other is not a tree of this code."""
    if options.quick and options.other is None:
        options.other = ROOT
    if options.other is None or not (Path(options.other) / "benchmarks").is_dir():
        raise UserError("two-trees: --other: expected the root of a work tree of this code, got "
                        f"{options.other}")
    trees = {"this": ROOT, "other": Path(options.other).resolve()}
    trees["other again"] = trees["other"]
    for name, (kind, sizes) in WORKS.items():
        for B, H in SHAPES[:1] if options.quick else SHAPES:
            calls = CALLS.get((B, H), 1)
            asked = {"kind": kind, "calls": calls, "sizes": {
                letter: QUICK.get(letter, size) if options.quick else size
                for letter, size in {"B": B, "H": H, **sizes}.items()}}
            yield Case(name, {"B": B, "H": H}, partial(prepare, trees, asked), calls, "calls")


def prepare(trees: Mapping[str, Path], asked: Mapping[str, Any], _: Any) -> Prepared:
    """The trees' processes. Raises UserError if their results differ."""
    workers = {name: Worker(tree, asked) for name, tree in trees.items()}

    def end() -> None:
        for worker in workers.values():
            worker.end()

    values = {name: worker.value for name, worker in workers.items()}
    if not math.isclose(min(values.values()), max(values.values()), rel_tol=SAME):
        end()
        raise UserError(f"{asked['kind']}: expected equal results of the trees, got {values}")
    return Prepared(workers, end=end)


def summary(record: Record) -> list[str]:
    """The ratios: of the trees, and of the other tree's two processes, which is the noise."""
    lines = []
    for row in record["rows"]:
        ours, theirs, theirs_again = medians(row).values()
        lines.append(f"{row['case']} {sizes_of(row)}: this / other {ours / theirs:.3f}, "
                     f"other again / other {theirs_again / theirs:.3f}")
    return lines


def chart(record: Record) -> Chart:
    """A group of bars for each piece of work."""
    return Chart("The same work by two trees", "shorter bars are better; the other tree works in "
                 "two processes, whose difference is the noise.",
                 [Panel("bars", nested((name, f"{row['case']} {sizes_of(row)}", middle(timing))
                                       for row, name, timing in timings(record)),
                        "milliseconds (bars: medians, lines: quartiles)")])


BENCHMARKS = {"two-trees": Benchmark(cases, {"other": None}, seconds=20.0, free=("other",),
                                     chart=chart, summary=summary)}
