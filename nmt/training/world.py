"""The processes that train one model together: what they tell each other, the sum of gradients.

Data-parallel training: each of n ranks computes the loss and the gradient of its share of the same
batch (`nmt.data.share`), both are summed over the ranks, and each makes the same update. Dense
gradients are summed in buckets (Allreduce, `nmt.training.buckets`), those that a model says are
finished (`nmt.models.finished`) while its backward pass goes on; of a table's gradient each rank
sends the rows that its sentences touched (Allgatherv), and they are added in the order of the
ranks.

A `World` of one process does nothing. What carries numbers between several is a `Transport`: MPI
for arrays on the host, NCCL for those on GPUs (`nmt.training.transport`).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import numpy as np

from backend import Array, array_module, to_host
from backend.errors import UserError
from backend.rows import RowGradient, row_index, sum_rows
from nmt.data.batches import Batch
from nmt.data.share import columns_together, share
from nmt.models.contract import Gradients
from nmt.models.finished import heard_by
from nmt.training.buckets import Buckets
from nmt.training.passes import Sums

T = TypeVar("T")
Work = tuple[str | None, *tuple[str, ...]]  # the task of an update, and the parameters' names
NONE, DENSE = -1, -2  # what a rank has of a parameter's gradient; 0 and more: so many rows


class Transport(Protocol):
    """What carries numbers between ranks; every rank calls the same methods in the same order."""

    rank: int
    size: int

    def everyones(self, value: Any) -> list[Any]:
        """A small Python object of each rank, in their order."""

    def counts(self, own: np.ndarray) -> np.ndarray:
        """(size, N) int64: the host integers `own` (N,) of each rank."""

    def start_sum(self, array: Array) -> Callable[[], None]:
        """Begin to replace a flat array by its sum over the ranks; call what it returns to end."""

    def rows(self, own: Array, counts: Sequence[int]) -> Array:
        """The rows (N_r, ...) of each rank r, stacked in their order; counts: N_r of each."""


class World:
    """One process that trains alone."""

    rank, size = 0, 1

    @property
    def first(self) -> bool:
        """Whether this process validates and writes."""
        return self.rank == 0

    def share(self, batch: Batch) -> Batch | None:
        """What this rank computes of a batch; None for nothing."""
        return batch

    def share_of_state(self, state: Any) -> Any:
        """This rank's rows of a stream's state, arrays (B, H) by layer and place."""
        return state

    def whole_state(self, state: Any) -> Any:
        """The reverse: all rows of the state of which this rank has a share."""
        return state

    @contextmanager
    def overlapping(self, parts: Sequence[Batch], parameters: Mapping[str, Array]
                    ) -> Iterator[None]:
        """Context of the passes over an update's batches, or this rank's shares of them, before
        `sum`: finished gradients are summed while the backward pass goes on."""
        yield

    def sum(self, own: Sums | None, parameters: Mapping[str, Array]) -> Sums:
        """Loss and gradients, of any of the parameters, summed over the ranks; own: this rank's,
        None where it has no sentence of the batch, which the first rank always has."""
        assert own is not None
        return own

    def agreed(self, flag: bool) -> bool:
        """Whether the flag of any rank is set."""
        return flag

    def from_first(self, make: Callable[[], T]) -> T:
        """What the first rank makes."""
        return make()

    def everyones(self, value: T) -> list[T]:
        """A small value of each rank, in their order."""
        return [value]

    def wait(self) -> None:
        """Until all ranks are here."""

    def check_same(self, what: str, value: Any) -> None:
        """Raise UserError naming a rank whose value is not the first one's."""
        for rank, found in enumerate(values := self.everyones(value)):
            if found != values[0]:
                raise UserError(f"rank {rank}: expected the {what} of rank 0, found others")

    def check_parameters(self, parameters: Mapping[str, Array]) -> None:
        """Raise UserError where ranks have come to other parameters: they would train apart."""
        if self.size > 1:
            self.check_same("parameters", _checksum(parameters))


