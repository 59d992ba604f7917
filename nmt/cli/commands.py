"""What the subcommands of `nmt` do, one function each."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from backend.errors import UserError
from backend.files import check_writable
from backend.terminal import Console
from nmt import language_models
from nmt.cli import demo as demonstration
from nmt.cli.evaluation import need_attention, tell_precision, unk_replacement
from nmt.data.align import pharaoh_line
from nmt.data.cldr import CldrOptions, generate, write
from nmt.data.corpora import check_lengths, load_corpus, tokenisers
from nmt.data.corpus import prepare_pairs, read_lines, read_parallel, split_words, write_lines
from nmt.evaluation.rare import bleu_by_rarity, is_position, perplexities_by_class, rarities
from nmt.evaluation.scores import Score, bleu, chrf
from nmt.evaluation.scores import perplexity as perplexity_of
from nmt.pruning.inference import use_sparse_products
from nmt.recipe import AnyRecipe, LanguageModelRecipe, Recipe
from nmt.recipe import page as recipe_page
from nmt.recipe.file import as_text, load_recipe
from nmt.run_directory import check_new, resumable
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
    recipe, directory = _recipe_and_directory(Recipe, options)
    train_translator(recipe, directory, partial(train_system, recipe, directory,
                                                resume=options.resume is not None))


def train_translator(recipe: Recipe, directory: Path, train: Callable[..., System]) -> None:
    """Load the data, train, score the test set; train takes an observer and `corpus`."""
    console = Console(highlight=False, markup=False, emoji=False)
    pairs = load_corpus(recipe.data)
    console.print(f"{len(pairs.train)} training pairs; left out: {pairs.empty} with an empty "
                  f"side, {pairs.too_long} over {recipe.data.max_length} words", soft_wrap=True)
    system = train(observer=ConsoleObserver(console), corpus=pairs)
    if pairs.test is not None:
        score = score_bleu(system, pairs.test, recipe.search)
        console.print(f"test, best checkpoint: {_described('BLEU', score)}, beam "
                      f"{recipe.search.beam}, "
                      f"{_perplexities(system.perplexities(pairs.test.pairs))}", soft_wrap=True)
    console.print(f"run directory: {directory}", soft_wrap=True)


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
    sentences = [cut(line) for line in _stdin_lines()]
    check_lengths(sentences, system.recipe.data, "<stdin>")
    links: list[str] = []
    cut_words = 0
    for first in range(0, len(sentences), BLOCK):
        block = sentences[first : first + BLOCK]
        if options.sample is not None:
            found = system.sample(block, search, options.sample, rng)
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
                links.append(pharaoh_line(system.links(translation, options.aligned_word)))
                cut_words += translation.cut_words
        sys.stdout.flush()
    if cut_words:
        print(f"{cut_words} spelled words were cut at {search.longest_word} characters "
              "(search.longest_word)", file=sys.stderr)
    if options.alignments is not None:
        write_lines(options.alignments, links)


def _search_options(search: SearchOptions, options: argparse.Namespace) -> SearchOptions:
    """The recipe's search settings with those of the command line."""
    if options.sample is not None:
        if options.beam is not None or options.nbest is not None:
            raise UserError("--sample: expected no --beam and no --nbest beside it")
    return chosen(search, options.beam, options.nbest, options.length_factor,
                  options.length_normalisation)


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


def _stdin_lines() -> Iterable[str]:
    """Lines of stdin, UTF-8, ending at "\\n" only. Raises UserError naming a bad line."""
    for number, raw in enumerate(sys.stdin.buffer, 1):
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(f"<stdin>:{number}: expected UTF-8, got byte "
                            f"0x{raw[error.start]:02x} at column {error.start + 1}") from None
        line = line.removeprefix("\ufeff") if number == 1 else line
        yield line.removesuffix("\n").removesuffix("\r")


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
