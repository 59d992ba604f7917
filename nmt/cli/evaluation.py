"""The subcommands of `nmt` that evaluate trained translators, one function each."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from backend.errors import UserError
from nmt.checkpoint_option import BOTH, CHECKPOINTS
from nmt.cli.aligning import links_of_files
from nmt.cli.alignment_error import file_links, gold_links, word_counts
from nmt.cli.restoring import check_restore, copying_of
from nmt.cli.sources import (
    check_second_source,
    need_one_source,
    reads,
    source_files,
    source_texts,
)
from nmt.cli.trees import check_trees, tell_long_trees
from nmt.console.messages import several
from nmt.console.terminal import print
from nmt.data.align import Link, pharaoh_line
from nmt.data.annotation import is_symbol
from nmt.data.corpora import check_lengths, tokenisers
from nmt.data.corpus import Pair, read_lines, read_parallel, split_words, write_lines
from nmt.data.rare_words import (
    Dictionary,
    UnkReplacement,
    dictionary_of,
    read_dictionary,
    write_dictionary,
)
from nmt.data.sources import places
from nmt.evaluation import alignment_map, report
from nmt.evaluation.beams import by_beam
from nmt.evaluation.curves import read_curve
from nmt.evaluation.evaluate import Questions, Subject, TestSet, evaluate
from nmt.evaluation.pictures import require_drawing
from nmt.evaluation.rare import rarities
from nmt.evaluation.speed import read_speed
from nmt.files import check_writable, make_directory
from nmt.run_directory import epochs_of
from nmt.run_files import checkpoint_path
from nmt.search.interface import SearchOptions, chosen
from nmt.system import System
from nmt.training.trainer import LOG
from nmt.translation import Translation

Item = TypeVar("Item")
Lines = tuple[list[str], list[str]]  # of the source file and of the target file


def run_evaluate(options: argparse.Namespace) -> None:
    """`nmt evaluate`."""
    if options.beams is not None:
        _check_beams(options)
    check_restore(options)
    columns = _columns(options)
    _need_one_with_attention(columns, options)
    _check_sources([system for _, system in columns], options)
    lines = read_parallel(options.source, options.target)
    gold = None if options.gold is None else gold_links(options, word_counts(*lines))
    dictionary = None if options.replace_unk is None else dictionary_option(options.replace_unk)
    dictionary_to_restore = None if options.restore is None else dictionary_option(options.restore)
    tests = [_test_set(subject, system, lines, options) for subject, system in columns]
    if options.beams is not None:
        _evaluate_beams(columns, tests, options)
        return
    if options.trees:
        for (subject, system), test in zip(columns, tests, strict=True):
            check_trees(subject.name, system, test, options)
            tell_long_trees(subject.name, test, _search(system, options))
    curves = [read_curve(directory, name)
              for directory, name in zip(options.model, names_of_runs(options.model), strict=True)
              if (directory / LOG).is_file()]
    if options.output is not None:
        make_directory(options.output)
    found = []
    for (subject, system), test in zip(columns, tests, strict=True):
        tell_precision(system, test.pairs)
        questions = Questions(_search(system, options), options.buckets, dictionary, gold,
                              options.without_unk, _rarity(system, test, options),
                              dictionary_to_restore, options.trees)
        found.append(evaluate(system, subject, test, questions))
    print(report.as_text(found))
    if options.second_source is not None:
        lines = [" ||| ".join(pair) for pair in zip(lines[0], read_lines(options.second_source),
                                                    strict=True)], lines[1]
    if options.output is not None:
        for line in report.write(found, curves, lines, options.output, options.format):
            print(line)


def _check_beams(options: argparse.Namespace) -> None:
    """Raise UserError for an option beside `--beams` that asks for what it does not print."""
    for name in ("beam", "gold", "replace_unk", "restore", "rarity", "trees", "without_unk"):
        if getattr(options, name) not in (None, False):
            raise UserError(f"--beams: expected no --{name.replace('_', '-')} beside it")


def _evaluate_beams(
    columns: Sequence[tuple[Subject, System]], tests: Sequence[TestSet],
    options: argparse.Namespace,
) -> None:
    """`nmt evaluate --beams`: a table of systems and beam sizes."""
    if options.output is not None:
        make_directory(options.output)
    found = [by_beam(system, subject, test, _search(system, options), beam)
             for (subject, system), test in zip(columns, tests, strict=True)
             for beam in options.beams]
    print(report.of_beams(found))
    if options.output is not None:
        print(report.write_beams(found, options.output))


def _columns(options: argparse.Namespace) -> list[tuple[Subject, System]]:
    """The systems to evaluate: each model with each requested checkpoint, then the ensembles."""
    if options.ensemble is not None and len(options.model) < 2:
        raise UserError("--ensemble: expected two models or more, got one")
    names = names_of_runs(options.model)
    wanted = CHECKPOINTS if options.checkpoint == BOTH else (options.checkpoint,)
    rows = [[_column(directory, name, which, options) for which in wanted]
            for name, directory in zip(names, options.model, strict=True)]
    columns = [column for row in rows for column in row]
    if options.ensemble is not None:
        columns += [_together(names, members, options.ensemble)
                    for members in zip(*rows, strict=True)]
    if options.checkpoint == BOTH:
        columns = [(replace(subject, name=f"{subject.name}, {subject.checkpoint}"), system)
                   for subject, system in columns]
    return columns


def _column(
    directory: Path, name: str, which: str, options: argparse.Namespace
) -> tuple[Subject, System]:
    """One model with one checkpoint, and the facts on its training from its run directory."""
    system = System.open(directory, which)
    path = checkpoint_path(directory, which)
    speed = read_speed(directory) if (directory / LOG).is_file() else None
    words = [sum(not is_symbol(word) for word in side.words)
             for side in (system.source, system.target)]
    return Subject(name, path.stem, epochs_of(path), speed,
                   getattr(system.recipe.model, "layers", None), (words[0], words[1])), system


def _together(
    names: Sequence[str], members: Sequence[tuple[Subject, System]], average: str
) -> tuple[Subject, System]:
    """The ensemble of models."""
    used = dict.fromkeys(subject.checkpoint for subject, _ in members)
    return (Subject(f"ensemble, {average}", " and ".join(used)),
            System.together(names, [system for _, system in members], average))


def _need_one_with_attention(
    columns: Sequence[tuple[Subject, System]], options: argparse.Namespace
) -> None:
    """Raise UserError if `--gold` or `--replace-unk` is given and no system has attention; systems
    without attention are allowed beside one with it."""
    given = {"--gold": options.gold, "--replace-unk": options.replace_unk}
    wanted = " and ".join(name for name, value in given.items() if value is not None)
    if wanted and all(system.recipe.model.attention == "none" for _, system in columns):
        raise UserError(f"{wanted}: expected a model with attention in --model, got none")


def _check_sources(systems: Sequence[System], options: argparse.Namespace) -> None:
    """Raise UserError for a second source that is missing or too many, and for what is of the words
    of one source beside a system that reads two."""
    check_second_source(systems, options)
    for name in ("gold", "replace_unk", "restore", "rarity", "trees"):
        if getattr(options, name) not in (None, False):
            for system in systems:
                need_one_source(system, f"--{name.replace('_', '-')}")


def run_align(options: argparse.Namespace) -> None:
    """`nmt align`: a line of links for each pair, from the corpus alone or by force-decoding."""
    if (options.method is None) == (options.model is None):
        raise UserError("expected --method NAME or --model DIR, got both or neither")
    if options.method is not None:
        links = links_of_files(options)
    elif options.symmetrise is not None or options.lexicon is not None:
        name = "--lexicon" if options.lexicon is not None else "--symmetrise"
        raise UserError(f"{name}: expected --method beside it, got --model")
    else:
        system = System.open(options.model, options.checkpoint)
        need_attention(system, "nmt align")
        need_one_source(system, "nmt align")
        links = _forced_links(system, _pairs(system, options), options.aligned_word)
    lines = [pharaoh_line(sentence) for sentence in links]
    if options.output is not None:
        write_lines(options.output, lines)
    else:
        print("".join(line + "\n" for line in lines), end="")


def run_attention(options: argparse.Namespace) -> None:
    """`nmt attention`: maps of some lines, translated or force-decoded."""
    system = System.open(options.model, options.checkpoint)
    need_attention(system, "nmt attention")
    check_second_source([system], options)
    for name in ("png", "output"):
        if getattr(options, name) is not None:
            require_drawing(f"--{name}")
    if options.output is not None:
        check_writable(options.output)
        if len(options.line) * reads(system) > 1:
            raise UserError(f"--output: expected one map for one file, got "
                            f"{len(options.line) * reads(system)}; --png DIR takes several")
    if options.target is None:
        sources = _read_sources(system, read_lines(options.source), options)
        sources = _chosen(sources, options)
        found = [nbest[0] for nbest in system.translate(sources, _search(system, options))]
    else:
        pairs = _chosen(_pairs(system, options), options)
        sources, found = [source for source, _ in pairs], system.force(pairs)
    if options.png is not None:
        make_directory(options.png)
    for number, source, translation in zip(options.line, sources, found, strict=True):
        _show(system, number, source, translation, options)


def _chosen(items: Sequence[Item], options: argparse.Namespace) -> list[Item]:
    """The lines asked for, from 1. Raises UserError for a line that is not there."""
    for number in options.line:
        if number > len(items):
            raise UserError(f"--line: expected a line of {options.source} from 1 to {len(items)}, "
                            f"got {number}")
    return [items[number - 1] for number in options.line]


def _show(
    system: System, number: int, source: Sequence[str], translation: Translation,
    options: argparse.Namespace,
) -> None:
    """One map, in the terminal and perhaps as a picture."""
    if translation.alignment is None or not translation.words:
        print(f"{number}: nothing to show, a side is empty\n")
        return
    weights = system.word_weights(translation, options.aligned_word)
    columns = system.source_columns(source)
    print(f"{number}: {system.text(translation)}")
    for k, own in enumerate(places(columns), 1):
        print(alignment_map.in_terminal(columns[own], translation.words, weights[:, own]) + "\n")
        path = options.output
        if options.png is not None:
            which = f"-{k}" if reads(system) > 1 else ""  # a map of each source
            path = options.png / f"attention-{number}{which}.{options.format}"
        if path is not None:
            alignment_map.save_map(columns[own], translation.words, weights[:, own], path)
            print(f"{path}\n")


def run_dictionary(options: argparse.Namespace) -> None:
    """`nmt dictionary`: from the links of a file, or from force-decoding with a model."""
    if (options.links is None) == (options.model is None):
        raise UserError("expected --links FILE or --model DIR, got both or neither")
    pairs: list[Pair]
    links: Sequence[Sequence[Link]]
    if options.links is not None:
        lines = read_parallel(options.source, options.target)
        pairs = [(split_words(x), split_words(y)) for x, y in zip(*lines, strict=True)]
        links = file_links(options.links, word_counts(*lines), options.drop_bad_links)
    else:
        system = System.open(options.model, options.checkpoint)
        need_attention(system, "nmt dictionary")
        need_one_source(system, "nmt dictionary")
        pairs = _pairs(system, options)
        links = _forced_links(system, pairs, options.aligned_word)
    sources, targets = [x for x, _ in pairs], [y for _, y in pairs]
    dictionary = dictionary_of(sources, targets, links, options.min_count, options.translations)
    write_dictionary(options.output, dictionary)
    print(f"{options.output}: {several(len(dictionary), 'source word')}")


# --- shared ---------------------------------------------------------------------------------------


def need_attention(system: System, wanted: str) -> None:
    """Raise UserError, naming what was asked for, if the model has no attention."""
    if system.recipe.model.attention == "none":
        raise UserError(f"{wanted}: expected a model with attention, this one has none")


def tell_precision(system: System, pairs: Sequence[Pair]) -> None:
    """Print on stderr what reduced precision changes in the loss of a batch of pairs."""
    if cost := system.precision_cost(pairs):
        print(cost, file=sys.stderr)


def dictionary_option(text: str) -> Dictionary:
    """The dictionary of `--replace-unk [DICTIONARY]`; empty for "": every source word is copied."""
    return read_dictionary(text) if text else {}


def unk_replacement(options: argparse.Namespace, system: System) -> UnkReplacement | None:
    """What `nmt translate --replace-unk` asks for, or None. Raises UserError without attention."""
    if options.replace_unk is None:
        return None
    need_attention(system, "--replace-unk")
    return UnkReplacement(dictionary_option(options.replace_unk), options.aligned_word)


def _rarity(
    system: System, test: TestSet, options: argparse.Namespace
) -> list[float] | None:
    """The rarity of each source sentence, by word frequencies in the text of `--rarity`."""
    if options.rarity is None:
        return None
    cut = tokenisers(system.recipe.data)[0].tokenise
    return rarities(test.sources, [cut(line) for line in read_lines(options.rarity)],
                    options.rarity_order)


def names_of_runs(directories: Sequence[Path]) -> list[str]:
    """A short name for each model: its directory's, or the whole path where two are alike."""
    short = [directory.resolve().name for directory in directories]
    return [name if short.count(name) == 1 else str(directory)
            for name, directory in zip(short, directories, strict=True)]


