"""Runs tests for `python -m benchmarks gpu` within a budget, and resumes from the journal.

Arguments: the journal; the budget in seconds; how many tests of each file (0: all); the files.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from benchmarks.gpu import CUT, read, write


class Journal:
    """A plugin of pytest. It leaves out tests that have passed, and mixes the order of the others,
    so that a run that is cut has tried some of all kinds. It writes each outcome at once."""

    def __init__(self, path: Path, budget: float, few: int) -> None:
        self._path, self._few, self._end = path, few, time.monotonic() + budget
        self.cut = False

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Choose and order the tests."""
        before, seen = read(self._path)["tests"], Counter[str]()
        items[:] = [item for item in sorted(items, key=lambda item: crc32(item.nodeid.encode()))
                    if before.get(item.nodeid, {}).get("outcome") != "passed"]
        if self._few:
            for item in items:
                seen[str(item.path)] += 1
                vars(item)["place"] = seen[str(item.path)]
            items[:] = [item for item in items if vars(item)["place"] <= self._few]
        items.sort(key=lambda item: str(item.path))  # file by file: shared fixtures

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note the outcome of a test, or of a fixture that failed."""
        if report.when == "call" or report.outcome != "passed":
            message = str(getattr(report.longrepr, "reprcrash", "") or "").splitlines()
            write(self._path, {"test": report.nodeid, "outcome": report.outcome,
                               "seconds": round(report.duration, 3),
                               "message": (message or [""])[0][:300]})

    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """Stop after the budget."""
        if time.monotonic() > self._end:
            self.cut = True
            item.session.shouldstop = "the budget is spent"


def main(words: list[str]) -> int:
    """Returns pytest's exit status, or CUT if the budget ended the run and nothing failed."""
    journal, budget, few, *files = words
    plugin = Journal(Path(journal), float(budget), int(few))
    status = int(pytest.main(["-q", "--no-header", "-p", "no:cacheprovider", *files],
                             plugins=[plugin]))
    return CUT if plugin.cut and status in (0, 2) else 0 if status == 5 else status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
