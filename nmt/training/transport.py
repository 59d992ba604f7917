"""Transports between ranks: MPI for arrays on the host and small objects, NCCL for arrays on GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from backend import Array, array_module


class Mpi:
    """A transport by a communicator of mpi4py, for NumPy arrays."""

    def __init__(self, communicator: Any) -> None:
        self._mpi = communicator
        self.rank, self.size = communicator.Get_rank(), communicator.Get_size()

    def gather(self, value: Any) -> list[Any]:
        """Gather by pickling."""
        return list(self._mpi.allgather(value))

    def gather_counts(self, counts: np.ndarray) -> np.ndarray:
        """Gather by Allgather."""
        gathered = np.empty((self.size, len(counts)), np.int64)
        self._mpi.Allgather(counts, gathered)
        return gathered

    def sum(self, array: Array) -> None:
        """Sum by Allreduce, in place."""
        from mpi4py import MPI

        self._mpi.Allreduce(MPI.IN_PLACE, array)

    def gather_rows(self, rows: Array, counts: Sequence[int]) -> Array:
        """Gather by Allgatherv."""
        rows = np.ascontiguousarray(rows)
        width = int(np.prod(rows.shape[1:]))
        gathered = np.empty((sum(counts), *rows.shape[1:]), rows.dtype)
        self._mpi.Allgatherv(rows, (gathered, [width * count for count in counts]))
        return gathered


class Nccl(Mpi):
    """A transport by NCCL between the GPUs of an MPI communicator's ranks, and by MPI on the host.

    Source: `cupyx.distributed.NCCLBackend`. Its calls go into the device's stream: later
    computations see the sum, and the host does not wait.
    """

    def __init__(self, communicator: Any, nccl: Any) -> None:
        """nccl: what `cupyx.distributed.init_process_group` returned."""
        super().__init__(communicator)
        self._nccl = nccl

    def sum(self, array: Array) -> None:
        """Sum by all_reduce, in place."""
        self._nccl.all_reduce(array, array)

    def gather_rows(self, rows: Array, counts: Sequence[int]) -> Array:
        """Gather by all_gather, which needs equal numbers of rows, so that rows are padded."""
        xp, largest = array_module(rows), max(counts)
        sent = xp.zeros((largest, *rows.shape[1:]), dtype=rows.dtype)
        sent[: len(rows)] = rows
        gathered = xp.empty((self.size, *sent.shape), dtype=rows.dtype)
        self._nccl.all_gather(sent, gathered, sent.size)
        return xp.concatenate([filled[:count] for filled, count
                               in zip(gathered, counts, strict=True)])
