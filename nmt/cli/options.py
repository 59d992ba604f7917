"""Options that several verbs of `nmt` share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from backend.errors import UserError
from nmt.checkpoint_option import add_checkpoint
from nmt.console.arguments import above_zero, add_seed, at_least_zero, natural, positive
from nmt.console.terminal import print
from nmt.data.attention_links import ALIGNED_WORDS, DEFAULT
from nmt.data.corpus import Pair
from nmt.data.rare_words import Dictionary, UnkReplacement, read_dictionary
from nmt.evaluation.pictures import FORMATS
from nmt.evaluation.rare import ORDERS
from nmt.search.combine import AVERAGES
from nmt.search.interface import SearchOptions, chosen
from nmt.system import System
from nmt.training.kept import SUFFIX


def add_pairs(parser: argparse.ArgumentParser) -> None:
    """Add `source` and `target`, two files that are translations line by line."""
    parser.add_argument("source", type=Path, help="sentences in the source language")
    parser.add_argument("target", type=Path, help="their translations, line by line")


# --- models --------------------------------------------------------------------------------------


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add `--model DIR` and `--checkpoint`."""
    parser.add_argument("--model", type=Path, required=True, metavar="DIR",
                        help="open this run directory")
    add_checkpoint(parser)


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add `RUN`, of a translator or language model, and `--checkpoint`."""
    parser.add_argument("run_directory", type=Path, metavar="RUN",
                        help="the run directory of a translator or language model")
    add_checkpoint(parser)


def add_new_run(parser: argparse.ArgumentParser) -> None:
    """Add `--output DIR`, the run directory that a verb makes."""
    parser.add_argument("--output", type=Path, required=True, metavar="DIR",
                        help="make this run directory")


def add_models(parser: argparse.ArgumentParser) -> None:
    """Add `--model DIR ...`, `--checkpoint` and `--average`."""
    parser.add_argument("--model", type=Path, required=True, nargs="+", metavar="DIR",
                        help="open a run or checkpoint; several form an ensemble")
    add_checkpoint(parser)
    parser.add_argument("--average", choices=AVERAGES, default=AVERAGES[0],
                        help="ensembles average these (default: probabilities)")


def names_of_runs(directories: Sequence[Path]) -> list[str]:
    """A short name for each run or checkpoint: the directory's name, followed by the checkpoint's
    if it is one; the whole path if two names are equal."""
    paths = [directory.resolve() for directory in directories]
    short = [f"{path.parent.name}-{path.stem}" if path.suffix == SUFFIX else path.name
             for path in paths]
    return [name if short.count(name) == 1 else str(directory)
            for name, directory in zip(short, directories, strict=True)]


def tell_precision(system: System, pairs: Sequence[Pair]) -> None:
    """Print on stderr how much reduced precision changes the loss of a batch of pairs."""
    if cost := system.precision_cost(pairs):
        print(cost, file=sys.stderr)


# --- search --------------------------------------------------------------------------------------

FURTHER = ("longest_word", "lengths", "minimum_steps", "minimum_length")  # some verbs lack the last


def add_search(parser: argparse.ArgumentParser) -> None:
    """Add the options that `search_options` reads."""
    parser.add_argument("--beam", type=positive, metavar="N",
                        help="keep N hypotheses (default: the recipe's)")
    add_length_norm(parser)
    parser.add_argument("--lengths", type=positive, metavar="K",
                        help="try the K most probable lengths (countdown)")
    parser.add_argument("--longest-word", type=positive, metavar="N",
                        help="cut words that a model spells at N characters")


def add_length_norm(parser: argparse.ArgumentParser) -> None:
    """Add `--length-normalisation ALPHA` and `--length-factor ALPHA`."""
    parser.add_argument("--length-normalisation", type=at_least_zero, metavar="ALPHA",
                        help="set the exponent of the length penalty")
    parser.add_argument("--length-factor", type=above_zero, metavar="ALPHA",
                        help="allow at most ALPHA target words per source word")


def add_sampling(parser: argparse.ArgumentParser) -> None:
    """Add `--sample TEMPERATURE` and `--seed N`."""
    parser.add_argument("--sample", type=above_zero, metavar="TEMPERATURE",
                        help="sample translations instead of searching")
    add_seed(parser, "--sample")


def search_options(system: System, options: argparse.Namespace, nbest: int | None = None,
                   every_beam: bool = False) -> SearchOptions:
    """The recipe's search options, changed by those of the command line."""
    return chosen(system.recipe.search, options.beam, nbest, options.length_factor,
                  options.length_normalisation, every_beam=every_beam or None,
                  **{name: getattr(options, name, None) for name in FURTHER})


