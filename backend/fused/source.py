"""The CUDA C sources of the fused forms, as text."""

from __future__ import annotations

import functools
import re
from importlib.resources import files

FILES = ("common.cuh", "cells.cu", "softmax.cu", "tables.cu", "updates.cu")
REAL = {"f": "float", "d": "double"}  # what `real` is, by dtype character

_KERNEL = re.compile(r'extern "C" __global__ void (\w+)\(([^)]*)\)')


@functools.cache
def source() -> str:
    """All kernels, one translation unit; `real` is for the compiler's command line to say."""
    folder = files("backend.fused") / "kernels"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in FILES)


def kernels() -> dict[str, list[str]]:
    """The parameters, as C declares them, of each kernel by name."""
    return {name: [" ".join(one.split()) for one in parameters.split(",")]
            for name, parameters in _KERNEL.findall(source())}
