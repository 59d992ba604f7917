"""`nmt trees` and `nmt brackets`: write treebanks as line-aligned text and back; score trees."""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import numpy as np

from backend.errors import UserError
from nmt.analysis.brackets import Brackets, compare, f1_by_length, total
from nmt.cli.lines import read_pairs_of_words, write_or_print
from nmt.cli.sources import need_one_source
from nmt.console.arguments import add_output, positive
from nmt.console.messages import several
from nmt.console.terminal import print
from nmt.data.corpus import write_lines
from nmt.data.trees import WORD, Tree, bracketed, read_trees, rebuild, split
from nmt.evaluation.evaluate import TestSet
from nmt.search.constraint import TreesOnly
from nmt.search.interface import SearchOptions
from nmt.system import System

WORDS, TREES = "words", "trees"  # suffixes of the files of a set


def add_trees(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt trees`."""
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE",
                        help="trees in the Penn Treebank's brackets, one document per file")
    for name in ("dev", "test"):
        parser.add_argument(f"--{name}", type=Path, nargs="+", default=(), metavar="FILE",
                            help=f"put these documents into the {name} set")
    parser.add_argument("--lower-case", action="store_true", help="write the words in lower case")
    parser.add_argument("--escape", action="store_true",
                        help="write &apos; for ' in the words, and so on, as Moses does")
    parser.add_argument("--max-length", type=positive, metavar="N",
                        help="leave out trees of more than N words")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR",
                        help="write the files here")


def add_brackets(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt brackets`."""
    parser.add_argument("words", type=Path, help="sentences, in tokens")
    parser.add_argument("trees", type=Path,
                        help="their linear trees; output of a model is repaired, and a tree with "
                             "a wrong number of words becomes an empty line")
    add_output(parser, "brackets")


def run_trees(options: argparse.Namespace) -> None:
    """`nmt trees`.

    Write each tree as a line of words in SET.words and a line of symbols in SET.trees, where SET is
    train, dev or test. Each file is a document, whose trees all go into one set. Without --dev and
    --test, the 5th, 15th ... document by name goes to dev, the 10th, 20th ... to test.
    """
    documents = split(options.files, options.dev, options.test)
    longest = options.max_length or math.inf
    sets = {name: [[tree for tree in read_trees(path) if len(tree.words) <= longest]
                   for path in paths]
            for name, paths in documents._asdict().items() if paths}
    for name, documents_of_set in sets.items():
        if not any(documents_of_set):
            raise UserError(f"{', '.join(map(str, getattr(documents, name)))}: expected a tree "
                            f"for the {name} set, got none within the limit")
    options.output.mkdir(parents=True, exist_ok=True)
    for name, documents_of_set in sets.items():
        _write([tree for trees in documents_of_set for tree in trees], name,
               len(documents_of_set), options)


def _write(trees: list[Tree], name: str, documents: int, options: argparse.Namespace) -> None:
    """Write both files of a set, and print what is in them."""
    words = [" ".join(tree.words) for tree in trees]
    if options.lower_case:
        words = [line.lower() for line in words]
    if options.escape:
        from sacremoses import MosesTokenizer

        words = [MosesTokenizer().escape_xml(line) for line in words]
    write_lines(options.output / f"{name}.{WORDS}", words)
    write_lines(options.output / f"{name}.{TREES}", (" ".join(tree.symbols) for tree in trees))
    symbols = {symbol for tree in trees for symbol in tree.symbols}
    print(f"{options.output / name}.{{{WORDS},{TREES}}}: {several(len(trees), 'tree')} of "
          f"{several(documents, 'document')}, "
          f"{several(sum(len(tree.words) for tree in trees), 'word')}, "
          f"{several(sum(len(tree.symbols) for tree in trees), 'symbol')}, "
          f"{len(symbols)} different")


def run_brackets(options: argparse.Namespace) -> None:
    """`nmt brackets`."""
    lines = []
    for words, symbols in read_pairs_of_words(options.words, options.trees):
        tree = rebuild(symbols, words)
        lines.append("" if tree is None else bracketed(tree))
    write_or_print(options.output, lines)


# --- scores ---------------------------------------------------------------------------------------


def score_trees(options: argparse.Namespace) -> None:
    """`nmt score --trees`."""
    if options.source is not None or options.rarity is not None:
        raise UserError("--trees: cannot be used with --source or --rarity")
    (path,) = options.references
    parses = read_pairs_of_words(options.hypotheses, path)
    sentences = [sentence for sentence, _ in read_pairs_of_words(options.trees, path)]
    parts = [_compared(parse, tree, sentence, f"{path}:{number}")
             for number, ((parse, tree), sentence)
             in enumerate(zip(parses, sentences, strict=True), 1)]
    counts = total(parts)
    print(f"F1 {counts.f1:.2f}, precision {counts.precision:.2f}, recall {counts.recall:.2f}")
    print(f"{counts.exact} exact of {counts.sentences}, "
          f"{counts.unfit} with a wrong number of words")
    for bucket in f1_by_length(parts, [len(sentence) for sentence in sentences]):
        if bucket.score is not None:
            print(f"F1 {bucket.score:.2f} of {several(bucket.sentences, 'sentence')} of "
                  f"{bucket.label} words")


def check_trees(name: str, system: System, test: TestSet, options: argparse.Namespace) -> None:
    """Raise UserError for a system that writes no linear trees, and for a reference that is no
    linear tree."""
    if options.restore is not None:
        raise UserError("--trees: cannot be used with --restore")
    _need_trees("--trees", name, system)
    for number, (sentence, tree) in enumerate(zip(test.sources, test.targets, strict=True), 1):
        _compared(tree, tree, sentence, f"{options.target}:{number}")


def trees_only(name: str, system: System, search: SearchOptions) -> TreesOnly:
    """The restriction of `--valid-trees`. Raises UserError for a system that writes no linear
    trees, or not from the first symbol to the last."""
    option = "--valid-trees"
    _need_trees(option, name, system)
    need_one_source(system, option)
    if system.model.counts_down or system.recipe.data.reverse_target:
        key = "model.target_positions countdown" if system.model.counts_down else \
            "data.reverse_target"
        raise UserError(f"{option}: expected a model without {key}; {name} has it")
    return TreesOnly(system.target.words, search)


def _need_trees(option: str, name: str, system: System) -> None:
    """Raise UserError for a system that writes no linear trees."""
    if system.recipe.data.tokenise != "none" or WORD not in system.target.words:
        raise UserError(f"{option}: expected models of linear trees, with {WORD} among their "
                        f"target words and data.tokenise none; {name} is not")


def tell_long_trees(name: str, test: TestSet, search: SearchOptions) -> None:
    """Print on stderr how many references have more symbols than the search may write."""
    limits = search.step_limits(np.array([len(words) for words in test.sources]))
    steps = np.array([len(tree) + 1 for tree in test.targets])  # and the end marker
    if long := int((steps > limits).sum()):
        needed = (steps / np.maximum([len(words) for words in test.sources], 1))[steps > limits]
        print(f"{name}: {long} of {several(len(steps), 'tree')} are longer than the search may "
              f"write with search.length_factor {search.length_factor:g}; --length-factor "
              f"{math.ceil(10 * needed.max()) / 10:g} is enough", file=sys.stderr)


def _compared(written: list[str], gold: list[str], sentence: list[str], place: str) -> Brackets:
    """The bracket counts of a parse against its reference. place: for errors."""
    try:
        return compare(written, gold, sentence)
    except ValueError as error:
        raise UserError(f"{place}: {str(error).removeprefix('gold: ')}") from None