# --- words and their alignment --------------------------------------------------------------------


def need_attention(system: System, request: str) -> None:
    """Raise UserError, naming the request, if the model has no attention."""
    if system.recipe.model.attention == "none":
        raise UserError(f"{request}: expected a model with attention, this one has none")


def add_aligned_word(parser: argparse.ArgumentParser) -> None:
    """Add `--aligned-word`."""
    parser.add_argument("--aligned-word", choices=ALIGNED_WORDS, default=DEFAULT, metavar="WHICH",
                        help=f"choose the aligned word: {', '.join(ALIGNED_WORDS)}")


def add_replace_unk(parser: argparse.ArgumentParser) -> None:
    """Add `--replace-unk [DICTIONARY]`."""
    parser.add_argument("--replace-unk", nargs="?", const="", metavar="DICTIONARY",
                        help="copy or translate the source word of each <unk>")


def dictionary_option(text: str) -> Dictionary:
    """The dictionary of `--replace-unk [DICTIONARY]`; "" gives an empty one, which copies words."""
    return read_dictionary(text) if text else {}


def unk_replacement(options: argparse.Namespace, system: System) -> UnkReplacement | None:
    """The replacement of `nmt translate --replace-unk`; None without the option. Raises UserError
    for a model without attention."""
    if options.replace_unk is None:
        return None
    need_attention(system, "--replace-unk")
    return UnkReplacement(dictionary_option(options.replace_unk), options.aligned_word)


def add_tokens_written(parser: argparse.ArgumentParser) -> None:
    """Add `--tokens FILE` for verbs that write links."""
    parser.add_argument("--tokens", type=Path, metavar="FILE",
                        help="write the tokens that the links refer to")


def add_tokens_read(parser: argparse.ArgumentParser) -> None:
    """Add `--tokens FILE` for verbs that read links."""
    parser.add_argument("--tokens", type=Path, metavar="FILE",
                        help="count the tokens that --tokens of nmt align wrote, not the words "
                             "between spaces")


def add_drop_bad_links(parser: argparse.ArgumentParser) -> None:
    """Add `--drop-bad-links` under both of its names."""
    parser.add_argument("--drop-bad-links", "--skip-bad-links", action="store_true",
                        help="leave out links outside their sentence")


def add_links_format(parser: argparse.ArgumentParser, name: str) -> None:
    """Add the options on the conventions of a file of links."""
    parser.add_argument(f"--{name}-first", type=natural, metavar="N",
                        help="count words from N (Pharaoh: 0, NAACL: 1)")
    parser.add_argument(f"--{name}-swapped", action="store_true",
                        help=f"expect the target word first in the {name} file")


# --- reports -------------------------------------------------------------------------------------


def add_rarity(parser: argparse.ArgumentParser) -> None:
    """Add `--rarity TEXT` and `--rarity-order`."""
    parser.add_argument("--rarity", type=Path, metavar="TEXT",
                        help="score BLEU by rarity of source words, from their frequencies in "
                             "this text (thesis, Figure 3.5)")
    parser.add_argument("--rarity-order", choices=ORDERS, default=ORDERS[0],
                        help=f"sort by mean rank or 1 / frequency (default: {ORDERS[0]})")


def add_format(parser: argparse.ArgumentParser) -> None:
    """Add `--format`, the format of pictures."""
    parser.add_argument("--format", choices=FORMATS, default=FORMATS[0], metavar="F",
                        help=f"draw pictures as {', '.join(FORMATS)} (default: {FORMATS[0]})")
