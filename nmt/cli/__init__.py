"""The command `nmt`: its verbs, arguments in, one line per error out."""

from __future__ import annotations

import argparse
import re
import sys
from collections import deque
from collections.abc import Sequence

from nmt.cli.ranks import launched
from nmt.console import verbs
from nmt.console.arguments import Parser
from nmt.console.command import run_command
from nmt.console.verbs import Verb

VERBS = (
    Verb("demo", "train a small translator on the embedded corpus", "nmt.cli.demo", overrides=True),
    Verb("train", "train a translator: from two files, or a recipe", "nmt.cli.training",
         overrides=True),
    Verb("init", "write a commented recipe, to edit and to train by", "nmt.cli.recipes"),
    Verb("recipe", "print a recipe as it is used, or the page of keys", "nmt.cli.recipes",
         overrides=True),
    Verb("corpus", "write the embedded corpus into text files", "nmt.cli.demo"),
    Verb("translate", "translate files, stdin or what you type", "nmt.cli.translating"),
    Verb("serve", "translate on a page in the browser", "nmt.cli.serving"),
    Verb("score", "BLEU and chrF of a file, or F1 of linear trees", "nmt.cli.scoring"),
    Verb("perplexity", "perplexity of a translator on two files", "nmt.cli.scoring"),
    Verb("evaluate", "score translators, side by side", "nmt.cli.evaluation"),
    Verb("aer", "alignment error rate of links in a file", "nmt.cli.alignment_error"),
    Verb("align", "word alignments of pairs, by the corpus or a model", "nmt.cli.aligning"),
    Verb("attention", "draw what the decoder attends to", "nmt.cli.attention"),
    Verb("dictionary", "make a dictionary for --replace-unk", "nmt.cli.aligning"),
    Verb("annotate", "mark unknown words before training", "nmt.cli.rare_words"),
    Verb("restore", "replace the unknown words of annotated text", "nmt.cli.rare_words"),
    Verb("similarity", "source vectors against people's ratings of pairs", "nmt.cli.words"),
    Verb("words", "draw a map of source words by their vectors", "nmt.cli.words"),
    Verb("plot", "draw the learning curves of runs", "nmt.cli.plotting"),
    Verb("logits", "take logits apart; a lexical module's lexicon"),
    Verb("logits steps", "norms, cosines and bias of chosen words and their rivals",
         "nmt.cli.logits"),
    Verb("logits lexicon", "a lexical module's translations of source words", "nmt.cli.logits"),
    Verb("logits norms", "draw norms and biases of target words by frequency", "nmt.cli.logits"),
    Verb("prune", "prune a model by magnitude, and retrain it", "nmt.cli.pruning", overrides=True),
    Verb("redundancy", "loss by pruning: by scheme, percentage, class", "nmt.cli.redundancy"),
    Verb("trees", "write treebank files as words and linear trees", "nmt.cli.trees"),
    Verb("brackets", "write linear trees in brackets, as for EVALB", "nmt.cli.trees"),
    Verb("bpe", "byte pair encoding of files: learn, apply, join"),
    Verb("bpe learn", "learn merges from text in words, of all files together, by subword-nmt",
         "nmt.cli.bpe"),
    Verb("bpe apply", "cut the words of a file or of stdin into pieces", "nmt.cli.bpe"),
    Verb("bpe join", "join the pieces of a file or of stdin", "nmt.cli.bpe"),
    Verb("reproduce", "the papers' main results: list them, run one", "nmt.cli.reproducing"),
    Verb("detokenise", "join the tokens of text, by Moses' rules", "nmt.cli.texts"),
    Verb("statistics", "count sentences, words and characters of files", "nmt.cli.texts"),
    Verb("average", "average the parameters of a run's checkpoints", "nmt.cli.averaging"),
    Verb("export", "write a translator for CTranslate2 or ONNX Runtime", "nmt.cli.exporting"),
    Verb("rerank", "choose from n-best lists by several models", "nmt.cli.reranking"),
    Verb("back-translate", "make sources for text of the target language",
         "nmt.cli.back_translating"),
    Verb("factors", "join words with tags: factored input", "nmt.cli.factoring"),
    Verb("lm", "language models: train, sample, perplexity"),
    Verb("lm train", "train a language model from a recipe", "nmt.cli.language_model",
         overrides=True),
    Verb("lm sample", "sample text from a language model", "nmt.cli.language_model"),
    Verb("lm tune", "find the weight of a language model beside a translator", "nmt.cli.fusing"),
    Verb("lm fuse", "deep fusion: train a gate between two trained models", "nmt.cli.fusing",
         overrides=True),
    Verb("lm perplexity", "perplexity of a language model on a file", "nmt.cli.language_model"),
)


def build_parser(arguments: Sequence[str] | None = None) -> Parser:
    """All verbs and their arguments, or of the verb among `arguments` alone."""
    parser = Parser(prog="nmt", description="Neural machine translation from scratch.")
    verbs.build_parser(parser, VERBS, arguments)
    # Set last: otherwise argparse begins the usage of every verb with it.
    parser.usage = "nmt [OPTION ...] command ..."
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exit status 2 with one line on stderr for an error of the user's."""
    given = sys.argv[1:] if arguments is None else arguments
    parser = build_parser(_split_overrides(given)[1])
    run_command("nmt", lambda: _parse(given, parser), heavy=launched()[1] == 0)


def _parse(arguments: Sequence[str], parser: Parser | None = None) -> argparse.Namespace:
    """The options; for the verbs that take them, overrides of the recipe among them."""
    overrides, rest = _split_overrides(arguments)
    parser = parser or build_parser(rest)
    options, unknown = parser.parse_known_args(rest)
    if unknown and options.takes_overrides:  # they get a hint from the recipe
        overrides, rest = _split_overrides(arguments, unknown)
        options, unknown = parser.parse_known_args(rest)
    options.overrides = overrides + unknown
    misspelt = [text for text in options.overrides
                if "." not in text.partition("=")[0] and options.parser.meant(text)]
    if misspelt or (options.overrides and not options.takes_overrides):
        options.parser.refuse(misspelt or options.overrides)
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
