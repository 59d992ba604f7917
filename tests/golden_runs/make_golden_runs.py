"""Make the golden runs: run directories that stopped half-way, and their results as JSON beside
them.

Run by hand, from the root of the project, for the cases that are named, or for all:

    PYTHONPATH=.:tests python -m golden_runs.make_golden_runs luong hybrid

What is here already is kept unless `--again` is given. These directories stand for those that users
have. A change of the code that cannot read them, or computes other numbers from them, breaks users'
runs. Make one again only if its numbers are meant to change, and say so in the commit.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import yaml
from golden_runs.recipes import CASES, Case
from golden_runs.runs import HERE, RUNS, check_run, computed, of_copy
from tiny_run import nmt

from nmt.training import checkpoint
from nmt.training.directory_lock import FILE as LOCK
from nmt.training.progress import ConsoleObserver, Progress

SEEDS = 40  # seeds tried for each case
DRAWS, ROUNDING = 3, 1.2e-7  # rounding of weights: two units of float32's last place
ALIKE = {"luong-dummy"}  # tasks whose sources are all the same


def make(name: str) -> None:
    """Make the run directory of a case and its numbers, with the first seed that gives useful
    numbers."""
    directory = RUNS / name
    for seed in range(1, SEEDS):
        shutil.rmtree(directory, ignore_errors=True)
        with tempfile.TemporaryDirectory() as temporary:
            begin(CASES[name], directory, Path(temporary), seed)
            for lock in directory.rglob(LOCK):
                lock.unlink()
            numbers = computed(name, Path(temporary))
        if tells(name, numbers) and is_steady(name, numbers):
            directory.with_suffix(".json").write_text(as_text(numbers), "utf-8")
            return
    raise SystemExit(f"{name}: no seed below {SEEDS} gives numbers that are worth keeping")


def tells(name: str, numbers: dict[str, Any]) -> bool:
    """Whether the translations depend on the sources."""
    return name in ALIKE or all(
        len({nbest[0]["words"] for nbest in result["greedy"]}) > 2
        for result in numbers["results"].values() if "greedy" in result)


def is_steady(name: str, numbers: dict[str, Any]) -> bool:
    """Whether the numbers stay within the tolerance if each weight is rounded differently, since
    sums in another order are no fault."""
    for draw in range(DRAWS):
        rng = np.random.default_rng(draw)
        with tempfile.TemporaryDirectory() as temporary:
            copy = Path(temporary) / name
            shutil.copytree(RUNS / name, copy)
            for path in copy.rglob("*.safetensors"):
                saved = checkpoint.load(path)
                arrays = {key: (array * (1 + ROUNDING * rng.uniform(-1, 1, array.shape))).astype(
                    "float32") for key, array in saved.arrays.items() if array.dtype == "float32"}
                checkpoint.save(path, saved.arrays | arrays, saved.metadata)
            moved = of_copy(copy, "finished" in numbers)
        try:
            check_run(moved | {"gradients": {}}, numbers | {"gradients": {}})
        except AssertionError as error:
            print(f"{name}: not steady: {str(error).splitlines()[0]}", flush=True)
            return False
    return True


def as_text(numbers: Any) -> str:
    """JSON with a line for each branch, and numbers of twelve digits."""
    numbers = json.loads(json.dumps(numbers),
                         parse_float=lambda number: float(f"{float(number):.12g}"))
    text = json.dumps(numbers, indent=1, ensure_ascii=False)
    text = re.sub(r"([\[{])\n +", r"\1", re.sub(r"\n +([\]}])", r"\1", text))
    return re.sub(r",\n {4,}", ", ", text) + "\n"


def begin(case: Case, directory: Path, temporary: Path, seed: int) -> None:
    """Train up to the case's last update, as with Ctrl-C, without times and machines in the log."""
    recipe = temporary / "recipe.yaml"
    recipe.write_text(yaml.safe_dump(case.recipe, sort_keys=False), "utf-8")
    given = [recipe, f"--train.seed={seed}"] if case.recipe else []

    def stop(observer: ConsoleObserver, progress: Progress) -> None:
        if progress.step == case.stop:
            signal.raise_signal(signal.SIGINT)

    with (mock.patch.object(ConsoleObserver, "on_batch", stop),
          mock.patch("nmt.training.trainer.environment", dict),
          mock.patch("nmt.training.meter._now", lambda: np.zeros(2))):
        status = nmt(*case.command.split(), *given, "--output", directory.relative_to(HERE))
    assert status == (130 if case.stop else 0), status


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="(default: all)")
    parser.add_argument("--again", action="store_true", help="also those that are here")
    options = parser.parse_args()
    os.chdir(HERE)
    for name in options.names or CASES:
        if options.again or not (RUNS / f"{name}.json").exists():
            print(name, flush=True)
            make(name)


if __name__ == "__main__":
    main()
