"""`nmt train`: train translators by a recipe or on two files."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from backend.errors import UserError
from nmt import multitask
from nmt.cli.own_files import DEFAULT, add_own_files, own_recipe, own_values
from nmt.cli.ranks import among_ranks
from nmt.cli.transferring import add_init, embeddings, transferred
from nmt.console.messages import several
from nmt.console.terminal import Console
from nmt.data.corpora import EvaluationSet, ParallelCorpus, load_corpus
from nmt.data.vocabulary import UNKNOWN
from nmt.recipe import LanguageModelRecipe, Recipe, TranslationRecipe
from nmt.recipe.file import load_recipe
from nmt.recipe.tasks import TasksRecipe
from nmt.run_directory import resumable
from nmt.run_files import check_new
from nmt.system import System, score_bleu
from nmt.training.progress import ConsoleObserver, Observer
from nmt.training.run import LAST
from nmt.training.tensorboard import TensorBoardObserver
from nmt.training.world import current
from nmt.translator_training import train

MANY = 20  # a message is printed if more than one word in this many is unknown


def add_train(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt train`."""
    add_training(parser)
    add_own_files(parser)
    add_init(parser)
    parser.usage = ("nmt train [RECIPE] [--train SOURCE TARGET] [OPTION ...]\n"
                    "                 [--SECTION.KEY VALUE]\n"
                    "       nmt train --resume DIR [--SECTION.KEY VALUE]")
    parser.epilog = ("--SECTION.KEY VALUE sets a value of the recipe, such as --train.epochs 5. "
                     "nmt recipe --help lists the keys.")


def add_training(parser: argparse.ArgumentParser) -> None:
    """The arguments of all verbs that train by a recipe."""
    parser.add_argument("recipe", nargs="?", type=Path, help="a YAML file")
    parser.add_argument("--output", type=Path, metavar="DIR",
                        help="make this run directory (default: runs/RECIPE)")
    parser.add_argument("--resume", type=Path, metavar="DIR",
                        help="continue this run from its last checkpoint")
    parser.add_argument("--tensorboard", action="store_true",
                        help="write TensorBoard's event files into the run")
    parser.add_argument("--mpi", action="store_true",
                        help="train as one of the processes that mpiexec started (detected "
                             "automatically)")


def run_train(options: argparse.Namespace) -> None:
    """`nmt train`: load the data, train, score the test set."""
    with among_ranks(options.mpi, getattr(options, "threads", None)):
        recipe, directory = recipe_and_directory(TranslationRecipe, options)
        recipe, parent = transferred(recipe, options)
        vectors = embeddings(options)
        if isinstance(recipe, TasksRecipe):
            if vectors:
                raise UserError("--init-embeddings: expected the recipe of one translator, got one "
                                "of several tasks")
            _train_tasks(recipe, directory, options)
            return
        observer, corpus = begin(recipe, directory, options.tensorboard)
        system = train(recipe, directory, observer, corpus=corpus,
                       resume=options.resume is not None, parent=parent, embeddings=vectors)
        end(system, directory, corpus)


def begin(
    recipe: Recipe, directory: Path, tensorboard: bool = False
) -> tuple[Observer, ParallelCorpus]:
    """Load the data and print how much there is; return the observer of the training, and the data.
    """
    console = new_console()
    corpus = load_corpus(recipe.data)
    console.print(_training_pairs(recipe, corpus))
    return new_observer(console, directory, tensorboard), corpus


def end(system: System, directory: Path, corpus: ParallelCorpus) -> None:
    """Print the trained system's scores on the test set, and its run directory."""
    console = new_console()
    if corpus.test is not None and current().first:
        console.print(_test_scores(system, corpus.test))
    if current().first and (message := _unknown_words(system, corpus.dev, directory)):
        console.print(message)
    console.print(f"run directory: {directory}")
    if current().first:
        console.print(f"translate: nmt translate FILE --model {directory}")


def _unknown_words(system: System, dev: EvaluationSet, directory: Path) -> str:
    """A message on how many words of the dev set's references the model cannot write, and on what
    helps; "" if there are few, or if the model spells them."""
    ids = [i for _, words in dev.pairs for i in system.target_ids(words)]
    unknown = ids.count(UNKNOWN)
    if "target" in system.spellings or MANY * unknown < len(ids):
        return ""
    copied = "" if system.recipe.model.attention == "none" else \
        f"nmt translate FILE --model {directory} --replace-unk copies such words; "
    return (f"{unknown} of {len(ids)} words of the dev set's references are not in the vocabulary, "
            f"where the model writes <unk>: {copied}subwords (--data.subwords.merges 8000) leave "
            "fewer")


