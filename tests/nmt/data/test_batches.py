"""Batches: padding, reversal, coverage, and streams."""

from dataclasses import FrozenInstanceError, fields
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.data.batches import (
    POOL,
    Batch,
    Side,
    TextBatches,
    bucketed_batches,
    make_batch,
    make_sources,
    sorted_batches,
    stream_batches,
)

PAIRS = [([5, 6, 7], [8]), ([9], [10, 11, 12]), ([13, 14], [])]


def test_a_batch_holds_each_pair_in_its_column() -> None:
    batch = make_batch(PAIRS, [1, 0], reverse_source=False)
    [source] = batch.sources
    assert source.ids.tolist() == [[9, 5], [1, 6], [1, 7]]
    assert source.lengths.tolist() == [1, 3]
    assert batch.target.ids.tolist() == [[1, 1], [10, 8], [11, 1], [12, 1], [1, 1]]
    assert batch.target_in.tolist() == [[1, 1], [10, 8], [11, 1], [12, 1]]
    assert batch.target_out.tolist() == [[10, 8], [11, 1], [12, 1], [1, 1]]
    assert batch.target.lengths.tolist() == [4, 2]
    assert batch.indices.tolist() == [1, 0]
    assert batch.state is None and batch.begins
    for array in (source.ids, source.lengths, batch.target.ids, batch.target.lengths,
                  batch.indices):
        assert array.dtype == np.int64


def test_what_is_read_and_what_is_predicted_are_one_array() -> None:
    """They are the target's ids (T + 1, B) without the last or without the first row, not
    copies."""
    batch = Batch((), Side(np.arange(12).reshape(4, 3), np.full(3, 3)), np.arange(3))
    assert batch.target_in.shape == batch.target_out.shape == (3, 3)
    assert np.array_equal(batch.target_out[:-1], batch.target_in[1:])
    assert batch.target_in.base is batch.target_out.base is batch.target.ids.base


@pytest.mark.parametrize("ids, lengths, message", [
    (np.zeros(4), np.ones(4), r"ids: expected shape \(S, B\), got \(4,\)"),
    (np.zeros((4, 2)), np.ones(3), r"lengths: expected shape \(2,\), got \(3,\)"),
    (np.zeros((4, 2)), np.array([1, 5]), r"lengths: expected values in 0 \.\. 4, got \[1 5\]"),
    (np.zeros((4, 2)), np.array([-1, 4]), r"lengths: expected values in 0 \.\. 4, got"),
])
def test_a_side_with_wrong_shapes_or_lengths_is_refused(ids, lengths, message) -> None:
    with pytest.raises(ValueError, match=message):
        Side(ids, lengths)


@pytest.mark.parametrize("value", [
    Side(np.zeros((1, 1)), np.ones(1)), make_batch(PAIRS, [0], False)])
def test_batches_and_sides_are_not_written_to(value) -> None:
    for field in fields(value):
        with pytest.raises(FrozenInstanceError):
            setattr(value, field.name, None)


def test_what_a_gradient_is_divided_by_and_a_loss_summed_over() -> None:
    batches = TextBatches(PAIRS, 2, reverse_source=False)
    batch = batches.batch([0, 1])
    assert (batches.weight(batch), batches.tokens(batch)) == (2, 6)


def test_the_source_is_reversed_before_it_is_padded() -> None:
    batch = make_batch(PAIRS, [0, 1, 2], reverse_source=True)
    assert batch.sources[0].ids.T.tolist() == [[7, 6, 5], [9, 1, 1], [14, 13, 1]]
    assert batch.target_out.T.tolist() == [[8, 1, 1, 1], [10, 11, 12, 1], [1, 1, 1, 1]]


def test_sources_alone_are_those_of_a_batch() -> None:
    [source] = make_sources([[5, 6, 7], [9]], reverse=True)
    [other] = make_batch(PAIRS, [0, 1], reverse_source=True).sources
    assert np.array_equal(source.ids, other.ids) and np.array_equal(source.lengths, other.lengths)


@pytest.mark.parametrize("sentences", [[], [[3], []]])
def test_an_empty_source_is_refused(sentences: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="sentences"):
        make_sources(sentences, reverse=False)


def _lengths(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, 40, (count, 2))


@settings(max_examples=40, deadline=None)
@given(count=st.integers(0, 700), batch_size=st.integers(1, 9), seed=st.integers(0, 99))
def test_every_position_is_in_exactly_one_batch(count: int, batch_size: int, seed: int) -> None:
    lengths = _lengths(count)
    for batches in (
        bucketed_batches(lengths, batch_size, np.random.default_rng(seed)),
        sorted_batches(lengths, batch_size),
    ):
        assert sorted(i for batch in batches for i in batch) == list(range(count))
        assert sum(len(batch) != batch_size for batch in batches) <= 1


def test_an_epoch_follows_from_the_generator() -> None:
    def epoch(seed: int) -> list[list[int]]:
        batches = bucketed_batches(_lengths(500), 8, np.random.default_rng(seed))
        return [batch.tolist() for batch in batches]

    assert epoch(3) == epoch(3)
    assert epoch(3) != epoch(4)


