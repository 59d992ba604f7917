"""Times in these tests do not matter, so there is no rest between calls."""

from __future__ import annotations

import pytest

from benchmarks import timing


@pytest.fixture(autouse=True)
def _without_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "PAUSE", 0.0)
