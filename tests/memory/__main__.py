"""Measures memory over a long corpus and a long text, in an hour: `python -m tests.memory`.

`--pairs 10000000` is the size of the corpus, whose batches are made without updates. `--lines
100000 1000000` are the lengths of texts that a tiny model translates. 0 leaves either out.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from memory.measure import Measured, epochs_of_batches, recipe_of, translation, write_lines  # noqa: E402
from tiny_run import nmt, write_corpus, write_recipe  # noqa: E402


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(prog="python -m tests.memory", description=__doc__)
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lines", type=int, nargs="*", default=[100_000, 1_000_000])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        if options.pairs:
            show(epochs_of_batches(recipe_of(directory, options.pairs), options.epochs))
        if any(options.lines):
            write_corpus(directory)
            assert nmt("train", write_recipe(directory / "r.yaml"), "--output",
                       directory / "run") == 0
        for count in filter(None, options.lines):
            write_lines(directory / "text", count, 1)
            show(translation(directory / "run", directory / "text"))


def show(figures: Iterable[Measured]) -> None:
    """A line each."""
    for figure in figures:
        print(f"{figure.megabytes:8.1f} MB {figure.seconds:7.0f} s  {figure.what}", flush=True)


if __name__ == "__main__":
    main()
