"""Errors that the user of a command can correct."""

from __future__ import annotations


class UserError(Exception):
    """One clear line: the file, line or argument, what was expected and what came.

    The command line prints it and exits with status 2; nothing else is printed.
    """


def missing(library: str, extra: str) -> str:
    """What such an error says where a library is not installed that an extra brings."""
    return f"{library} is not installed ({install(extra)})"


def install(extra: str) -> str:
    """How an extra is installed. No index has the package, so from a checkout."""
    return f"pip install -e '.[{extra}]' in a checkout"
