"""The command `nmt`: arguments in, one line per error out."""

from __future__ import annotations

import argparse
import re
import sys
from collections import deque
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from nmt.cli import commands
from nmt.cli.arguments import (
    add_aligned_word,
    add_commands,
    add_lengths,
    add_longest_word,
    add_model,
    add_models,
    add_rarity,
    add_replace_unk,
)
from nmt.cli.averaging import add_average
from nmt.cli.back_translating import add_back_translate
from nmt.cli.bpe import add_bpe
from nmt.cli.factoring import add_factors
from nmt.cli.fusing import add_fuse, add_tune, run_fuse
from nmt.cli.logits import add_logits
from nmt.cli.own_files import add_own_files
from nmt.cli.own_files import init as run_init
from nmt.cli.plotting import add_plot
from nmt.cli.pruning import add_pruning, run_prune
from nmt.cli.ranks import launched
from nmt.cli.redundancy import add_redundancy
from nmt.cli.reranking import add_rerank
from nmt.cli.serving import add_serve
from nmt.cli.sources import add_second_source
from nmt.cli.transferring import add_init
from nmt.cli.translating import FREQUENT, translate
from nmt.cli.trees import add_trees
from nmt.console.arguments import (
    HelpWithLines,
    Parser,
    above_zero,
    at_least_zero,
    count,
    natural,
    positive,
)
from nmt.console.command import run_command
from nmt.recipe.page import keys_in_short

# These take `--section.key VALUE`.
RECIPE_COMMANDS = (commands.demo, commands.train, commands.recipe, commands.lm_train, run_prune,
                   run_fuse)


def build_parser() -> Parser:
    """All subcommands and their arguments."""
    parser = Parser(prog="nmt", description="Neural machine translation from scratch.")
    parser.add_version()
    sub = parser.add_subparsers(dest="command", metavar="command", required=True,
                                parser_class=Parser)
    _add_demo(sub.add_parser("demo", help="train a small translator on the embedded corpus"))
    _add_train(sub.add_parser("train", help="train a translator: from two files, or a recipe"))
    init = sub.add_parser("init", help="write a commented recipe, to edit and to train by")
    init.add_argument("recipe", type=Path, metavar="FILE", help="the YAML file to make")
    add_own_files(init)
    init.set_defaults(run=run_init)
    _add_recipe(sub.add_parser("recipe", help="print a recipe as it is used, or the page of keys"))
    _add_corpus(sub.add_parser("corpus", help="write the embedded corpus into text files"))
    _add_translate(sub.add_parser("translate", help="translate files, stdin or what you type"))
    add_serve(sub.add_parser("serve", help="translate on a page in the browser"))
    score = sub.add_parser("score", help="BLEU and chrF of a file, or F1 of linear trees")
    score.add_argument("hypotheses", type=Path)
    score.add_argument("references", type=Path)
    score.add_argument("--tokenize", default="13a", help="sacrebleu's tokenisation (default: 13a)")
    score.add_argument("--source", type=Path, metavar="FILE",
                       help="with --rarity: the sentences that were translated, in tokens")
    score.add_argument("--against", type=Path, nargs="+", metavar="FILE",
                       help="other translations: BLEU, its interval and p by paired bootstrap")
    score.add_argument("--samples", type=positive, default=1000, metavar="N",
                       help="... of so many resampled test sets (default: 1000)")
    add_rarity(score)
    score.add_argument("--trees", type=Path, metavar="WORDS",
                       help="bracketing F1 instead, of linear trees over the sentences of this "
                            "file (nmt trees)")
    score.set_defaults(run=commands.score)
    perplexity = sub.add_parser("perplexity", help="perplexity of a translator on two files")
    perplexity.add_argument("source", type=Path)
    perplexity.add_argument("target", type=Path)
    add_second_source(perplexity)
    add_model(perplexity)
    perplexity.set_defaults(run=commands.perplexity)
    add_commands(sub)
    add_plot(sub.add_parser("plot", help="draw the learning curves of runs"))
    add_logits(sub.add_parser("logits", help="take logits apart; a lexical module's lexicon"))
    add_pruning(sub)
    add_redundancy(sub)
    add_trees(sub)
    add_bpe(sub)
    add_average(sub)
    add_rerank(sub)
    add_back_translate(sub)
    add_factors(sub)
    _add_lm(sub.add_parser("lm", help="language models: train, sample, perplexity"))
    return parser


