"""`nmt aer`, and reading files of gold alignments."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from backend.errors import UserError
from nmt.cli.lines import read_pairs_of_words
from nmt.cli.options import add_drop_bad_links, add_links_format, add_tokens_read
from nmt.console.messages import several
from nmt.console.terminal import print
from nmt.data.align import (
    COUNTED,
    AlignmentScore,
    Gold,
    GoldOptions,
    Link,
    Sizes,
    alignment_score,
    number_of_pairs,
    read_gold,
    read_tokens,
)
from nmt.data.corpus import Pair

DROPPED = 100  # a hint is printed if more than one link in this many does not fit its sentence
UNFIT = ("link does not fit its sentence and is left out",
         "links do not fit their sentences and are left out")


def add_aer(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt aer`."""
    parser.add_argument("links", type=Path, help="links of the aligner; marks S and P are ignored")
    parser.add_argument("gold", type=Path, help="links made by people")
    parser.add_argument("--source", type=Path, metavar="FILE",
                        help="check that links are inside these sentences, with --target; words "
                             "are separated by spaces")
    parser.add_argument("--target", type=Path, metavar="FILE",
                        help="give the translations of --source")
    add_tokens_read(parser)
    for name in ("links", "gold"):
        add_links_format(parser, name)
    add_drop_bad_links(parser)


def run_aer(options: argparse.Namespace) -> None:
    """`nmt aer`: score the links of an aligner by gold links.

    Print the alignment error rate, precision and recall of an aligner's links. Each file is in
    Pharaoh format (a line for each pair, links such as '3-4', words from 0; a gold link that is
    only possible is '3?4' or '3p4') or in NAACL format ('sentence source target [S|P]', from 1).
    """
    sizes = _sizes(options)
    gold = gold_links(options, sizes)
    conventions = GoldOptions(options.links_first, options.links_swapped)
    links = [pair.possible for pair in read_gold(options.links, sizes, conventions).gold]
    if not any(links) and not any(pair.sure for pair in gold):
        raise UserError(f"{options.links}, {options.gold}: expected a link or a sure gold link, "
                        "found neither")
    print(_as_text(alignment_score(links, gold), gold))


def gold_links(options: argparse.Namespace, sizes: Sequence[Sizes | None]) -> list[Gold]:
    """Read the file of gold alignments, and print how many links were dropped.

    Raises UserError as `read_gold`, and for a file without any link.
    """
    conventions = GoldOptions(options.gold_first, options.gold_swapped, options.drop_bad_links)
    gold, dropped = read_gold(options.gold, sizes, conventions)
    if not any(pair.possible for pair in gold):
        raise UserError(f"{options.gold}: expected at least one link, found none")
    if options.drop_bad_links:
        print(f"{options.gold}: {several(dropped, *UNFIT)}")
    return gold


def file_links(path: Path, sizes: Sequence[Sizes], drop: bool) -> list[list[Link]]:
    """The sorted links of each pair in a file. With `drop`, prints how many links do not fit their
    sentence. Raises UserError as `read_gold`."""
    gold, dropped = read_gold(path, sizes, GoldOptions(drop=drop))
    if dropped:
        many = DROPPED * dropped > sum(len(pair.possible) for pair in gold)
        print(f"{path}: {several(dropped, *UNFIT)}" + COUNTED * many)
    return [sorted(pair.possible) for pair in gold]


def sizes_of(pairs: Sequence[Pair]) -> list[Sizes]:
    """The numbers of words in each pair."""
    return [(len(source), len(target)) for source, target in pairs]


def _sizes(options: argparse.Namespace) -> Sequence[Sizes | None]:
    """The numbers of words in each pair; None for each pair if the sentences are not given."""
    if (options.source is None) != (options.target is None):
        raise UserError("--source and --target: each needs the other")
    if options.tokens is not None:
        if options.source is not None:
            raise UserError("--tokens: cannot be used with --source and --target")
        return sizes_of(read_tokens(options.tokens))
    if options.source is None:
        return [None] * number_of_pairs(options.gold, options.links)
    return sizes_of(read_pairs_of_words(options.source, options.target))


def _as_text(score: AlignmentScore, gold: Sequence[Gold]) -> str:
    """The scores and counts as text, a line for each."""
    only_possible = sum(len(pair.possible) for pair in gold) - score.sure
    return "\n".join([
        f"AER {score.error_rate:.4f}", f"precision {score.precision:.4f}",
        f"recall {score.recall:.4f}",
        f"links {score.links} (gold: {score.sure} sure, {only_possible} only possible)",
        f"sentences {len(gold)}",
    ])
