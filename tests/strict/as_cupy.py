"""The stand-in under CuPy's own name, so that code for a GPU runs without one.

`install` puts it where `import cupy` finds it: the strict arrays, and in place of NVRTC a
compiler for the host (`host_cuda`), so that the product's launcher, its kernels and the tests of
`tests/gpu` run as they would there. It cannot show a GPU's rounding, time and memory.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from host_cuda.launcher import HostLauncher
from strict.array import StrictArray, counts
from strict.module import StrictModule

import backend
from backend import fused
from backend.fused.cuda import CupyLauncher
from backend.fused.source import SOURCES

HUGE = 1 << 50  # bytes that are free: more than any machine can allocate


class RawModule:
    """A CUDA source compiled for the host."""

    def __init__(self, code: str, options: tuple[str, ...]) -> None:
        self._source = next(source for source in SOURCES if source.code == code)
        (real,) = options
        self._char = {"-Dreal=float": "f", "-Dreal=double": "d"}[real]

    def get_function(self, name: str) -> Any:
        """A kernel, to be called as CuPy's are."""
        kernel, launch = SimpleNamespace(source=self._source, name=name), HostLauncher()
        return lambda grid, block, arguments: launch(kernel, self._char, grid[0], *arguments)


class StandIn(StrictModule):
    """CuPy as far as this project uses it."""

    __name__ = "cupy"
    __version__ = "stand-in"
    RawModule = RawModule
    cuda = SimpleNamespace(
        Device=lambda: SimpleNamespace(id=0, synchronize=lambda: None),
        runtime=SimpleNamespace(
            memGetInfo=lambda: (HUGE, HUGE), deviceSynchronize=lambda: None,
            driverGetVersion=lambda: 0, runtimeGetVersion=lambda: 0,
            getDeviceProperties=lambda _: {"name": b"a stand-in", "totalGlobalMem": HUGE}))

    @staticmethod
    def is_available() -> bool:
        """There is always one."""
        return True

    @staticmethod
    def get_default_memory_pool() -> Any:
        """A pool that holds as much as asked."""
        return SimpleNamespace(used_bytes=lambda: HUGE, total_bytes=lambda: HUGE,
                               free_bytes=lambda: 0)


stand_in = StandIn()


@contextmanager
def allow_synchronize(allow: bool) -> Iterator[None]:
    """CuPy's guard: raises an error if code inside it waited for the device."""
    before = counts.to_host + counts.syncs
    yield
    if not allow and counts.to_host + counts.syncs > before:
        raise RuntimeError("something waited for the device")


def install(patch: pytest.MonkeyPatch) -> StandIn:
    """Make `import cupy` and `backend` find the stand-in, until the patch is undone."""
    module = ModuleType("cupyx")
    vars(module)["allow_synchronize"] = allow_synchronize
    for name, replacement in (("cupy", stand_in), ("cupyx", module)):
        patch.setitem(sys.modules, name, replacement)
    backend.register(StrictArray, stand_in)
    fused.register(StrictArray, CupyLauncher(stand_in))
    return stand_in
