"""Batches of a number of tokens: none is larger, every sentence is in one, and each is as full as
possible."""

from __future__ import annotations

import numpy as np
import pytest

from backend.errors import UserError
from nmt.data.batches import TextBatches
from nmt.data.token_batches import token_batches

LENGTHS = np.random.default_rng(1).integers(1, 30, (400, 2))
STEPS = np.maximum(LENGTHS[:, 0], LENGTHS[:, 1] + 1)


@pytest.mark.parametrize("tokens, pool", [(100, 4), (64, 1), (30, 1000), (10**6, 2)])
def test_every_sentence_is_in_one_batch_that_is_as_large_as_it_may_be(tokens, pool):
    batches = token_batches(LENGTHS, tokens, np.random.default_rng(2), pool)
    assert sorted(np.concatenate(batches)) == list(range(400))
    assert max(len(batch) * STEPS[batch].max() for batch in batches) <= tokens
    if tokens == 100:
        padded = sum(len(batch) * STEPS[batch].max() for batch in batches)
        assert padded < 1.1 * STEPS.sum() and padded > 0.7 * tokens * len(batches)


def test_the_order_is_the_generator_s():
    first, again, other = ([batch.tolist() for batch in token_batches(
        LENGTHS, 100, np.random.default_rng(seed), 4)] for seed in (1, 1, 2))
    assert first == again != other


def test_batches_of_a_corpus_are_divided_by_their_target_tokens():
    pairs = [([2] * (i % 5 + 1), [3] * (i % 3)) for i in range(40)]
    batches = TextBatches(pairs, 8, False, budget=12)
    for key in batches.epoch(np.random.default_rng(1)):
        batch = batches.batch(key)
        assert max(batch.sources[0].ids.size, batch.target_out.size) <= 12
        assert batches.weight(batch) == batches.tokens(batch) == batch.target.lengths.sum()
    assert len(next(batches.in_order()).indices) == 8  # of an evaluation, by sentences


def test_a_batch_smaller_than_a_sentence_is_refused():
    with pytest.raises(UserError, match=r"train\.batch_tokens: expected at least 30, the words of "
                                        r"the longest training sentence with its </s>, got 29"):
        token_batches(np.array([[3, 29], [4, 2]]), 29, np.random.default_rng(1), 4)