def _add_demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--source", default="en", metavar="LOCALE", help="(default: en)")
    parser.add_argument("--target", default="fr", metavar="LOCALE", help="(default: fr)")
    parser.add_argument("--phrases", type=positive, metavar="N",
                        help="training phrases (default: the recipe's)")
    parser.add_argument("--epochs", type=positive, metavar="N",
                        help="passes over them (default: the recipe's)")
    parser.add_argument("--seed", type=natural, default=1)
    parser.add_argument("--output", type=Path, default=Path("runs/demo"), metavar="DIR",
                        help="run directory (default: runs/demo; an older demo's files go)")
    parser.set_defaults(run=commands.demo)


def _add_corpus(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("output", type=Path, metavar="DIR", help="directory to write into")
    parser.add_argument("--source", default="en", metavar="LOCALE", help="(default: en)")
    parser.add_argument("--target", default="fr", metavar="LOCALE", help="(default: fr)")
    for name, size in (("train", 20000), ("dev", 500), ("test", 500)):
        parser.add_argument(f"--{name}", type=count, default=size,
                            help=f"phrases of the {name} set (default: {size})")
    parser.add_argument("--seed", type=natural, default=1)
    parser.set_defaults(run=commands.corpus)


def _add_train(parser: argparse.ArgumentParser) -> None:
    _add_run(parser)
    add_own_files(parser)
    add_init(parser)
    parser.usage = ("nmt train [RECIPE] [--train SOURCE TARGET] [--dev SOURCE TARGET]\n"
                    "                 [--test SOURCE TARGET] [--output DIR] [--SECTION.KEY VALUE]\n"
                    "                 [--init DIR [--init-words HOW] [--freeze PATTERN ...]]\n"
                    "       nmt train --resume DIR [--SECTION.KEY VALUE]")
    parser.formatter_class = HelpWithLines
    parser.epilog = keys_in_short()
    parser.set_defaults(run=commands.train)


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", nargs="?", type=Path, help="a YAML file")
    parser.add_argument("--output", type=Path, metavar="DIR",
                        help="run directory to make (default: runs/ and the recipe's name)")
    parser.add_argument("--resume", type=Path, metavar="DIR",
                        help="go on where this run directory's last checkpoint stands")
    parser.add_argument("--tensorboard", action="store_true",
                        help="write event files into the run directory, for TensorBoard")
    parser.add_argument("--mpi", action="store_true",
                        help="one of several ranks, which mpiexec tells by itself")


def _add_recipe(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("recipe", nargs="?", type=Path, help="a YAML file: its bases merged, every "
                                                           "default filled in")
    what.add_argument("--doc", action="store_true",
                      help="docs/recipe.md: every key, its type, default and meaning")
    parser.set_defaults(run=commands.recipe)


def _add_translate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE",
                        help="what to translate (default: stdin, or what you type; of two "
                             "sources a file of each)")
    add_models(parser)
    parser.add_argument("--sources", action="store_true",
                        help="each model reads its own file, in order")
    parser.add_argument("--beam", type=positive,
                        help="hypotheses per sentence (default: the recipe's)")
    parser.add_argument("--nbest", type=positive, metavar="N",
                        help="print the N best: 'line ||| translation ||| log_p= X cut= 1 if at "
                             "the limit on length ||| score'")
    parser.add_argument("--length-normalisation", type=at_least_zero, metavar="ALPHA",
                        help="exponent of lp(e); 0 ranks by log p (default: the recipe's)")
    parser.add_argument("--length-factor", type=above_zero, metavar="ALPHA",
                        help="at most this many target words per source word")
    add_lengths(parser)
    add_longest_word(parser)
    parser.add_argument("--sample", type=above_zero, metavar="TEMPERATURE",
                        help="sample a translation, no search")
    parser.add_argument("--seed", type=natural, default=1, help="of --sample")
    parser.add_argument("--draws", type=positive, metavar="N",
                        help="with --sample: the most probable of N draws")
    parser.add_argument("--every-beam", action="store_true",
                        help="the best of all beams up to --beam")
    parser.add_argument("--sparse", action="store_true",
                        help="sparse products of a pruned model (nmt prune)")
    parser.add_argument("--shortlist", type=Path, metavar="DICTIONARY",
                        help="restrict the target words to its translations")
    parser.add_argument("--frequent", type=count, metavar="N",
                        help=f"... and the N most frequent (default: {FREQUENT})")
    parser.add_argument("--shortlist-check", action="store_true",
                        help="report how often all words give the same")
    parser.add_argument("--target-token", metavar="L",
                        help="the target language, such as <2de>")
    parser.add_argument("--lm", type=Path, metavar="DIR",
                        help="add a language model's log p (shallow fusion)")
    parser.add_argument("--lm-weight", type=at_least_zero, metavar="BETA",
                        help="... times BETA, which nmt lm tune finds")
    parser.add_argument("--alignments", type=Path, metavar="FILE",
                        help="write 'source-target' positions of tokens, from 0")
    parser.add_argument("--show", choices=("attention",),
                        help="draw what the decoder attends to")
    parser.add_argument("--jobs", type=partial(natural, least=1, most=1024), default=1,
                        metavar="N", help="processes that share the sentences (default: 1)")
    add_replace_unk(parser)
    add_aligned_word(parser)
    parser.set_defaults(run=translate)


def _add_lm(parser: argparse.ArgumentParser) -> None:
    sub = parser.add_subparsers(dest="lm_command", required=True, parser_class=Parser)
    train = sub.add_parser("train", help="train a language model from a recipe")
    _add_run(train)
    train.set_defaults(run=commands.lm_train)
    sample = sub.add_parser("sample", help="sample text from a language model")
    add_model(sample)
    sample.add_argument("--temperature", type=above_zero, default=1.0)
    sample.add_argument("--length", type=partial(natural, least=1, most=10**7), default=300,
                        help="words or characters to sample")
    sample.add_argument("--prompt", default="", help="text to continue")
    sample.add_argument("--seed", type=natural, default=1)
    sample.set_defaults(run=commands.lm_sample)
    add_tune(sub)
    add_fuse(sub)
    perplexity = sub.add_parser("perplexity", help="perplexity of a language model on a file")
    perplexity.add_argument("text", type=Path)
    add_model(perplexity)
    perplexity.set_defaults(run=commands.lm_perplexity)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exit status 2 with one line on stderr for an error of the user's."""
    given = sys.argv[1:] if arguments is None else arguments
    run_command("nmt", lambda: _parse(given), heavy=launched()[1] == 0)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options; for the commands that train, overrides of the recipe among them."""
    parser = build_parser()
    overrides, rest = _split_overrides(arguments)
    options, unknown = parser.parse_known_args(rest)
    if unknown and options.run in RECIPE_COMMANDS:  # they get a hint from the recipe
        overrides, rest = _split_overrides(arguments, unknown)
        options, unknown = parser.parse_known_args(rest)
    options.overrides = overrides + unknown
    meant = [one for one in options.overrides
             if "." not in one.partition("=")[0] and options.parser.meant(one)]
    if meant or (options.overrides and options.run not in RECIPE_COMMANDS):
        options.parser.refuse(meant or options.overrides)
    return options


def _split_overrides(
    arguments: Sequence[str], unknown: Sequence[str] = ()
) -> tuple[list[str], list[str]]:
    """Arguments such as `--train.epochs 5`, joined to `--train.epochs=5`, and the others; `unknown`
    options, such as `--epochs 5`, are among the first.

    argparse does not know them, and would take their values for the recipe.
    """
    overrides: list[str] = []
    rest: list[str] = []
    waiting = deque(arguments)
    while waiting:
        argument = waiting.popleft()
        dotted = re.match(r"--[\w-]+\.", argument)
        if not dotted and not (argument in unknown and argument.startswith("--")):
            rest.append(argument)
        elif "=" in argument or not waiting or (not dotted and waiting[0].startswith("--")):
            overrides.append(argument)
        else:
            overrides.append(f"{argument}={waiting.popleft()}")
    return overrides, rest
