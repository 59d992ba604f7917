"""Work in forked processes, which inherit what is loaded and leave nothing behind."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

FORK = multiprocessing.get_context("fork")
Result = TypeVar("Result")


def start(act: Callable[[Connection], None]) -> tuple[BaseProcess, Connection]:
    """A process that acts on one end of a pipe, and the other end."""
    reader, writer = FORK.Pipe(duplex=False)
    process = FORK.Process(target=act, args=(writer,))
    process.start()
    writer.close()
    return process, reader


def in_processes(
    work: Callable[[int], Iterable[Result]], number: int
) -> Iterator[tuple[int, Result]]:
    """What `work(k)` gives, one after another, each k in a process: k and the result.

    Raises RuntimeError where a process fails.
    """
    started = [start(partial(_send, work, k)) for k in range(number)]
    readers: dict[Any, int] = {reader: k for k, (_, reader) in enumerate(started)}
    while readers:
        ready: Any
        for ready in wait(list(readers)):
            try:
                yield readers[ready], ready.recv()
            except EOFError:
                process = started[readers.pop(ready)][0]
                process.join()
                if process.exitcode:
                    raise RuntimeError("a process of the mutation test failed") from None


def _send(work: Callable[[int], Iterable[Any]], k: int, writer: Connection) -> None:
    for result in work(k):
        writer.send(result)
