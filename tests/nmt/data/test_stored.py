"""Sentences that are stored are the ones that were appended, in order and by index."""

from collections import Counter

import pytest

from nmt.data import stored
from nmt.data.stored import StoredPairs, StoredSentences, sides
from nmt.run_files import fingerprint

SENTENCES = [["a", "bé"], [], ["c"], ["\n", "d" * 9], ["e"] * 5, []] * 3


@pytest.mark.parametrize("block", (1, 7, 30, 1 << 20))
@pytest.mark.parametrize("in_order", (1, 4, 1000))
def test_sentences_in_order_are_those_by_index(
    block: int, in_order: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever a block is written to the file: before, within or after the items read together."""
    monkeypatch.setattr(stored, "BLOCK", block)
    monkeypatch.setattr(stored, "AT_ONCE", in_order)
    kept = StoredSentences(SENTENCES)
    assert list(kept) == SENTENCES == [kept[i] for i in range(len(kept))]
    assert list(kept.texts()) == [" ".join(words) for words in SENTENCES]


def test_sides_of_pairs_are_the_same_stored_or_not() -> None:
    pairs = [(words, words[:1]) for words in SENTENCES]
    kept = StoredPairs(pairs)
    assert list(kept) == pairs
    for ours, theirs in zip(sides(kept), sides(pairs), strict=True):
        assert list(ours) == list(theirs)


@pytest.mark.parametrize("at_once", (1, 4, 1000))
def test_words_are_counted(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words of stored sides, in the order in which they first occur; `texts` know their digest."""
    monkeypatch.setattr(stored, "AT_ONCE", at_once)
    kept = StoredPairs([(words, [*words, "last"]) for words in SENTENCES])
    for side in kept.sides:
        expected = Counter(word for words in side for word in words)
        assert [*side.counts().items()] == [*expected.items()]
        assert side[-1] == side[len(side) - 1] and side[2:4] == [side[2], side[3]]
    texts = [" ".join(words) for pair in kept for words in pair]
    assert fingerprint(kept.sentences.texts()) == fingerprint(texts)
    assert fingerprint(StoredSentences().texts()) == fingerprint([])
