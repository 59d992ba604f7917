"""`nmt align --method`: word alignment by the corpus alone."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from backend.terminal import Console
from nmt.data.align import Link
from nmt.data.aligner import METHODS, AlignerOptions, Links, Tell, Words, align
from nmt.data.aligner.eflomal import align_by_eflomal
from nmt.data.aligner.symmetrise import SYMMETRISATIONS
from nmt.data.corpus import read_parallel, split_words

ALIGNERS = (*METHODS, "eflomal")
SYMMETRISE = next(iter(SYMMETRISATIONS))  # the default


def links_of_files(options: argparse.Namespace) -> list[list[Link]]:
    """The links of each pair of lines; words are those between spaces."""
    lines = read_parallel(options.source, options.target)
    sources, targets = ([split_words(line) for line in side] for side in lines)
    join = SYMMETRISATIONS[options.symmetrise or SYMMETRISE]
    both = _both_directions(sources, targets, options.method)
    return [join(*pair) for pair in zip(*both, strict=True)]


def _both_directions(sources: Words, targets: Words, method: str) -> tuple[Links, Links]:
    """Links of both directions."""
    if method == "eflomal":
        return align_by_eflomal(sources, targets)
    with _progress() as tell:
        return align(sources, targets, AlignerOptions(method), tell)


@contextmanager
def _progress() -> Iterator[Tell]:
    """A bar on stderr, if that is a terminal, that counts rounds of EM."""
    console = Console(stderr=True)
    columns = (TextColumn("EM"), BarColumn(), TextColumn("{task.completed}/{task.total}"),
               TimeRemainingColumn(), TextColumn("left"))
    with Progress(*columns, console=console, transient=True,
                  disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, rounds: bar.update(task, completed=done, total=rounds)
