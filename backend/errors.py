"""Errors that the user of a command can correct."""

from __future__ import annotations


class UserError(Exception):
    """An error in one clear line: the file, line or argument, what was expected and what came.

    The command line prints it and exits with status 2; nothing else is printed.
    """


def missing(library: str, extra: str) -> str:
    """The message for a library that is not installed, and the extra that installs it."""
    return f"{library} is not installed ({install(extra)})"


def install(extra: str) -> str:
    """The command that installs an extra, from a checkout, since no index has the package."""
    return f"pip install -e '.[{extra}]' in a checkout"
