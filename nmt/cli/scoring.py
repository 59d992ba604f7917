"""`nmt score` and `nmt perplexity`: score translations by references, or by a model."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from backend.errors import UserError
from nmt.cli.options import add_model, add_pairs, add_rarity
from nmt.cli.sources import add_second_source, check_second_source, source_texts
from nmt.cli.trees import score_trees
from nmt.console.arguments import positive
from nmt.console.messages import several
from nmt.console.terminal import print
from nmt.data.corpora import tokenisers
from nmt.data.corpus import (
    lines_as_written,
    prepare_pairs,
    read_lines,
    read_parallel,
    split_words,
    write_lines,
)
from nmt.data.prepared import signs
from nmt.evaluation.rare import bleu_by_rarity, is_position, perplexities_by_class, rarities
from nmt.evaluation.scores import (
    METRICS,
    TESTS,
    compare,
    metrics_of,
    perplexity,
    score_against,
)
from nmt.files import check_writable
from nmt.system import System

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

NAMES = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER"}


def add_score(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt score`."""
    parser.add_argument("hypotheses", type=Path, help="translations to score")
    parser.add_argument("references", type=Path, nargs="+", help="their references")
    parser.add_argument("--metrics", choices=METRICS, nargs="+", default=METRICS[:2], metavar="M",
                        help=f"print {', '.join(METRICS)} (default: {' '.join(METRICS[:2])})")
    parser.add_argument("--tokenize", default="13a", metavar="NAME",
                        help="tokenise as sacrebleu for BLEU (default: 13a)")
    parser.add_argument("--lowercase", "-lc", action="store_true", help="ignore case")
    parser.add_argument("--source", type=Path, metavar="FILE",
                        help="read the source sentences, in tokens, for --rarity")
    parser.add_argument("--compare", "--against", type=Path, nargs="+", metavar="FILE",
                        help="test whether these translations differ by more than chance")
    parser.add_argument("--test", choices=TESTS, default="bootstrap",
                        help="... by paired bootstrap (default) or by approximate randomisation")
    parser.add_argument("--samples", type=positive, metavar="N",
                        help="... with N test sets (default: 1000) or trials (10000)")
    add_rarity(parser)
    parser.add_argument("--trees", type=Path, metavar="WORDS",
                        help="print bracketing F1 of linear trees over the sentences of this "
                             "file (nmt trees) instead")


def run_score(options: argparse.Namespace) -> None:
    """`nmt score`."""
    if (options.source is None) != (options.rarity is None):
        raise UserError("--source and --rarity: each needs the other")
    if len(options.references) > 1 and (options.trees or options.rarity):
        raise UserError("--trees, --rarity: expected one file of references, got "
                        f"{len(options.references)}")
    if options.trees is not None:
        score_trees(options)
        return
    read_texts = partial(read_parallel, read=lines_as_written)
    hypotheses, *references = read_texts(options.hypotheses, *options.references)
    rivals = [read_texts(path, options.references[0])[0] for path in options.compare or ()]
    metrics = metrics_of(options.metrics, options.tokenize, options.lowercase)
    _advise_on_tokens(references[0], options)
    for name, metric in zip(options.metrics, metrics, strict=True):
        print(score_against(metric, hypotheses, references).as_text(NAMES[name]))
    if rivals:
        _compare([hypotheses, *rivals], references, metrics, options)
    if options.rarity is not None:
        sources, _ = read_parallel(options.source, options.references[0])
        rarity = rarities([split_words(line) for line in sources],
                          [split_words(line) for line in read_lines(options.rarity)],
                          options.rarity_order)
        for group in bleu_by_rarity(rarity, hypotheses, references[0], options.tokenize):
            print(f"BLEU {group.score:.2f} of sentences {group.label} by rarity")


def _advise_on_tokens(references: list[str], options: argparse.Namespace) -> None:
    """Print a line on stderr if the references look tokenised and are tokenised again."""
    if options.tokenize != "none" and (description := signs(references)):
        print(f"{options.references[0]}: looks tokenised: {description}. --tokenize none scores "
              "tokenised text", file=sys.stderr)


def _compare(
    systems: list[list[str]], references: list[list[str]], metrics: Sequence[Metric],
    options: argparse.Namespace,
) -> None:
    """`--compare`: print for each metric a line for each file, the baseline first."""
    for comparison in compare(systems, references, metrics, options.test, options.samples):
        print(f"paired {options.test} ({comparison.signature})")
        paths = [options.hypotheses, *options.compare]
        for path, score in zip(paths, comparison.systems, strict=True):
            p = "baseline" if score.p is None else f"p = {score.p:.4f}"
            spread = "" if score.mean is None else f"({score.mean:.2f} ± {score.interval:.2f}) "
            print(f"{comparison.metric} {score.score:.2f} {spread}{p} {path}")


def add_perplexity(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt perplexity`."""
    add_pairs(parser)
    add_second_source(parser)
    parser.add_argument("--log-probabilities", type=Path, metavar="FILE",
                        help="write log p of each target, in nats, by forced decoding; an empty "
                             "line where a side is empty")
    add_model(parser)


def run_perplexity(options: argparse.Namespace) -> None:
    """`nmt perplexity`."""
    system = System.open(options.model, options.checkpoint)
    check_second_source([system], options)
    sources, targets = read_parallel(options.source, options.target)
    texts, cut_target = source_texts(system, sources, options), tokenisers(system.recipe.data)[1]
    system.check_tags(map(system.cut_source, texts), str(options.source))
    if options.log_probabilities is not None:
        check_writable(options.log_probabilities)
    prepared = prepare_pairs(texts, targets, None, system.cut_source, cut_target.tokenise)
    if not prepared.pairs:
        raise UserError(f"{options.source}, {options.target}: expected a pair of sentences, got "
                        "empty lines only")
    losses = system.losses(prepared.pairs)
    print(f"perplexity {perplexity(*losses['']):.4f} over "
          f"{several(len(prepared.pairs), 'pair')} ({prepared.empty} with an empty side left out)")
    print(f"negative log-likelihood {losses[''][0] / len(prepared.pairs):.4f} nats per sentence")
    if "character_" in losses:
        print(f"character perplexity {perplexity(*losses['character_']):.4f} of words "
              "outside the vocabulary")
    if "length_" in losses:
        print(f"length perplexity {perplexity(*losses['length_']):.4f} per sentence")
    if options.log_probabilities is not None:
        pairs = [(system.cut_source(x), cut_target.tokenise(y))
                 for x, y in zip(texts, targets, strict=True)]
        write_lines(options.log_probabilities, (
            f"{forced.log_probability:.4f}" if all(pair) else ""
            for forced, pair in zip(system.force(pairs), pairs, strict=True)))
    if any(is_position(word) for _, target in prepared.pairs for word in target):
        parts = perplexities_by_class(system.force(prepared.pairs))
        print(", ".join(f"of {name} {value:.4f} over {count}"
                        for name, (value, count) in parts.items()))
