"""What is tested of benchmarks is not how fast anything is: no rest between turns."""

from __future__ import annotations

import pytest

from benchmarks import timing


@pytest.fixture(autouse=True)
def _without_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "PAUSE", 0.0)
