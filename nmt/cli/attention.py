"""`nmt attention`: draw what the decoder attends to."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from backend.errors import UserError
from nmt.cli.options import (
    add_aligned_word,
    add_format,
    add_model,
    add_search,
    need_attention,
    search_options,
)
from nmt.cli.sources import add_second_source, check_second_source, read_pairs, read_sources, reads
from nmt.console.arguments import positive
from nmt.console.terminal import print
from nmt.data.corpus import read_lines
from nmt.data.sources import places
from nmt.evaluation import alignment_map
from nmt.evaluation.pictures import require_drawing
from nmt.files import check_writable, make_directory
from nmt.system import System
from nmt.translation import Translation

Item = TypeVar("Item")


def add_attention(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt attention`."""
    parser.add_argument("source", type=Path, help="sentences in the source language")
    parser.add_argument("target", type=Path, nargs="?",
                        help="translations to force-decode (default: the model's)")
    add_second_source(parser)
    add_model(parser)
    parser.add_argument("--line", type=positive, nargs="+", default=[1], metavar="N",
                        help="draw these lines (default: 1)")
    pictures = parser.add_mutually_exclusive_group()
    pictures.add_argument("--png", type=Path, metavar="DIR",
                          help="also draw pictures into this directory")
    pictures.add_argument("--output", "-o", type=Path, metavar="FILE",
                          help="draw one line into this file: .png, .svg or .pdf")
    add_format(parser)
    add_search(parser)
    add_aligned_word(parser)


def run_attention(options: argparse.Namespace) -> None:
    """`nmt attention`: draw maps of some lines, translated or force-decoded."""
    system = System.open(options.model, options.checkpoint)
    need_attention(system, "nmt attention")
    check_second_source([system], options)
    for name in ("png", "output"):
        if getattr(options, name) is not None:
            require_drawing(f"--{name}")
    if options.output is not None:
        check_writable(options.output)
        if len(options.line) * reads(system) > 1:
            raise UserError(f"--output: expected one map for one file, got "
                            f"{len(options.line) * reads(system)}; --png DIR takes several")
    if options.target is None:
        sources = read_sources(system, read_lines(options.source), options)
        sources = _chosen(sources, options)
        nbests = system.translate(sources, search_options(system, options))
        translations = [nbest[0] for nbest in nbests]
    else:
        pairs = _chosen(read_pairs(system, options), options)
        sources, translations = [source for source, _ in pairs], system.force(pairs)
    if options.png is not None:
        make_directory(options.png)
    for number, source, translation in zip(options.line, sources, translations, strict=True):
        _show(system, number, source, translation, options)


def _chosen(items: Sequence[Item], options: argparse.Namespace) -> list[Item]:
    """The items of `--line`, which counts from 1. Raises UserError for a line that does not exist.
    """
    for number in options.line:
        if number > len(items):
            raise UserError(f"--line: expected a line of {options.source} from 1 to {len(items)}, "
                            f"got {number}")
    return [items[number - 1] for number in options.line]


def _show(
    system: System, number: int, source: Sequence[str], translation: Translation,
    options: argparse.Namespace,
) -> None:
    """Print a translation and its map, and draw the map if asked for."""
    if translation.alignment is None or not translation.words:
        print(f"{number}: nothing to show, a side is empty\n")
        return
    weights = system.word_weights(translation, options.aligned_word)
    columns = system.source_columns(source)
    print(f"{number}: {system.text(translation)}")
    for k, place in enumerate(places(columns), 1):
        source_map = columns[place], translation.words, weights[:, place]
        print(alignment_map.in_terminal(*source_map) + "\n")
        path = options.output
        if options.png is not None:
            suffix = f"-{k}" if reads(system) > 1 else ""  # a map of each source
            path = options.png / f"attention-{number}{suffix}.{options.format}"
        if path is not None:
            alignment_map.save_map(*source_map, path)
            print(f"{path}\n")