def _search(system: System, options: argparse.Namespace) -> SearchOptions:
    """The recipe's search settings with those of the command line."""
    return chosen(system.recipe.search, options.beam, length_factor=options.length_factor,
                  length_normalisation=options.length_normalisation,
                  longest_word=options.longest_word, lengths=options.lengths)


def _test_set(
    subject: Subject, system: System, lines: Lines, options: argparse.Namespace
) -> TestSet:
    """The files as this system reads them."""
    sources = _read_sources(system, lines[0], options)
    targets = [tokenisers(system.recipe.data)[1].tokenise(line) for line in lines[1]]
    gold_pairs = [(split_words(x), split_words(y)) for x, y in zip(*lines, strict=True)]
    test = TestSet(sources, targets, lines[1], gold_pairs,
                   copying_of(subject.name, system, lines, options))
    if not test.pairs:
        raise UserError(f"{options.source}, {options.target}: expected at least one pair of "
                        "sentences, got none")
    return test


def _read_sources(
    system: System, lines: Sequence[str], options: argparse.Namespace
) -> list[list[str]]:
    """The words that a system reads of the lines of `options.source`, and of a second source."""
    sources = [system.cut_source(text) for text in source_texts(system, lines, options)]
    files = [str(path) for path in source_files(system, options)]
    system.check_sources(sources, files)
    return sources


def _pairs(system: System, options: argparse.Namespace) -> list[Pair]:
    """The pairs of the files as words, empty ones too, so that lines stay aligned."""
    lines = read_parallel(options.source, options.target)
    sources = _read_sources(system, lines[0], options)
    targets = [tokenisers(system.recipe.data)[1].tokenise(line) for line in lines[1]]
    check_lengths(targets, system.recipe.data, str(options.target))
    return list(zip(sources, targets, strict=True))


def _forced_links(system: System, pairs: Sequence[Pair], aligned_word: str) -> list[list[Link]]:
    """Links of force-decoded pairs, between words."""
    return [system.word_links(translation, source, aligned_word)
            for translation, (source, _) in zip(system.force(pairs), pairs, strict=True)]
