"""`mpiexec -n N nmt train`: make this process one of several ranks."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import backend
from backend.errors import UserError, install
from backend.host import processors, use_threads
from nmt.console.command import guarded
from nmt.training import world
from nmt.training.transport import Mpi, Nccl

# Environment variables of launchers: the number of processes that they started, and this one's.
LAUNCHED = (("PMI_SIZE", "PMI_RANK"), ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"))
GRACE = 1.0  # seconds that the first rank has to report an error that all ranks have


def launched() -> tuple[int, int]:
    """How many processes a launcher started, and the number of this one; (1, 0) without a launcher.
    """
    for size, rank in LAUNCHED:
        if int(os.environ.get(size, 1)) > 1:
            return int(os.environ[size]), int(os.environ[rank])
    return 1, 0


@contextmanager
def among_ranks(is_requested: bool, threads: int | None) -> Iterator[None]:
    """Context of a command's work: if `mpiexec` started several processes, they work together.

    is_requested: whether `--mpi` was given, for launchers that are not recognised. threads: the
    value of `--threads`. An error or a signal that ends one rank ends all, with one line and one
    status. The first rank reports an error that all ranks have.
    """
    size, _ = launched()
    communicator = _communicator(size) if size > 1 or is_requested else None
    if communicator is None or communicator.Get_size() == 1:
        yield
        return
    rank = communicator.Get_rank()
    _quiet_but_first(rank)
    try:
        with guarded(f"nmt: rank {rank}" if rank else "nmt"):
            try:
                _join(communicator, threads)
                yield
            except BaseException as error:
                if rank:
                    time.sleep(GRACE)
                    if isinstance(error, KeyboardInterrupt):  # all ranks have it; the first reports
                        communicator.Abort(130)
                raise
    except SystemExit as error:
        communicator.Abort(error.code)
        raise


def _quiet_but_first(rank: int) -> None:
    """Let all ranks but the first print nothing on stdout."""
    if rank:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")


def _communicator(size: int) -> Any:
    """The communicator of all processes of mpi4py's MPI. Raises UserError without mpi4py, and if
    its MPI does not know the processes that the launcher started."""
    os.environ.setdefault("MPIR_CVAR_SUPPRESS_ABORT_MESSAGE", "1")  # we print our own
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise UserError(f"expected mpi4py for {size} ranks, found none that works ({error}): "
                        f"{install('mpi')}") from None
    known = MPI.COMM_WORLD.Get_size()
    if size not in (1, known):
        raise UserError(f"expected the mpiexec of mpi4py's library, {MPI.get_vendor()[0]}, got "
                        f"another one: it started {size} processes, the library knows {known}")
    return MPI.COMM_WORLD


def _join(communicator: Any, threads: int | None) -> None:
    """Make this process one of the ranks: set its world, its threads and its GPU."""
    from mpi4py import MPI

    local = communicator.Split_type(MPI.COMM_TYPE_SHARED)  # the ranks of this machine
    if backend.module().__name__ == "cupy":
        world.use(world.Ranks(_nccl(communicator, local)))
        return
    if threads is None and "OPENBLAS_NUM_THREADS" not in os.environ:
        available = set().union(*local.allgather(processors()))  # ranks may be bound to cores
        use_threads(max(1, min(len(available) // local.Get_size(), len(processors()))))
    world.use(world.Ranks(Mpi(communicator)))


def _nccl(communicator: Any, local: Any) -> Nccl:
    """NCCL between the ranks, each of which has a GPU. Raises UserError if there are too few GPUs.
    """
    import cupy
    from cupyx import distributed

    devices = cupy.cuda.runtime.getDeviceCount()
    if local.Get_size() > devices:
        raise UserError(f"expected a GPU for each of {local.Get_size()} ranks of this machine, "
                        f"found {devices}")
    cupy.cuda.Device(local.Get_rank()).use()
    return Nccl(communicator, distributed.init_process_group(
        communicator.Get_size(), communicator.Get_rank(), use_mpi=True))
