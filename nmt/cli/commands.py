"""What the subcommands of `nmt` do, one function each."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from backend.errors import UserError
from nmt import language_models, multitask
from nmt.cli import demo as demonstration
from nmt.cli.own_files import DEFAULT, own_recipe, own_values
from nmt.cli.ranks import among_ranks
from nmt.cli.sources import check_second_source, source_texts
from nmt.cli.transferring import transferred
from nmt.cli.trees import score_trees
from nmt.console.messages import several
from nmt.console.terminal import Console, print
from nmt.data.cldr import CldrOptions, generate, write
from nmt.data.corpora import (
    EvaluationSet,
    ParallelCorpus,
    load_corpus,
    tokenisers,
)
from nmt.data.corpus import (
    LONGEST_OF_TEXT,
    prepare_pairs,
    read_lines,
    read_parallel,
    split_words,
)
from nmt.evaluation.rare import bleu_by_rarity, is_position, perplexities_by_class, rarities
from nmt.evaluation.scores import Score, bleu, chrf, paired_bootstrap
from nmt.evaluation.scores import perplexity as perplexity_of
from nmt.recipe import AnyRecipe, LanguageModelRecipe, Recipe, TranslationRecipe
from nmt.recipe import page as recipe_page
from nmt.recipe.file import as_text, load_recipe
from nmt.recipe.tasks import TasksRecipe
from nmt.run_directory import resumable
from nmt.run_files import check_new
from nmt.system import System, score_bleu
from nmt.training.finite import naming_overflow
from nmt.training.progress import ConsoleObserver, Observer
from nmt.training.tensorboard import Observers, TensorBoardObserver
from nmt.training.trainer import LAST
from nmt.training.world import current
from nmt.translator_training import train as train_system


def demo(options: argparse.Namespace) -> None:
    """`nmt demo`."""
    demonstration.run(options.source, options.target, options.phrases, options.epochs,
                      options.seed, options.output, options.overrides)


def corpus(options: argparse.Namespace) -> None:
    """`nmt corpus`."""
    generated = generate(CldrOptions(options.source, options.target, options.train, options.dev,
                                     options.test, options.seed))
    for path in write(generated, options.output):
        print(path)


def train(options: argparse.Namespace) -> int | None:
    """`nmt train`."""
    return among_ranks(partial(_train, options), options.mpi, getattr(options, "threads", None))


def _train(options: argparse.Namespace) -> None:
    """The work of a rank."""
    recipe, directory = _recipe_and_directory(TranslationRecipe, options)
    recipe, parent = transferred(recipe, options)
    if isinstance(recipe, TasksRecipe):
        train_tasks(recipe, directory, options)
        return
    train_translator(recipe, directory, partial(train_system, recipe, directory,
                                                resume=options.resume is not None, parent=parent),
                     options.tensorboard)


def train_translator(
    recipe: Recipe, directory: Path, train: Callable[..., System], tensorboard: bool = False
) -> None:
    """Load the data, train, score the test set; train takes an observer and `corpus`."""
    console = _console()
    observer = _observer(console, directory, tensorboard)
    pairs = load_corpus(recipe.data)
    console.print(_training_pairs(recipe, pairs))
    system = train(observer=observer, corpus=pairs)
    if pairs.test is not None and current().first:
        console.print(_test_scores(system, pairs.test))
    console.print(f"run directory: {directory}")


def train_tasks(recipe: TasksRecipe, directory: Path, options: argparse.Namespace) -> None:
    """Load the data of several tasks, train them together, score their test sets."""
    console = _console()
    observer = _observer(console, directory, options.tensorboard)
    corpora = multitask.load_corpora(recipe)
    for name, own in recipe.tasks.items():
        console.print(f"{name} ({recipe.ratios[name]:g}x): {_training_pairs(own, corpora[name])}")
    system = multitask.train(recipe, directory, observer, corpora=corpora,
                             resume=options.resume is not None)
    for name, corpus in corpora.items():
        if corpus.test is not None and current().first:
            console.print(f"{name}: {_test_scores(system.task(name), corpus.test)}")
    console.print(f"run directories: {', '.join(str(directory / name) for name in corpora)}")


def _console() -> Console:
    """The console for messages of a training, without line wrapping."""
    return Console(file=sys.stdout, highlight=False, markup=False, emoji=False, soft_wrap=True)


def _observer(console: Console, directory: Path, tensorboard: bool) -> Observer:
    """The observer of a training run."""
    shown = ConsoleObserver(console)
    return Observers([shown, TensorBoardObserver(directory)]) if tensorboard else shown


def _training_pairs(recipe: Recipe, pairs: ParallelCorpus) -> str:
    """A line on the number of training pairs, and those left out."""
    drawn = recipe.data.corpus == "files" and not recipe.data.dev_source
    taken = f", {len(pairs.dev.sources)} for validation" if drawn else ""
    most = recipe.data.max_length
    long = f", {pairs.too_long} over {several(most, 'word')}" if most is not None else ""
    return (f"{several(len(pairs.train), 'training pair')}; left out: {pairs.empty} with an empty "
            f"side{long}{taken}")


def _test_scores(system: System, test: EvaluationSet) -> str:
    """The scores of a test set."""
    search = system.recipe.search
    return (f"test, best checkpoint: {_described('BLEU', score_bleu(system, test, search))}, beam "
            f"{search.beam}, {_perplexities(system.perplexities(test.pairs))}")


def _perplexities(found: dict[str, float]) -> str:
    """A system's perplexities in words."""
    return ", ".join(f"{name.replace('_', ' ')} {value:.2f}" for name, value in found.items())


