"""Chooses the device, and gives the kernels CuPy with another matrix product."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from backend import fused, gemm
from backend.errors import UserError, missing
from backend.errors import install as how_to_install
from backend.fused.cuda import CupyLauncher
from backend.switch import module, register, registered, select


class DeviceModule:
    """CuPy's module, with the `matmul` of `backend.gemm` in place of CuPy's."""

    __name__ = "cupy"

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        products = gemm.MatrixProducts(cupy, cupy.cuda.cublas, cupy.cuda.get_cublas_handle)
        self.matmul = products.matmul

    def __getattr__(self, name: str) -> Any:
        """CuPy's attribute, cached on this object."""
        value = getattr(self._cupy, name)
        setattr(self, name, value)
        return value


def install(cupy: Any) -> DeviceModule:
    """Register CuPy's arrays with `backend` and with the fused kernels. Returns their module."""
    device = DeviceModule(cupy)
    register(cupy.ndarray, device)
    fused.register(cupy.ndarray, CupyLauncher(cupy))
    return device


def load(name: str) -> Any:
    """Return the array module called `name`: "numpy" or "cupy" (imported only when asked for).

    Raises UserError when the name is unknown, CuPy is not installed, or no GPU answers.
    """
    if name == "numpy":
        return np
    if name != "cupy":
        raise UserError(f"backend: expected 'numpy' or 'cupy', got {name!r}")
    try:
        cupy = importlib.import_module("cupy")
    except ImportError as error:
        raise UserError(f"backend: {missing('cupy', 'cuda12')}; with a driver of CUDA 13: "
                        f"{how_to_install('cuda13')}") from error
    if not cupy.is_available():
        raise UserError("backend: 'cupy' is installed but finds no usable GPU: no driver, or one "
                        "too old for its CUDA; '.[cuda12]' and '.[cuda13]' are the extras")
    known = registered(cupy.ndarray)
    if known is not None:
        return known
    try:
        return install(cupy)
    except ImportError as error:  # CuPy looks for its CUDA libraries when they are first used
        raise UserError(f"backend: 'cupy' is installed but cannot load cuBLAS: {error}") from error


def use(name_or_module: Any) -> None:
    """Make new parameters and batches on "numpy" or "cupy" (or on a registered module)."""
    select(load(name_or_module) if isinstance(name_or_module, str) else name_or_module)


@contextmanager
def using(name_or_module: Any) -> Iterator[None]:
    """`use` for the length of a with-block."""
    before = module()
    use(name_or_module)
    try:
        yield
    finally:
        use(before)
