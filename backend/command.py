"""What the command lines share: arguments in, one line per error out."""

from __future__ import annotations

import argparse
import io
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import backend
from backend import fused, gemm
from backend.errors import Terminated, UserError
from backend.host import slow_blas


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, and that knows --backend and what goes with it
    in every place."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.add_argument("--backend", choices=("numpy", "cupy"), default=argparse.SUPPRESS,
                          help="where the arrays live (default: numpy)")
        self.add_argument("--gemm", choices=tuple(gemm.PRECISIONS), default=argparse.SUPPRESS,
                          help="precision of matrix products on a GPU (default: float32); nmt "
                               "says what a lower one costs")
        self.add_argument("--no-fusing", action="store_true", default=argparse.SUPPRESS,
                          help="run pointwise functions on a GPU one pass after another")

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (see {self.prog} --help)")


def natural(text: str, least: int = 0) -> int:
    """An integer of at least `least`, as an argument's type."""
    if not re.fullmatch(r"[0-9]+", text) or int(text) < least:
        raise argparse.ArgumentTypeError(f"expected an integer of at least {least}, got {text!r}")
    return int(text)


def positive(text: str) -> int:
    """An integer of at least 1."""
    return natural(text, 1)


def run_command(
    name: str, parse: Callable[[], argparse.Namespace], *, heavy: bool = False
) -> None:
    """Parse, then call the options' `run`; exit with what it returns.

    For an error of the user's the exit status is 2, with one line on stderr. `heavy` commands
    warn where the BLAS is held to slow kernels.
    """
    try:
        for stream in (sys.stdout, sys.stderr):  # text is UTF-8 whatever the locale says
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(encoding="utf-8", errors="backslashreplace")
        options = parse()
        backend.use(getattr(options, "backend", "numpy"))
        gemm.use(getattr(options, "gemm", "float32"))
        fused.use(not getattr(options, "no_fusing", False))
        if heavy and (warning := slow_blas()):
            _complain(name, warning, 0)
        with _terminating():
            status = options.run(options)
        sys.stdout.flush()
    except Terminated as error:
        sys.exit(_complain(name, str(error) or "terminated", 143))
    except KeyboardInterrupt as error:
        sys.exit(_complain(name, str(error) or "interrupted", 130))
    except BrokenPipeError:  # the reader of our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except (UserError, MemoryError, FloatingPointError) as error:
        sys.exit(_complain(name, str(error), 2))
    except OSError as error:
        named = f"{error.filename}: " if error.filename else ""
        sys.exit(_complain(name, f"{named}{error.strerror or error}", 2))
    if status:
        sys.exit(status)


@contextmanager
def _terminating() -> Iterator[None]:
    """Let SIGTERM raise `Terminated` in this process, so that nothing is left unfinished; where it
    is ignored, or handled already, it stays so."""
    process = os.getpid()

    def handle(number: int, frame: object) -> None:
        if os.getpid() == process:
            raise Terminated
        signal.signal(number, signal.SIG_DFL)  # a worker's: it ends as it would have
        signal.raise_signal(number)

    if threading.current_thread() is not threading.main_thread() \
            or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _complain(name: str, message: str, status: int) -> int:
    """Print one line on stderr; return the exit status."""
    print(f"{name}: {' '.join(message.split())}", file=sys.stderr)
    return status