def recipe(options: argparse.Namespace) -> None:
    """`nmt recipe`."""
    if options.doc:
        print(recipe_page.page(), end="")
    else:
        print(as_text(load_recipe(AnyRecipe, options.recipe, options.overrides)), end="")


def _recipe_and_directory(kind: type[Any], options: argparse.Namespace) -> tuple[Any, Path]:
    """The recipe with its overrides, and where the model goes."""
    own = own_values(options) if kind is TranslationRecipe else {}
    if options.resume is not None and options.resume.name == LAST and options.resume.is_file():
        options.resume = options.resume.parent  # a checkpoint's path, as Ctrl-C prints it
    if options.resume is not None:
        if options.recipe is not None or options.output is not None or own:
            raise UserError("--resume: expected no recipe, no files and no --output beside it; the "
                            "directory has its own recipe and is where the model goes")
        return resumable(kind, options.resume, options.overrides), options.resume
    if further := [one for one in options.overrides if not one.startswith("-")]:
        hint = "; two text files go after --train" if kind is TranslationRecipe else ""
        raise UserError(f"recipe: expected one YAML file, got {options.recipe}, "
                        f"{', '.join(further)}{hint}")
    if options.recipe is None and not own:
        files = "" if kind is LanguageModelRecipe else "--train SOURCE TARGET, "
        raise UserError(f"recipe: expected {files}a YAML file or --resume DIR, got none")
    recipe = own_recipe(options.recipe, own, options.overrides) if own else \
        load_recipe(kind, options.recipe, options.overrides)
    directory = options.output or Path("runs") / (options.recipe or Path(DEFAULT)).stem
    check_new(directory)
    return recipe, directory


def score(options: argparse.Namespace) -> None:
    """`nmt score`."""
    if (options.source is None) != (options.rarity is None):
        raise UserError("expected --source and --rarity together, got one of them")
    if options.trees is not None:
        score_trees(options)
        return
    hypotheses, references = read_parallel(options.hypotheses, options.references)
    _advise_on_tokens(references, options)
    print(_described("BLEU", bleu(hypotheses, references, options.tokenize)))
    print(_described("chrF", chrf(hypotheses, references)))
    if options.against is not None:
        _compare(hypotheses, references, options)
    if options.rarity is not None:
        sources, _ = read_parallel(options.source, options.references)
        rarity = rarities([split_words(line) for line in sources],
                          [split_words(line) for line in read_lines(options.rarity)],
                          options.rarity_order)
        for group in bleu_by_rarity(rarity, hypotheses, references, options.tokenize):
            print(f"BLEU {group.bleu:.2f} of sentences {group.label} by rarity")