def test_a_second_epoch_of_one_generator_makes_other_batches() -> None:
    rng = np.random.default_rng(5)
    first, second = (bucketed_batches(_lengths(2000), 8, rng) for _ in range(2))
    assert not {frozenset(b.tolist()) for b in first} & {frozenset(b.tolist()) for b in second}


def test_buckets_pad_little_and_come_in_no_order_of_length() -> None:
    lengths = _lengths(8 * POOL)
    batches = bucketed_batches(lengths, 8, np.random.default_rng(1))
    longest = np.array([lengths[b, 1].max() for b in batches])
    padding = sum(8 * m - lengths[b, 1].sum() for b, m in zip(batches, longest, strict=True))
    assert padding < 0.05 * lengths[:, 1].sum()
    assert abs(np.corrcoef(longest, np.arange(len(longest)))[0, 1]) < 0.4


def test_sorted_batches_go_by_target_then_source() -> None:
    lengths = np.array([[3, 2], [1, 2], [9, 1], [2, 2]])
    assert [b.tolist() for b in sorted_batches(lengths, 3)] == [[2, 1, 3], [0]]


def test_batches_of_an_order_that_all_epochs_have() -> None:
    """Pools of 3 batches in the order of the one shuffle, each from short to long."""
    lengths = np.array(_lengths(100))
    pairs = [([2] * int(s), [3] * int(t)) for s, t in lengths]
    batches = TextBatches(pairs, 7, reverse_source=False, pool_size=3, seed=5)
    first, second = (batches.epoch(np.random.default_rng(n)) for n in (1, 2))
    assert all(map(np.array_equal, first, second)) and len(first) == 15
    order = np.concatenate(first)
    assert sorted(order.tolist()) == list(range(100)) != order.tolist()
    for start in range(0, 100, 21):
        longer = lengths[order[start : start + 21]].max(axis=1)
        assert (np.diff(longer) >= 0).all()
        shuffled = np.random.default_rng(5).permutation(100)
        assert {*order[start : start + 21]} == {*shuffled[start : start + 21]}


def test_a_corpus_resumes_inside_an_epoch() -> None:
    pairs = [([2] * int(s), [3] * int(t)) for s, t in _lengths(100)]
    batches = TextBatches(pairs, 7, reverse_source=False)
    epoch = batches.epoch(np.random.default_rng(2))
    again = TextBatches(pairs, 7, reverse_source=False).epoch(np.random.default_rng(2))[9:]
    assert len(batches) == len(epoch) == 15
    assert np.array_equal(batches.batch(epoch[9]).target.ids, batches.batch(again[0]).target.ids)
    assert np.array_equal(batches.batch(epoch[9]).indices, epoch[9])
    in_order = list(batches.in_order())
    assert sorted(i for b in in_order for i in b.indices) == list(range(100))
    assert [b.target.lengths.max() for b in in_order] == sorted(
        b.target.lengths.max() for b in in_order
    )


@settings(max_examples=60, deadline=None)
@given(count=st.integers(7, 300), batch_size=st.integers(1, 6), length=st.integers(1, 40))
def test_streams_predict_the_next_id_and_go_on(count: int, batch_size: int, length: int) -> None:
    ids = np.arange(100, 100 + count)
    batches = stream_batches(ids, batch_size, length)
    assert all(b.target_in.shape == (length, batch_size) for b in batches[:-1])
    assert 1 <= len(batches[-1].target_in) <= length
    for number, batch in enumerate(batches):
        assert np.array_equal(batch.target_out, batch.target_in + 1)
        assert np.array_equal(batch.target.lengths, [len(batch.target_in)] * batch_size)
        assert batch.indices.tolist() == list(range(batch_size))
        assert batch.sources == () and batch.state is None and batch.begins == (number == 0)
    for before, after in pairwise(batches):
        assert np.array_equal(after.target_in[0], before.target_out[-1])
    predicted = np.sort(np.concatenate([b.target_out.ravel() for b in batches]))
    assert np.array_equal(predicted, ids[1 : len(predicted) + 1])
    assert count - 1 - len(predicted) < batch_size


def test_streams_by_hand() -> None:
    batches = stream_batches([0, 1, 2, 3, 4, 5, 6], batch_size=2, length=2)
    assert [b.target.ids.tolist() for b in batches] == [[[0, 3], [1, 4], [2, 5]], [[2, 5], [3, 6]]]
    assert [b.target_in.tolist() for b in batches] == [[[0, 3], [1, 4]], [[2, 5]]]
    assert [b.target_out.tolist() for b in batches] == [[[1, 4], [2, 5]], [[3, 6]]]


def test_batches_sorted_within_few():
    """Bahdanau et al., B.2: 20 batches of 80 are retrieved, sorted and split."""
    lengths = np.random.default_rng(0).integers(1, 51, size=(100, 2))
    batches = bucketed_batches(lengths, 5, np.random.default_rng(1), pool_size=4)
    order = np.random.default_rng(1).permutation(100)
    pools = [set(order[k : k + 20].tolist()) for k in range(0, 100, 20)]
    for batch in batches:
        assert sum(set(batch.tolist()) <= pool for pool in pools) == 1
    assert sorted(np.concatenate(batches).tolist()) == list(range(100))
