"""The command `grads`: check gradients, and write the pages on what was verified."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from grads import checking, commands
from grads.derivations.scores import SCORES
from grads.stepper.tracing.derivations import DERIVATIONS
from nmt.checkpoint_option import add_checkpoint
from nmt.console.arguments import Parser, above_zero, at_least_zero, natural, positive, seconds
from nmt.console.command import run_command
from nmt.search.combine import AVERAGES


def build_parser() -> Parser:
    """All subcommands and their arguments."""
    parser = Parser(prog="grads", description="Verification of hand-written gradients.")
    parser.add_version()
    sub = parser.add_subparsers(dest="command", required=True, parser_class=Parser)
    _add_check(sub.add_parser("check", help="check gradients: of the catalogue, or your own"))
    _add_matrix(sub.add_parser("matrix", help="check the whole catalogue and write the matrix"))
    _add_mutants(sub.add_parser("mutants", help="mutation testing of the backward passes"))
    _add_walk(sub.add_parser("walk", help="step through a derivation in the terminal"))
    _add_explore(sub.add_parser("explore", help="step through a derivation in the browser"))
    equations = sub.add_parser("equations", help="write the index of the papers' equations")
    equations.add_argument("-o", "--output", type=Path, default=Path("docs/equations.md"))
    equations.set_defaults(run=commands.equations)
    return parser


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Check entries of the catalogue by name or pattern ('luong*local-p*'), or your own code: "
        "FILE.py:NAME, where the file has NAME_inputs(rng), and either NAME_forward(*inputs) -> "
        "outputs, cache with NAME_backward(d_outputs, cache), or NAME(*inputs) with "
        "NAME_gradient(*inputs). Exit status 0: right; 1: wrong; 2: it could not be checked; 3: "
        "undecided (two methods disagree), or the time was up."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="(default: the whole catalogue)")
    parser.add_argument("--list", action="store_true", help="print the catalogue's names")
    parser.add_argument("--tier", help="tiny, real or every (default: tiny and real)")
    parser.add_argument("--all", action="store_true", help="differentiate every entry (default: "
                        "two random directions and one entry a tensor)")
    parser.add_argument("--sample", type=positive, metavar="N",
                        help="differentiate N entries of each larger tensor")
    parser.add_argument("--method", help="both, complex, ridders, central or forward (default: "
                        "complex step, and central differences where that is not enough)")
    parser.add_argument("--rtol", type=at_least_zero, metavar="R",
                        help="accept relative errors up to R (default: those that rounding "
                             "explains)")
    parser.add_argument("--time-limit", type=seconds, metavar="SECONDS",
                        help="end each check after this time and report what was covered: "
                             "exit status 3, unless a gradient is wrong")
    parser.add_argument("--seed", type=natural, default=0, help="(default: 0)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the reports there")
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write a page there, with a "
                        "map of the relative error over each tensor; of your own code every entry "
                        "is differentiated, of tensors with more than 1024 a sample")
    parser.set_defaults(run=checking.check)


def _add_matrix(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", type=Path, default=Path("docs/gradient-matrix.md"),
                        help="a .json of the same name is written beside it")
    parser.add_argument("--seed", type=natural, default=0)
    parser.set_defaults(run=commands.matrix)


def _add_mutants(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Change the backward passes, one place at a time, and run the checks on each mutant; or "
        "make a paper's mistake, by its name in docs/errata.md, in a derivation. Exit status 1: "
        "a mutant survives that should have been killed."
    )
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help="make these mistakes of the papers and print the reports")
    parser.add_argument("--sample", type=positive, metavar="N",
                        help="a fixed choice of N mutants (default: all)")
    parser.add_argument("--jobs", type=positive, default=1, help="processes (default: 1)")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE",
                        help="write the page docs/mutants.md there")
    parser.set_defaults(run=commands.mutants)


def _add_walk(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Step through a derivation, forward and backward, with every number and the verification "
        "of every gradient. In a pipe, everything is printed. Or through your own code: "
        "FILE.py:NAME, where the file has NAME_inputs(rng) and NAME, or NAME_forward and "
        "NAME_backward. With NAME search, print a trained translator's beam search of a sentence."
    )
    _add_example(parser)
    parser.add_argument("--all", action="store_true", help="print every step")
    parser.set_defaults(run=commands.walk)


def _add_explore(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write a page that steps through a derivation, or through a user's own function, "
        "FILE.py:NAME; or with NAME search through a trained translator's beam search of a "
        "sentence, as nmt translate runs it. A derivation's weights are those of a tiny trained "
        "model that comes with the package; random ones where a size, a score, a window or a seed "
        "is given; those of your own model with --model, whatever its parts."
    )
    _add_example(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE",
                        help="the page to write (default: NAME.html)")
    parser.set_defaults(run=commands.explore)


def _add_search(group: argparse._ArgumentGroup) -> None:
    """The models and options of a search; their defaults are the recipe's."""
    group.add_argument("--ensemble", type=Path, nargs="+", metavar="DIR",
                       help="more run directories, searched as one with --model")
    group.add_argument("--average", choices=AVERAGES, help="what an ensemble averages")
    group.add_argument("--beam", type=positive, metavar="K", help="hypotheses kept a step")
    group.add_argument("--nbest", type=positive, metavar="N",
                       help="hypotheses returned (default: 1)")
    group.add_argument("--length-normalisation", type=at_least_zero, metavar="ALPHA",
                       help="exponent of lp(e); 0 ranks by log p")
    group.add_argument("--length-factor", type=above_zero, metavar="ALPHA",
                       help="at most this many target words per source word")


def _size(text: str) -> int:
    """A size of an example to step through; small, since every number is kept and shown."""
    return natural(text, 1, 1000)


def _add_example(parser: argparse.ArgumentParser) -> None:
    """The example to step through: a derivation, its sentence, its sizes or a trained model."""
    names = ", ".join([*DERIVATIONS, commands.SEARCH])
    parser.add_argument("name", metavar="NAME", help=f"one of {names}")
    parser.add_argument("--sentence", metavar="WORDS",
                        help="words between spaces (of a translation, the source)")
    parser.add_argument("--target", metavar="WORDS", help="of a translation")
    for size in ("hidden", "embedding", "layers"):
        parser.add_argument(f"--{size}", type=_size, metavar="N")
    parser.add_argument("--score", help=f"of attention: {', '.join(SCORES)}")
    parser.add_argument("--window", help="of attention: local-m or local-p")
    parser.add_argument("--no-feeding", action="store_const", const=False, dest="feeding",
                        help="attention without input feeding")
    parser.add_argument("--seed", type=natural, metavar="N", help="of random weights")
    parser.add_argument("--model", type=Path, metavar="DIR",
                        help="a run directory: its own weights, its own words")
    add_checkpoint(parser)
    parser.set_defaults(checkpoint=None)  # a setting like the others, not given
    _add_search(parser.add_argument_group(f"of {commands.SEARCH}"))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exit status 1 for a wrong gradient, 2 for an error of the user's."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    run_command("grads", lambda: build_parser().parse_args(given))
