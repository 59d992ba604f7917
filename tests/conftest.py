"""What every test starts from: NumPy in use, the strict stand-in known and its counts at zero."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from strict.module import strict

import backend


@pytest.fixture(autouse=True)
def _fresh_backend() -> Iterator[None]:
    strict.install()
    strict.counts.reset()
    with backend.using("numpy"):
        yield
