"""Arguments of the subcommands of `nmt` that evaluate."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from nmt.checkpoint_option import add_checkpoint
from nmt.cli import evaluation as commands
from nmt.cli.aligning import ALIGNERS, SYMMETRISE, add_lexicon
from nmt.cli.alignment_error import add_drop_bad_links, run_aer
from nmt.cli.rare_words import add_rare_words
from nmt.cli.restoring import add_restore
from nmt.cli.sources import add_second_source
from nmt.cli.words import add_words
from nmt.console.arguments import above_zero, at_least_zero, natural, positive
from nmt.data.aligner.symmetrise import SYMMETRISATIONS
from nmt.data.attention_links import ALIGNED_WORDS, DEFAULT
from nmt.evaluation.lengths import EDGES
from nmt.evaluation.pictures import FORMATS
from nmt.evaluation.rare import ORDERS
from nmt.search.combine import AVERAGES


def add_commands(sub: Any) -> None:
    """`evaluate`, `align`, `aer`, `attention`, `dictionary`, `annotate`, `restore`, `similarity`,
    `words`: subcommands."""
    _add_evaluate(sub.add_parser("evaluate", help="score translators, side by side"))
    _add_aer(sub.add_parser("aer", help="alignment error rate of links in a file"))
    _add_align(sub.add_parser("align", help="word alignments of pairs, by the corpus or a model"))
    _add_attention(sub.add_parser("attention", help="draw what the decoder attends to"))
    _add_dictionary(sub.add_parser("dictionary", help="make a dictionary for --replace-unk"))
    add_rare_words(sub)
    add_words(sub)


def add_model(parser: argparse.ArgumentParser) -> None:
    """`--model DIR`, and which of its checkpoints."""
    parser.add_argument("--model", type=Path, required=True, metavar="DIR", help="a run directory")
    add_checkpoint(parser)


def add_models(parser: argparse.ArgumentParser) -> None:
    """`--model DIR ...`, which of their checkpoints, and what an ensemble of them averages."""
    parser.add_argument("--model", type=Path, required=True, nargs="+", metavar="DIR",
                        help="a run directory, or a checkpoint of one; of several the ensemble "
                             "translates")
    add_checkpoint(parser)
    parser.add_argument("--average", choices=AVERAGES, default=AVERAGES[0],
                        help="what an ensemble averages at each step (default: probabilities)")


def add_aligned_word(parser: argparse.ArgumentParser) -> None:
    """`--aligned-word`."""
    parser.add_argument("--aligned-word", choices=ALIGNED_WORDS, default=DEFAULT,
                        help="whose alignment a step's weights are; thesis, footnote 13: read for "
                             f"dot, general and concat (default: {DEFAULT})")


def add_longest_word(parser: argparse.ArgumentParser) -> None:
    """`--longest-word N`."""
    parser.add_argument("--longest-word", type=positive, metavar="N",
                        help="most characters of a word that a model spells")


def add_lengths(parser: argparse.ArgumentParser) -> None:
    """`--lengths K`."""
    parser.add_argument("--lengths", type=positive, metavar="K",
                        help="with a countdown: how many lengths to search")


def add_replace_unk(parser: argparse.ArgumentParser) -> None:
    """`--replace-unk [DICTIONARY]`."""
    parser.add_argument("--replace-unk", nargs="?", const="", metavar="DICTIONARY",
                        help="replace unknown words by their aligned source words, or these "
                             "words' translations")


def add_rarity(parser: argparse.ArgumentParser) -> None:
    """`--rarity TEXT`, and by which order."""
    parser.add_argument("--rarity", type=Path, metavar="TEXT",
                        help="BLEU by rarity of source words, by their frequencies in this text "
                             "(thesis, Figure 3.5)")
    parser.add_argument("--rarity-order", choices=ORDERS, default=ORDERS[0],
                        help="by mean rank or mean 1 / frequency "
                             f"(default: {ORDERS[0]})")


def add_format(parser: argparse.ArgumentParser) -> None:
    """`--format` of pictures."""
    parser.add_argument("--format", choices=FORMATS, default=FORMATS[0], metavar="F",
                        help=f"of pictures: {', '.join(FORMATS)} (default: {FORMATS[0]})")


def _add_pairs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)


def _add_evaluate(parser: argparse.ArgumentParser) -> None:
    _add_pairs(parser)
    add_second_source(parser)
    parser.add_argument("--model", type=Path, required=True, nargs="+", metavar="DIR")
    add_checkpoint(parser, both=True)
    parser.add_argument("--ensemble", nargs="?", choices=AVERAGES, const=AVERAGES[0],
                        help="score all together too (default: probabilities)")
    _add_search(parser)
    parser.add_argument("--buckets", type=_edges, default=EDGES, metavar="N,N,...",
                        help="longest source of each bucket of lengths (default: "
                             f"{','.join(map(str, EDGES))})")
    add_rarity(parser)
    add_replace_unk(parser)
    add_restore(parser)
    parser.add_argument("--without-unk", action="store_true",
                        help="score sentences without unknown words apart")
    parser.add_argument("--beams", type=positive, nargs="+", metavar="K",
                        help="only BLEU, length ratio, empty outputs by beam")
    parser.add_argument("--trees", action="store_true",
                        help="F1 of linear trees (nmt trees), by length")
    parser.add_argument("--gold", type=Path, metavar="FILE",
                        help="alignments in Pharaoh or NAACL format, for the alignment error rate")
    _add_links_format(parser, "gold")
    add_drop_bad_links(parser)
    parser.add_argument("--output", type=Path, metavar="DIR",
                        help="write evaluation.json, outputs.txt and pictures")
    add_format(parser)
    parser.set_defaults(run=commands.run_evaluate)


def _add_aer(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Alignment error rate of any aligner's links, precision and recall. Both files are in "
        "Pharaoh format ('3-4', of gold links '3?4' or '3p4' where only possible; a line for each "
        "pair, words from 0) or in NAACL format ('sentence source target [S|P]', from 1)."
    )
    parser.add_argument("links", type=Path, help="the aligner's; marks S and P do not matter")
    parser.add_argument("gold", type=Path)
    parser.add_argument("--source", type=Path, metavar="FILE",
                        help="the sentences, with --target, so that links outside are found; "
                             "words are those between spaces")
    parser.add_argument("--target", type=Path, metavar="FILE")
    for name in ("links", "gold"):
        _add_links_format(parser, name)
    add_drop_bad_links(parser)
    parser.set_defaults(run=run_aer)


def _add_links_format(parser: argparse.ArgumentParser, name: str) -> None:
    """Options for the conventions that a file of links does not state."""
    parser.add_argument(f"--{name}-first", type=natural, metavar="N",
                        help="number of a first word (Pharaoh: 0, NAACL: 1)")
    parser.add_argument(f"--{name}-swapped", action="store_true",
                        help=f"the {name} file names the target word first")


def _add_search(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--beam", type=positive,
                        help="hypotheses per sentence (default: the recipe's)")
    parser.add_argument("--length-normalisation", type=at_least_zero, metavar="ALPHA",
                        help="exponent of lp(e) (default: the recipe's)")
    parser.add_argument("--length-factor", type=above_zero, metavar="ALPHA",
                        help="at most this many target words per source word")
    add_lengths(parser)
    add_longest_word(parser)


def _add_align(parser: argparse.ArgumentParser) -> None:
    _add_pairs(parser)
    parser.add_argument("--method", choices=ALIGNERS,
                        help="align by these pairs alone, words being those between spaces: IBM "
                             "Model 1, an HMM after it, or the program eflomal")
    parser.add_argument("--symmetrise", choices=SYMMETRISATIONS,
                        help="with --method: how the two directions are joined (default: "
                             f"{SYMMETRISE}); forward gives a target word one source word at most")
    add_lexicon(parser)
    parser.add_argument("--model", type=Path, metavar="DIR",
                        help="align by force-decoding the pairs with this run directory instead")
    add_checkpoint(parser)
    add_aligned_word(parser)
    parser.add_argument("--output", "-o", type=Path, metavar="FILE", help="(default: stdout)")
    parser.set_defaults(run=commands.run_align)


def _add_attention(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path, nargs="?",
                        help="translations to force-decode (default: the model's own)")
    add_second_source(parser)
    add_model(parser)
    parser.add_argument("--line", type=positive, nargs="+", default=[1], metavar="N",
                        help="lines to draw (default: 1)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--png", type=Path, metavar="DIR", help="draw pictures in here too")
    where.add_argument("--output", "-o", type=Path, metavar="FILE",
                       help="draw the picture of one line into this file: .png, .svg or .pdf")
    add_format(parser)
    _add_search(parser)
    add_aligned_word(parser)
    parser.set_defaults(run=commands.run_attention)


def _add_dictionary(parser: argparse.ArgumentParser) -> None:
    _add_pairs(parser)
    parser.add_argument("output", type=Path)
    parser.add_argument("--links", type=Path, metavar="FILE",
                        help="alignments of the pairs; words are those between spaces")
    add_drop_bad_links(parser)
    parser.add_argument("--model", type=Path, metavar="DIR",
                        help="align the pairs by force-decoding them instead")
    add_checkpoint(parser)
    parser.add_argument("--min-count", type=positive, default=101, metavar="N",
                        help="links that a pair of words needs (default: 101, the thesis's "
                             "\"exceeds 100\")")
    parser.add_argument("--translations", type=positive, default=1, metavar="N",
                        help="the N most frequent of each word, for --shortlist; more than one is "
                             "no dictionary to replace unknown words by (default: 1)")
    add_aligned_word(parser)
    parser.set_defaults(run=commands.run_dictionary)


def _edges(text: str) -> list[int]:
    """Comma-separated integers in ascending order."""
    rising = re.fullmatch(r"[0-9]{1,9}(,[0-9]{1,9})*", text)
    edges = [int(part) for part in text.split(",")] if rising else []
    if not edges or edges[0] < 1 or edges != sorted(set(edges)):
        raise argparse.ArgumentTypeError(f"expected rising numbers such as 10,20,30, got {text!r}")
    return edges
