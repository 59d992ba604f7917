"""Errors that the user of a command can correct, and checks of a configuration."""

from __future__ import annotations

from collections.abc import Collection
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

PACKAGE = "lstm-nmt-reference"
CHECKOUT = Path(__file__).parents[1] / "pyproject.toml"


class UserError(Exception):
    """An error in one clear line: the file, line or argument, what was expected and what came.

    The command line prints it and exits with status 2; nothing else is printed.
    """


def missing(library: str, extra: str) -> str:
    """The message for a library that is not installed, and the extra that installs it."""
    return f"{library} is not installed ({install(extra)})"


def install(extra: str) -> str:
    """The command that installs an extra.

    No index has this package. So the user of a wheel installs the libraries of the extra.
    """
    libraries = "" if CHECKOUT.exists() else _libraries_of(extra)
    return f"pip install {libraries}" if libraries else f"pip install -e '.[{extra}]' in a checkout"


def _libraries_of(extra: str) -> str:
    """The libraries of an extra, quoted for a shell; "" if the package is not installed."""
    try:
        requirements = requires(PACKAGE) or []
    except PackageNotFoundError:
        return ""
    marked = [requirement.partition("; ") for requirement in requirements]
    return " ".join(f"'{library}'" for library, _, mark in marked if mark == f'extra == "{extra}"')


# --- checks of a configuration's fields -----------------------------------------------------------


def check(config: Any, name: str, fine: bool, expected: str) -> None:
    """Raise ValueError, naming the field and what was expected, unless it is `fine`."""
    if not fine:
        raise ValueError(f"{name}: expected {expected}, got {getattr(config, name)!r}")


def check_least(config: Any, least: int, *names: str) -> None:
    """Raise ValueError for the first named field below `least`; a field that is None passes."""
    for name in names:
        value = getattr(config, name)
        check(config, name, value is None or value >= least, f"at least {least}")


def check_share(config: Any, *names: str) -> None:
    """Raise ValueError for the first named field that is not from 0 to below 1."""
    for name in names:
        check(config, name, 0.0 <= getattr(config, name) < 1.0, f"0 <= {name} < 1")


def check_among(name: str, value: str, known: Collection[str]) -> None:
    """Raise ValueError unless the argument `name` has a value in `known`."""
    if value not in known:
        raise ValueError(f"{name}: expected one of {', '.join(known)}, got {value!r}")
