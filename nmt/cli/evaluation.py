"""`nmt evaluate`: score translators side by side."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from backend.errors import UserError
from nmt.analysis.lengths import EDGES
from nmt.checkpoint_option import BOTH, CHECKPOINTS, add_checkpoint
from nmt.cli.alignment_error import gold_links, sizes_of
from nmt.cli.lines import pairs_of_words
from nmt.cli.options import (
    add_drop_bad_links,
    add_format,
    add_links_format,
    add_pairs,
    add_rarity,
    add_replace_unk,
    add_search,
    dictionary_option,
    names_of_runs,
    search_options,
    tell_precision,
)
from nmt.cli.restoring import add_restore, check_restore, copying_of
from nmt.cli.sources import add_second_source, check_second_source, need_one_source, read_sources
from nmt.cli.trees import check_trees, tell_long_trees, trees_only
from nmt.console.arguments import options_given, positive
from nmt.console.terminal import print
from nmt.data.annotation import is_symbol
from nmt.data.corpora import tokenisers
from nmt.data.corpus import read_lines, read_parallel
from nmt.evaluation import report
from nmt.evaluation.beams import by_beam
from nmt.evaluation.curves import read_curve
from nmt.evaluation.evaluate import Questions, Subject, TestSet, evaluate
from nmt.evaluation.rare import rarities
from nmt.evaluation.speed import read_speed
from nmt.files import make_directory
from nmt.run_directory import epochs_of
from nmt.run_files import checkpoint_path
from nmt.search.combine import AVERAGES
from nmt.search.constraint import Restriction
from nmt.system import System
from nmt.training.run import LOG

Lines = list[list[str]]  # the lines of the source file and of the target file


def add_evaluate(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt evaluate`."""
    add_pairs(parser)
    add_second_source(parser)
    parser.add_argument("--model", type=Path, required=True, nargs="+", metavar="DIR",
                        help="score these runs")
    add_checkpoint(parser, both=True)
    parser.add_argument("--ensemble", nargs="?", choices=AVERAGES, const=AVERAGES[0],
                        help="score their ensemble too (default: probabilities)")
    add_search(parser)
    parser.add_argument("--buckets", type=_edges, default=EDGES, metavar="N,N,...",
                        help="end the buckets of lengths at these source lengths (default: "
                             f"{','.join(map(str, EDGES))})")
    add_rarity(parser)
    add_replace_unk(parser)
    add_restore(parser)
    parser.add_argument("--without-unk", action="store_true",
                        help="also score the sentences without unknown words")
    parser.add_argument("--beams", type=positive, nargs="+", metavar="K",
                        help="print only BLEU, lengths, empty outputs of each beam")
    parser.add_argument("--trees", action="store_true",
                        help="score F1 of linear trees (nmt trees), by length")
    parser.add_argument("--valid-trees", action="store_true", help="... and write valid ones only")
    parser.add_argument("--gold", type=Path, metavar="FILE",
                        help="print the alignment error rate by these links (Pharaoh or NAACL "
                             "format, words between spaces)")
    add_links_format(parser, "gold")
    add_drop_bad_links(parser)
    parser.add_argument("--output", type=Path, metavar="DIR",
                        help="write evaluation.json, outputs.txt and pictures")
    add_format(parser)


def _edges(text: str) -> list[int]:
    """The integers of a text such as 10,20,30, which must rise."""
    rising = re.fullmatch(r"[0-9]{1,9}(,[0-9]{1,9})*", text)
    edges = [int(number) for number in text.split(",")] if rising else []
    if not edges or edges[0] < 1 or edges != sorted(set(edges)):
        raise argparse.ArgumentTypeError(f"expected rising numbers such as 10,20,30, got {text!r}")
    return edges


def run_evaluate(options: argparse.Namespace) -> None:
    """`nmt evaluate`."""
    if options.beams is not None:
        _check_beams(options)
    check_restore(options)
    columns = _columns(options)
    _need_one_with_attention(columns, options)
    _check_sources([system for _, system in columns], options)
    lines = read_parallel(options.source, options.target)
    gold = None if options.gold is None else gold_links(options, sizes_of(pairs_of_words(*lines)))
    dictionary = None if options.replace_unk is None else dictionary_option(options.replace_unk)
    dictionary_to_restore = None if options.restore is None else dictionary_option(options.restore)
    tests = [_test_set(subject, system, lines, options) for subject, system in columns]
    if options.beams is not None:
        _evaluate_beams(columns, tests, options)
        return
    if options.trees:
        for (subject, system), test in zip(columns, tests, strict=True):
            check_trees(subject.name, system, test, options)
            tell_long_trees(subject.name, test, search_options(system, options))
    curves = [read_curve(directory, name)
              for directory, name in zip(options.model, names_of_runs(options.model), strict=True)
              if (directory / LOG).is_file()]
    if options.output is not None:
        make_directory(options.output)
    results = []
    for (subject, system), test in zip(columns, tests, strict=True):
        tell_precision(system, test.pairs)
        questions = Questions(search_options(system, options), options.buckets, dictionary, gold,
                              options.without_unk, _rarity(system, test, options),
                              dictionary_to_restore, options.trees,
                              _restriction(subject, system, options))
        results.append(evaluate(system, subject, test, questions))
    print(report.as_text(results))
    if options.second_source is not None:
        lines[0] = [" ||| ".join(pair) for pair in zip(lines[0], read_lines(options.second_source),
                                                       strict=True)]
    if options.output is not None:
        for line in report.write(results, curves, lines, options.output, options.format):
            print(line)


