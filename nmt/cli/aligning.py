"""`nmt align --method`: word alignment from the corpus alone, without a translator."""

from __future__ import annotations

import argparse
from pathlib import Path

from backend.errors import UserError
from nmt.console import progress
from nmt.console.arguments import chance
from nmt.data.align import Link
from nmt.data.aligner import METHODS, AlignerOptions, Links, Words, align_with_entries
from nmt.data.aligner.eflomal import align_by_eflomal
from nmt.data.aligner.symmetrise import SYMMETRISATIONS
from nmt.data.corpus import read_parallel, split_words
from nmt.data.lexicon import write_entries

ALIGNERS = (*METHODS, "eflomal")
SYMMETRISE = next(iter(SYMMETRISATIONS))  # the default
LEAST = 0.001  # probability of an entry of a lexicon


def add_lexicon(parser: argparse.ArgumentParser) -> None:
    """`--lexicon` and `--least`."""
    parser.add_argument("--lexicon", type=Path, metavar="FILE",
                        help="with --method model1 or hmm: write p(target word | source word), for "
                             "data.lexicon")
    parser.add_argument("--least", type=chance, metavar="P",
                        help=f"with --lexicon: leave out smaller probabilities (default: {LEAST})")


def links_of_files(options: argparse.Namespace) -> list[list[Link]]:
    """The links of each pair of lines; words are those between spaces."""
    lines = read_parallel(options.source, options.target)
    sources, targets = ([split_words(line) for line in side] for side in lines)
    join = SYMMETRISATIONS[options.symmetrise or SYMMETRISE]
    both = _both_directions(sources, targets, options)
    return [join(*pair) for pair in zip(*both, strict=True)]


def _both_directions(
    sources: Words, targets: Words, options: argparse.Namespace
) -> tuple[Links, Links]:
    """Links of both directions; writes the lexicon."""
    least = LEAST if options.least is None else options.least
    if options.least is not None and not options.lexicon:
        raise UserError("--least: expected --lexicon beside it, got none")
    if options.method == "eflomal":
        if options.lexicon is not None:
            raise UserError("--lexicon: expected --method model1 or hmm, whose probabilities these "
                            "are, got eflomal")
        with progress.busy("eflomal"):
            return align_by_eflomal(sources, targets)
    with progress.told("EM, iterations") as tell:
        *links, entries = align_with_entries(sources, targets, AlignerOptions(options.method), tell)
    if options.lexicon is not None:
        write_entries(options.lexicon, entries, least)
    return links[0], links[1]
