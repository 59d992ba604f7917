"""Padded batches of sentence pairs, and parallel streams for language models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nmt.console.progress import counted
from nmt.data.characters import Spelled, Word, spelled_words
from nmt.data.stored import Lazy, Mapped, StoredPairs
from nmt.data.token_batches import token_batches
from nmt.data.vocabulary import END

POOL = 64  # batches that are sorted together: little padding, yet batches differ between epochs


class SourceIds(tuple[Sequence[int], ...]):
    """The ids of a sentence in each of several sources."""

    __slots__ = ()


IdPair = tuple[Sequence[int] | SourceIds, Sequence[int]]  # source and target, without `</s>`
Indices = Sequence[int] | np.ndarray  # (B,) positions in the corpus
Rare = Sequence[Sequence[Word]] | None  # for each sentence, the words whose id is `<unk>`


@dataclass(frozen=True)
class Side:
    """One side of a batch on the host: B sequences of ids, time first, padded below with END.

    characters: the spelling of words without a row in the table, in groups by length, for a model
    that reads characters; the places of a target's words are those of `Batch.target_out`.
    """

    ids: np.ndarray  # (S, B) int64, reversed already if the model reads its source reversed
    lengths: np.ndarray  # (B,) int64
    characters: tuple[Spelled, ...] = ()
    factors: np.ndarray | None = None  # (F, S, B) int64, for a model that reads factors

    def __post_init__(self) -> None:
        """Raise ValueError unless ids are (S, B) and lengths (B,) in 0 .. S."""
        if self.ids.ndim != 2:
            raise ValueError(f"ids: expected shape (S, B), got {self.ids.shape}")
        (S, B), lengths = self.ids.shape, self.lengths
        if lengths.shape != (B,):
            raise ValueError(f"lengths: expected shape ({B},), got {lengths.shape}")
        if B and not 0 <= lengths.min() <= lengths.max() <= S:
            raise ValueError(f"lengths: expected values in 0 .. {S}, got {lengths}")


@dataclass(frozen=True)
class Batch:
    """A batch to train on: the sources to read, and the target to predict.

    A translator has one source or two, a language model none. The target's ids (T + 1, B) begin
    with the token before the first prediction: `</s>`, or in a stream the last token of the
    previous piece. Its lengths (B,) count predictions.
    """

    sources: tuple[Side, ...]
    target: Side
    indices: np.ndarray  # (B,) int64: positions in the corpus, or numbers of streams
    state: Any = None  # the model's state after a stream's previous piece; None at its beginning
    begins: bool = True  # whether a stream begins with this piece
    task: str = ""  # the task that the batch is of, in a mixture of tasks
    read: np.ndarray | None = None  # (T, B) int64, the decoder's input where words are dropped

    @property
    def target_in(self) -> np.ndarray:
        """(T, B) int64, the decoder's input: `</s>`, y_1 .. y_m, with `<unk>` for dropped words."""
        return self.target.ids[:-1] if self.read is None else self.read

    @property
    def target_out(self) -> np.ndarray:
        """(T, B) int64, the decoder's predictions: y_1 .. y_m, `</s>`."""
        return self.target.ids[1:]


def make_sources(sentences: Sequence[Any], reverse: bool, rare: Rare = None) -> tuple[Side, ...]:
    """The source side of a batch of sentences; one side for each source.

    sentences: ids without `</s>`, or `SourceIds`. reverse: whether sentences are reversed, before
    padding. rare: the unknown words' characters, for a model that reads them; the characters
    themselves are not reversed. Raises ValueError if there is no sentence, or an empty one.
    """
    if not sentences:
        raise ValueError("sentences: expected at least one, got none")
    if isinstance(sentences[0], SourceIds):
        return tuple(side for of_source in zip(*sentences, strict=True)
                     for side in make_sources(of_source, reverse))
    for place, sentence in enumerate(sentences):
        if len(sentence) == 0:
            raise ValueError(f"sentences: expected no empty sentence, got one at place {place}")
    if reverse:
        sentences = [sentence[::-1] for sentence in sentences]
        rare = rare and [words[::-1] for words in rare]
    side = _padded(sentences)
    return (_with_characters(side, side.ids, rare, True),)  # by type (5.3.2)


