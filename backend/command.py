"""What the command lines share: arguments in, one line per error out."""

from __future__ import annotations

import argparse
import io
import math
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import backend
from backend import fused, gemm, notes, progress
from backend.defects import told
from backend.errors import Terminated, UserError
from backend.host import crowded, slow_blas, use_threads
from backend.nearest import nearest
from backend.package import release
from backend.terminal import escaped, print

DEFECT = 70  # exit status after an unexpected error: EX_SOFTWARE of sysexits
LARGEST = 2**63 - 1  # largest integer that an argument may be
MANY_OPTIONS = 8  # options from which on the usage line names only the required ones
LONGEST_WORD = 300  # longest word of a message, in characters


class Help(argparse.HelpFormatter):
    """Help that fits on a screen: with many options, the usage line names only the required ones.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28)

    def add_usage(self, usage: str | None, actions: Iterable[argparse.Action],
                  groups: Iterable[Any], prefix: str | None = None) -> None:
        """The first lines."""
        actions = list(actions)
        options = [one for one in actions if one.option_strings]
        if usage is None and len(options) > MANY_OPTIONS:
            parts = [[one for one in actions if not one.option_strings],
                     [one for one in options if one.required]]
            named = [" ".join(self._format_usage(None, part, [], "").split()).removeprefix(
                self._prog) for part in parts]
            usage = f"%(prog)s{''.join(named)} [OPTION ...]"
        super().add_usage(usage, actions, groups, prefix)


class HelpWithLines(Help, argparse.RawDescriptionHelpFormatter):
    """The same, with the lines of description and epilog as they are."""


class PlainParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (see {self.prog} --help)")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """As argparse's; where a choice is near, the error names that one instead of all."""
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            if hint := nearest(str(value), [*map(str, action.choices or ())]):
                error.message = f"invalid choice: {value!r}{hint}"
            raise


class Version(argparse.Action):
    """`--version`: the program's name and this package's version. It is looked up when asked for:
    that costs milliseconds."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        print(parser.prog, release())
        parser.exit()


class Parser(PlainParser):
    """A parser with the options of every command: --backend, --gemm, --no-fusing, --threads.

    What it parses has it as `parser`: of a command of several, that command's own.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"formatter_class": Help, **settings})
        self.set_defaults(parser=self)
        self.add_argument("--backend", choices=("numpy", "cupy"), default=argparse.SUPPRESS,
                          help="array library (default: numpy)")
        self.add_argument("--gemm", choices=tuple(gemm.PRECISIONS), default=argparse.SUPPRESS,
                          help="matrix products on a GPU (default: float32)")
        self.add_argument("--no-fusing", action="store_true", default=argparse.SUPPRESS,
                          help="no fused kernels on a GPU")
        self.add_argument("--threads", type=positive, metavar="N", default=argparse.SUPPRESS,
                          help="of matrix products on a CPU (default: one a core)")

    def add_version(self) -> None:
        """`--version`, of a whole program."""
        self.add_argument("--version", action=Version, nargs=0, help="print the version and end")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse's; unknown arguments are refused in the name of their command."""
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            options.parser.refuse(unknown)
        return options

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """Raise UserError for arguments that are not known."""
        hint = next(filter(None, map(self.meant, unknown)), "")
        self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")

    def meant(self, argument: str) -> str:
        """A hint with the option whose name is nearest; "" for no option, and if none is near."""
        name = argument.partition("=")[0]
        return nearest(name, self._option_string_actions) if name.startswith("--") else ""


# --- types of arguments ---------------------------------------------------------------------------


def natural(text: str, least: int = 0, most: int = LARGEST) -> int:
    """An integer from `least` to `most`, as an argument's type."""
    if not re.fullmatch(r"[0-9]{1,30}", text) or not least <= int(text) <= most:
        limit = "" if most == LARGEST else f" and at most {most}"
        raise argparse.ArgumentTypeError(f"expected an integer of at least {least}{limit}, got "
                                         f"{text!r}")
    return int(text)


def positive(text: str) -> int:
    """An integer of at least 1."""
    return natural(text, 1)


def count(text: str) -> int:
    """A number of things to make, as an argument's type: from 1 to ten million."""
    return natural(text, 0, 10**7)


def above_zero(text: str) -> float:
    """A number above 0, neither infinite nor NaN."""
    return _number(text, lambda value: value > 0, "a number above 0")


def at_least_zero(text: str) -> float:
    """A number of at least 0, neither infinite nor NaN."""
    return _number(text, lambda value: value >= 0, "a number of at least 0")


def chance(text: str) -> float:
    """A probability below 1, as an argument's type."""
    return _number(text, lambda value: 0 <= value < 1, "a number from 0 to below 1")


