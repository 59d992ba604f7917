"""Work in forked processes, which inherit all loaded data."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from backend.errors import UserError
from nmt.console import progress

FORK = multiprocessing.get_context("fork")
ENDING = (signal.SIGINT, signal.SIGTERM)
Result = TypeVar("Result")


def start(
    act: Callable[[Connection], None], earlier: Iterable[Connection] = ()
) -> tuple[BaseProcess, Connection]:
    """Start a process that runs `act` with one end of a pipe; return it and the other end.

    earlier: the pipes of processes that were started before. This process closes its copies, so
    that no pipe stays open after its reader is gone.
    """
    reader, writer = FORK.Pipe(duplex=False)
    # A KeyboardInterrupt inside a fork hook would be printed and ignored.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        process = FORK.Process(target=_act, args=(act, writer, [reader, *earlier], before))
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    writer.close()
    return process, reader


def _act(
    act: Callable[[Connection], None], writer: Connection, readers: Iterable[Connection],
    mask: set[signal.Signals | int],
) -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    for reader in readers:
        reader.close()
    with suppress(BrokenPipeError):  # the reader's process no longer reads
        act(writer)


def in_processes(
    work: Callable[[int], Iterable[Result]], number: int
) -> Generator[tuple[int, Result], None, None]:
    """Run `work(k)` for each k below `number` in a process of its own; yield pairs of k and a
    result as they come.

    Raises what a process raises, and UserError if a process is killed. The other processes are then
    killed, as they are after Ctrl-C.
    """
    started = list[tuple[BaseProcess, Connection]]()
    try:
        sys.stdout.flush()  # otherwise each process would write what is buffered
        for k in range(number):
            started.append(start(partial(_send, work, k), [reader for _, reader in started]))
        readers: dict[Any, int] = {reader: k for k, (_, reader) in enumerate(started)}
        while readers:
            ready: Any
            for ready in wait(list(readers)):
                try:
                    error, result = ready.recv()
                except EOFError:
                    _check_end(started[readers.pop(ready)][0])
                    continue
                if error is not None:
                    raise error
                yield readers[ready], result
    finally:
        for process, _ in started:
            process.kill()
            process.join()


def _check_end(process: BaseProcess) -> None:
    """Raise UserError if a process did not end normally."""
    process.join()
    if process.exitcode:
        cause = signal.Signals(-process.exitcode).name if process.exitcode < 0 else process.exitcode
        raise UserError(f"process {process.pid}, one of several that share the work, ended by "
                        f"{cause}: out of memory, or killed")


def _send(work: Callable[[int], Iterable[Any]], k: int, writer: Connection) -> None:
    """The body of a process: send pairs (error or None, result) through the pipe."""
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)  # the parent process reports the signal
    try:
        with progress.hidden():
            for result in work(k):
                writer.send((None, result))
    except Exception as error:
        writer.send((error, None))


def map_in_processes(
    function: Callable[[int], Result], count: int, jobs: int, description: str
) -> list[Result]:
    """`function(i)` for each i below `count`, in order, computed by `jobs` processes. description:
    what is done, for a progress bar."""

    def work(k: int) -> Iterator[tuple[int, Result]]:
        return ((i, function(i)) for i in range(k, count, jobs))

    results = in_processes(work, min(jobs, count))
    computed = dict(next(results)[1] for _ in progress.counted(range(count), description))
    results.close()
    return [computed[i] for i in range(count)]
