"""Launches the fused kernels on CuPy's arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from backend.fused.layout import THREADS
from backend.fused.source import REAL, Kernel, Source


class CupyLauncher:
    """Compiles a source when its first kernel of a dtype is requested. CuPy keeps the binaries."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._modules: dict[tuple[Source, str], Any] = {}
        self._functions: dict[tuple[Kernel, str], Any] = {}

    def __call__(self, kernel: Kernel, char: str, grid: int, *arguments: Any) -> None:
        """Start a kernel on the current stream, without waiting for it.

        A Python integer reaches the kernel as `long long`, a float as `double`, an array as the
        address of its first element.
        """
        function = self._functions.get((kernel, char)) or self._load(kernel, char)
        function((grid,), (THREADS,), arguments)

    def table(self, entries: Sequence[Any]) -> Any:
        """Whole numbers, and the addresses of arrays, as int64 (n,) on the device."""
        numbers = [entry if isinstance(entry, int) else entry.data.ptr for entry in entries]
        return self._cupy.asarray(np.array(numbers, dtype=np.int64))

    def _load(self, kernel: Kernel, char: str) -> Any:
        """A kernel out of the module of its source and dtype."""
        module = self._modules.get((kernel.source, char))
        if module is None:
            module = self._cupy.RawModule(
                code=kernel.source.code, options=(f"-Dreal={REAL[char]}",))
            self._modules[kernel.source, char] = module
        function = module.get_function(kernel.name)
        self._functions[kernel, char] = function
        return function