def make_batch(
    pairs: Sequence[IdPair], indices: Indices, reverse_source: bool,
    rare: tuple[Rare, Rare] = (None, None),
) -> Batch:
    """The pairs at the given positions as one batch (Algorithm 3 line 1: s = [x, _, y, _]).

    pairs: (source ids, target ids) of the corpus. indices: (B,) positions in it. rare: the unknown
    words' characters in the corpus's sources and targets, for a model that reads them. Raises
    ValueError if there is no position, or if a source sentence is empty.
    """
    places = np.asarray(indices).tolist()
    source_rare, target_rare = (words and [words[i] for i in places] for words in rare)
    chosen = [pairs[i] for i in places]
    sources = make_sources([source for source, _ in chosen], reverse_source, source_rare)
    target = _padded([[END, *target, END] for _, target in chosen])
    target = Side(target.ids, target.lengths - 1)
    target = _with_characters(target, target.ids[1:], target_rare, False)  # by token (5.3.3)
    return Batch(sources, target, np.array(indices, dtype=np.int64))


def _with_characters(side: Side, steps: np.ndarray, rare: Rare, by_type: bool) -> Side:
    """The side with the characters of its unknown words. steps: its ids from the first step on."""
    if rare is None:
        return side
    return replace(side, characters=spelled_words(steps, side.lengths, rare, by_type))


def _padded(rows: Sequence[Sequence[int]]) -> Side:
    """Rows as columns of one array, padded below with END."""
    lengths = np.array([len(row) for row in rows], dtype=np.int64)  # (B,)
    ids = np.full((lengths.max(), len(rows)), END, dtype=np.int64)  # (length, B)
    for b, row in enumerate(rows):
        ids[: len(row), b] = row
    return Side(ids, lengths)


def bucketed_batches(
    lengths: np.ndarray, batch_size: int, rng: np.random.Generator, pool_size: int = POOL
) -> list[np.ndarray]:
    """The batches of one epoch in random order, with sentences of similar lengths together.

    The corpus is shuffled and taken in pools of `pool_size` batches (Bahdanau B.2 pools). Each pool
    is sorted by target length, then source length, and cut into batches. Then the batches are
    shuffled. Every position occurs in exactly one batch, and only one batch can be smaller than
    batch_size.

    lengths: (N, 2) int, words of source and target. Returns arrays of positions (B,) int64.
    """
    order = rng.permutation(len(lengths))
    batches: list[np.ndarray] = []
    for start in range(0, len(order), pool_size * batch_size):
        pool = order[start : start + pool_size * batch_size]
        by_length = np.lexsort((lengths[pool, 0], lengths[pool, 1]))  # last key sorts first
        batches += _cut(pool[by_length], batch_size)
    return [batches[i] for i in rng.permutation(len(batches))]


def ordered_batches(
    lengths: np.ndarray, batch_size: int, seed: int, pool_size: int = POOL
) -> list[np.ndarray]:
    """The batches of one epoch in the order of Bahdanau et al.'s code, which is always the same.

    Source: B.2, "the training data was shuffled once before training and was traversed
    sequentially"; their code sorts a pool of `pool_size` batches by the length of the longer side
    and reads its batches from short to long.

    lengths: (N, 2) int, words of source and target; seed, of the shuffling. Returns arrays of
    positions (B,) int64.
    """
    order, batches = np.random.default_rng(seed).permutation(len(lengths)), list[np.ndarray]()
    for start in range(0, len(order), pool_size * batch_size):
        pool = order[start : start + pool_size * batch_size]
        by_length = np.argsort(lengths[pool].max(axis=1), kind="stable")
        batches += _cut(pool[by_length], batch_size)
    return batches


def sorted_batches(lengths: np.ndarray, batch_size: int) -> list[np.ndarray]:
    """The batches of the whole corpus by target, then source length, for evaluation: unshuffled.

    lengths: (N, 2) int, words of source and target. Returns arrays of positions (B,) int64.
    """
    return _cut(np.lexsort((lengths[:, 0], lengths[:, 1])), batch_size)


def _cut(order: np.ndarray, batch_size: int) -> list[np.ndarray]:
    """Consecutive pieces of batch_size, the last one perhaps smaller."""
    return [order[i : i + batch_size] for i in range(0, len(order), batch_size)]


def lengths_of(pairs: Sequence[tuple[Sequence[Any], Sequence[Any]]]) -> np.ndarray:
    """(N, 2) int, the lengths of each pair's source and target."""
    if isinstance(pairs, StoredPairs):
        return pairs.lengths
    return np.array([(len(x), len(y)) for x, y in pairs], dtype=np.int32)


