"""BLEU by the length of sentences (Figure 4.6 of the thesis; Bahdanau et al., Figure 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from nmt.evaluation.scores import bleu

EDGES = (10, 20, 30, 40, 50)  # words


class Bucket(NamedTuple):
    """Sentences of similar length."""

    label: str  # "1-10", "11-20", ..., "51+": source words
    sentences: int
    words: int  # total of source words
    bleu: float | None  # corpus BLEU of these sentences, 0 to 100; None if there are none

    @property
    def score(self) -> float | None:
        """BLEU, the value that a picture shows."""
        return self.bleu


def bleu_by_length(
    lengths: Sequence[int], hypotheses: Sequence[str], references: Sequence[str],
    edges: Sequence[int] = EDGES, tokenize: str = "13a",
) -> list[Bucket]:
    """Corpus BLEU of each bucket of source lengths.

    Source: thesis section 4.4.2: "group sentences of similar lengths together and compute a BLEU
    score per group".

    lengths: source words of each sentence. hypotheses, references: lines in the same order. edges:
    the longest length of each bucket except the last, which is open. tokenize: sacrebleu's. Returns
    all buckets, including empty ones, so that systems can be compared. Empty lines are in no
    bucket. Raises UserError as `scores.bleu`.
    """
    return [Bucket(label, len(places), sum(lengths[i] for i in places),
                   _bleu(places, hypotheses, references, tokenize))
            for label, places in by_length(lengths, edges)]


def by_length(lengths: Sequence[int], edges: Sequence[int]) -> list[tuple[str, list[int]]]:
    """The label of each bucket of lengths, and the indices of its sentences.

    edges: rising numbers, from at least 1.
    """
    return [(f"{low + 1}+" if high is None else f"{low + 1}-{high}",
             [i for i, length in enumerate(lengths)
              if low < length and (high is None or length <= high)])
            for low, high in zip((0, *edges), (*edges, None), strict=True)]


def _bleu(
    places: Sequence[int], hypotheses: Sequence[str], references: Sequence[str], tokenize: str
) -> float | None:
    """Corpus BLEU of the sentences with these indices; None if there are none."""
    if not places:
        return None
    return bleu([hypotheses[i] for i in places], [references[i] for i in places], tokenize).score
