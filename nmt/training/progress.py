"""Observers of training: their interface, and an observer that prints lines and draws a bar."""

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
    tokens_per_second: float | None  # target tokens, in the log's last window; None before it
    perplexities: Mapping[str, float] = {}  # in that window, by task; "": a run of no mixture


class Sample(NamedTuple):
    """A sentence of the dev set as plain text, and its translation."""

    source: str
    translation: str
    reference: str


class Observer:
    """An observer that does nothing: the base class of all observers."""

    def on_batch(self, progress: Progress) -> None:
        """Called after each update."""

    def on_note(self, text: str) -> None:
        """Called before the first batch, with a line on the run."""

    def on_evaluation(self, step: int, scores: Mapping[str, float], improved: bool) -> None:
        """Called after a validation within an epoch."""

    def on_samples(self, samples: Sequence[Sample]) -> None:
        """Called in a validation, before its scores are known."""

    def on_epoch(self, epoch: int, facts: Mapping[str, Any], scores: Mapping[str, float],
                 improved: bool) -> None:
        """Called after an epoch and, if it ends with one, its validation. facts: the epoch's
        training loss and perplexity, or those of each task, and elapsed_seconds."""

    def close(self) -> None:
        """Called when training ends, for whatever reason."""


class ConsoleObserver(Observer):
    """Prints a line for each epoch, and below it sample translations. In a terminal it also draws a
    bar with the time left in the whole run."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(file=sys.stdout, highlight=False, markup=False)
        self._bar: bars.Bar | None = None
        self._task = TaskID(0)
        self._samples: Sequence[Sample] = ()  # printed below the next scores
        self._alone = ExitStack()  # hides all other bars

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
        """Start a bar over all epochs."""
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
        """Print the line."""
        self._console.print(text, soft_wrap=True)

    def on_samples(self, samples: Sequence[Sample]) -> None:
        """Keep the samples, to be printed below the line of the validation."""
        self._samples = samples

    def on_evaluation(self, step: int, scores: Mapping[str, float], improved: bool) -> None:
        """Print a line with the scores, above the bar if there is one."""
        self._print([f"update {step}", *_scores(scores)], improved)

    def on_epoch(self, epoch: int, facts: Mapping[str, Any], scores: Mapping[str, float],
                 improved: bool) -> None:
        """Print a line with the epoch's perplexity and the scores."""
        self._print([f"epoch {epoch}", f"training {_perplexities(perplexities(facts))}",
                     *_scores(scores), f"{facts['elapsed_seconds']:.0f} s of training"], improved)

    def _print(self, parts: Sequence[str], improved: bool) -> None:
        """Print the parts of a line, and the samples below it."""
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
    """The dev set's scores as text."""
    return [f"dev {_spelt(name)} {_number(value)}" for name, value in scores.items()]


def _spelt(name: str) -> str:
    """A score's name in text."""
    return {"bleu": "BLEU"}.get(name, name.replace("_", " "))


def _number(value: float) -> str:
    """A number with two decimals; a diverging perplexity is in exponential notation."""
    return f"{value:.2f}" if value < 1e6 else f"{value:.1e}"


def _describe(progress: Progress) -> str:
    """Perplexity and speed, once they are known."""
    if progress.tokens_per_second is None:
        return ""
    return (f"{_perplexities(progress.perplexities)}, "
            f"{progress.tokens_per_second:.0f} target tokens/s")


def _perplexities(by_task: Mapping[str, float]) -> str:
    """The training perplexities as text, with the names of tasks in a mixture."""
    return "perplexity " + ", ".join(f"{task} {_number(value)}".strip()
                                     for task, value in by_task.items())
