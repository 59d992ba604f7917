"""`nmt demo`: from nothing to a translator and its score, on the embedded corpus."""

from __future__ import annotations

import shutil
from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path

from rich.console import Console

from backend.errors import UserError
from nmt import alignment_map
from nmt.data import ParallelCorpus, load_corpus
from nmt.evaluate import bleu, chrf
from nmt.recipe import Recipe, load_recipe
from nmt.system import System, Translation
from nmt.train import train
from nmt.training.progress import ConsoleObserver

MARK = "demo"  # a file that says: this folder was made by the demo and may be replaced by it
SHOWN = 10


def run(
    source: str, target: str, phrases: int | None, epochs: int | None, seed: int, folder: Path
) -> None:
    """Build the corpus, train, translate, score and draw.

    Arguments: source, target, CLDR locales; phrases to train on and epochs, None for the
    recipe's; seed of corpus and model; folder, the model directory to make.
    """
    console = Console(highlight=False, soft_wrap=True)
    recipe = _recipe(source, target, phrases, epochs, seed)
    _make_room(folder)
    corpus = load_corpus(recipe.data)
    console.print(f"Embedded corpus {source} to {target}: {len(corpus.train)} phrases to train "
                  f"on, {len(corpus.dev.pairs)} dev, and a test set that training never sees.")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).touch()
    system = train(recipe, folder, ConsoleObserver(console), corpus=corpus)
    _report(system, corpus, folder, console)


def _recipe(
    source: str, target: str, phrases: int | None, epochs: int | None, seed: int
) -> Recipe:
    """recipes/demo.yaml with the command's choices."""
    overrides = ["--data.source_language", source, "--data.target_language", target,
                 "--data.seed", str(seed), "--train.seed", str(seed)]
    if phrases is not None:
        overrides += ["--data.train_size", str(phrases)]
    if epochs is not None:
        overrides += ["--train.epochs", str(epochs)]
    with as_file(files("nmt") / "recipes" / "demo.yaml") as path:
        return load_recipe(Recipe, path, overrides)


def _make_room(folder: Path) -> None:
    """Remove what an earlier demo left in `folder`. Raises UserError if it holds anything else."""
    if not folder.exists():
        return
    if not folder.is_dir() or (any(folder.iterdir()) and not (folder / MARK).exists()):
        raise UserError(f"{folder}: expected a new folder or an earlier demo's, found other files")
    shutil.rmtree(folder)


def _report(system: System, corpus: ParallelCorpus, folder: Path, console: Console) -> None:
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
                      f"reference    {reference}", markup=False)
    console.print()
    for name, score in (("BLEU", bleu(texts, test.references)),
                        ("chrF", chrf(texts, test.references))):
        console.print(f"test {name} {score.score:.2f}  ({score.signature})", markup=False)
    place = _interesting(best)
    words, translation = test.sources[place], best[place]
    if translation.alignment is not None:
        console.print("\nWhere the decoder looked (source below, target on the left):\n")
        drawing = alignment_map.in_terminal(words, translation.words, translation.alignment)
        console.print(drawing, markup=False)
        png = folder / "attention.png"
        if alignment_map.write_png(words, translation.words, translation.alignment, png):
            console.print(f"\nThe same as a picture: {png}")
    console.print(f"Model directory: {folder}. Translate with: nmt translate --model {folder}")


def _interesting(translations: list[Translation]) -> int:
    """The first translation of 8 to 14 words, whose map fits a terminal; else the first."""
    for place, translation in enumerate(translations):
        if 8 <= len(translation.words) <= 14:
            return place
    return 0
