"""Arrays to the GPU and back, nested as caches and batches are."""

from __future__ import annotations

from typing import Any

import numpy as np
from strict.module import convert

import backend


def to_gpu(tree: Any) -> Any:
    """A copy of `tree` with CuPy's arrays in place of NumPy's."""
    return convert(tree, np.ndarray, backend.to_device)


def to_numpy(tree: Any) -> Any:
    """The other way."""
    import cupy

    return convert(tree, cupy.ndarray, cupy.asnumpy)
