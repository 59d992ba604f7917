"""This package's version, and how its extras are installed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

PACKAGE = "lstm-nmt-reference"


def release() -> str:
    """The version that is installed."""
    try:
        return version(PACKAGE)
    except PackageNotFoundError:  # a checkout on the path of Python
        return "(not installed)"


def install(extra: str) -> str:
    """How an extra is installed. No index has the package, so from a checkout."""
    return f"pip install -e '.[{extra}]' in a checkout"


def missing(library: str, extra: str) -> str:
    """What is said where a library is not installed that an extra brings."""
    return f"{library} is not installed ({install(extra)})"
