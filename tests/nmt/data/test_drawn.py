"""Words that are dropped in training, and the copy of the text without its rare words."""

from __future__ import annotations

import numpy as np

from nmt.data.batches import TextBatches
from nmt.data.drawn import DrawnBatches
from nmt.data.rare_copy import WithRareCopy
from nmt.data.vocabulary import END, UNKNOWN

PAIRS = [([2 + i % 7] * (3 + i % 4), [3 + i % 5] * (2 + i % 6)) for i in range(400)]


def test_words_are_dropped_anew_each_epoch_and_predictions_stay() -> None:
    """A tenth of the words of each side, but no end marker and no padding; the same in the same
    epoch."""
    plain = TextBatches(PAIRS, 16, False)
    batches = DrawnBatches(PAIRS, 16, False, word_dropout=0.1)
    rng, seen = np.random.default_rng(1), []
    for _ in range(2):
        keys, dropped, words = batches.epoch(rng), np.zeros(2), np.zeros(2)
        for key in keys:
            ours, theirs = batches.batch(key), plain.batch(key)
            np.testing.assert_array_equal(ours.target_out, theirs.target_out)
            for side, (read, whole) in enumerate(((ours.sources[0].ids, theirs.sources[0].ids),
                                                  (ours.target_in, theirs.target_in))):
                lost = read != whole
                assert set(read[lost]) <= {UNKNOWN} and END not in whole[lost]
                dropped[side] += lost.sum()
                words[side] += (whole != END).sum()
        assert (abs(dropped / words - 0.1) < 0.03).all() and (words > 1000).all()
        seen.append([batches.batch(key).target_in.tolist() for key in keys])
    assert sorted(map(str, seen[0])) != sorted(map(str, seen[1]))
    again = DrawnBatches(PAIRS, 16, False, word_dropout=0.1)
    keys = again.epoch(np.random.default_rng(1))
    assert [again.batch(key).target_in.tolist() for key in keys[5:]] == seen[0][5:]


def test_the_second_copy_has_unknown_words_for_rare_ones() -> None:
    """Each side counts for itself: 7 is frequent in the target alone."""
    pairs = [([5, 6, 5], [7, 8, 7]), ([UNKNOWN, 7], [7, 8])]
    twice = WithRareCopy(pairs, 2)
    assert list(twice) == [*pairs, ([5, UNKNOWN, 5], [7, 8, 7]), ([UNKNOWN] * 2, [7, 8])]
    assert list(WithRareCopy(pairs, 3))[2:] == [([UNKNOWN] * 3, [7, UNKNOWN, 7]),
                                                ([UNKNOWN] * 2, [7, UNKNOWN])]


def test_without_dropout_batches_are_the_plain_ones() -> None:
    key = np.arange(9)
    ours, theirs = (kind(PAIRS, 16, True).batch(key) for kind in (DrawnBatches, TextBatches))
    np.testing.assert_array_equal(ours.target_in, theirs.target_in)
    np.testing.assert_array_equal(ours.sources[0].ids, theirs.sources[0].ids)
