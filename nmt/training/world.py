"""The processes that train a model together: how they communicate and sum gradients.

This is data-parallel training. Each of n ranks computes the loss and the gradient of its share of a
batch (`nmt.data.share`). After the backward pass `World.sum` adds both up over the ranks, and every
rank makes the same update. Dense gradients are summed by one Allreduce. Of a table's gradient, each
rank sends the rows that its sentences touched (Allgatherv), and these are added in the order of the
ranks.

A `World` of a single process does nothing. A `Transport` carries numbers between processes: MPI for
arrays on the host, NCCL for arrays on GPUs (`nmt.training.transport`).
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from backend import Array, array_module, to_host
from backend.errors import UserError
from backend.rows import RowGradient, row_index, sum_rows
from nmt.data.batches import Batch
from nmt.data.share import columns_together, share
from nmt.models.contract import Gradients
from nmt.training.passes import Sums

T = TypeVar("T")
NONE, DENSE = -1, -2  # kinds of a rank's gradient of a parameter; 0 and more: a number of rows


class Transport(Protocol):
    """Carries numbers between ranks. All ranks call the same methods in the same order."""

    rank: int
    size: int

    def gather(self, value: Any) -> list[Any]:
        """The ranks' values, small Python objects, in the order of the ranks."""

    def gather_counts(self, counts: np.ndarray) -> np.ndarray:
        """(size, N) int64: the host integers `counts` (N,) of each rank."""

    def sum(self, array: Array) -> None:
        """Replace a flat array by its sum over the ranks."""

    def gather_rows(self, rows: Array, counts: Sequence[int]) -> Array:
        """The rows (N_r, ...) of all ranks r, stacked in the order of the ranks. counts: N_r."""


class World:
    """The world of a process that trains alone."""

    rank, size = 0, 1

    @property
    def first(self) -> bool:
        """Whether this process validates and writes."""
        return self.rank == 0

    def share(self, batch: Batch) -> Batch | None:
        """This rank's share of a batch; None if it has none."""
        return batch

    def share_of_state(self, state: Any) -> Any:
        """This rank's rows of a stream's state, arrays (B, H) by layer and place."""
        return state

    def whole_state(self, state: Any) -> Any:
        """All rows of a state, of which this rank has a share."""
        return state

    def sum(self, sums: Sums | None, parameters: Mapping[str, Array]) -> Sums:
        """Loss and gradients summed over the ranks. sums: this rank's, None if it has no sentence
        of the batch; the first rank always has one."""
        assert sums is not None
        return sums

    def agreed(self, flag: bool) -> bool:
        """Whether the flag of any rank is set."""
        return flag

    def gather(self, value: T) -> list[T]:
        """The ranks' values, in the order of the ranks."""
        return [value]

    def wait(self) -> None:
        """Wait until all ranks call this."""

    def check_same(self, description: str, value: Any) -> None:
        """Raise UserError with the first rank whose value differs from rank 0's. description: of
        the value."""
        for rank, rank_value in enumerate(values := self.gather(value)):
            if rank_value != values[0]:
                raise UserError(f"rank {rank}: expected the {description} of rank 0, found others")

    def check_parameters(self, parameters: Mapping[str, Array]) -> None:
        """Raise UserError if the ranks' parameters differ, since they would then diverge."""
        if self.size > 1:
            self.check_same("parameters", _checksum(parameters))


