"""CuPy as the kernels see it: CuPy itself, but for the matrix product."""

from __future__ import annotations

from typing import Any

from backend import fused, gemm
from backend.fused.cuda import CupyLauncher
from backend.switch import register


class DeviceModule:
    """Everything that CuPy has, and `matmul` of `backend.gemm` in place of its own."""

    __name__ = "cupy"

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        products = gemm.Products(cupy, cupy.cuda.cublas, cupy.cuda.get_cublas_handle)
        self.matmul = products.matmul

    def __getattr__(self, name: str) -> Any:
        """CuPy's attribute, kept so that the next look-up is a plain one."""
        value = getattr(self._cupy, name)
        setattr(self, name, value)
        return value


def install(cupy: Any) -> DeviceModule:
    """Make `backend` know CuPy's arrays, and let them take fused kernels. Returns their module."""
    device = DeviceModule(cupy)
    register(cupy.ndarray, device)
    fused.register(cupy.ndarray, CupyLauncher(cupy))
    return device