def _restriction(
    subject: Subject, system: System, options: argparse.Namespace
) -> Restriction | None:
    """The restriction of `--valid-trees`; None without the option."""
    if not options.valid_trees:
        return None
    if not options.trees:
        raise UserError("--valid-trees: needs --trees")
    return trees_only(subject.name, system, search_options(system, options))


def _check_beams(options: argparse.Namespace) -> None:
    """Raise UserError for an option that `--beams` ignores."""
    for option in options_given(options, "beam", "gold", "replace_unk", "restore", "rarity",
                                "trees", "valid_trees", "without_unk"):
        raise UserError(f"--beams: cannot be used with {option}")


def _evaluate_beams(
    columns: Sequence[tuple[Subject, System]], tests: Sequence[TestSet],
    options: argparse.Namespace,
) -> None:
    """`nmt evaluate --beams`: print a table of systems and beam sizes."""
    if options.output is not None:
        make_directory(options.output)
    results = [by_beam(system, subject, test, search_options(system, options), beam)
               for (subject, system), test in zip(columns, tests, strict=True)
               for beam in options.beams]
    print(report.of_beams(results))
    if options.output is not None:
        print(report.write_beams(results, options.output))


def _columns(options: argparse.Namespace) -> list[tuple[Subject, System]]:
    """The systems to evaluate: each run with each requested checkpoint, then the ensembles."""
    if options.ensemble is not None and len(options.model) < 2:
        raise UserError("--ensemble: expected two models or more, got one")
    names = names_of_runs(options.model)
    checkpoints = CHECKPOINTS if options.checkpoint == BOTH else (options.checkpoint,)
    rows = [[_column(directory, name, checkpoint, options) for checkpoint in checkpoints]
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
    directory: Path, name: str, checkpoint: str, options: argparse.Namespace
) -> tuple[Subject, System]:
    """The system of a run's checkpoint, with the facts of its training."""
    system = System.open(directory, checkpoint)
    path = checkpoint_path(directory, checkpoint)
    speed = read_speed(directory) if (directory / LOG).is_file() else None
    words = [sum(not is_symbol(word) for word in side.words)
             for side in (system.source, system.target)]
    return Subject(name, path.stem, epochs_of(path), speed,
                   getattr(system.recipe.model, "layers", None), (words[0], words[1])), system


def _together(
    names: Sequence[str], members: Sequence[tuple[Subject, System]], average: str
) -> tuple[Subject, System]:
    """The ensemble of several members, and its description."""
    used = dict.fromkeys(subject.checkpoint for subject, _ in members)
    return (Subject(f"ensemble, {average}", " and ".join(used)),
            System.together(names, [system for _, system in members], average))


def _need_one_with_attention(
    columns: Sequence[tuple[Subject, System]], options: argparse.Namespace
) -> None:
    """Raise UserError if `--gold` or `--replace-unk` is given and no system has attention. Systems
    without attention are allowed if another one has it."""
    requests = " and ".join(options_given(options, "gold", "replace_unk"))
    if requests and all(system.recipe.model.attention == "none" for _, system in columns):
        raise UserError(f"{requests}: expected a model with attention in --model, got none")


def _check_sources(systems: Sequence[System], options: argparse.Namespace) -> None:
    """Raise UserError for a second source that is missing or not read, and for options on the words
    of one source if a system reads two."""
    check_second_source(systems, options)
    for option in options_given(options, "gold", "replace_unk", "restore", "rarity", "trees"):
        for system in systems:
            need_one_source(system, option)


def _rarity(system: System, test: TestSet, options: argparse.Namespace) -> list[float] | None:
    """The rarity of each source sentence, from word frequencies in the text of `--rarity`."""
    if options.rarity is None:
        return None
    cut = tokenisers(system.recipe.data)[0].tokenise
    return rarities(test.sources, [cut(line) for line in read_lines(options.rarity)],
                    options.rarity_order)


def _test_set(
    subject: Subject, system: System, lines: Lines, options: argparse.Namespace
) -> TestSet:
    """The files' lines as this system reads them."""
    sources = read_sources(system, lines[0], options)
    targets = [tokenisers(system.recipe.data)[1].tokenise(line) for line in lines[1]]
    test = TestSet(sources, targets, lines[1], pairs_of_words(*lines),
                   copying_of(subject.name, system, lines, options))
    if not test.pairs:
        raise UserError(f"{options.source}, {options.target}: expected at least one pair of "
                        "sentences, got none")
    return test
