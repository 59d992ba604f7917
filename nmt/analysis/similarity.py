"""Word similarity: a model's similarities compared with human ratings (Luong, 2016, Table 5.3).

The data are lines of two words and their mean rating, as in the Rare Word data set of Luong et al.
(2013). The measure is Spearman's correlation of the ratings and the model's similarities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from backend.errors import UserError
from nmt.data.corpus import number_of, read_lines
from nmt.data.vocabulary import UNKNOWN
from nmt.system import System

Measure = Callable[[np.ndarray, np.ndarray], np.ndarray]  # rows x, y (N, E) -> (N,)


class RatedPair(NamedTuple):
    """Two words, and the human rating of their similarity."""

    first: str
    second: str
    rating: float


@dataclass(frozen=True)
class Agreement:
    """Spearman's rho of a model's similarities with the ratings; NaN if it is not defined."""

    measure: str  # name of the similarity, in MEASURES
    all: float  # over all pairs; a word without a vector has that of <unk>
    known: float  # over the pairs with both words in the source vocabulary


@dataclass(frozen=True)
class Similarity:
    """The result of `similarity`."""

    pairs: int
    known: int  # pairs with both words in the source vocabulary
    half_known: int  # pairs with one word in the source vocabulary
    without_vector: int  # pairs with a word that has no vector
    agreements: tuple[Agreement, ...]

    def to_json(self) -> dict[str, Any]:
        """The result as JSON values; a rho that is not defined is null."""
        values = asdict(self)
        values["agreements"] = {
            agreement.measure: {name: None if math.isnan(rho) else rho for name, rho in
                                (("all", agreement.all), ("known", agreement.known))}
            for agreement in self.agreements}
        return values


# --- data -----------------------------------------------------------------------------------------


def read_pairs(path: str | Path) -> list[RatedPair]:
    """Read lines of two words and a number, separated by white space. The rest of a line is
    ignored.

    Raises UserError, with file and line, for a line of another form, and for a file without pairs.
    """
    pairs = []
    for number, line in enumerate(read_lines(path), start=1):
        parts = line.split()
        rating = number_of(parts[2]) if len(parts) > 2 else math.nan
        if math.isnan(rating):
            raise UserError(f"{path}:{number}: expected two words and their rating, got "
                            f"{line.strip()[:60]!r}")
        pairs.append(RatedPair(parts[0], parts[1], rating))
    if not pairs:
        raise UserError(f"{path}: expected at least one pair of words, got none")
    return pairs


# --- measures -------------------------------------------------------------------------------------


def cosine(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(N,): x'y / (|x| |y|) for each of the rows (N, E); 0 if a vector is zero."""
    sizes = np.sqrt((x * x).sum(axis=1) * (y * y).sum(axis=1))  # (N,)
    return (x * y).sum(axis=1) / np.where(sizes == 0, 1.0, sizes)


def pearson(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(N,): Pearson's correlation of the elements of each of the rows (N, E), which is the cosine
    after centring.

    This is the similarity of the author's code (lmthang/nmt.hybrid); the thesis names none.
    """
    return cosine(x - x.mean(axis=1, keepdims=True), y - y.mean(axis=1, keepdims=True))


MEASURES: dict[str, Measure] = {"cosine": cosine, "pearson": pearson}


def spearman(x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray) -> float:
    """Spearman's rho: Pearson's correlation of ranks, where equal values share their mean rank.

    It is NaN for fewer than two values, and if all values of a side are equal.
    """
    ranks = [_ranks(np.asarray(values, float)) for values in (x, y)]
    if len(x) < 2 or any(np.ptp(ranked) == 0 for ranked in ranks):
        return math.nan
    return float(pearson(ranks[0][None], ranks[1][None])[0])


def _ranks(values: np.ndarray) -> np.ndarray:
    """(N,) ranks from 1; equal values share their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = counts.cumsum()  # rank of the last of each distinct value
    return np.asarray((last - (counts - 1) / 2)[inverse])


# --- a model --------------------------------------------------------------------------------------


def similarity(system: System, pairs: Sequence[RatedPair]) -> Similarity:
    """The agreement of a translator's source word vectors with human ratings.

    Source: Luong (2016), 5.5.2 and Table 5.3: "the Spearman's correlation rho between similarity
    scores assigned by a model and by human annotators". All pairs count, as in the author's code,
    where a word without a vector has that of <unk>.
    """
    sides = [pair.first for pair in pairs], [pair.second for pair in pairs]
    words = list(dict.fromkeys((*sides[0], *sides[1])))
    vectors, has_vector = system.word_vectors(words)
    places = {word: i for i, word in enumerate(words)}
    first, second = (np.array([places[word] for word in side]) for side in sides)  # (N,)
    in_vocabulary = np.array(system.source.ids(words)) != UNKNOWN
    known = in_vocabulary[first].astype(int) + in_vocabulary[second]  # words of each pair
    ratings = np.array([pair.rating for pair in pairs])
    agreements = []
    for name, measure in MEASURES.items():
        scores = measure(vectors[first], vectors[second])
        are_known = known == 2
        agreements.append(Agreement(name, spearman(scores, ratings),
                                    spearman(scores[are_known], ratings[are_known])))
    return Similarity(len(pairs), int((known == 2).sum()), int((known == 1).sum()),
                      int((~(has_vector[first] & has_vector[second])).sum()), tuple(agreements))
