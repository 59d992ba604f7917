"""`nmt demo` and `nmt corpus`: train a small translator on the embedded corpus; write its text."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from nmt.cli import demo_files
from nmt.cli.training import new_console
from nmt.console.arguments import add_seed, count, positive
from nmt.console.messages import several
from nmt.console.terminal import Console, print
from nmt.data.cldr import CldrOptions, generate, write
from nmt.data.corpora import ParallelCorpus, load_corpus
from nmt.evaluation import alignment_map
from nmt.evaluation.pictures import MISSING
from nmt.evaluation.scores import bleu, chrf
from nmt.recipe import Recipe
from nmt.recipe.file import packaged_recipe
from nmt.run_directory import file_names
from nmt.system import System
from nmt.training.progress import ConsoleObserver
from nmt.translation import Translation
from nmt.translator_training import train

SHOWN = 10  # test sentences that are printed


def add_demo(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt demo`."""
    _add_locales(parser)
    parser.add_argument("--phrases", type=positive, metavar="N",
                        help="train on N phrases (default: the recipe's)")
    parser.add_argument("--epochs", type=positive, metavar="N",
                        help="pass over them N times (default: the recipe's)")
    add_seed(parser, "phrases and training")
    parser.add_argument("--output", type=Path, default=Path("runs/demo"), metavar="DIR",
                        help="write the run here, replacing an older demo (default: "
                             "runs/demo)")


def run_demo(options: argparse.Namespace) -> None:
    """`nmt demo`: build the corpus, train, translate, score and draw."""
    console, directory = new_console(), options.output
    recipe = _recipe(options)
    demo_files.check(directory)
    corpus = load_corpus(recipe.data)
    console.print(f"Embedded corpus {options.source} to {options.target}: "
                  f"{several(len(corpus.train), 'phrase')} to train on, {len(corpus.dev.pairs)} "
                  "dev, and a test set that training never sees.")
    extra_files = demo_files.replace(directory, file_names(System, recipe))
    system = train(recipe, directory, ConsoleObserver(console), corpus=corpus, beside=extra_files)
    _report(system, corpus, directory, console)


def _recipe(options: argparse.Namespace) -> Recipe:
    """The recipe recipes/demo.yaml with the command's options."""
    choices = {"data.source_language": options.source, "data.target_language": options.target,
               "data.train_size": options.phrases, "data.seed": options.seed,
               "train.seed": options.seed, "train.epochs": options.epochs}
    overrides = [f"--{key}={value}" for key, value in choices.items() if value is not None]
    return packaged_recipe("demo.yaml", [*overrides, *options.overrides])


def _report(system: System, corpus: ParallelCorpus, directory: Path, console: Console) -> None:
    """Print some test sentences, the scores, and an attention map."""
    test = corpus.test
    assert test is not None
    options = replace(system.recipe.search, nbest=1)
    best = [nbest[0] for nbest in system.translate(test.sources, options)]
    texts = [system.text(translation) for translation in best]
    for words, text, reference in list(zip(test.sources, texts, test.references, strict=True))[
        :SHOWN
    ]:
        console.print(f"\nsource       {' '.join(words)}\ntranslation  {text}\n"
                      f"reference    {reference}")
    console.print()
    for name, score in (("BLEU", bleu(texts, test.references)),
                        ("chrF", chrf(texts, test.references))):
        console.print(f"test {name} {score.score:.2f}  ({score.signature})")
    place = _interesting(best)
    words, translation = test.sources[place], best[place]
    if translation.alignment is not None and translation.words:
        console.print("\nWhat the decoder attended to (source below, target on the left):\n")
        columns = system.source_columns(words)
        drawing = alignment_map.in_terminal(columns, translation.words, translation.alignment)
        console.print(drawing)
        png = directory / demo_files.PICTURE
        if alignment_map.save_map(columns, translation.words, translation.alignment, png):
            console.print(f"\nThe same as a picture: {png}")
        else:
            console.print(f"\nNo picture: {MISSING}")
    console.print(f"Run directory: {directory}. Translate with: nmt translate --model {directory}")


def _interesting(translations: list[Translation]) -> int:
    """The index of the first translation of 8 to 14 words, whose map fits a terminal; without one,
    of the longest translation."""
    lengths = [len(translation.words) for translation in translations]
    fitting = [place for place, length in enumerate(lengths) if 8 <= length <= 14]
    return fitting[0] if fitting else lengths.index(max(lengths))


def add_corpus(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt corpus`."""
    parser.add_argument("output", type=Path, metavar="DIR", help="directory to write into")
    _add_locales(parser)
    for name, size in (("train", 20000), ("dev", 500), ("test", 500)):
        parser.add_argument(f"--{name}", type=count, default=size, metavar="N",
                            help=f"draw N phrases for the {name} set (default: {size})")
    add_seed(parser, "the phrases")


def run_corpus(options: argparse.Namespace) -> None:
    """`nmt corpus`."""
    generated = generate(CldrOptions(options.source, options.target, options.train, options.dev,
                                     options.test, options.seed))
    for path in write(generated, options.output):
        print(path)


def _add_locales(parser: argparse.ArgumentParser) -> None:
    """Add `--source` and `--target`, the languages of the embedded corpus."""
    parser.add_argument("--source", default="en", metavar="LOCALE",
                        help="choose the source language (default: en)")
    parser.add_argument("--target", default="fr", metavar="LOCALE",
                        help="choose the target language (default: fr)")
