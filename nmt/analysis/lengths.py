"""BLEU by the length of sentences (Figure 4.6 of the thesis; Bahdanau et al., Figure 2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from nmt.evaluation.scores import bleu

EDGES = (10, 20, 30, 40, 50)  # words


class Group(NamedTuple):
    """Sentences of similar length or rarity, and their score."""

    label: str  # "1-10", "11-20", ..., "51+": source words; or positions in the order of rarity
    sentences: int
    score: float | None  # of these sentences, 0 to 100; None if there are none
    words: int | None = None  # total of source words; None unless grouped by length

    def to_json(self, name: str) -> dict[str, Any]:
        """The entry of a file of results, which has the score under this name."""
        words = {} if self.words is None else {"words": self.words}
        return {"label": self.label, "sentences": self.sentences, **words, name: self.score}


def bleu_by_length(
    lengths: Sequence[int], hypotheses: Sequence[str], references: Sequence[str],
    edges: Sequence[int] = EDGES, tokenize: str = "13a",
) -> list[Group]:
    """Corpus BLEU of each bucket of source lengths; see `by_length`.

    Source: thesis section 4.4.2: "group sentences of similar lengths together and compute a BLEU
    score per group".

    lengths: source words of each sentence. hypotheses, references: lines in the same order.
    tokenize: sacrebleu's. Raises UserError as `scores.bleu`.
    """
    return by_length(lengths, edges,
                     lambda places: bleu_of_places(places, hypotheses, references, tokenize))


def by_length(
    lengths: Sequence[int], edges: Sequence[int], score: Callable[[list[int]], float]
) -> list[Group]:
    """The buckets of sentence lengths.

    edges: the longest length of each bucket except the last, which is open; rising numbers, from at
    least 1. score: of the sentences with these indices. Returns all buckets, including empty ones,
    so that systems can be compared. Empty lines are in no bucket.
    """
    groups = []
    for low, high in zip((0, *edges), (*edges, None), strict=True):
        places = [i for i, length in enumerate(lengths)
                  if low < length and (high is None or length <= high)]
        groups.append(Group(f"{low + 1}+" if high is None else f"{low + 1}-{high}", len(places),
                            score(places) if places else None, sum(lengths[i] for i in places)))
    return groups


def bleu_of_places(
    places: Sequence[int], hypotheses: Sequence[str], references: Sequence[str], tokenize: str
) -> float:
    """Corpus BLEU of the sentences with these indices."""
    return bleu([hypotheses[i] for i in places], [references[i] for i in places], tokenize).score
