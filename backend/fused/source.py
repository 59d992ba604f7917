"""The CUDA C sources of the fused kernels, and references to single kernels of them."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Protocol

from backend.switch import Array

REAL = {"f": "float", "d": "double"}  # the C type of `real`, by dtype character
SOURCES: list[Source] = []  # all sources declared so far

_KERNEL = re.compile(r'extern "C" __global__ void (\w+)\(([^)]*)\)')


class Source:
    """A file of CUDA C, with `kernels/common.cuh` before it; `source["name"]` is its kernel.

    The file lies beside the functions that its kernels replace, in any package, and is read when
    the first of its kernels is launched.
    """

    def __init__(self, package: str, file: str) -> None:
        self.package, self.file = package, file
        self._kernels: dict[str, Kernel] = {}
        SOURCES.append(self)

    def __getitem__(self, name: str) -> Kernel:
        if name not in self._kernels:
            self._kernels[name] = Kernel(self, name)
        return self._kernels[name]

    @functools.cached_property
    def code(self) -> str:
        """The translation unit; `real` is defined on the compiler's command line."""
        return "\n".join((files(package) / file).read_text(encoding="utf-8") for package, file in (
            ("backend.fused", "kernels/common.cuh"), (self.package, self.file)))

    @functools.cached_property
    def declared(self) -> dict[str, list[str]]:
        """Name of each kernel -> its parameters, as declared in C."""
        return {name: [" ".join(parameter.split()) for parameter in parameters.split(",")]
                for name, parameters in _KERNEL.findall(self.code)}


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel of a source: what a launcher starts."""

    source: Source
    name: str


class Launcher(Protocol):
    """Starts kernels on the arrays of a library."""

    def __call__(self, kernel: Kernel, char: str, grid: int, *arguments: Any) -> None:
        """Start a kernel, compiled for a dtype character, with `grid` blocks. The arguments are
        arrays, whole numbers (`long long`; 0 stands for no array) and floats (`double`)."""
        ...

    def table(self, entries: Sequence[Any]) -> Array:
        """Whole numbers, and the addresses of arrays, as int64 (n,) on the device."""
        ...
