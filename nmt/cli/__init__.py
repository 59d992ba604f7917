"""The command `nmt`: the table of its verbs, and the parsing of its arguments."""

from __future__ import annotations

import argparse
import re
import sys
from collections import deque
from collections.abc import Sequence

from nmt.cli.ranks import launched
from nmt.console import verbs
from nmt.console.arguments import Parser
from nmt.console.command import command
from nmt.console.verbs import Verb

VERBS = (
    Verb("demo", "train a small translator on the embedded corpus", "nmt.cli.demo", overrides=True,
         heading="train"),
    Verb("train", "train a translator from two files or a recipe", "nmt.cli.training",
         overrides=True),
    Verb("init", "write a commented recipe to edit", "nmt.cli.recipes"),
    Verb("recipe", "print a recipe with its defaults, or all keys", "nmt.cli.recipes",
         overrides=True),
    Verb("corpus", "write the embedded corpus into text files", "nmt.cli.demo"),
    Verb("lm", "train language models, sample from them, combine them"),
    Verb("lm train", "train a language model from a recipe", "nmt.cli.language_model",
         overrides=True),
    Verb("lm sample", "sample text from a language model", "nmt.cli.language_model"),
    Verb("lm tune", "find the weight of a language model beside a translator", "nmt.cli.fusing"),
    Verb("lm fuse", "train a gate between two trained models (deep fusion)", "nmt.cli.fusing",
         overrides=True),
    Verb("lm perplexity", "print a language model's perplexity", "nmt.cli.language_model"),
    Verb("average", "average the parameters of a run's checkpoints", "nmt.cli.averaging"),
    Verb("prune", "prune a model by magnitude, and retrain it", "nmt.cli.pruning", overrides=True),
    Verb("translate", "translate files, stdin or what you type", "nmt.cli.translating",
         heading="translate"),
    Verb("serve", "translate on a page in the browser", "nmt.cli.serving"),
    Verb("rerank", "choose from n-best lists by several models", "nmt.cli.reranking"),
    Verb("back-translate", "make sources for text of the target language",
         "nmt.cli.back_translating"),
    Verb("restore", "replace the unknown words of annotated text", "nmt.cli.rare_words"),
    Verb("export", "write a translator for CTranslate2 or ONNX Runtime", "nmt.cli.exporting"),
    Verb("score", "print BLEU and chrF of a file, or F1 of trees", "nmt.cli.scoring",
         heading="evaluate"),
    Verb("perplexity", "print a translator's perplexity on two files", "nmt.cli.scoring"),
    Verb("evaluate", "score translators side by side", "nmt.cli.evaluation"),
    Verb("aer", "print the alignment error rate of links", "nmt.cli.alignment_error"),
    Verb("plot", "draw the learning curves of runs", "nmt.cli.plotting"),
    Verb("reproduce", "list the papers' main results, or run one", "nmt.cli.reproducing"),
    Verb("align", "align the words of sentence pairs", "nmt.cli.aligning",
         heading="prepare text"),
    Verb("dictionary", "make a dictionary for --replace-unk", "nmt.cli.aligning"),
    Verb("annotate", "mark unknown words before training", "nmt.cli.rare_words"),
    Verb("bpe", "learn, apply and undo byte pair encoding"),
    Verb("bpe learn", "learn merges from all files together, with subword-nmt",
         "nmt.cli.bpe"),
    Verb("bpe apply", "split the words of a file or of stdin into pieces", "nmt.cli.bpe"),
    Verb("bpe join", "join the pieces of a file or of stdin", "nmt.cli.bpe"),
    Verb("factors", "join words with tags: factored input", "nmt.cli.factoring"),
    Verb("trees", "write treebank files as words and linear trees", "nmt.cli.trees"),
    Verb("brackets", "write linear trees in brackets for EVALB", "nmt.cli.trees"),
    Verb("detokenise", "join the tokens of text, by Moses' rules", "nmt.cli.texts"),
    Verb("statistics", "count sentences, words and characters of files", "nmt.cli.texts"),
    Verb("join-pairs", "join short pairs into long ones", "nmt.cli.texts"),
    Verb("attention", "draw what the decoder attends to", "nmt.cli.attention",
         heading="look inside a model"),
    Verb("similarity", "compare word vectors with human ratings", "nmt.cli.words"),
    Verb("words", "draw a map of source words by their vectors", "nmt.cli.words"),
    Verb("logits", "explain logits, print a learned lexicon"),
    Verb("logits steps", "print norms, cosines and bias of chosen words and rivals",
         "nmt.cli.logits"),
    Verb("logits lexicon", "print a lexical module's translations of words", "nmt.cli.logits"),
    Verb("logits norms", "draw norms and biases of target words by frequency", "nmt.cli.logits"),
    Verb("redundancy", "measure what pruning costs, by scheme and class", "nmt.cli.redundancy"),
)


def build_parser(arguments: Sequence[str] | None = None) -> Parser:
    """The parser of all verbs with their arguments; if `arguments` are given, only the verb among
    them has its arguments."""
    parser = Parser(prog="nmt")
    verbs.build_parser(parser, VERBS, arguments)
    # Set last: otherwise argparse begins the usage of every verb with it.
    parser.usage = "nmt [OPTION ...] command ..."
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line. An error of the user's is one line on stderr and exit status 2."""
    words = sys.argv[1:] if arguments is None else arguments
    parser = build_parser(_split_overrides(words)[1])
    with command("nmt", lambda: _parse(words, parser), heavy=launched()[1] == 0) as options:
        status = options.run(options)
    if status:
        sys.exit(status)


def _parse(arguments: Sequence[str], parser: Parser | None = None) -> argparse.Namespace:
    """The options. For verbs that take them, `overrides` has the overrides of the recipe."""
    overrides, rest = _split_overrides(arguments)
    parser = parser or build_parser(rest)
    options, unknown = parser.parse_known_args(rest)
    if unknown and options.takes_overrides:  # the recipe's reader gives a hint on them
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
    """Overrides such as `--train.epochs 5`, joined to `--train.epochs=5`, and the other arguments.
    `unknown` options, such as `--epochs 5`, count as overrides.

    argparse does not know overrides, and would take their values for the recipe.
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
