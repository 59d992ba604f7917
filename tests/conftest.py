"""Fixtures of all tests: NumPy is in use, the strict stand-in is registered and its counts are
zero. There is one browser per process, as Playwright requires."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import settings
from strict.module import strict
from threadpoolctl import threadpool_limits

import backend

# One thread of the BLAS in tests and in what they start. With several, commands may warn on stderr
# that other programs use the processors, and tests that read stderr would fail. One thread of
# PyTorch too, because a second one only waits where arrays are small.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
threadpool_limits(int(os.environ["OPENBLAS_NUM_THREADS"]), user_api="blas")

# Hypothesis draws the same examples each time, so that failures repeat; HYPOTHESIS_PROFILE=random
# draws new ones. There are no deadlines, because a loaded machine is slow.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)


gc.disable()  # until 20,000 tests are collected, none of which is garbage


def pytest_collection_finish() -> None:
    """Exclude tests and modules, which all stay, from garbage collection."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _fresh_backend() -> Iterator[None]:
    strict.install()
    strict.counts.reset()
    with backend.using("numpy"):
        yield


@pytest.fixture(scope="module", autouse=True)
def _no_waiting_for_the_disk(request: pytest.FixtureRequest) -> Iterator[None]:
    """Do not flush files, since thousands of flushes take 4 ms each and show nothing. Only the
    tests of faults flush."""
    with pytest.MonkeyPatch.context() as patch:
        if "faults" not in request.path.parts:
            patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Debian's chromium, driven by Playwright; one per process, as Playwright requires."""
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no chromium")
    with api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM)
        yield running
        with suppress(api.Error):
            running.close()
