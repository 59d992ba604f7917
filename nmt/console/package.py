"""This package's name and version."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from backend.errors import PACKAGE


def release() -> str:
    """The installed version."""
    try:
        return version(PACKAGE)
    except PackageNotFoundError:  # a checkout on PYTHONPATH
        return "(not installed)"
