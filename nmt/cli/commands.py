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
from backend.files import check_writable
from backend.terminal import Console
from nmt import language_models, multitask
from nmt.cli import demo as demonstration
from nmt.cli.evaluation import need_attention, tell_precision, unk_replacement
from nmt.cli.trees import score_trees
from nmt.data.align import pharaoh_line
from nmt.data.cldr import CldrOptions, generate, write
from nmt.data.corpora import (
    EvaluationSet,
    ParallelCorpus,
    check_lengths,
    load_corpus,
    tokenisers,
)
from nmt.data.corpus import (
    plain_lines,
    prepare_pairs,
    read_lines,
    read_parallel,
    split_words,
    write_lines,
)
from nmt.data.stored import StoredSentences
from nmt.evaluation.rare import bleu_by_rarity, is_position, perplexities_by_class, rarities
from nmt.evaluation.scores import Score, bleu, chrf
from nmt.evaluation.scores import perplexity as perplexity_of
from nmt.pruning.inference import use_sparse_products
from nmt.recipe import AnyRecipe, LanguageModelRecipe, Recipe, TranslationRecipe
from nmt.recipe import page as recipe_page
from nmt.recipe.file import as_text, load_recipe
from nmt.recipe.tasks import TasksRecipe
from nmt.run_directory import resumable
from nmt.run_files import check_new
from nmt.search.interface import SearchOptions, chosen
from nmt.system import System, Translation, score_bleu
from nmt.training.progress import ConsoleObserver
from nmt.translator_training import train as train_system

BLOCK = 1024  # sentences that are sorted by length and translated before they are printed


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


def train(options: argparse.Namespace) -> None:
    """`nmt train`."""
    recipe, directory = _recipe_and_directory(TranslationRecipe, options)
    if isinstance(recipe, TasksRecipe):
        train_tasks(recipe, directory, options.resume is not None)
        return
    train_translator(recipe, directory, partial(train_system, recipe, directory,
                                                resume=options.resume is not None))


def train_translator(recipe: Recipe, directory: Path, train: Callable[..., System]) -> None:
    """Load the data, train, score the test set; train takes an observer and `corpus`."""
    console = _console()
    pairs = load_corpus(recipe.data)
    console.print(_training_pairs(recipe, pairs))
    system = train(observer=ConsoleObserver(console), corpus=pairs)
    if pairs.test is not None:
        console.print(_test_scores(system, pairs.test))
    console.print(f"run directory: {directory}")


def train_tasks(recipe: TasksRecipe, directory: Path, resume: bool) -> None:
    """Load the data of several tasks, train them together, score their test sets."""
    console = _console()
    corpora = multitask.load_corpora(recipe)
    for name, own in recipe.tasks.items():
        console.print(f"{name} ({recipe.ratios[name]:g}x): {_training_pairs(own, corpora[name])}")
    system = multitask.train(recipe, directory, ConsoleObserver(console), corpora=corpora,
                             resume=resume)
    for name, corpus in corpora.items():
        if corpus.test is not None:
            console.print(f"{name}: {_test_scores(system.task(name), corpus.test)}")
    console.print(f"run directories: {', '.join(str(directory / name) for name in corpora)}")


def _console() -> Console:
    """Where training is told of: lines as they are."""
    return Console(highlight=False, markup=False, emoji=False, soft_wrap=True)


def _training_pairs(recipe: Recipe, pairs: ParallelCorpus) -> str:
    """What there is to train on, and what was left out."""
    return (f"{len(pairs.train)} training pairs; left out: {pairs.empty} with an empty side, "
            f"{pairs.too_long} over {recipe.data.max_length} words")


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
    if options.resume is not None:
        if options.recipe is not None or options.output is not None:
            raise UserError("--resume: expected no recipe and no --output beside it; the directory "
                            "has its own recipe and is where the model goes")
        return resumable(kind, options.resume, options.overrides), options.resume
    if options.recipe is None:
        raise UserError("recipe: expected a YAML file or --resume DIR, got neither")
    recipe = load_recipe(kind, options.recipe, options.overrides)
    directory = options.output or Path("runs") / options.recipe.stem
    check_new(directory)
    return recipe, directory


def translate(options: argparse.Namespace) -> None:
    """`nmt translate`: stdin to stdout; lines stay aligned, and a bad one is found before any."""
    system = System.open_all(options.model, options.average, options.checkpoint)
    search = _search_options(system.recipe.search, options)
    if options.sparse:
        _use_sparse_products(system, options)
    _check_alignments(options.alignments, system)
    replacement = unk_replacement(options, system)
    rng = np.random.default_rng(options.seed)
    cut = tokenisers(system.recipe.data)[0].tokenise
    sentences = StoredSentences(map(cut, plain_lines(sys.stdin.buffer, "<stdin>")))
    check_lengths(sentences, system.recipe.data, "<stdin>")
    links = StoredSentences()
    cut_words = smaller = 0
    for first in range(0, len(sentences), BLOCK):
        block = sentences[first : first + BLOCK]
        if options.sample is not None:
            found = system.sample(block, search, options.sample, rng, options.draws or 1)
        else:
            found = system.translate(block, search)
        if not first:
            made = [nbest[0].words for nbest in found]
            tell_precision(system, list(zip(block, made, strict=True)))
        for number, nbest in enumerate(found, first):
            for translation in nbest:
                text = system.text(translation) if replacement is None else \
                    system.text_without_unknown(translation, sentences[number], replacement)
                print(_output_line(text, number, translation, options.nbest))
                if options.alignments is not None:
                    found_links = system.links(translation, options.aligned_word)
                    links.append(split_words(pharaoh_line(found_links)))
                cut_words += translation.cut_words
            smaller += (nbest[0].beam or search.beam) < search.beam
        sys.stdout.flush()
    if search.every_beam and options.sample is None:
        print(f"{smaller} of {len(sentences)} sentences: a beam below {search.beam} found a better "
              "translation", file=sys.stderr)
    if cut_words:
        print(f"{cut_words} spelled words were cut at {search.longest_word} characters "
              "(--longest-word, search.longest_word)", file=sys.stderr)
    if options.alignments is not None:
        write_lines(options.alignments, map(" ".join, links))


