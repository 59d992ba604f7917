"""Which kernels the host's BLAS runs, and whether it runs slower than it could."""

from __future__ import annotations

import os
from pathlib import Path

from threadpoolctl import threadpool_info


def blas_architecture() -> str | None:
    """The processor whose kernels NumPy's BLAS runs, such as Haswell; None if it does not say."""
    for pool in threadpool_info():
        if pool["user_api"] == "blas":
            return pool.get("architecture")
    return None


def has_avx512() -> bool:
    """Whether the processor has AVX-512, as Linux tells; False elsewhere."""
    try:
        return "avx512f" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


def slow_blas() -> str | None:
    """One line where AVX2 kernels are forced on an AVX-512 processor: half of the speed is lost."""
    architecture = blas_architecture()
    if not os.environ.get("OPENBLAS_CORETYPE") or not has_avx512():
        return None
    if architecture not in ("Haswell", "Zen"):
        return None
    return (f"OPENBLAS_CORETYPE makes NumPy use {architecture} kernels on a processor with "
            "AVX-512, at about half the speed; unset it")