def _train_tasks(recipe: TasksRecipe, directory: Path, options: argparse.Namespace) -> None:
    """Load the data of several tasks, train them together, and score their test sets."""
    console = new_console()
    observer = new_observer(console, directory, options.tensorboard)
    corpora = multitask.load_corpora(recipe)
    for name, task_recipe in recipe.tasks.items():
        console.print(f"{name} ({recipe.ratios[name]:g}x): "
                      f"{_training_pairs(task_recipe, corpora[name])}")
    system = multitask.train(recipe, directory, observer, corpora=corpora,
                             resume=options.resume is not None)
    for name, corpus in corpora.items():
        if corpus.test is not None and current().first:
            console.print(f"{name}: {_test_scores(system.task(name), corpus.test)}")
    console.print(f"run directories: {', '.join(str(directory / name) for name in corpora)}")


def new_console() -> Console:
    """The console for messages of a training, without line wrapping."""
    return Console(file=sys.stdout, highlight=False, markup=False, emoji=False, soft_wrap=True)


def new_observer(console: Console, directory: Path, tensorboard: bool) -> Observer:
    """The observer of a training run."""
    return TensorBoardObserver(directory, console) if tensorboard else ConsoleObserver(console)


def _training_pairs(recipe: Recipe, pairs: ParallelCorpus) -> str:
    """A line on how many training pairs there are, and how many were left out."""
    drawn = recipe.data.corpus == "files" and not recipe.data.dev_source
    taken = f", {len(pairs.dev.sources)} for validation" if drawn else ""
    if pairs.repeated:
        taken += f" (no source of these is trained on; {pairs.repeated} lines repeat a source)"
    limit = recipe.data.max_length
    long = f", {pairs.too_long} over {several(limit, 'word')}" if limit is not None else ""
    return (f"{several(len(pairs.train), 'training pair')}; left out: {pairs.empty} with an empty "
            f"side{long}{taken}")


def _test_scores(system: System, test: EvaluationSet) -> str:
    """The scores of a test set."""
    search = replace(system.recipe.search, nbest=1)
    score = score_bleu(system, test, system.translate(test.sources, search))
    return (f"test, best checkpoint: {score.as_text('BLEU')}, beam {search.beam}, "
            f"{_perplexities(system.perplexities(test.pairs))}")


def _perplexities(perplexities: dict[str, float]) -> str:
    """A system's perplexities as text."""
    return ", ".join(f"{name.replace('_', ' ')} {value:.2f}"
                     for name, value in perplexities.items())


def recipe_and_directory(kind: type[Any], options: argparse.Namespace) -> tuple[Any, Path]:
    """The recipe with its overrides, and the run directory."""
    values = own_values(options) if kind is TranslationRecipe else {}
    if options.resume is not None and options.resume.name == LAST and options.resume.is_file():
        options.resume = options.resume.parent  # a checkpoint's path, which Ctrl-C prints
    if options.resume is not None:
        if options.recipe is not None or options.output is not None or values:
            raise UserError("--resume: cannot be used with a recipe, files or --output; the "
                            "directory has its own recipe and is where the model goes")
        return resumable(kind, options.resume, options.overrides), options.resume
    if further := [argument for argument in options.overrides if not argument.startswith("-")]:
        hint = "; two text files go after --train" if kind is TranslationRecipe else ""
        raise UserError(f"recipe: expected one YAML file, got {options.recipe}, "
                        f"{', '.join(further)}{hint}")
    if options.recipe is None and not values:
        files = "" if kind is LanguageModelRecipe else "--train SOURCE TARGET, "
        raise UserError(f"recipe: expected {files}a YAML file or --resume DIR, got none")
    recipe = own_recipe(options.recipe, values, options.overrides) if values else \
        load_recipe(kind, options.recipe, options.overrides)
    directory = options.output or Path("runs") / (options.recipe or Path(DEFAULT)).stem
    check_new(directory)
    return recipe, directory