class TextBatches:
    """A corpus of id pairs, cut into batches.

    pairs: (source ids, target ids), neither with `</s>`. batch_size: sentences per batch.
    reverse_source: whether the source ids are reversed. pool_size: batches that are sorted
    together. rare: see `make_batch`. lengths: (N, 2) int, ids of source and target; None: they are
    counted, for which all pairs are read once. budget: tokens per batch, instead of batch_size; the
    gradient is then divided by target tokens. seed: gives all epochs the same order
    (`ordered_batches`); None: each epoch is shuffled. finish: converts a batch of these ids to
    what the model reads.
    Batches are made on demand, so that a resumed run can go to any place in an epoch:
    `[batches.batch(indices) for indices in batches.epoch(rng)[done:]]`.
    There is at least one pair, and no source is empty.
    """

    def __init__(self, pairs: Sequence[IdPair], batch_size: int, reverse_source: bool,
                 pool_size: int = POOL, rare: tuple[Rare, Rare] = (None, None),
                 lengths: np.ndarray | None = None, budget: int | None = None,
                 seed: int | None = None,
                 finish: Callable[[Batch], Batch] | None = None) -> None:
        self.pairs, self.batch_size, self.reverse_source = pairs, batch_size, reverse_source
        self.pool_size, self.rare, self.budget, self.seed = pool_size, rare, budget, seed
        self.finish = finish
        self.lengths = lengths_of(pairs) if lengths is None else lengths  # (N, 2)

    def __len__(self) -> int:
        """The number of batches in an epoch that is cut by sentences."""
        return -(-len(self.pairs) // self.batch_size)

    def epoch(self, rng: np.random.Generator) -> list[np.ndarray]:
        """The positions (B,) of each batch of one shuffled epoch; the same for the same state."""
        if self.seed is not None:
            return ordered_batches(self.lengths, self.batch_size, self.seed, self.pool_size)
        if self.budget is not None:
            return token_batches(self.lengths, self.budget, rng, self.pool_size)
        return bucketed_batches(self.lengths, self.batch_size, rng, self.pool_size)

    def clock(self, keys: Sequence[Any]) -> np.ndarray:
        """(len(keys) + 1,) the updates that the schedule counts before each batch, and in all."""
        return np.arange(len(keys) + 1)

    def batch(self, indices: Indices) -> Batch:
        """The batch of the pairs at these positions."""
        batch = make_batch(self.pairs, indices, self.reverse_source, self.rare)
        return batch if self.finish is None else self.finish(batch)

    def tokens(self, batch: Batch) -> int:
        """The number of target words in a batch, `</s>` included: its loss is summed over them."""
        return int(batch.target.lengths.sum())

    def weight(self, batch: Batch) -> int:
        """The number that a batch's gradient is divided by: sentence pairs, or target tokens."""
        return len(batch.indices) if self.budget is None else self.tokens(batch)

    def in_order(self, description: str = "batches") -> Iterator[Batch]:
        """All batches sorted by length, for evaluation. description: the label of a progress bar.
        """
        places = sorted_batches(self.lengths, self.batch_size)
        return (self.batch(i) for i in counted(places, description))


def stream_batches(ids: Sequence[int] | np.ndarray, batch_size: int, length: int) -> Lazy[Batch]:
    """A long text as B parallel streams, cut in time for truncated backpropagation.

    The ids are divided into batch_size consecutive streams of equal length. Each batch has the next
    `length` positions of every stream; the last batch has those that remain. The model's state
    after a batch is its state before the next one.

    ids: (N,) the text. batch_size: streams. length: positions per batch. Returns the batches in
    order, made on demand. They predict every id except the first and the last ones that do not
    fill all streams, at most batch_size - 1.
    There are more ids than streams.
    """
    positions = (len(ids) - 1) // batch_size
    streams = np.arange(batch_size)

    def piece(t: int) -> Batch:
        steps = min(length, positions - t)
        starts = range(t, t + batch_size * positions, positions)
        columns = [ids[start : start + steps + 1] for start in starts]
        side_by_side = np.stack(columns, axis=1).astype(np.int64, copy=False)  # (steps + 1, B)
        return Batch((), Side(side_by_side, np.full(batch_size, steps)), streams, begins=t == 0)

    return Mapped(piece, range(0, positions, length))
