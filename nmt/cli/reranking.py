"""`nmt rerank`: rescore n-best lists with other models in a log-linear combination, and tune it."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from backend.errors import UserError
from nmt.checkpoint_option import add_checkpoint
from nmt.cli.lines import write_or_print
from nmt.cli.options import names_of_runs
from nmt.console.arguments import add_output
from nmt.console.messages import several
from nmt.console.progress import busy
from nmt.console.terminal import print
from nmt.data.corpora import tokenisers
from nmt.data.corpus import read_lines, read_parallel, write_lines
from nmt.data.nbest import Candidate, line_of, read_nbest
from nmt.evaluation.scores import TOKENISATIONS, bleu_statistics
from nmt.files import check_writable
from nmt.search.rerank import Lists, Tuned, bleu_of, choose, tune
from nmt.system import System

OWN = "log_p"  # what `nmt translate --nbest` calls the score of the model that made the list
WORDS = "words"


def add_rerank(parser: argparse.ArgumentParser) -> None:
    """The arguments of `nmt rerank`."""
    parser.add_argument("source", type=Path, help="the sentences that were translated")
    parser.add_argument("nbest", type=Path, help="their n-best lists")
    parser.add_argument("--model", type=Path, nargs="+", default=[], metavar="DIR",
                        help="score by these runs of the same direction, such as one that "
                             "writes from right to left (data.reverse_target)")
    parser.add_argument("--backward", type=Path, nargs="+", default=[], metavar="DIR",
                        help="score the source given the translation by these runs of the "
                             "opposite direction")
    add_checkpoint(parser)
    parser.add_argument("--weights", type=Path, required=True, metavar="FILE",
                        help="read a weight for each score from this JSON, which --tune writes")
    parser.add_argument("--tune", type=Path, metavar="REFERENCES",
                        help="find the weights with the best BLEU against these references")
    parser.add_argument("--tokenize", choices=TOKENISATIONS, default="13a",
                        help="tokenise this way for --tune (default: 13a)")
    parser.add_argument("--nbest-output", type=Path, metavar="FILE",
                        help="write the lists with all scores, in their new order")
    add_output(parser, "text")


def run_rerank(options: argparse.Namespace) -> None:
    """`nmt rerank`.

    Score the translations of n-best lists (nmt translate --nbest 50) with more models, and write
    for each line the translation with the largest weighted sum of all scores and its number of
    words. --tune finds the weights with the highest BLEU on a dev set; --weights applies them to
    other text.
    """
    sources, *references = read_parallel(*filter(None, (options.source, options.tune)))
    lists_read = read_nbest(options.nbest)
    if len(sources) != len(lists_read):
        raise UserError(f"{options.nbest}: expected translations of "
                        f"{several(len(sources), 'line')} of {options.source}, got those of "
                        f"{len(lists_read)}")
    weights = {} if references else _read_weights(options.weights)
    for path in (options.output, options.nbest_output, options.tune and options.weights):
        if path is not None:
            check_writable(path)
    scored = _scored(sources, lists_read, options)
    names = [*scored[0][0].features]
    lists = _lists(scored)
    if references:
        chosen = _tuned(lists, names, scored, references[0], options)
    else:
        _check_names(weights, names, options.weights)
        chosen = np.array([weights[name] for name in names])
    _write(scored, lists, chosen, options)


def _scored(
    sources: Sequence[str], nbests: list[list[Candidate]], options: argparse.Namespace
) -> list[list[Candidate]]:
    """The lists with the scores of all models, and the number of words, as features."""
    if not options.model and not options.backward:
        raise UserError("expected --model DIR or --backward DIR, got neither")
    texts = [(source, candidate.text) for source, nbest in zip(sources, nbests, strict=True)
             for candidate in nbest]
    columns: dict[str, list[float]] = {}
    for kind, paths in (("model", options.model), ("backward", options.backward)):
        for path, name in zip(paths, names_of_runs(paths), strict=True):
            column = f"{kind}:{name.replace(' ', '_')}"
            columns[column] = _log_p(System.open(path, options.checkpoint), texts,
                                     kind == "backward", str(options.nbest))
    columns[WORDS] = [float(len(text.split())) for _, text in texts]
    if repeated := columns.keys() & nbests[0][0].features.keys():
        raise UserError(f"{options.nbest}: expected lists without {min(repeated)}, which "
                        "nmt rerank adds, got one with it")
    rows = iter(zip(*columns.values(), strict=True))
    return [[candidate._replace(features={**candidate.features,
                                          **dict(zip(columns, next(rows), strict=True))})
             for candidate in nbest] for nbest in nbests]


def _log_p(
    system: System, texts: Sequence[tuple[str, str]], backward: bool, name: str
) -> list[float]:
    """log p, in nats, of each translation given its source, or with `backward` of the source given
    its translation.

    A pair with an empty side gets the lowest score of all pairs, since no model can score it.
    """
    cut = [tokeniser.tokenise for tokeniser in tokenisers(system.recipe.data)]
    order = (1, 0) if backward else (0, 1)
    pairs = [(cut[0](text[order[0]]), cut[1](text[order[1]])) for text in texts]
    system.check_sources([pair[0] for pair in pairs], name)
    known = {text: pair for text, pair in zip(texts, pairs, strict=True) if all(pair)}
    forced = dict(zip(known, system.force([*known.values()]), strict=True))
    values = {text: tokeniser.log_probability for text, tokeniser in forced.items()}
    lowest = min(values.values(), default=0.0)
    return [values.get(text, lowest) for text in texts]


def _lists(scored: Sequence[Sequence[Candidate]]) -> Lists:
    """The features of all lists as one array."""
    starts = np.cumsum([0, *map(len, scored)])
    rows = [[*candidate.features.values()] for nbest in scored for candidate in nbest]
    return Lists(np.array(rows), starts)


def _tuned(
    lists: Lists, names: Sequence[str], scored: Sequence[Sequence[Candidate]],
    references: Sequence[str], options: argparse.Namespace,
) -> np.ndarray:
    """Find the weights with the highest BLEU, write them to a file, and print the scores."""
    statistics = np.array(bleu_statistics(
        [translation.text for nbest in scored for translation in nbest],
        [line for line, nbest in zip(references, scored, strict=True) for _ in nbest],
        options.tokenize))
    first = lists.starts[:-1]
    models = [float(name == OWN or ":" in name) for name in names]
    initial = [float(name == OWN) for name in names] if OWN in names else models
    with busy("tuning"):
        tuned: Tuned = tune(lists, statistics, [np.array(initial), np.array(models)])
    weights = dict(zip(names, tuned.weights.tolist(), strict=True))
    write_lines(options.weights, json.dumps(weights, indent=1).split("\n"))
    before = float(bleu_of(statistics[first].sum(axis=0)))
    print(f"BLEU {before:.2f} for the first translation of each list, "
          f"{tuned.bleu:.2f} for the chosen ones; {options.weights}: "
          + ", ".join(f"{name} {value:.4f}" for name, value in weights.items()), file=sys.stderr)
    return tuned.weights


def _read_weights(path: Path) -> dict[str, float]:
    """Read the weights that `--tune` wrote."""
    try:
        weights = json.loads("\n".join(read_lines(path)))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: expected JSON of weights, got: {error!s:.80}") from None
    if not isinstance(weights, dict) or not weights or not all(
            isinstance(value, int | float) and not isinstance(value, bool)
            and abs(value) < 2**53 and math.isfinite(value) for value in weights.values()):
        raise UserError(f"{path}: expected JSON of weights, a number for each score, got "
                        f"{json.dumps(weights):.80}")
    return {name: float(value) for name, value in weights.items()}


def _check_names(weights: dict[str, float], names: Sequence[str], path: Path) -> None:
    """Raise UserError unless there is a weight for each score."""
    if weights.keys() != set(names):
        raise UserError(f"{path}: expected weights of {', '.join(names)}, got those of "
                        f"{', '.join(weights)}")


def _write(
    scored: Sequence[Sequence[Candidate]], lists: Lists, weights: np.ndarray,
    options: argparse.Namespace,
) -> None:
    """Write the best translation of each line and, if asked for, the lists in their new order."""
    best = [translation for nbest in scored for translation in nbest]
    texts = [best[place].text for place in choose(lists, weights)]
    if options.nbest_output is not None:
        scores = lists.features @ weights
        lines = []
        for number, (start, nbest) in enumerate(zip(lists.starts, scored, strict=False)):
            list_scores = scores[start : start + len(nbest)]
            lines += [line_of(number, nbest[k]._replace(score=float(list_scores[k])))
                      for k in np.argsort(-list_scores, kind="stable").tolist()]
        write_lines(options.nbest_output, lines)
    write_or_print(options.output, texts)