def seconds(text: str) -> float:
    """A time above 0, of at most three years."""
    return _number(text, lambda value: 0 < value <= 1e8, "seconds above 0 and at most 1e8")


def _number(text: str, fits: Callable[[float], bool], expected: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and fits(value)):
        raise argparse.ArgumentTypeError(f"expected {expected}, got {text!r}")
    return value


# --- running --------------------------------------------------------------------------------------


def run_command(
    name: str, parse: Callable[[], argparse.Namespace], *, heavy: bool = False
) -> None:
    """Parse, then call the options' `run`; exit with what it returns.

    `heavy` commands warn where the BLAS is held to slow kernels, or where its threads would wait
    for other programs. Exit statuses as `guarded`.
    """

    def run() -> int | None:
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
            status: int | None = options.run(options)
        return status

    if status := guarded(name, run):
        sys.exit(status)


def guarded(name: str, run: Callable[[], int | None]) -> int:
    """Call a command and return its exit status. Any exception becomes one line on stderr.

    The status is 2 for a UserError, 130 after Ctrl-C, 143 after SIGTERM, 141 where the reader of
    the output has closed it, and DEFECT after an unexpected exception: the line then names a file
    with the traceback.
    """
    streams = sys.stdout, sys.stderr
    try:
        _take_streams()
        with _terminating():
            status = run() or 0
        sys.stdout.flush()
        return status
    except Terminated as error:
        return _complain(name, str(error) or "terminated", 143)
    except KeyboardInterrupt as error:
        return _complain(name, str(error) or "interrupted", 130)
    except BrokenPipeError:
        return 141
    except (UserError, FloatingPointError) as error:
        return _complain(name, str(error), 2)
    except MemoryError as error:
        return _complain(name, f"out of memory: {error}".rstrip(": "), 2)
    except OSError as error:
        named = f"{error.filename}: " if error.filename else ""
        return _complain(name, f"{named}{error.strerror or error}", 2)
    except Exception as error:
        return _complain(name, told(name, error), DEFECT)
    finally:
        _let_go(sys.stdout)
        sys.stdout, sys.stderr = streams


def _take_streams() -> None:
    """Make the standard streams UTF-8 whatever the locale says.

    The descriptor of a standard stream that is closed is opened on /dev/null, so that no file
    opened later gets it and receives what is printed. Raises UserError where stdout is closed: the
    output would be lost.
    """
    for descriptor in range(3):
        with suppress(OSError):
            os.fstat(descriptor)
            continue
        os.open(os.devnull, os.O_RDWR)  # the lowest that is free
    if sys.stdin is None:
        sys.stdin = _ClosedInput()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")
    if sys.stdout is None:
        raise UserError("<stdout>: expected a place for the output, found it closed")
    for stream in ("stdout", "stderr"):
        found = getattr(sys, stream)
        if isinstance(found, io.TextIOWrapper):
            found.reconfigure(encoding="utf-8", errors="backslashreplace")


class _ClosedInput:
    """A stand-in for a closed stdin: reading from it raises UserError."""

    def isatty(self) -> bool:
        """False: it is not a terminal."""
        return False

    def __getattr__(self, name: str) -> NoReturn:
        raise UserError("<stdin>: expected text, found it closed")


def _let_go(stream: Any) -> None:
    """Drop what can no longer be written to a stream: the interpreter would report it
    once more at its end."""
    try:
        if stream is not None:
            stream.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def _terminating() -> Iterator[None]:
    """Let SIGTERM raise `Terminated` in this process, so that files are cleaned up, and Ctrl-C
    raise `KeyboardInterrupt`. A signal that is ignored or already handled stays so."""
    process = os.getpid()

    def handle(number: int, frame: object) -> None:
        if os.getpid() == process:
            raise Terminated
        signal.signal(number, signal.SIG_DFL)  # in a worker process: die of SIGTERM
        signal.raise_signal(number)

    handlers = {signal.SIGTERM: handle, signal.SIGINT: signal.default_int_handler}
    ours = [number for number in handlers if signal.getsignal(number) == signal.SIG_DFL
            and threading.current_thread() is threading.main_thread()]
    for number in ours:
        signal.signal(number, handlers[number])
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _complain(name: str, message: str, status: int) -> int:
    """Print one line on stderr; return the exit status."""
    with suppress(OSError):
        print(f"{name}: {escaped(' '.join(map(_cut, message.split())))}", file=sys.stderr)
    return status


def _cut(word: str) -> str:
    """The word, shortened to LONGEST_WORD characters: messages quote what was given."""
    half = LONGEST_WORD // 2
    return word if len(word) <= LONGEST_WORD else f"{word[:half]}...{word[-half:]}"
