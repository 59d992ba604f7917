"""The parser of the programs' arguments, and the types that an argument may have."""

from __future__ import annotations

import argparse
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from backend import gemm
from backend.errors import UserError
from nmt.console.messages import nearest
from nmt.console.package import release
from nmt.console.terminal import print

LARGEST = 2**63 - 1  # largest integer that an argument may be
NO_BREAK = "\0"  # a space at which no line ends


class Help(argparse.HelpFormatter):
    """Help that fits on a screen: its usage line names no option that may be left out."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28)

    def add_usage(self, usage: str | None, actions: Iterable[argparse.Action],
                  groups: Iterable[Any], prefix: str | None = None) -> None:
        """The usage: positional arguments, required options, then `[OPTION ...]`."""
        actions = list(actions)
        options = [action for action in actions if action.option_strings]
        if usage is None and options:
            parts = [[action for action in actions if not action.option_strings],
                     [action for action in options if action.required]]
            named = [" ".join(self._format_usage(None, required, [], "").split()).removeprefix(
                self._prog) for required in parts]
            indent = " " * len(f"usage: {self._prog} ")
            usage = textwrap.fill(f"usage: {self._prog}{''.join(named)} [OPTION{NO_BREAK}...]",
                                  self._width, subsequent_indent=indent, break_on_hyphens=False,
                                  ).removeprefix("usage: ").replace(NO_BREAK, " ")
        super().add_usage(usage, actions, groups, prefix)


class HelpWithLines(Help, argparse.RawDescriptionHelpFormatter):
    """Help that keeps the lines of the description and of the epilog."""


class PlainParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (see {self.prog} --help)")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Check a choice as argparse does. If a valid choice is near, the error names only it."""
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            if hint := nearest(str(value), [*map(str, action.choices or ())]):
                error.message = f"invalid choice: {value!r}{hint}"
            raise


class Version(argparse.Action):
    """`--version`: print the program's name and this package's version, which takes milliseconds to
    look up."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        print(parser.prog, release())
        parser.exit()


class Parser(PlainParser):
    """A parser with the options of every command: --backend, --gemm, --no-fusing, --threads.

    The help shows these options last. The parsed options have the parser of their verb as `parser`.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"formatter_class": Help, **settings})
        self.set_defaults(parser=self)
        self.devices = self.add_argument_group("device and threads")
        self.devices.add_argument("--backend", choices=("numpy", "cupy"), default=argparse.SUPPRESS,
                                  help="choose the array library (default: numpy)")
        self.devices.add_argument("--gemm", choices=tuple(gemm.PRECISIONS),
                                  default=argparse.SUPPRESS, metavar="PRECISION",
                                  help="use float32 (default), tf32, float16 on a GPU")
        self.devices.add_argument("--no-fusing", action="store_true", default=argparse.SUPPRESS,
                                  help="compute without fused GPU kernels")
        self.devices.add_argument("--threads", type=positive, metavar="N",
                                  default=argparse.SUPPRESS,
                                  help="use N threads for products (default: one per core)")

    def format_help(self) -> str:
        """The help, with the options of every command at the end."""
        self._action_groups.sort(key=lambda group: group is self.devices)
        return super().format_help()

    def show_only(self, text: str) -> None:
        """Reduce the help to this text and the program's options, without those of devices."""
        self.description, self.formatter_class = text, HelpWithLines
        for action in self.devices._group_actions:
            action.help = argparse.SUPPRESS

    def add_version(self) -> None:
        """Add `--version`."""
        self.add_argument("--version", action=Version, nargs=0, help="print the version and end")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse does. The error for unknown arguments names their verb."""
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            options.parser.refuse(unknown)
        return options

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """Raise UserError for unknown arguments, with a hint on the nearest option."""
        hint = next(filter(None, map(self.meant, unknown)), "")
        self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")

    def meant(self, argument: str) -> str:
        """A hint on the option whose name is nearest; "" if the argument is no option, or none is
        near."""
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


def percent(text: str) -> float:
    """A percentage below 100."""
    return _number(text, lambda value: 0 <= value < 100, "a number in [0, 100)")


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


def options_given(options: argparse.Namespace, *names: str) -> Iterator[str]:
    """Those of the options that were given, as the command line has them."""
    return (f"--{name.replace('_', '-')}" for name in names
            if (value := getattr(options, name)) is not None and value is not False)


# --- options that several verbs share -------------------------------------------------------------


def add_seed(parser: argparse.ArgumentParser, drawn: str, default: int = 1) -> None:
    """Add `--seed N`; drawn: the random values that it determines, named in the help."""
    parser.add_argument("--seed", type=natural, default=default, metavar="N",
                        help=f"seed {drawn} (default: {default})")


def add_output(parser: argparse.ArgumentParser, lines: str) -> None:
    """Add `--output FILE`, by default stdout; lines: the content of the file, named in the help."""
    parser.add_argument("--output", "-o", type=Path, metavar="FILE",
                        help=f"write the {lines} here (default: stdout)")
