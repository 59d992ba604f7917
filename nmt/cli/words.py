"""`nmt similarity` and `nmt words`: compare and draw the word vectors of a translator's encoder."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from rich.table import Table

from backend.errors import UserError
from nmt.analysis.similarity import Similarity, read_pairs, similarity
from nmt.analysis.words_map import (
    draw_words,
    principal_components,
    require_sklearn,
    t_sne,
    unit_length,
)
from nmt.checkpoint_option import add_checkpoint
from nmt.cli.options import add_model
from nmt.console.arguments import add_seed
from nmt.console.messages import several
from nmt.console.progress import busy
from nmt.console.terminal import Console, print
from nmt.data.corpus import read_lines, split_words, write_lines
from nmt.data.vocabulary import UNKNOWN
from nmt.evaluation.pictures import require_drawing
from nmt.system import System

METHODS = ("pca", "t-sne")
NONE = "-"
SHOWN = 10  # words that a message lists at most


def add_similarity(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt similarity`."""
    parser.add_argument("pairs", type=Path, help="lines of two words and their rating, such as "
                                                 "the Rare Word data set's rw.txt")
    parser.add_argument("--model", type=Path, required=True, nargs="+", metavar="DIR",
                        help="compare these runs")
    add_checkpoint(parser)
    parser.add_argument("--output", "-o", type=Path, metavar="FILE", help="also write JSON here")


def add_words(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt words`."""
    parser.add_argument("words", type=Path, help="words between spaces or on lines")
    add_model(parser)
    parser.add_argument("--method", choices=METHODS, default=METHODS[0],
                        help="project by principal components or by Barnes-Hut t-SNE, which "
                             f"needs scikit-learn (default: {METHODS[0]})")
    parser.add_argument("--unit-length", action="store_true",
                        help="compare directions only, as cosine does: vectors that characters "
                             "make may be much shorter than others")
    add_seed(parser, "t-SNE", default=0)
    parser.add_argument("--output", "-o", type=Path, required=True, metavar="FILE",
                        help="write this PNG")


def run_similarity(options: argparse.Namespace) -> None:
    """`nmt similarity`: print a table of Spearman's rho x 100, as Table 5.3 of the thesis."""
    pairs = read_pairs(options.pairs)
    results = {str(directory): similarity(System.open(directory, options.checkpoint), pairs)
               for directory in options.model}
    Console.of_tables().print(_table(results))
    if options.output is not None:
        text = json.dumps({name: result.to_json() for name, result in results.items()}, indent=2)
        write_lines(options.output, text.splitlines())


def _table(results: dict[str, Similarity]) -> Table:
    """The table, with a row for each model."""
    table = Table(box=None, pad_edge=False)
    first = next(iter(results.values()))
    table.add_column("rho x 100", overflow="fold")
    for agreement in first.agreements:
        table.add_column(f"{agreement.measure}, all", justify="right")
        table.add_column(f"{agreement.measure}, known", justify="right")
    for heading in ("pairs", "known", "half known", "without a vector"):
        table.add_column(heading, justify="right")
    for name, result in results.items():
        rho = [_percent(value) for agreement in result.agreements
               for value in (agreement.all, agreement.known)]
        counts = (result.pairs, result.known, result.half_known, result.without_vector)
        table.add_row(name, *rho, *map(str, counts))
    return table


def _percent(rho: float) -> str:
    """rho x 100 as text; a dash if it is undefined."""
    return NONE if np.isnan(rho) else f"{100 * rho:.1f}"


def run_words(options: argparse.Namespace) -> None:
    """`nmt words`: draw the picture. Words without a vector are left out and named on stderr."""
    require_drawing("nmt words")
    if options.method == "t-sne":
        require_sklearn("--method t-sne")
    words = list(dict.fromkeys(
        word for line in read_lines(options.words) for word in split_words(line)))
    system = System.open(options.model, options.checkpoint)
    vectors, has_vector = system.word_vectors(words)
    drawn = [word for word, is_known in zip(words, has_vector, strict=True) if is_known]
    missing = [word for word, is_known in zip(words, has_vector, strict=True) if not is_known]
    if len(drawn) < 2:
        raise UserError(f"{options.words}: expected at least two words with a vector, got "
                        f"{len(drawn)}")
    if missing:
        named = ", ".join(missing[:SHOWN]) + ", ..." * (len(missing) > SHOWN)
        print(f"{len(missing)} of {several(len(words), 'word')} have no vector and are left out: "
              f"{named}",
              file=sys.stderr)
    drawn_vectors = vectors[has_vector]
    points, axes = _points(unit_length(drawn_vectors) if options.unit_length else drawn_vectors,
                           options)
    frequent = [i != UNKNOWN for i in system.source.ids(drawn)]
    draw_words(drawn, points, frequent, axes, options.output)
    print(options.output)


def _points(vectors: np.ndarray, options: argparse.Namespace) -> tuple[np.ndarray, list[str]]:
    """The points of the words in the plane, and the labels of the axes."""
    if options.method == "t-sne":
        with busy("t-SNE"):
            return t_sne(vectors, options.seed), ["", ""]
    points, shares = principal_components(vectors)
    return points, [f"component {i}: {share:.0%} of the variance"
                    for i, share in enumerate(shares, start=1)]
