"""`grads walk` and `grads explore`: a derivation or a search, step by step.

Each command imports its modules when it runs: importing the explorer or models takes longer than a
check.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from backend.errors import UserError
from grads.check.watch import TimeUp
from grads.derivations.scores import SCORES
from grads.progress import limited
from grads.stepper.tracing.derivations import DERIVATIONS
from nmt.checkpoint_option import add_checkpoint
from nmt.console import progress
from nmt.console.arguments import above_zero, at_least_zero, natural, positive, seconds
from nmt.console.messages import nearest
from nmt.console.terminal import print
from nmt.search.combine import AVERAGES

EXAMPLE = ("sentence", "target", "hidden", "embedding", "layers", "score", "window", "feeding",
           "seed", "model", "checkpoint")  # options of the example
SEARCH, VANISHING = "search", "vanishing"  # names that are no derivations; the second is a page
SHARED = ("sentence", "model", "checkpoint")  # options that a search has, too
OF_SEARCH = ("ensemble", "average", "beam", "nbest", "length_normalisation", "length_factor")


def add_walk(parser: argparse.ArgumentParser) -> None:
    """The arguments of `grads walk`."""
    parser.description = (
        "Step through a derivation, or through your own code (FILE.py:NAME). Every step shows its "
        "numbers, and every gradient is verified. In a pipe, all steps are printed. The name "
        "search prints the beam search of a trained translator. Exit status: 0 right; 1 wrong; 3 "
        "undecided, or nothing was verified."
    )
    _add_example(parser, [*DERIVATIONS, SEARCH])
    parser.add_argument("--all", action="store_true", help="print every step")


def run_walk(options: argparse.Namespace) -> int:
    """`grads walk`."""
    from grads.stepper.walk import walk as walk_in_terminal

    if options.name == SEARCH:
        _walk_search(options)
        return 0
    chosen = _of_derivation(options)
    try:
        return walk_in_terminal(options.name, all=options.all, time_limit=options.time_limit,
                                **chosen)
    except TimeUp:
        return _not_finished(options)


def add_explore(parser: argparse.ArgumentParser) -> None:
    """The arguments of `grads explore`."""
    parser.description = (
        "Write a page that steps through a derivation or your own code (FILE.py:NAME). The name "
        "search shows a beam search; vanishing shows how far gradients reach in an RNN, an LSTM "
        "and a GRU. The weights come from your --model or a tiny trained model. They are "
        "random if you choose a size, score, window or seed."
    )
    _add_example(parser, [*DERIVATIONS, SEARCH, VANISHING])
    parser.add_argument("-o", "--output", type=Path, metavar="FILE",
                        help="write this page (NAME.html) or drawings (.svg)")


def run_explore(options: argparse.Namespace) -> int:
    """`grads explore`."""
    from grads.stepper.explorer.data import build, page_name, write

    if options.name == SEARCH:
        path = _explore_search(options)
    elif options.name == VANISHING:
        path = _explore_vanishing(options)
    else:
        chosen = _of_derivation(options)
        try:
            with progress.busy(f"verifying {options.name}"), limited(options.time_limit):
                data = build(options.name, **chosen)
                path = write(data, options.output or page_name(options.name))
        except TimeUp:
            return _not_finished(options)
        if data["verdict"] == "nothing":
            print(f"{path}: written; {' '.join(data['notes'])}")
            return 3
        if data["verdict"] == "wrong":
            print(*(note for note in data["notes"] if "WRONG" in note), sep="\n")
    print(f"{path}: written")
    return 0


def _not_finished(options: argparse.Namespace) -> int:
    """Say that the time was up. Returns 3, the exit status that `grads check` has, too."""
    print(f"{options.name}: NOT FINISHED: the time was up after {options.time_limit:g} s")
    return 3


def _add_example(parser: argparse.ArgumentParser, names: Iterable[str]) -> None:
    """Add the options of the example: a derivation, its sentence, its sizes or a trained model."""
    parser.add_argument("name", metavar="NAME", help=f"FILE.py:NAME, or one of {', '.join(names)}")
    parser.add_argument("--sentence", metavar="WORDS",
                        help="use this sentence, words separated by spaces")
    parser.add_argument("--target", metavar="WORDS", help="use this translation of the sentence")
    for size, noun in (("hidden", "units per hidden state"), ("embedding", "numbers per embedding"),
                       ("layers", "layers")):
        parser.add_argument(f"--{size}", type=_size, metavar="N", help=f"use N {noun}")
    parser.add_argument("--score", help=f"score attention by {', '.join(SCORES)}")
    parser.add_argument("--window", help="use local attention: local-m or local-p")
    parser.add_argument("--no-feeding", action="store_const", const=False, dest="feeding",
                        help="use attention without input feeding")
    parser.add_argument("--seed", type=natural, metavar="N",
                        help="use random weights with this seed")
    parser.add_argument("--model", type=Path, metavar="DIR",
                        help="use this run's weights and vocabulary")
    parser.add_argument("--time-limit", type=seconds, metavar="SECONDS",
                        help="stop verifying after this time, with exit status 3")
    add_checkpoint(parser)
    parser.set_defaults(checkpoint=None)  # a setting like the others, not given
    _add_search(parser.add_argument_group(f"only for {SEARCH}"))


def _add_search(group: argparse._ArgumentGroup) -> None:
    """Add the models and options of a search. Their defaults are those of the recipe."""
    group.add_argument("--ensemble", type=Path, nargs="+", metavar="DIR",
                       help="search with an ensemble of --model and these runs")
    group.add_argument("--average", choices=AVERAGES, help="average these in an ensemble")
    group.add_argument("--beam", type=positive, metavar="K", help="keep K hypotheses per step")
    group.add_argument("--nbest", type=positive, metavar="N",
                       help="return N hypotheses (default: 1)")
    group.add_argument("--length-normalisation", type=at_least_zero, metavar="ALPHA",
                       help="set the exponent of the length penalty")
    group.add_argument("--length-factor", type=above_zero, metavar="ALPHA",
                       help="allow at most ALPHA target words per source word")


def _size(text: str) -> int:
    """A size of an example. It is small, since every number is kept and shown."""
    return natural(text, 1, 1000)


def _of_derivation(options: argparse.Namespace) -> dict[str, Any]:
    """The options of a derivation. Raises UserError for an unknown name, or a search option."""
    from grads.stepper.explorer.own import is_own

    known, name = [*DERIVATIONS, SEARCH], options.name
    if name not in known and not is_own(name):
        raise UserError(f"NAME: expected one of {', '.join(known)}, or FILE.py:NAME, got {name!r}"
                        f"{nearest(name, known)}")
    _only(options, OF_SEARCH, name, "; search has")
    return {key: getattr(options, key) for key in EXAMPLE}


# --- a search -------------------------------------------------------------------------------------


def _walk_search(options: argparse.Namespace) -> None:
    """Print a search."""
    from grads.stepper.explorer.search import SearchSettings, build_search
    from grads.stepper.explorer.search_text import as_text

    print(as_text(build_search(SearchSettings(**_of_search(options)))))


def _explore_search(options: argparse.Namespace) -> Path:
    """Write the page of a search."""
    from grads.stepper.explorer.search import SearchSettings, explore_search

    return explore_search(options.output, SearchSettings(**_of_search(options)))


def _explore_vanishing(options: argparse.Namespace) -> Path:
    """Write the page of vanishing gradients."""
    from grads.stepper.explorer.vanishing import explore_vanishing

    _only(options, {*EXAMPLE, *OF_SEARCH, "time_limit"}, VANISHING, "")
    return explore_vanishing(options.output)


def _of_search(options: argparse.Namespace) -> dict[str, Any]:
    """The options of a search. Raises UserError for an option that it does not have."""
    _only(options, {*EXAMPLE, "time_limit"} - {*SHARED}, SEARCH, "")
    return {name: getattr(options, name) for name in (*SHARED, *OF_SEARCH)
            if getattr(options, name) is not None}


def _only(options: argparse.Namespace, excluded: Iterable[str], name: str, who: str) -> None:
    """Raise UserError if an option of `excluded` was given. Argument who: the end of the
    message."""
    for key in sorted(excluded):
        if getattr(options, key) is not None:
            raise UserError(f"{key.replace('_', '-')}: {name} has none{who}")
