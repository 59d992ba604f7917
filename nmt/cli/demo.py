"""`nmt demo`: train a small translator on the embedded corpus, and score it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nmt.cli import demo_files
from nmt.console.messages import several
from nmt.console.terminal import Console
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

SHOWN = 10


def run(
    source: str, target: str, phrases: int | None, epochs: int | None, seed: int, directory: Path,
    overrides: Sequence[str] = (),
) -> None:
    """Build the corpus, train, translate, score and draw.

    Arguments: source, target, CLDR locales; phrases to train on and epochs, None for the
    recipe's; seed of corpus and model; directory, the run directory to make; overrides of any
    other value of the recipe, such as `--data.test_size=200`.
    """
    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False, soft_wrap=True)
    recipe = _recipe(source, target, phrases, epochs, seed, overrides)
    demo_files.check(directory)
    corpus = load_corpus(recipe.data)
    console.print(f"Embedded corpus {source} to {target}: {several(len(corpus.train), 'phrase')} "
                  f"to train on, {len(corpus.dev.pairs)} dev, and a test set that training never "
                  "sees.")
    beside = demo_files.replace(directory, file_names(System, recipe))
    system = train(recipe, directory, ConsoleObserver(console), corpus=corpus, beside=beside)
    _report(system, corpus, directory, console)


def _recipe(
    source: str, target: str, phrases: int | None, epochs: int | None, seed: int,
    more: Sequence[str],
) -> Recipe:
    """recipes/demo.yaml with the command's choices."""
    choices = {"data.source_language": source, "data.target_language": target,
               "data.train_size": phrases, "data.seed": seed, "train.seed": seed,
               "train.epochs": epochs}
    overrides = [f"--{key}={value}" for key, value in choices.items() if value is not None]
    return packaged_recipe("demo.yaml", [*overrides, *more])


def _report(system: System, corpus: ParallelCorpus, directory: Path, console: Console) -> None:
    """Ten test sentences, the scores, an attention map."""
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
    """The first translation of 8 to 14 words, whose map fits a terminal; else the longest."""
    lengths = [len(translation.words) for translation in translations]
    fitting = [place for place, length in enumerate(lengths) if 8 <= length <= 14]
    return fitting[0] if fitting else lengths.index(max(lengths))