def _advise_on_tokens(references: list[str], options: argparse.Namespace) -> None:
    """A line on stderr if most references seem to be in tokens and are to be split once more."""
    apart = sum(line.endswith(" .") for line in references)
    if options.tokenize != "none" and 2 * apart > len(references):
        print(f"{options.references}: {apart} of {several(len(references), 'line')} with a period "
              "that stands apart at the end; for text in tokens there is --tokenize none",
              file=sys.stderr)


def _compare(
    baseline: list[str], references: list[str], options: argparse.Namespace
) -> None:
    """`--against`: a line for each file, the baseline first."""
    others = [read_parallel(path, options.references)[0] for path in options.against]
    found, signature = paired_bootstrap([baseline, *others], references, options.tokenize,
                                        options.samples)
    print(f"paired bootstrap ({signature})")
    for path, one in zip([options.hypotheses, *options.against], found, strict=True):
        p = "baseline" if one.p is None else f"p = {one.p:.4f}"
        print(f"BLEU {one.score:.2f} ({one.mean:.2f} ± {one.interval:.2f}) {p} {path}")


def _described(name: str, score: Score) -> str:
    """A score with its signature."""
    return f"{name} {score.score:.2f} ({score.signature})"


def perplexity(options: argparse.Namespace) -> None:
    """`nmt perplexity`."""
    system = System.open(options.model, options.checkpoint)
    check_second_source([system], options)
    sources, targets = read_parallel(options.source, options.target)
    texts, cut_target = source_texts(system, sources, options), tokenisers(system.recipe.data)[1]
    system.check_tags(map(system.cut_source, texts), str(options.source))
    prepared = prepare_pairs(texts, targets, None, system.cut_source, cut_target.tokenise)
    if not prepared.pairs:
        raise UserError(f"{options.source}, {options.target}: expected a pair of sentences, got "
                        "empty lines only")
    found = system.perplexities(prepared.pairs)
    print(f"perplexity {found['perplexity']:.4f} over {several(len(prepared.pairs), 'pair')} "
          f"({prepared.empty} with an empty side left out)")
    if "character_perplexity" in found:
        print(f"character perplexity {found['character_perplexity']:.4f} of words outside the "
              "vocabulary")
    if "length_perplexity" in found:
        print(f"length perplexity {found['length_perplexity']:.4f} per sentence")
    if any(is_position(word) for _, target in prepared.pairs for word in target):
        parts = perplexities_by_class(system.force(prepared.pairs))
        print(", ".join(f"of {name} {value:.4f} over {count}"
                        for name, (value, count) in parts.items()))


def lm_train(options: argparse.Namespace) -> int | None:
    """`nmt lm train`."""
    return among_ranks(partial(_lm_train, options), options.mpi, getattr(options, "threads", None))


def _lm_train(options: argparse.Namespace) -> None:
    """The work of a rank."""
    recipe, directory = _recipe_and_directory(LanguageModelRecipe, options)
    observer = _observer(_console(), directory, options.tensorboard)
    language_models.train(recipe, directory, observer, resume=options.resume is not None)
    print(f"run directory: {directory}")


def lm_sample(options: argparse.Namespace) -> None:
    """`nmt lm sample`."""
    system = language_models.LanguageSystem.open(options.model, options.checkpoint)
    rng = np.random.default_rng(options.seed)
    with naming_overflow(system.parameters):
        text = system.sample(options.prompt, options.length, options.temperature, rng)
    print(text)


def lm_perplexity(options: argparse.Namespace) -> None:
    """`nmt lm perplexity`."""
    system = language_models.LanguageSystem.open(options.model, options.checkpoint)
    lines = read_lines(options.text, LONGEST_OF_TEXT)
    nats, tokens = system.nats(system.ids(lines, str(options.text)))
    unit = "character" if system.recipe.text.level == "characters" else "word"
    print(f"perplexity {perplexity_of(nats, tokens):.4f} per {unit}, "
          f"{nats / tokens / np.log(2):.4f} bits, over {several(tokens, unit)}")
