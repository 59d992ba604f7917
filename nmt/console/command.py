"""Running a command: its streams, its signals, its errors, its exit status."""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import backend
from backend import fused, gemm
from backend.errors import UserError
from backend.host import crowded, slow_blas, use_threads
from nmt.console import notes, progress
from nmt.console.defects import report_defect
from nmt.console.terminal import escaped, print

DEFECT = 70  # exit status after an unexpected error: EX_SOFTWARE of sysexits
LONGEST_WORD = 300  # longest word of a message, in characters


class Terminated(KeyboardInterrupt):
    """Raised on SIGTERM, as KeyboardInterrupt is on Ctrl-C; the command line exits with status
    143."""


@contextmanager
def command(
    name: str, parse: Callable[[], argparse.Namespace], *, heavy: bool = False
) -> Iterator[argparse.Namespace]:
    """Context of a command: parse its options, and set devices and threads by them.

    heavy: whether the command warns if the BLAS uses slow kernels, or if its threads would wait for
    other programs. Exit statuses as `guarded`.
    """
    with guarded(name):
        options = parse()
        backend.use(getattr(options, "backend", "numpy"))
        gemm.use(getattr(options, "gemm", "float32"))
        fused.use(not getattr(options, "no_fusing", False))
        if threads := getattr(options, "threads", None):
            use_threads(threads)
        if heavy:
            for warning in filter(None, (slow_blas(), None if threads else crowded())):
                _complain(name, warning, 0)
        with progress.shown(), notes.heard():
            yield options


@contextmanager
def guarded(name: str) -> Iterator[None]:
    """Context of a command: any exception becomes one line on stderr and SystemExit.

    The status is 2 for a UserError, 130 after Ctrl-C, 143 after SIGTERM, 141 if the reader of the
    output has closed it, and DEFECT for an unexpected exception. The line then names a file with
    the traceback.
    """
    streams = sys.stdout, sys.stderr
    try:
        _take_streams()
        with _terminating():
            yield
        sys.stdout.flush()
        return
    except Terminated as error:
        status = _complain(name, str(error) or "terminated", 143)
    except KeyboardInterrupt as error:
        status = _complain(name, str(error) or "interrupted", 130)
    except BrokenPipeError:
        status = 141
    except (UserError, FloatingPointError) as error:
        status = _complain(name, str(error), 2)
    except MemoryError as error:
        status = _complain(name, f"out of memory: {error}".rstrip(": "), 2)
    except OSError as error:
        named = f"{error.filename}: " if error.filename else ""
        status = _complain(name, f"{named}{error.strerror or error}", 2)
    except Exception as error:
        status = _complain(name, report_defect(name, error), DEFECT)
    finally:
        _let_go(sys.stdout)
        sys.stdout, sys.stderr = streams
    sys.exit(status)


def _take_streams() -> None:
    """Make the standard streams UTF-8, whatever the locale is.

    If a standard stream is closed, its descriptor is opened on /dev/null, so that no file that is
    opened later gets the descriptor and receives what is printed. Raises UserError if stdout is
    closed, because the output would be lost.
    """
    for descriptor in range(3):
        with suppress(OSError):
            os.fstat(descriptor)
            continue
        os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor, which is this one
    if sys.stdin is None:
        sys.stdin = _ClosedInput()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")
    if sys.stdout is None:
        raise UserError("<stdout>: cannot write the output: it is closed")
    for stream in ("stdout", "stderr"):
        standard = getattr(sys, stream)
        if isinstance(standard, io.TextIOWrapper):
            standard.reconfigure(encoding="utf-8", errors="backslashreplace")


class _ClosedInput:
    """A stand-in for a closed stdin: reading from it raises UserError."""

    def isatty(self) -> bool:
        """False: it is not a terminal."""
        return False

    def __getattr__(self, name: str) -> NoReturn:
        raise UserError("<stdin>: expected text, but it is closed")


def _let_go(stream: Any) -> None:
    """Drop output that can no longer be written to a stream. Otherwise the interpreter would report
    it again at exit."""
    try:
        if stream is not None:
            stream.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def _terminating() -> Iterator[None]:
    """Context in which SIGTERM raises `Terminated` in this process, so that files are cleaned up,
    and Ctrl-C raises `KeyboardInterrupt`. Signals that are ignored or handled already stay so."""
    process = os.getpid()

    def handle(number: int, frame: object) -> None:
        if os.getpid() == process:
            raise Terminated
        signal.signal(number, signal.SIG_DFL)  # a worker process dies of SIGTERM
        signal.raise_signal(number)

    handlers = {signal.SIGTERM: handle, signal.SIGINT: signal.default_int_handler}
    unhandled = [number for number in handlers if signal.getsignal(number) == signal.SIG_DFL
                 and threading.current_thread() is threading.main_thread()]
    before = sys.unraisablehook

    def again(unraisable: Any) -> None:
        """Send a signal once more that came in a finalizer, where Python ignores its exception."""
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            before(unraisable)
            return
        number = signal.SIGTERM if unraisable.exc_type is Terminated else signal.SIGINT
        threading.Timer(0.01, os.kill, (process, number)).start()

    for number in unhandled:
        signal.signal(number, handlers[number])
    sys.unraisablehook = again
    try:
        yield
    finally:
        sys.unraisablehook = before
        for number in unhandled:
            signal.signal(number, signal.SIG_DFL)


def _complain(name: str, message: str, status: int) -> int:
    """Print one line on stderr; return the exit status."""
    with suppress(OSError):
        print(f"{name}: {escaped(' '.join(map(_cut, message.split())))}", file=sys.stderr)
    return status


def _cut(word: str) -> str:
    """The word, shortened to LONGEST_WORD characters, because messages quote arguments."""
    half = LONGEST_WORD // 2
    return word if len(word) <= LONGEST_WORD else f"{word[:half]}...{word[-half:]}"
