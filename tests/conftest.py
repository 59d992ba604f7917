"""What every test starts from: NumPy in use, the strict stand-in known and its counts at zero."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings
from strict.module import strict

import backend

# The same examples each time, so that a verdict can be had twice; HYPOTHESIS_PROFILE=random draws
# new ones. No deadlines: a loaded machine is no mistake.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


@pytest.fixture(autouse=True)
def _fresh_backend() -> Iterator[None]:
    strict.install()
    strict.counts.reset()
    with backend.using("numpy"):
        yield
