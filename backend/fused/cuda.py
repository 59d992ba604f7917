"""Launching the fused kernels on CuPy's arrays."""

from __future__ import annotations

from typing import Any

from backend.fused.layout import THREADS
from backend.fused.source import REAL, source


class CupyLauncher:
    """Compiles the kernels when the first of a dtype is asked for; CuPy keeps the binaries."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._modules: dict[str, Any] = {}
        self._functions: dict[tuple[str, str], Any] = {}

    def __call__(self, kernel: str, char: str, grid: int, *arguments: Any) -> None:
        """Start a kernel on the current stream; nothing is waited for.

        A Python integer reaches the kernel as `long long`, a float as `double`, an array as the
        address of its first element.
        """
        function = self._functions.get((kernel, char)) or self._load(kernel, char)
        function((grid,), (THREADS,), arguments)

    def _load(self, kernel: str, char: str) -> Any:
        """A kernel out of the module of its dtype."""
        if char not in self._modules:
            self._modules[char] = self._cupy.RawModule(
                code=source(), options=(f"-Dreal={REAL[char]}",)
            )
        function = self._modules[char].get_function(kernel)
        self._functions[kernel, char] = function
        return function
