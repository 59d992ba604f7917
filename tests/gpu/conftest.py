"""Tests on a real GPU. Without one, their files are skipped unread, with the reason.

With NMT_GPU=stand-in in the environment, they run on the strict stand-in under CuPy's name
(`strict.as_cupy`), which cannot show the GPU's own rounding, time and memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from strict import as_cupy

import backend
from backend import fused, gemm
from backend.errors import UserError

STAND_IN = os.environ.get("NMT_GPU") == "stand-in"


def _why_not() -> str:
    """Why these tests cannot run here; an empty string where they can."""
    if STAND_IN:
        return ""
    if find_spec("cupy") is None:
        return "needs CuPy: pip install -e '.[cuda12]' or '.[cuda13]'"
    try:
        backend.load("cupy")
    except UserError as error:
        return f"needs a GPU: {error}"
    return ""


WHY_NOT = _why_not()


class Skipped(pytest.Module):
    """A file of tests that need a GPU, where there is none."""

    def collect(self) -> list[pytest.Item]:
        """Skip the file as a whole, because skipping 2,300 single tests takes half a minute."""
        pytest.skip(WHY_NOT, allow_module_level=True)


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    """Skip the files of this directory unless there is a GPU."""
    return Skipped.from_parent(parent, path=module_path) if WHY_NOT else None


@pytest.fixture(autouse=True)
def _gpu(_fresh_backend, monkeypatch) -> Iterator[None]:
    """CuPy in use, in float32, with fused kernels."""
    if STAND_IN:
        as_cupy.install(monkeypatch)
    with backend.using("cupy"), gemm.using("float32"), fused.using(True):
        yield


@pytest.fixture(params=[True, False], ids=["fused", "unfused"])
def fusing(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Both ways of running the pointwise functions."""
    with fused.using(request.param):
        yield request.param
