"""Pairs made from one text: the unsupervised tasks of multi-task learning (thesis, section 6.1.1),
and target sentences with a dummy source (Sennrich, Haddow and Birch, 2016).

| task | source | target |
|---|---|---|
| copy | a sentence | the same: an autoencoder (Dai and Le, 2015) |
| halves | its first half | its second half: skip-thought where sentences have no order |
| neighbours | a sentence | the next one: skip-thought (Kiros et al., 2015) |
| dummy | `<null>` | a sentence: "a single-word dummy source side" (Sennrich et al., 2016, 3.1) |

"We split each sentence into two halves; we then use one half to predict the other half" (6.1.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from nmt.data.annotation import NULL
from nmt.data.stored import Pair, Words


def copies(sentences: Iterable[Words]) -> Iterator[Pair]:
    """Each sentence and itself."""
    return ((sentence, sentence) for sentence in sentences)


def halves(sentences: Iterable[Words]) -> Iterator[Pair]:
    """The first half of each sentence and its second half.

    The thesis says neither which half predicts the other, nor where the middle word of an odd
    sentence goes. Here the first half predicts the second and has the middle word (docs/errata.md,
    41). The second half of a single word is empty.
    """
    for sentence in sentences:
        middle = (len(sentence) + 1) // 2
        yield sentence[:middle], sentence[middle:]


def neighbours(sentences: Iterable[Words]) -> Iterator[Pair]:
    """Each sentence and the next; no pair crosses an empty line, which separates texts."""
    return (pair for pair in pairwise(sentences) if all(pair))


PAIRINGS: dict[str, Callable[[Iterable[Words]], Iterator[Pair]]] = {
    "copy": copies, "halves": halves, "neighbours": neighbours,
    "dummy": lambda sentences: (([NULL], sentence) for sentence in sentences),
}
