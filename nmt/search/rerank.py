"""Reranking n-best lists by a log-linear combination of features, with weights tuned to corpus
BLEU.

Source: Och (2003), minimum error rate training; Sennrich's slides rescore the lists of a
left-to-right model by a right-to-left one, and those of source-to-target by target-to-source.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

ORDERS = 4  # largest order of BLEU's n-grams
ROUNDS = 20  # iterations over all weights, at most


class Lists(NamedTuple):
    """N translations of all sentences, sentence by sentence."""

    features: np.ndarray  # (N, F) float64
    starts: np.ndarray  # (sentences + 1,) int: where each sentence's translations begin


class Tuned(NamedTuple):
    """Weights, and the BLEU of the translations that they choose."""

    weights: np.ndarray  # (F,), absolute values sum to 1
    bleu: float  # 0 to 100


def choose(lists: Lists, weights: np.ndarray) -> np.ndarray:
    """(sentences,) the index of each sentence's translation with the largest weighted sum of
    features, w . f. Ties go to the first."""
    scores = lists.features @ weights
    return np.array([start + int(np.argmax(scores[start:end]))
                     for start, end in zip(lists.starts, lists.starts[1:], strict=False)])


def bleu_of(statistics: np.ndarray) -> np.ndarray:
    """BLEU (...,), 0 to 100, from summed statistics (..., 2 + 8): lengths of translations and
    references, matched n-grams, and n-grams. Without smoothing, it is 0 if an order has no match.
    """
    totals = np.asarray(statistics, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        matched = np.log(totals[..., 2 : 2 + ORDERS] / totals[..., 2 + ORDERS :]).mean(axis=-1)
        brevity = np.minimum(0.0, 1.0 - totals[..., 1] / totals[..., 0])
        bleu = 100.0 * np.exp(matched + brevity)
    return np.nan_to_num(bleu, nan=0.0)


def tune(lists: Lists, statistics: np.ndarray, starts: Sequence[np.ndarray]) -> Tuned:
    """The weights with the largest BLEU that coordinate ascent finds. It is deterministic.

    From each start, each weight in turn is set to its best value with the others fixed, which
    `line_search` finds exactly, until an iteration over all weights gains nothing.

    statistics: (N, 10) of each translation, as for `bleu_of`. starts: initial weights (F,).
    """
    best: Tuned | None = None
    for start in starts:
        weights = np.array(start, np.float64)
        score = float(bleu_of(statistics[choose(lists, weights)].sum(axis=0)))
        for _ in range(ROUNDS):
            before = score
            for place in range(len(weights)):
                moved = weights.copy()
                moved[place] = line_search(lists, statistics, weights, place)
                bleu = float(bleu_of(statistics[choose(lists, moved)].sum(axis=0)))
                if moved.any() and bleu > score:
                    weights, score = moved, bleu
            if score <= before:
                break
        if best is None or score > best.bleu:
            best = Tuned(weights / np.abs(weights).sum(), score)
    assert best is not None
    return best


def line_search(lists: Lists, statistics: np.ndarray, weights: np.ndarray, place: int) -> float:
    """The value of one weight that maximises BLEU, with the others fixed.

    A translation's score is linear in that weight, so that the choice for a sentence changes at the
    corners of the upper envelope of its lines. BLEU is constant between corners. The result is the
    middle of the best interval; the intervals before the first and after the last corner count as 2
    wide.
    """
    slopes = lists.features[:, place]
    heights = lists.features @ weights - weights[place] * slopes
    total = np.zeros(statistics.shape[1])
    corners, changes = [], []
    for start, end in zip(lists.starts, lists.starts[1:], strict=False):
        first, *rest = envelope(heights[start:end], slopes[start:end])
        total += statistics[start + first[1]]
        before = first[1]
        for corner, line in rest:
            corners.append(corner)
            changes.append(statistics[start + line] - statistics[start + before])
            before = line
    if not corners:
        return float(weights[place])
    order = np.argsort(corners, kind="stable")
    positions = np.array(corners)[order]
    scores = bleu_of(total + np.cumsum([np.zeros_like(total), *np.array(changes)[order]], axis=0))
    bounds = np.concatenate([[positions[0] - 2.0], positions, [positions[-1] + 2.0]])
    scores[np.diff(bounds) <= 0] = -1.0  # coinciding corners: no interval between them
    best = int(np.argmax(scores))
    return float((bounds[best] + bounds[best + 1]) / 2)


def envelope(heights: np.ndarray, slopes: np.ndarray) -> list[tuple[float, int]]:
    """The upper envelope of lines height + slope x, as pairs (x, line): the line is highest from x
    on."""
    points: list[tuple[float, int]] = []
    for line in np.lexsort((np.arange(len(slopes)), -heights, slopes)).tolist():
        crossing = -np.inf
        while points:
            previous = points[-1][1]
            if slopes[line] == slopes[previous]:
                break  # nowhere above it: of equal slopes the highest came first
            crossing = (heights[previous] - heights[line]) / (slopes[line] - slopes[previous])
            if crossing > points[-1][0]:
                break
            points.pop()
            crossing = -np.inf
        if not points or slopes[line] != slopes[points[-1][1]]:
            points.append((float(crossing), line))
    return points
