"""`nmt redundancy`: measure what pruning costs."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from backend.errors import UserError
from nmt.analysis.redundancy import Measure, Trained, breakdown, survivors, sweep
from nmt.analysis.redundancy_report import Findings, draw, survivors_text, write
from nmt.base_system import BaseSystem
from nmt.cli.options import add_format, add_run
from nmt.console.arguments import percent, positive
from nmt.console.terminal import print
from nmt.data.corpora import EvaluationSet, load_corpus
from nmt.evaluation.curves import Curve, read_curve
from nmt.files import make_directory
from nmt.language_models import LanguageSystem, read_text
from nmt.pruning.run import masks_for, open_system, stored_weights
from nmt.pruning.schemes import SCHEMES
from nmt.run_files import check_new, checkpoint_path
from nmt.system import System, score_bleu
from nmt.training.run import LOG

NAMES = {"perplexity": "perplexity", "bleu": "BLEU"}  # as they are written
PERCENTS = tuple(float(percent) for percent in range(0, 100, 10))


class Sets(NamedTuple):
    """The data to measure on: pairs, or for a language model tokens."""

    name: str  # dev or test
    evaluation: Any  # EvaluationSet, or tokens
    train: Sequence[Any]  # as many training pairs or tokens as the evaluation set has


def add_redundancy(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt redundancy`."""
    add_run(parser)
    parser.add_argument("--output", type=Path, required=True, metavar="DIR",
                        help="make this directory")
    parser.add_argument("--percents", type=percent, nargs="+", default=PERCENTS, metavar="X",
                        help="prune these percentages (default: 0 10 ... 90)")
    parser.add_argument("--schemes", choices=tuple(SCHEMES), nargs="+", default=tuple(SCHEMES),
                        metavar="SCHEME",
                        help=f"prune by these schemes: {', '.join(SCHEMES)} (default: all)")
    parser.add_argument("--classes", type=percent, default=90.0, metavar="X",
                        help="prune each class alone by X percent; 0 skips it (default: 90)")
    parser.add_argument("--weights", type=percent, default=80.0, metavar="X",
                        help="count and draw the weights left at X percent (default: 80)")
    parser.add_argument("--test", action="store_true",
                        help="measure on the test set, not on the dev set")
    parser.add_argument("--no-bleu", action="store_true", help="measure perplexity only")
    parser.add_argument("--beam", type=positive, default=1, metavar="N",
                        help="keep N hypotheses for BLEU (default: 1, greedy)")
    parser.add_argument("--trained", type=Path, nargs="+", default=(), metavar="DIR",
                        help="compare these runs, which nmt prune retrained or trained from "
                             "scratch")
    add_format(parser)


def run_redundancy(options: argparse.Namespace) -> None:
    """`nmt redundancy`.

    Write the analyses of section 6.2.3 of the thesis as JSON, a table and pictures: all schemes and
    percentages, each class alone, the weights left by class, retrained runs. The data are those of
    the run's recipe.
    """
    check_new(options.output)
    system = open_system(options.run_directory, options.checkpoint)
    runs = [(directory, _trained_system(directory)) for directory in options.trained]
    sets = _sets(system, options)
    measure = _measure(sets, options)
    scheme, weights = options.schemes[0], stored_weights(system)
    masks = masks_for(system, options.weights, scheme)
    remaining = survivors(weights, masks, options.weights, scheme)
    make_directory(options.output)
    points = sweep(system, measure, options.percents, options.schemes, _say)
    trained = [_trained(directory, retrained, sets, measure) for directory, retrained in runs]
    parts = breakdown(system, _measure(sets, options, bleu=False), options.classes,
                      options.schemes, _say) if options.classes else []
    about = {"run": options.run_directory.name, "set": sets.name, "beam": options.beam,
             "checkpoint": checkpoint_path(options.run_directory, options.checkpoint).stem}
    findings = Findings(about, points, parts, remaining, trained, _curve(options.run_directory))
    print(survivors_text(remaining))
    pictures = draw(findings, weights, masks, options.output, options.format)
    for line in (*write(findings, options.output), *pictures):
        print(line)


def _say(text: str) -> None:
    """Print a line of progress."""
    print(text, flush=True)


def _sets(system: BaseSystem, options: argparse.Namespace) -> Sets:
    """The data to measure on. Raises UserError for `--test` without a test set."""
    name = "test" if options.test else "dev"
    if isinstance(system, LanguageSystem):
        train, dev = read_text(system.recipe.text)
        if options.test:
            raise UserError("--test: expected a translator; a language model has its dev text")
        return Sets(name, dev, train[: len(dev)])
    corpus = load_corpus(system.recipe.data)
    chosen = corpus.test if options.test else corpus.dev
    if chosen is None:
        raise UserError("--test: expected data.test_source and data.test_target in the recipe, "
                        "got neither")
    return Sets(name, chosen, corpus.train[: len(chosen.pairs)])


def _measure(sets: Sets, options: argparse.Namespace, bleu: bool = True) -> Measure:
    """A function that returns a system's scores on the evaluation set."""

    def measure(system: System | LanguageSystem) -> dict[str, float]:
        if isinstance(system, LanguageSystem):
            return {"perplexity": system.perplexity(sets.evaluation)}
        chosen: EvaluationSet = sets.evaluation
        scores = {"perplexity": system.perplexity(chosen.pairs)}
        if bleu and not options.no_bleu:
            search = replace(system.recipe.search, beam=options.beam, nbest=1)
            nbests = system.translate(chosen.sources, search)
            scores["bleu"] = score_bleu(system, chosen, nbests).score
        return scores

    return measure


def _trained_system(directory: Path) -> System | LanguageSystem:
    """Open a run that was trained under masks. Raises UserError for any other run."""
    system = open_system(directory)
    if system.pruning is None or "pruned_perplexity" not in system.pruning.facts:
        raise UserError(f"{directory}: expected a run that `nmt prune --retrain` or "
                        "`--from-scratch` trained, got another")
    return system


def _trained(
    directory: Path, system: System | LanguageSystem, sets: Sets, measure: Measure
) -> Trained:
    """The scores of a run that was trained under masks."""
    assert system.pruning is not None
    facts, scores = system.pruning.facts, measure(system)
    _say(f"{directory.name}, {facts['how']}, {facts['scheme']} {facts['percent']:g} %: "
         + ", ".join(f"{NAMES[name]} {value:.2f}" for name, value in scores.items()))
    return Trained(directory.name, facts["how"], facts["scheme"], facts["percent"],
                   scores["perplexity"], scores.get("bleu"), system.perplexity(sets.train),
                   facts["pruned_perplexity"], _curve(directory) or Curve("", [], []))


def _curve(directory: Path) -> Curve | None:
    """The learning curve of a run; None if it has no log with a validation."""
    if not (directory / LOG).is_file():
        return None
    curve = read_curve(directory, directory.name)
    return curve if any(math.isfinite(cost) for _, cost in curve.test_cost) else None
