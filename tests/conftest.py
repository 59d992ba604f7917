"""What every test starts from: NumPy in use, the strict stand-in known and its counts at zero. And
a browser for pages: one a process, as Playwright asks."""

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

# One thread of the BLAS in tests and what they start: commands give advice where several would wait
# for other programs, which tests of what is on stderr would find there.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
threadpool_limits(int(os.environ["OPENBLAS_NUM_THREADS"]), user_api="blas")

# The same examples each time, so that a verdict can be had twice; HYPOTHESIS_PROFILE=random draws
# new ones. No deadlines: a loaded machine is no mistake.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)


gc.disable()  # until the tests are collected: 20,000 of them, none of which is garbage


def pytest_collection_finish() -> None:
    """The garbage collector need not look at the tests and modules again, which all stay."""
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
    """What was written is there, flushed or not: thousands of flushes of 4 ms show nothing. But
    tests of faults flush, as users do."""
    with pytest.MonkeyPatch.context() as patch:
        if "faults" not in request.path.parts:
            patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Debian's chromium, driven by Playwright: one a process, as Playwright asks."""
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no chromium")
    with api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM)
        yield running
        with suppress(api.Error):
            running.close()