class Ranks(World):
    """The world of one of several processes."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.rank, self.size = transport.rank, transport.size
        self._flat: Array | None = None  # where dense gradients are summed
        self.bytes = 0  # that this rank has handed over to be summed or gathered

    def share(self, batch: Batch) -> Batch | None:
        """Sentences `rank`, `rank + size` and so on of a batch."""
        return share(batch, self.rank, self.size)

    def share_of_state(self, state: Any) -> Any:
        """The rows of the share's sentences."""
        return state and [tuple(array[self.rank :: self.size] for array in arrays)
                          for arrays in state]

    def whole_state(self, state: Any) -> Any:
        """All rows of a state as host arrays; None if there is no state."""
        layers = [[to_host(array) for array in arrays] for arrays in state or ()]
        shares = [share for share in self.gather(layers) if share]  # some ranks have no rows
        return [tuple(columns_together(parts) for parts in zip(*arrays, strict=True))
                for arrays in zip(*shares, strict=True)] or None

    def sum(self, sums: Sums | None, parameters: Mapping[str, Array]) -> Sums:
        """Loss and gradients summed over the ranks. A rank without a gradient of a parameter adds
        nothing. A gradient that is dense on any rank becomes dense. The sums are the same numbers
        on all ranks."""
        losses = array_module(*parameters.values()).zeros(3, dtype=np.float64)
        has_words = has_lengths = False  # whether there is a loss of words alone, one of lengths
        if sums is not None:
            has_words, has_lengths = sums.word_loss is not sums.loss, sums.length_loss is not None
            losses[0], losses[1] = sums.loss, sums.word_loss
            losses[2] = sums.length_loss if has_lengths else 0.0
        self._transport.sum(losses)
        gradients = Gradients() if sums is None else sums.gradients
        flags = [has_words, has_lengths, *(_kind(gradients.get(name)) for name in parameters)]
        gathered = self._transport.gather_counts(np.array(flags, np.int64))  # (ranks, flags)
        have_words, have_lengths, *kinds = gathered.T
        summed = self._sum_gradients(gradients, parameters,
                                     dict(zip(parameters, kinds, strict=True)))
        loss = losses[0]
        return Sums(loss, losses[1] if have_words.any() else loss, summed,
                    losses[2] if have_lengths.any() else None)

    def _sum_gradients(self, gradients: Gradients, parameters: Mapping[str, Array],
                       kinds: Mapping[str, np.ndarray]) -> Gradients:
        """The summed gradients, in the order of the parameters. kinds: name -> the kind of each
        rank's gradient."""
        summed = self._sum_dense(gradients, {name: parameters[name] for name, kind in kinds.items()
                                             if (kind == DENSE).any()})
        summed |= {name: self._sum_rows(gradients.get(name), kind, parameters[name])
                   for name, kind in kinds.items() if name not in summed and (kind >= 0).any()}
        return {name: summed[name] for name in parameters if name in summed}

    def _sum_dense(self, gradients: Gradients, parameters: Mapping[str, Array]) -> Gradients:
        """The sums of dense gradients by one Allreduce, as views of a flat array that the next sum
        overwrites. A parameter without a gradient on this rank adds zeros."""
        if not parameters:
            return {}
        flat, summed, start = self._flat_array(parameters), Gradients(), 0
        for name, parameter in parameters.items():
            gradient = gradients.get(name, 0)
            total = flat[start : start + parameter.size].reshape(parameter.shape)
            total[...] = gradient.dense() if isinstance(gradient, RowGradient) else gradient
            summed[name] = total
            start += parameter.size
        self.bytes += flat.nbytes
        self._transport.sum(flat)
        return summed

    def _flat_array(self, parameters: Mapping[str, Array]) -> Array:
        """An array as long as these parameters together. The last one is used again if it fits: in
        new memory, two ranks need 1.4 times the CPU time to sum 5 million numbers."""
        arrays = parameters.values()
        size, dtype = sum(array.size for array in arrays), np.result_type(
            *(array.dtype for array in arrays))
        if self._flat is None or (self._flat.size, self._flat.dtype) != (size, dtype):
            self._flat = array_module(*arrays).empty(size, dtype=dtype)
        return self._flat

    def _sum_rows(self, gradient: RowGradient | None, counts: np.ndarray,
                  table: Array) -> RowGradient:
        """The rows of all ranks; rows of the same id are added in the order of the ranks."""
        xp = array_module(table)
        ids, values = np.empty(0, np.int64), xp.empty((0, table.shape[1]), dtype=table.dtype)
        if gradient is not None:
            ids = to_host(gradient.ids) if gradient.on_host is None else gradient.on_host
            values = gradient.values
        self.bytes += ids.nbytes + values.nbytes
        all_ids = np.concatenate(self._transport.gather(ids))              # (N,)
        values = self._transport.gather_rows(values, np.maximum(counts, 0).tolist())  # (N, E)
        return sum_rows(values, row_index(all_ids), table.shape[0])

    def agreed(self, flag: bool) -> bool:
        """Whether the flag of any rank is set."""
        return bool(self._transport.gather_counts(np.array([flag], np.int64)).any())

    def gather(self, value: T) -> list[T]:
        """The ranks' values, in the order of the ranks."""
        return self._transport.gather(value)

    def wait(self) -> None:
        """Wait until all ranks call this."""
        self.agreed(False)


def _kind(gradient: Any) -> int:
    """The kind of a gradient: NONE, DENSE, or its number of rows."""
    if gradient is None:
        return NONE
    return len(gradient.ids) if isinstance(gradient, RowGradient) else DENSE


def _checksum(parameters: Mapping[str, Array]) -> int:
    """A checksum of parameters."""
    total = 0
    for array in parameters.values():
        total = zlib.crc32(to_host(array).tobytes(), total)
    return total


_world = World()


def current() -> World:
    """The world of this process: a single process, unless a command has joined others."""
    return _world


def use(world: World) -> None:
    """Set the world of this process."""
    global _world
    _world = world