def _search_options(search: SearchOptions, options: argparse.Namespace) -> SearchOptions:
    """The recipe's search settings with those of the command line."""
    if options.sample is not None:
        if options.beam is not None or options.nbest is not None or options.every_beam:
            raise UserError("--sample: expected no --beam, --every-beam or --nbest beside it")
    elif options.draws is not None:
        raise UserError("--draws: expected --sample beside it")
    return chosen(search, options.beam, options.nbest, options.length_factor,
                  options.length_normalisation, options.longest_word, options.every_beam or None)


def _use_sparse_products(system: System, options: argparse.Namespace) -> None:
    """What `--sparse` does; which weights it is about goes to stderr."""
    if len(options.model) > 1:
        raise UserError("--sparse: expected one model, got an ensemble")
    names = use_sparse_products(system)
    print(f"sparse products: {', '.join(names) or 'none, more than a tenth of each is left'}",
          file=sys.stderr)


def _check_alignments(path: Path | None, system: System) -> None:
    """Raise UserError if there will be no alignments, or no place for them, before the work."""
    if path is None:
        return
    need_attention(system, "--alignments")
    check_writable(path)


def _output_line(text: str, number: int, translation: Translation, nbest: int | None) -> str:
    """Plain text, or Moses' n-best format: line number from 0, text, features, score."""
    if nbest is None:
        return text
    return (f"{number} ||| {text} ||| log_p= {translation.log_probability:.4f} "
            f"cut= {int(not translation.finished)} ||| {translation.score:.4f}")


def score(options: argparse.Namespace) -> None:
    """`nmt score`."""
    if (options.source is None) != (options.rarity is None):
        raise UserError("expected --source and --rarity together, got one of them")
    if options.trees is not None:
        score_trees(options)
        return
    hypotheses, references = read_parallel(options.hypotheses, options.references)
    print(_described("BLEU", bleu(hypotheses, references, options.tokenize)))
    print(_described("chrF", chrf(hypotheses, references)))
    if options.rarity is not None:
        sources, _ = read_parallel(options.source, options.references)
        rarity = rarities([split_words(line) for line in sources],
                          [split_words(line) for line in read_lines(options.rarity)],
                          options.rarity_order)
        for group in bleu_by_rarity(rarity, hypotheses, references, options.tokenize):
            print(f"BLEU {group.bleu:.2f} of sentences {group.label} by rarity")


def _described(name: str, score: Score) -> str:
    """A score with its signature."""
    return f"{name} {score.score:.2f} ({score.signature})"


def perplexity(options: argparse.Namespace) -> None:
    """`nmt perplexity`."""
    system = System.open(options.model, options.checkpoint)
    lines = read_parallel(options.source, options.target)
    cut_source, cut_target = (t.tokenise for t in tokenisers(system.recipe.data))
    prepared = prepare_pairs(*lines, None, cut_source, cut_target)
    if not prepared.pairs:
        raise UserError(f"{options.source}, {options.target}: expected a pair of sentences, got "
                        "empty lines only")
    found = system.perplexities(prepared.pairs)
    print(f"perplexity {found['perplexity']:.4f} over {len(prepared.pairs)} pairs "
          f"({prepared.empty} with an empty side left out)")
    if "character_perplexity" in found:
        print(f"character perplexity {found['character_perplexity']:.4f} of words outside the "
              "vocabulary")
    if any(is_position(word) for _, target in prepared.pairs for word in target):
        parts = perplexities_by_class(system.force(prepared.pairs))
        print(", ".join(f"of {name} {value:.4f} over {count}"
                        for name, (value, count) in parts.items()))


def lm_train(options: argparse.Namespace) -> None:
    """`nmt lm train`."""
    recipe, directory = _recipe_and_directory(LanguageModelRecipe, options)
    language_models.train(recipe, directory, ConsoleObserver(), resume=options.resume is not None)
    print(f"run directory: {directory}")


def lm_sample(options: argparse.Namespace) -> None:
    """`nmt lm sample`."""
    system = language_models.LanguageSystem.open(options.model, options.checkpoint)
    rng = np.random.default_rng(options.seed)
    print(system.sample(options.prompt, options.length, options.temperature, rng))


def lm_perplexity(options: argparse.Namespace) -> None:
    """`nmt lm perplexity`."""
    system = language_models.LanguageSystem.open(options.model, options.checkpoint)
    nats, tokens = system.nats(system.ids(read_lines(options.text), str(options.text)))
    unit = "character" if system.recipe.text.level == "characters" else "word"
    print(f"perplexity {perplexity_of(nats, tokens):.4f} per {unit}, "
          f"{nats / tokens / np.log(2):.4f} bits, over {tokens} {unit}s")
