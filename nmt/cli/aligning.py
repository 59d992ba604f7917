"""`nmt align` and `nmt dictionary`: word alignments by the corpus alone, or by a translator."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from backend.errors import UserError
from nmt.checkpoint_option import add_checkpoint
from nmt.cli.alignment_error import file_links, sizes_of
from nmt.cli.lines import read_pairs_of_words, write_or_print
from nmt.cli.options import (
    add_aligned_word,
    add_drop_bad_links,
    add_pairs,
    add_tokens_read,
    add_tokens_written,
    need_attention,
)
from nmt.cli.sources import need_one_source, read_pairs
from nmt.console import progress
from nmt.console.arguments import add_output, chance, positive
from nmt.console.messages import several
from nmt.console.terminal import print
from nmt.data.align import Link, pharaoh_line, read_tokens, tokens_line
from nmt.data.aligner import METHODS, Links, Words, align
from nmt.data.aligner.eflomal import align_by_eflomal
from nmt.data.aligner.symmetrise import SYMMETRISATIONS
from nmt.data.corpus import Pair, write_lines
from nmt.data.lexicon import write_entries
from nmt.data.rare_words import dictionary_of, write_dictionary
from nmt.files import check_writable
from nmt.system import System

ALIGNERS = (*METHODS, "eflomal")
SYMMETRISE = next(iter(SYMMETRISATIONS))  # the default
LEAST = 0.001  # the smallest probability of a lexicon's entry, by default


def add_align(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt align`."""
    add_pairs(parser)
    parser.add_argument("--method", choices=ALIGNERS,
                        help="align by these pairs alone: IBM Model 1, an HMM after it, or the "
                             "program eflomal; words are separated by spaces")
    others = [name for name in SYMMETRISATIONS if name != SYMMETRISE]
    parser.add_argument("--symmetrise", choices=SYMMETRISATIONS, metavar="HOW",
                        help=f"join the two directions of --method by {SYMMETRISE} (default), "
                             f"{', '.join(others)}; forward gives a target word at most one "
                             "source word")
    parser.add_argument("--lexicon", type=Path, metavar="FILE",
                        help="with --method model1 or hmm, write p(target word | source word) "
                             "for data.lexicon")
    parser.add_argument("--least", type=chance, metavar="P",
                        help=f"leave smaller probabilities out of the lexicon (default: {LEAST})")
    parser.add_argument("--model", type=Path, metavar="DIR",
                        help="align by force-decoding the pairs with this run")
    add_checkpoint(parser)
    add_aligned_word(parser)
    add_tokens_written(parser)
    add_output(parser, "links")


def run_align(options: argparse.Namespace) -> None:
    """`nmt align`: write a line of links for each pair, by the corpus alone or by force-decoding.
    """
    if (options.method is None) == (options.model is None):
        raise UserError("expected --method NAME or --model DIR, got both or neither")
    if options.tokens is not None:
        check_writable(options.tokens)
    if options.method is not None:
        pairs = read_pairs_of_words(options.source, options.target)
        links = _links_of_files(pairs, options)
    elif options.symmetrise is not None or options.lexicon is not None:
        name = "--lexicon" if options.lexicon is not None else "--symmetrise"
        raise UserError(f"{name}: needs --method, got --model")
    else:
        pairs, links = _forced(options, "nmt align")
    if options.tokens is not None:
        write_lines(options.tokens, (tokens_line(*pair) for pair in pairs))
    write_or_print(options.output, map(pharaoh_line, links))


def _links_of_files(pairs: Sequence[Pair], options: argparse.Namespace) -> list[list[Link]]:
    """The links of each pair, from the pairs alone."""
    sources, targets = [x for x, _ in pairs], [y for _, y in pairs]
    join = SYMMETRISATIONS[options.symmetrise or SYMMETRISE]
    both = _both_directions(sources, targets, options)
    return [join(*pair) for pair in zip(*both, strict=True)]


def _both_directions(
    sources: Words, targets: Words, options: argparse.Namespace
) -> tuple[Links, Links]:
    """The links of both directions. Also writes the lexicon, if asked for."""
    least = LEAST if options.least is None else options.least
    if options.least is not None and not options.lexicon:
        raise UserError("--least: needs --lexicon")
    if options.method == "eflomal":
        if options.lexicon is not None:
            raise UserError("--lexicon: needs --method model1 or hmm, got eflomal, which has no "
                            "probabilities")
        with progress.busy("eflomal"):
            return align_by_eflomal(sources, targets)
    with progress.told("EM, iterations") as tell:
        *links, entries = align(sources, targets, options.method, tell)
    if options.lexicon is not None:
        write_entries(options.lexicon, entries, least)
    return links[0], links[1]


def _forced(options: argparse.Namespace, request: str) -> tuple[list[Pair], list[list[Link]]]:
    """The pairs of the files as the system of `--model` reads them, and the links between words
    when it force-decodes them. Raises UserError, naming the request, for a system without attention
    and for one of several sources."""
    system = System.open(options.model, options.checkpoint)
    need_attention(system, request)
    need_one_source(system, request)
    pairs = read_pairs(system, options)
    return pairs, [system.word_links(translation, source, options.aligned_word)
                   for translation, (source, _) in zip(system.force(pairs), pairs, strict=True)]


def add_dictionary(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt dictionary`."""
    add_pairs(parser)
    parser.add_argument("output", type=Path, help="the dictionary to write")
    parser.add_argument("--links", type=Path, metavar="FILE",
                        help="read alignments of the pairs; words are separated by spaces")
    add_tokens_read(parser)
    add_drop_bad_links(parser)
    parser.add_argument("--model", type=Path, metavar="DIR",
                        help="align by force-decoding the pairs with this run")
    add_checkpoint(parser)
    parser.add_argument("--min-count", type=positive, default=101, metavar="N",
                        help="require N links of a pair of words (default: 101, the thesis's "
                             "\"exceeds 100\")")
    parser.add_argument("--translations", type=positive, default=1, metavar="N",
                        help="keep the N most frequent of each word, for --shortlist; "
                             "--replace-unk takes one (default: 1)")
    add_aligned_word(parser)


def run_dictionary(options: argparse.Namespace) -> None:
    """`nmt dictionary`: make a dictionary of the links of a file, or of force-decoding."""
    if (options.links is None) == (options.model is None):
        raise UserError("expected --links FILE or --model DIR, got both or neither")
    if options.tokens is not None and options.links is None:
        raise UserError("--tokens: needs --links, which count them, got --model")
    links: Sequence[Sequence[Link]]
    if options.links is not None:
        pairs = read_tokens(options.tokens) if options.tokens is not None else \
            read_pairs_of_words(options.source, options.target)
        links = file_links(options.links, sizes_of(pairs), options.drop_bad_links)
    else:
        pairs, links = _forced(options, "nmt dictionary")
    sources, targets = [x for x, _ in pairs], [y for _, y in pairs]
    dictionary = dictionary_of(sources, targets, links, options.min_count, options.translations)
    write_dictionary(options.output, dictionary)
    print(f"{options.output}: {several(len(dictionary), 'source word')}")
