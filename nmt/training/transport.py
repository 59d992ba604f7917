"""MPI for arrays on the host and small things, NCCL for arrays on GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from backend import Array, array_module


class Mpi:
    """A communicator of mpi4py's; its arrays are NumPy's."""

    def __init__(self, communicator: Any) -> None:
        self._mpi = communicator
        self.rank, self.size = communicator.Get_rank(), communicator.Get_size()

    def everyones(self, value: Any) -> list[Any]:
        """Pickled."""
        return list(self._mpi.allgather(value))

    def counts(self, own: np.ndarray) -> np.ndarray:
        """By Allgather."""
        every = np.empty((self.size, len(own)), np.int64)
        self._mpi.Allgather(own, every)
        return every

    def sum(self, array: Array) -> None:
        """By Allreduce, in place."""
        from mpi4py import MPI

        self._mpi.Allreduce(MPI.IN_PLACE, array)

    def rows(self, own: Array, counts: Sequence[int]) -> Array:
        """By Allgatherv."""
        own = np.ascontiguousarray(own)
        width = int(np.prod(own.shape[1:]))
        every = np.empty((sum(counts), *own.shape[1:]), own.dtype)
        self._mpi.Allgatherv(own, (every, [width * count for count in counts]))
        return every


class Nccl(Mpi):
    """NCCL between the GPUs of an MPI communicator's ranks, MPI for what is on the host.

    Source: `cupyx.distributed.NCCLBackend`. Its calls are put into the device's stream: a sum is
    there for whatever is computed after it, and nothing is waited for on the host.
    """

    def __init__(self, communicator: Any, nccl: Any) -> None:
        """nccl: what `cupyx.distributed.init_process_group` returned."""
        super().__init__(communicator)
        self._nccl = nccl

    def sum(self, array: Array) -> None:
        """By all_reduce, in place."""
        self._nccl.all_reduce(array, array)

    def rows(self, own: Array, counts: Sequence[int]) -> Array:
        """By all_gather, which wants as many of each: fewer are filled up."""
        xp, most = array_module(own), max(counts)
        sent = xp.zeros((most, *own.shape[1:]), dtype=own.dtype)
        sent[: len(own)] = own
        every = xp.empty((self.size, *sent.shape), dtype=own.dtype)
        self._nccl.all_gather(sent, every, sent.size)
        return xp.concatenate([part[:count] for part, count in zip(every, counts, strict=True)])
