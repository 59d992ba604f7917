"""Observers of training: the interface, and one that prints and draws a bar."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Column

from nmt.console import progress as bars
from nmt.console.terminal import Console
from nmt.training.meter import perplexities


class Progress(NamedTuple):
    """The progress of training after a batch."""

    epoch: int  # from 1
    epochs: float
    position: int  # batches done in the epoch
    batches: int  # in the epoch
    step: int  # updates in all
    learning_rate: float
    tokens_per_second: float | None  # target tokens, of the last updates logged; None before any
    perplexities: Mapping[str, float] = {}  # likewise, by task; of one that is no mixture under ""


class Sample(NamedTuple):
    """A sentence of the dev set as plain text, and what it is translated into."""

    source: str
    translation: str
    reference: str


class Observer:
    """An observer that does nothing: the base of others."""

    def on_batch(self, progress: Progress) -> None:
        """After each update."""

    def on_note(self, text: str) -> None:
        """One line worth knowing, before the first batch."""

    def on_evaluation(self, step: int, scores: Mapping[str, float], improved: bool) -> None:
        """After a validation within an epoch."""

    def on_samples(self, samples: Sequence[Sample]) -> None:
        """In a validation, before its scores are told."""

    def on_epoch(self, epoch: int, facts: Mapping[str, Any], scores: Mapping[str, float],
                 improved: bool) -> None:
        """After an epoch and its validation, if it ends with one; facts are the epoch's training
        loss and perplexity, or those of each of its tasks, and elapsed_seconds."""

    def close(self) -> None:
        """Called when training ends, for whatever reason."""


class ConsoleObserver(Observer):
    """One line per epoch, and below it sample translations; in a terminal also a bar with the time
    left in the whole run."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(file=sys.stdout, highlight=False, markup=False)
        self._bar: bars.Bar | None = None
        self._task = TaskID(0)
        self._samples: Sequence[Sample] = ()  # to be printed below the next scores
        self._alone = ExitStack()  # no other bar beside this one

    def on_batch(self, progress: Progress) -> None:
        """Move the bar, if there is one."""
        if not self._console.is_terminal:
            return
        if self._bar is None:
            self._bar = self._open(progress)
        done = (progress.epoch - 1) * progress.batches + progress.position
        self._bar.update(self._task, completed=done, facts=_describe(progress),
                         epoch=f"{progress.epoch}/{progress.epochs:g}")

    def _open(self, progress: Progress) -> bars.Bar:
        """A bar over all epochs."""
        facts = TextColumn("{task.fields[facts]}", table_column=Column(ratio=1, no_wrap=True))
        bar = bars.Bar(TextColumn("epoch {task.fields[epoch]}"), BarColumn(8), facts,
                       TimeRemainingColumn(), TextColumn("left"), console=self._console,
                       transient=True, expand=True)
        self._alone.enter_context(bars.hidden())
        bar.start()
        total = progress.epochs * progress.batches
        self._task = bar.add_task("", total=total, facts="", epoch="")
        return bar

    def on_note(self, text: str) -> None:
        """A line."""
        self._console.print(text, soft_wrap=True)

    def on_samples(self, samples: Sequence[Sample]) -> None:
        """Three lines each, below the line of the validation."""
        self._samples = samples

    def on_evaluation(self, step: int, scores: Mapping[str, float], improved: bool) -> None:
        """A line, above the bar if there is one."""
        self._print([f"update {step}", *_scores(scores)], improved)

    def on_epoch(self, epoch: int, facts: Mapping[str, Any], scores: Mapping[str, float],
                 improved: bool) -> None:
        """Likewise."""
        self._print([f"epoch {epoch}", f"training {_perplexities(perplexities(facts))}",
                     *_scores(scores), f"{facts['elapsed_seconds']:.0f} s of training"], improved)

    def _print(self, parts: Sequence[str], improved: bool) -> None:
        """The parts of a line, and the samples."""
        lines = [", ".join(parts) + (" (best so far)" if improved else "")]
        for sample in self._samples:
            lines += [f"  {name:<13}{text}" for name, text in sample._asdict().items()]
        self._console.print("\n".join(lines), soft_wrap=True)
        self._samples = ()

    def close(self) -> None:
        """Erase the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
            self._alone.close()


def _scores(scores: Mapping[str, float]) -> list[str]:
    """The dev set's scores in words."""
    return [f"dev {_spelt(name)} {_number(value)}" for name, value in scores.items()]


def _spelt(name: str) -> str:
    """A score's name in text."""
    return {"bleu": "BLEU"}.get(name, name.replace("_", " "))


def _number(value: float) -> str:
    """Two decimals; a diverging perplexity in exponential notation."""
    return f"{value:.2f}" if value < 1e6 else f"{value:.1e}"


def _describe(progress: Progress) -> str:
    """Perplexity and speed, once they are known."""
    if progress.tokens_per_second is None:
        return ""
    return (f"{_perplexities(progress.perplexities)}, "
            f"{progress.tokens_per_second:.0f} target tokens/s")


def _perplexities(by_task: Mapping[str, float]) -> str:
    """Training perplexities, of a mixture each with its task."""
    return "perplexity " + ", ".join(f"{task} {_number(value)}".strip()
                                     for task, value in by_task.items())
