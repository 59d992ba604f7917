"""Word alignments from attention weights.

Source: thesis section 4.4.4: "I extract only one-to-one alignments by selecting the source word
with the highest alignment weight per target word". So there is one link for each target word, and
two target words may be linked to the same source word.

At step t the decoder reads y_{t-1}, computes a_t and predicts y_t. Footnote 13 takes a_t as the
alignment of the word just read for content-based scores, of the word just predicted for the
location-based one (erratum 10). Both are available for every score:

    predicted   a_t is the alignment of y_t
    read        a_t is the alignment of y_{t-1}
    thesis      read for content-based scores, predicted for location, and in RNNsearch, whose a_t
                is computed before y_{t-1} is read

The default is `predicted`. Which is right was measured (docs/errata.md, 10): it depends on the
encoder more than on the score, so `nmt evaluate --gold` and `--replace-unk` always show both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from backend.errors import check_among
from nmt.data.align import Link

ALIGNED_WORDS = ("predicted", "read", "thesis")
DEFAULT = "predicted"


class Aligning(Protocol):
    """The properties of a model's configuration that the alignment depends on."""

    @property
    def attends_before_reading(self) -> bool:
        """Whether a_t is computed before y_{t-1} is read."""

    @property
    def score(self) -> str:
        """The score function."""


def resolve(aligned_word: str, model: Aligning) -> str:
    """`predicted` or `read`, for a model of this configuration.

    Raises ValueError unless aligned_word is one of ALIGNED_WORDS.
    """
    check_among("aligned_word", aligned_word, ALIGNED_WORDS)
    if aligned_word == "thesis":
        before = model.attends_before_reading or model.score == "location"
        return "predicted" if before else "read"
    return aligned_word


def weights_of_words(
    alignment: np.ndarray, words: int, aligned_word: str, from_end: bool = False
) -> np.ndarray:
    """The weights (words, S) that belong to each target word.

    alignment: a row for each step, (words + 1, S), or (words, S) if the end marker was never
    predicted. aligned_word: `predicted` or `read`. from_end: whether the words were predicted from
    the last to the first; the rows are in the order of the words even then. In a hypothesis without
    an end marker, the word that was predicted last was never read, and keeps the weights of the
    step that predicted it.
    """
    rows = np.arange(words)
    if aligned_word == "read" and words:
        rows = np.minimum(rows + 1, len(alignment) - 1) if not from_end else \
            np.concatenate([[words if len(alignment) > words else 0], rows[:-1]])
    return alignment[rows]


def best_links(weights: np.ndarray, end: bool = False) -> list[Link]:
    """Links (source word, target word) from each target word to the source word of highest weight.

    The first of equal weights wins. weights: (words, S). end: whether the last column is the end
    marker's; a word that attends to the end marker most has no link.
    """
    if not weights.size:
        return []
    best: Sequence[int] = weights.argmax(axis=1).tolist()
    words = weights.shape[1] - end
    return [(source, target) for target, source in enumerate(best) if source < words]
