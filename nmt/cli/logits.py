"""`nmt logits`: take a translator's logits apart, by step, by word and by frequency."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from backend.errors import UserError
from nmt.analysis.logits import draw_norms, headings, lexicon, logits_of, norms, table_of
from nmt.cli.options import add_model
from nmt.console.arguments import natural, positive
from nmt.console.terminal import Console, print
from nmt.data.corpora import tokenisers
from nmt.data.corpus import read_lines, write_lines
from nmt.evaluation.pictures import require_drawing
from nmt.system import System


def add_steps(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt logits steps`."""
    parser.add_argument("source", type=Path, help="sentences in the source language")
    parser.add_argument("target", type=Path, nargs="?",
                        help="translations to follow (default: the model's own)")
    _add_model(parser)
    parser.add_argument("--line", type=positive, default=1, metavar="N",
                        help="show this line (default: 1)")
    parser.add_argument("--rivals", type=natural, default=2, metavar="N",
                        help="show the N most probable other words of each step (default: 2)")


def add_lexicon(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt logits lexicon`."""
    parser.add_argument("words", nargs="*", metavar="WORD",
                        help="source words (default: the whole vocabulary)")
    _add_model(parser)
    parser.add_argument("--top", type=positive, default=5, metavar="N",
                        help="print N target words for each word (default: 5)")


def add_norms(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt logits norms`."""
    _add_model(parser)
    parser.add_argument("--bin", type=positive, default=256, metavar="N",
                        help="draw median and range of N words (default: 256)")
    parser.add_argument("--png", type=Path, metavar="FILE", help="draw the picture here")


def _add_model(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--output", "-o", type=Path, metavar="FILE",
                        help="write the table here, separated by tabs")


def run_steps(options: argparse.Namespace) -> None:
    """`nmt logits steps`: print the logits of a line, along its translation or a given one."""
    system = System.open(options.model, options.checkpoint)
    source_cut, target_cut = (tokeniser.tokenise for tokeniser in tokenisers(system.recipe.data))
    source = source_cut(_line(options.source, options.line))
    system.check_sources([source], str(options.source), [options.line])
    target = (target_cut(_line(options.target, options.line)) if options.target is not None
              else system.whole_words(system.translate([source], system.recipe.search)[0][0]))
    if not source or not target:
        raise UserError(f"--line: expected a line with words on both sides, got {options.line}")
    steps = logits_of(system, (source, target), options.rivals)
    head = headings(steps[0][0].lexical is not None)
    _write(head, table_of(steps), options)


def _line(path: Path, number: int) -> str:
    """Line `number`, from 1, of a file. Raises UserError if the file has fewer."""
    lines = read_lines(path)
    if number > len(lines):
        raise UserError(f"--line: expected a line of {path} from 1 to {len(lines)}, got {number}")
    return lines[number - 1]


def run_lexicon(options: argparse.Namespace) -> None:
    """`nmt logits lexicon`: print a row for each pair of words, as in Table 3.9."""
    system = System.open(options.model, options.checkpoint)
    words = options.words or list(system.source.words)
    rows = ([word, translation, f"{p:.4f}"]
            for word, translations in lexicon(system, words, options.top)
            for translation, p in translations)
    _write(["source", "target", "p"], rows, options)


def run_norms(options: argparse.Namespace) -> None:
    """`nmt logits norms`: draw Figure 3.2, or print its numbers."""
    if options.png is not None:
        require_drawing("--png")
    lengths = norms(System.open(options.model, options.checkpoint))
    if options.png is not None:
        draw_norms(lengths.columns, options.bin, options.png)
        print(options.png)
    if options.png is None or options.output is not None:
        _write(["rank", "word", *lengths.columns], (
            [str(rank), word, *(f"{number:.4f}" for number in numbers)]
            for rank, (word, *numbers) in enumerate(
                zip(lengths.words, *lengths.columns.values(), strict=True), start=1)), options)


def _write(head: Sequence[str], rows: Iterable[Sequence[str]], options: Any) -> None:
    """Write a table to --output, separated by tabs, or print it."""
    if options.output is not None:
        write_lines(options.output, ("\t".join(row) for row in [head, *rows]))
        print(options.output)
        return
    table = Table(box=None, pad_edge=False)
    for name in head:
        table.add_column(name, justify="left" if name in ("source", "target", "word") else "right")
    for row in rows:
        table.add_row(*row)
    Console.of_tables().print(table)
