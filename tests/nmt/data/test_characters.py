"""Words as characters: the vocabulary, the positions of words, groups by length."""

from itertools import pairwise

import numpy as np
import pytest

from nmt.data.batches import make_batch, make_sources
from nmt.data.characters import (
    GROUPS,
    LEAST,
    Spelling,
    by_length,
    character_vocabulary,
    spelled_too,
)
from nmt.data.vocabulary import END, UNKNOWN, Vocabulary

SENTENCES = [["cat", "a", "cat"], ["tact"]]


def spelt(group, n):
    """The ids of one word, without the boundary."""
    assert group.ids[group.lengths[n] - 1, n] == END
    assert (group.ids[group.lengths[n]:, n] == END).all()
    return tuple(group.ids[: group.lengths[n] - 1, n].tolist())


def by_place(groups, B):
    """The words by step and sentence."""
    return {(int(place) // B, int(place) % B): spelt(group, n)
            for group in groups for place, n in zip(group.places, group.words, strict=True)}


def test_characters_are_the_most_frequent_of_the_words():
    characters = character_vocabulary(SENTENCES)
    assert characters.words[2:] == ("a", "t", "c")         # 4, 4 and 3 times
    assert character_vocabulary(SENTENCES, 2).words[2:] == ("a", "t")


def test_a_word_and_back_and_a_character_never_seen():
    spelling = Spelling(Vocabulary(["a"]), character_vocabulary(SENTENCES))
    assert spelling.rare(["a", "cat", "cöt", "a", "c"]) == ((4, 2, 3), (4, UNKNOWN, 3), (4,))
    assert spelling.word([4, 2, 3]) == "cat"
    assert spelling.rare(["</s>"]) == ((UNKNOWN,) * 4,)    # a word of the corpus, not a symbol


@pytest.mark.parametrize("reverse", [False, True])
def test_places_are_those_of_the_batch(reverse):
    """Words are reversed, characters are not; a repeated word has one column on the source only."""
    pairs = [([0, 5, 0], [0, 0]), ([0], [7, 8, 0])]
    rare = ([[(2, 3), (4,)], [(2, 3)]], [[(3, 3), (3, 3)], [(2,)]])
    batch = make_batch(pairs, [0, 1], reverse, rare)
    first, last = (2, 0) if reverse else (0, 2)
    (source,) = batch.sources
    assert by_place(source.characters, 2) == {(first, 0): (2, 3), (last, 0): (4,), (0, 1): (2, 3)}
    assert sum(len(group.lengths) for group in source.characters) == 2
    assert by_place(batch.target.characters, 2) == {(0, 0): (3, 3), (1, 0): (3, 3), (2, 1): (2,)}
    (group,) = batch.target.characters
    assert group.words.tolist() == [0, 1, 2] and len(group.lengths) == 3
    assert (batch.target_out.reshape(-1)[group.places] == UNKNOWN).all()


def test_a_batch_without_them_and_without_a_rare_word():
    batch = make_batch([([0, 5], [0])], [0], False)
    assert batch.sources[0].characters == batch.target.characters == ()
    assert make_sources([[5, 6]], True, [()])[0].characters == ()
    with pytest.raises(ValueError, match="rare: expected a word for each of 1 unknown ids, got 2"):
        make_sources([[0, 6]], True, [[(2,), (3,)]])


def test_a_share_of_the_other_words_is_spelled_too():
    """Ids 5 to 7 are drawn at random, END and padding never; unknown words are unchanged."""
    characters = [(), (), (), (), (), (2, 3), (4,), (2, 2, 2)]
    targets = [([], [5, 0, 6]), ([], [7, 5, 5, 0, 6])]
    target = make_batch([([3], y) for _, y in targets], (0, 1), False,
                        (None, [[(9,)], [(8, 8)]])).target
    steps, rng = target.ids[1:], np.random.default_rng(3)
    expected = {(1, 0): (9,), (3, 1): (8, 8)}
    assert by_place(target.characters, 2) == expected
    known = {(t, b): characters[y[t]] for b, (_, y) in enumerate(targets)
             for t in range(len(y)) if y[t] != UNKNOWN}
    seen = set()
    for _ in range(30):
        more_spelled = spelled_too(steps, target.lengths, target.characters, 0.5, characters, rng)
        words = by_place(more_spelled, 2)
        drawn = {place: word for place, word in words.items() if place not in expected}
        assert len(drawn) == 3 and words.items() >= expected.items()
        assert drawn.items() <= known.items()
        seen |= drawn.keys()
    assert seen == known.keys()
    assert by_place(spelled_too(steps, target.lengths, target.characters, 1.0, characters, rng),
                 2) == expected | known


def test_groups_are_by_length_and_hold_every_word_once():
    rng = np.random.default_rng(0)
    words = [tuple(rng.integers(2, 9, rng.integers(1, 13)).tolist()) for _ in range(4 * LEAST)]
    places = rng.permutation(100)[: len(words)]
    groups = by_length(words, places, False)
    assert len(groups) == GROUPS
    assert by_place(groups, 1) == dict(zip(((place, 0) for place in places), words, strict=True))
    ends = [(int(group.lengths.min()), int(group.lengths.max())) for group in groups]
    assert all(low[1] <= high[0] for low, high in pairwise(ends))
    lengths = sum(int(group.lengths.sum()) for group in groups)
    padded = sum(group.ids.size for group in groups) / lengths
    assert padded < 1.3 < len(words) * 13 / sum(len(word) + 1 for word in words)
    assert len(by_length(words[: LEAST], places[: LEAST], False)) == 1
