"""This package's name and version."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

PACKAGE = "lstm-nmt-reference"


def release() -> str:
    """The version that is installed."""
    try:
        return version(PACKAGE)
    except PackageNotFoundError:  # a checkout on the path of Python
        return "(not installed)"
