"""Measures the memory for a training corpus and for a text to translate, by their length."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tiny_run import ROOT

from nmt.data.corpora import load_corpus
from nmt.models.translator import ModelConfig
from nmt.recipe import DataConfig, Recipe
from nmt.system import System
from nmt.training.options import TrainOptions
from nmt.translator_training import build_vocabularies, text_of

WORDS = [f"{name}{number}" for name in ("mot", "wort", "word", "ord") for number in range(250)]
WRITTEN = 100_000  # lines at once


class Measured(NamedTuple):
    """The peak memory of a process during some work, and the duration of the work."""

    what: str
    megabytes: float
    seconds: float


def resident(process: int | str = "self", most: bool = False) -> float:
    """The memory of a process in megabytes, now or at its peak since `forget`; 0 if it has
    ended."""
    try:
        text = Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in text.splitlines()
                 if line.startswith("VmHWM" if most else "VmRSS")), 0.0)


def forget() -> None:
    """Reset the system's peak memory of this process."""
    Path("/proc/self/clear_refs").write_text("5")


def write_lines(path: Path, count: int, seed: int) -> None:
    """Write lines of 0 to 12 words, 5 on average, of a vocabulary of a thousand."""
    rng = np.random.default_rng(seed)
    with open(path, "w", encoding="utf-8") as file:
        for first in range(0, count, WRITTEN):
            ends = np.cumsum(rng.binomial(12, 0.4, min(WRITTEN, count - first)))
            words = [WORDS[i] for i in rng.integers(0, len(WORDS), ends[-1])]
            file.writelines(" ".join(words[start:end]) + "\n" for start, end in
                            zip([0, *ends[:-1]], ends, strict=True))


def recipe_of(directory: Path, pairs: int) -> Recipe:
    """A recipe of so many pairs, whose files are written."""
    for number, name in enumerate(("train.x", "train.y", "dev.x", "dev.y")):
        write_lines(directory / name, pairs if number < 2 else 20, number)
    data = DataConfig(directory=str(directory), train_source="train.x", train_target="train.y",
                      dev_source="dev.x", dev_target="dev.y", tokenise="none", max_length=9)
    return Recipe(data, ModelConfig(layers=1, hidden_size=8, embedding_size=8),
                  train=TrainOptions(batch_size=64))


def epochs_of_batches(recipe: Recipe, epochs: int) -> Iterator[Measured]:
    """Read the corpus, build vocabularies, read the corpus again, and make all batches of each
    epoch.
    """
    start = _forget_and_start()
    corpus = load_corpus(recipe.data)
    yield _measured(f"read: {len(corpus.train):,} pairs, {corpus.empty:,} empty and "
                    f"{corpus.too_long:,} too long", start)
    start = _forget_and_start()
    system = System.create(recipe, build_vocabularies(corpus, recipe))
    characters = sum(map(len, text_of(corpus)))
    yield _measured(f"vocabularies; {characters:,} characters read", start)
    batches, rng = system.batches(corpus.train, recipe.train.batch_size), np.random.default_rng(1)
    for epoch in range(epochs):
        start = _forget_and_start()
        number = sum(1 for _ in map(batches.batch, batches.epoch(rng)))
        yield _measured(f"epoch {epoch + 1}: {number:,} batches", start)


def _forget_and_start() -> float:
    """Forget the peak of memory, and return the time."""
    forget()
    return time.monotonic()


def _measured(what: str, start: float) -> Measured:
    """The peak of memory, and the time, since `start`."""
    return Measured(what, resident(most=True), time.monotonic() - start)


def translation(run: Path, text: Path, parts: int = 10) -> Iterator[Measured]:
    """`nmt translate` of a text by greedy search: the most memory in each part of its output."""
    total = sum(1 for _ in open(text, "rb"))
    command = [sys.executable, "-m", "nmt", "translate", "--model", str(run), "--beam", "1"]
    start, most, done = time.monotonic(), 0.0, 0
    with open(text, "rb") as lines, subprocess.Popen(
            command, stdin=lines, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        for _ in process.stdout:
            done += 1
            if done % 100 == 0:
                most = max(most, resident(process.pid))
            if done * parts // total > (done - 1) * parts // total:
                yield Measured(f"line {done:,} of {total:,}", most, time.monotonic() - start)
                most = 0.0
    assert process.returncode == 0 and done == total
