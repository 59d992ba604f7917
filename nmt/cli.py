"""The command `nmt`: arguments in, one line per error out."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import backend
from backend.errors import UserError
from backend.host import warn_of_slow_blas
from nmt import commands


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (see {self.prog} --help)")


def build_parser() -> Parser:
    """All subcommands and their arguments."""
    parser = Parser(prog="nmt", description="Neural machine translation from scratch.")
    parser.add_argument("--backend", choices=("numpy", "cupy"), default="numpy",
                        help="where the arrays live (default: numpy)")
    sub = parser.add_subparsers(dest="command", required=True, parser_class=Parser)
    _add_demo(sub.add_parser("demo", help="train a small translator on the embedded corpus"))
    _add_train(sub.add_parser("train", help="train a translator from a recipe"))
    _add_translate(sub.add_parser("translate", help="translate lines from stdin to stdout"))
    score = sub.add_parser("score", help="BLEU and chrF of a file against a reference")
    score.add_argument("hypotheses", type=Path)
    score.add_argument("references", type=Path)
    score.add_argument("--tokenize", default="13a", help="sacrebleu's tokenisation (default: 13a)")
    score.set_defaults(run=commands.score)
    perplexity = sub.add_parser("perplexity", help="perplexity of a translator on two files")
    perplexity.add_argument("source", type=Path)
    perplexity.add_argument("target", type=Path)
    perplexity.add_argument("--model", type=Path, required=True, metavar="DIR")
    perplexity.set_defaults(run=commands.perplexity)
    _add_lm(sub.add_parser("lm", help="language models: train, sample, perplexity"))
    return parser


def _add_demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--source", default="en", metavar="LOCALE", help="(default: en)")
    parser.add_argument("--target", default="fr", metavar="LOCALE", help="(default: fr)")
    parser.add_argument("--phrases", type=int, help="training phrases (default: the recipe's)")
    parser.add_argument("--epochs", type=int, help="passes over them (default: the recipe's)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("runs/demo"), metavar="DIR",
                        help="model directory (default: runs/demo; an older demo is replaced)")
    parser.set_defaults(run=commands.demo)


def _add_train(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", nargs="?", type=Path, help="a YAML file")
    parser.add_argument("--output", type=Path, metavar="DIR",
                        help="model directory to make (default: runs/ and the recipe's name)")
    parser.add_argument("--resume", type=Path, metavar="DIR",
                        help="go on where this model directory's last checkpoint stands")
    parser.set_defaults(run=commands.train)


def _add_translate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", type=Path, required=True, metavar="DIR")
    parser.add_argument("--beam", type=int, help="hypotheses per sentence (default: the recipe's)")
    parser.add_argument("--nbest", type=int, metavar="N",
                        help="print the N best as 'line ||| translation ||| log p ||| score'")
    parser.add_argument("--length-normalisation", type=float, metavar="ALPHA",
                        help="exponent of lp(e); 0 ranks by log p (default: the recipe's)")
    parser.add_argument("--length-factor", type=float, metavar="ALPHA",
                        help="at most this many target words per source word")
    parser.add_argument("--sample", type=float, metavar="TEMPERATURE",
                        help="draw a translation instead of searching for the best")
    parser.add_argument("--seed", type=int, default=1, help="of --sample")
    parser.add_argument("--alignments", type=Path, metavar="FILE",
                        help="write 'source-target' word positions, one line per output line")
    parser.set_defaults(run=commands.translate)


def _add_lm(parser: argparse.ArgumentParser) -> None:
    sub = parser.add_subparsers(dest="lm_command", required=True, parser_class=Parser)
    train = sub.add_parser("train", help="train a language model from a recipe")
    _add_train(train)
    train.set_defaults(run=commands.lm_train)
    sample = sub.add_parser("sample", help="draw text from a language model")
    sample.add_argument("--model", type=Path, required=True, metavar="DIR")
    sample.add_argument("--temperature", type=float, default=1.0)
    sample.add_argument("--length", type=int, default=300, help="words or characters to draw")
    sample.add_argument("--prompt", default="", help="text to go on from")
    sample.add_argument("--seed", type=int, default=1)
    sample.set_defaults(run=commands.lm_sample)
    perplexity = sub.add_parser("perplexity", help="perplexity of a language model on a file")
    perplexity.add_argument("text", type=Path)
    perplexity.add_argument("--model", type=Path, required=True, metavar="DIR")
    perplexity.set_defaults(run=commands.lm_perplexity)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exit status 2 with one line on stderr for an error of the user's."""
    try:
        parser = build_parser()
        options, rest = parser.parse_known_args(arguments)
        options.overrides = rest
        if rest and options.run not in (commands.train, commands.lm_train):
            parser.error(f"unrecognized arguments: {' '.join(rest)}")
        backend.use(options.backend)
        warn_of_slow_blas()
        options.run(options)
        sys.stdout.flush()
    except UserError as error:
        sys.exit(_complain(str(error), 2))
    except ValueError as error:  # an argument out of range, said by whoever checks it
        sys.exit(_complain(str(error), 2))
    except KeyboardInterrupt as error:
        sys.exit(_complain(str(error) or "interrupted", 130))
    except BrokenPipeError:  # the reader of our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


def _complain(message: str, status: int) -> int:
    """Print one line on stderr; return the exit status."""
    print(f"nmt: {' '.join(message.split())}", file=sys.stderr)
    return status