class Ranks(World):
    """One of several processes."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.rank, self.size = transport.rank, transport.size
        self._flat: dict[str, Array] = {}  # where dense gradients are summed: early, or at the end
        # By task and parameters, those whose gradients are finished early, in the order in which
        # the first rank's first backward pass finished them; and what was heard in that pass.
        self._plans: dict[Work, tuple[str, ...]] = {}
        self._heard: tuple[Work, Gradients] | None = None
        self._early: Buckets | None = None
        self.bytes = 0  # that this rank has handed over to be summed or gathered

    def share(self, batch: Batch) -> Batch | None:
        """Sentences rank, rank + size and so on."""
        return share(batch, self.rank, self.size)

    def share_of_state(self, state: Any) -> Any:
        """As the sentences."""
        return state and [tuple(part[self.rank :: self.size] for part in parts) for parts in state]

    def whole_state(self, state: Any) -> Any:
        """Host arrays; None where there is no state."""
        own = [[to_host(part) for part in parts] for parts in state or ()]
        every = [one for one in self.everyones(own) if one]  # ranks beyond the rows have none
        return [tuple(columns_together(parts) for parts in zip(*layers, strict=True))
                for layers in zip(*every, strict=True)] or None

    @contextmanager
    def overlapping(self, parts: Sequence[Batch], parameters: Mapping[str, Array]
                    ) -> Iterator[None]:
        """Not where several batches are accumulated: their sum is finished with the last."""
        self._heard = self._early = None
        if len(parts) != 1:
            yield
            return
        work: Work = (parts[0].task, *parameters)
        heard = Gradients()
        if work in self._plans:
            self._early = self._buckets("early", {name: parameters[name]
                                                  for name in self._plans[work]})
        else:
            self._heard = work, heard
        with heard_by(heard.update if self._early is None else self._early.put):
            yield

    def sum(self, own: Sums | None, parameters: Mapping[str, Array]) -> Sums:
        """Of a parameter that a rank has no gradient of, it adds nothing; a gradient that is dense
        anywhere becomes dense. The sums are the same numbers on every rank, and whether or not
        they were begun early."""
        early = self._begun(parameters)
        if early is not None:
            early.close({} if own is None else own.gradients)
        losses = array_module(*parameters.values()).zeros(3, dtype=np.float64)
        if own is not None:
            losses[0], losses[1] = own.loss, own.word_loss
            losses[2] = 0.0 if own.length_loss is None else own.length_loss
        self._transport.start_sum(losses)()
        gradients = {} if own is None else own.gradients
        apart = own is not None and own.word_loss is not own.loss
        counts = own is not None and own.length_loss is not None
        told = [int(apart), int(counts), *(_kind(gradients.get(name)) for name in parameters)]
        (aparts, counted, *kinds) = self._transport.counts(
            np.array(told, np.int64)).T                                    # (ranks,) each
        summed = self._sum_gradients(gradients, parameters, dict(zip(parameters, kinds,
                                                                     strict=True)), early)
        loss = losses[0]
        return Sums(loss, losses[1] if aparts.any() else loss, summed,
                    losses[2] if counted.any() else None)

    def _begun(self, parameters: Mapping[str, Array]) -> Buckets | None:
        """The sums of this update that were begun early; those of a task's first update are begun
        now, in the same buckets, once the ranks have agreed on them. None without `overlapping`."""
        if self._heard is not None:
            work, heard = self._heard
            plan = self._plans[work] = self.from_first(lambda: tuple(
                name for name in heard if _kind(heard[name]) == DENSE))
            self._early = self._buckets("early", {name: parameters[name] for name in plan})
        early, self._early, self._heard = self._early, None, None
        return early

    def _sum_gradients(self, own: Gradients, parameters: Mapping[str, Array],
                       kinds: Mapping[str, np.ndarray], early: Buckets | None) -> Gradients:
        """The gradients of all ranks, in the order of the parameters; kinds: of each rank's."""
        begun = {} if early is None else early.sums()
        late = self._buckets("late", {name: parameters[name] for name, kind in kinds.items()
                                      if name not in begun and (kind == DENSE).any()})
        late.close(own)
        summed = late.sums() | {name: sums for name, sums in begun.items()
                                if (kinds[name] != NONE).any()}
        summed |= {name: self._sum_rows(own.get(name), kind, parameters[name])
                   for name, kind in kinds.items() if name not in summed and (kind >= 0).any()}
        return {name: summed[name] for name in parameters if name in summed}

    def start_sum(self, array: Array) -> Callable[[], None]:
        """Begin to sum a flat array over the ranks, in place; call what is returned to end."""
        self.bytes += array.nbytes
        return self._transport.start_sum(array)

    def _buckets(self, which: str, parameters: Mapping[str, Array]) -> Buckets:
        """For gradients of these parameters, in the same flat array again where it is as long."""
        size, arrays = sum(parameter.size for parameter in parameters.values()), parameters.values()
        if which not in self._flat or len(self._flat[which]) != size:
            dtype = np.result_type(*(one.dtype for one in arrays)) if arrays else np.float64
            self._flat[which] = array_module(*arrays).empty(size, dtype=dtype)
        return Buckets(self._flat[which], parameters, self.start_sum)

    def _sum_rows(self, own: RowGradient | None, counts: np.ndarray, table: Array) -> RowGradient:
        """The rows of all ranks, those of one id added in the order of the ranks."""
        xp, lengths = array_module(table), np.maximum(counts, 0).tolist()
        ids, values = np.empty(0, np.int64), xp.empty((0, table.shape[1]), dtype=table.dtype)
        if own is not None:
            ids, values = to_host(own.ids) if own.on_host is None else own.on_host, own.values
        self.bytes += ids.nbytes + values.nbytes
        every = np.concatenate(self._transport.everyones(ids))  # (N,)
        values = self._transport.rows(values, lengths)  # (N, E)
        return sum_rows(values, row_index(every), table.shape[0])

    def agreed(self, flag: bool) -> bool:
        """By the largest."""
        return bool(self._transport.counts(np.array([flag], np.int64)).any())

    def from_first(self, make: Callable[[], T]) -> T:
        """The others wait for it."""
        return self.everyones(make() if self.first else None)[0]  # type: ignore[return-value]

    def everyones(self, value: T) -> list[T]:
        """As the transport brings them."""
        return self._transport.everyones(value)

    def wait(self) -> None:
        """For a number of each."""
        self.agreed(False)


def _kind(gradient: Any) -> int:
    """What there is of a gradient: NONE, DENSE, or how many rows."""
    if gradient is None:
        return NONE
    return len(gradient.ids) if isinstance(gradient, RowGradient) else DENSE


def _checksum(parameters: Mapping[str, Array]) -> int:
    """A number that tells parameters apart."""
    total = 0
    for array in parameters.values():
        total = zlib.crc32(to_host(array).tobytes(), total)
    return total


_world = World()


def current() -> World:
    """The world that this process is in: alone, unless a command has joined others."""
    return _world


def use(world: World) -> None:
    """Make a world that of this process."""
    global _world
    _world = world
