"""`nmt lm train`, `nmt lm sample`, `nmt lm perplexity`: train and use language models."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import numpy as np

from nmt import language_models
from nmt.cli.options import add_model
from nmt.cli.ranks import among_ranks
from nmt.cli.training import add_training, new_console, new_observer, recipe_and_directory
from nmt.console.arguments import above_zero, add_seed, natural
from nmt.console.messages import several
from nmt.console.terminal import print
from nmt.data.corpus import LONGEST_OF_TEXT, read_lines
from nmt.evaluation.scores import perplexity
from nmt.recipe import LanguageModelRecipe
from nmt.training.finite import naming_overflow


def add_train(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt lm train`."""
    add_training(parser)


def run_train(options: argparse.Namespace) -> None:
    """`nmt lm train`."""
    with among_ranks(options.mpi, getattr(options, "threads", None)):
        recipe, directory = recipe_and_directory(LanguageModelRecipe, options)
        observer = new_observer(new_console(), directory, options.tensorboard)
        language_models.train(recipe, directory, observer, resume=options.resume is not None)
        print(f"run directory: {directory}")


def add_sample(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt lm sample`."""
    add_model(parser)
    parser.add_argument("--temperature", type=above_zero, default=1.0, metavar="T",
                        help="divide the logits by T (default: 1)")
    parser.add_argument("--length", type=partial(natural, least=1, most=10**7), default=300,
                        metavar="N",
                        help="sample N words or characters (default: 300)")
    parser.add_argument("--prompt", default="", metavar="TEXT", help="continue this text")
    add_seed(parser, "the samples")


def run_sample(options: argparse.Namespace) -> None:
    """`nmt lm sample`."""
    system = language_models.LanguageSystem.open(options.model, options.checkpoint)
    rng = np.random.default_rng(options.seed)
    with naming_overflow(system.parameters):
        text = system.sample(options.prompt, options.length, options.temperature, rng)
    print(text)


def add_perplexity(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt lm perplexity`."""
    parser.add_argument("text", type=Path, help="text to score")
    add_model(parser)


def run_perplexity(options: argparse.Namespace) -> None:
    """`nmt lm perplexity`."""
    system = language_models.LanguageSystem.open(options.model, options.checkpoint)
    lines = read_lines(options.text, LONGEST_OF_TEXT)
    nats, tokens = system.nats(system.ids(lines, str(options.text)))
    unit = "character" if system.recipe.text.level == "characters" else "word"
    print(f"perplexity {perplexity(nats, tokens):.4f} per {unit}, "
          f"{nats / tokens / np.log(2):.4f} bits, over {several(tokens, unit)}")
