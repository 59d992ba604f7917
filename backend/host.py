"""What the host's BLAS runs on, and a warning when it runs slower than it could."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info


def blas_info() -> dict[str, Any]:
    """NumPy's BLAS as threadpoolctl sees it: name, version, architecture, threads."""
    for pool in threadpool_info():
        if pool["user_api"] == "blas":
            return {"name": pool["internal_api"], "version": pool.get("version"),
                    "architecture": pool.get("architecture"), "threads": pool["num_threads"]}
    return {"name": None, "version": None, "architecture": None, "threads": None}


def has_avx512() -> bool:
    """Whether the processor has AVX-512, as Linux tells; False elsewhere."""
    try:
        return "avx512f" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


def warn_of_slow_blas() -> None:
    """Say on stderr when AVX2 kernels run on an AVX-512 processor: half of the speed is lost."""
    if os.environ.get("OPENBLAS_CORETYPE") and has_avx512():
        architecture = blas_info()["architecture"]
        if architecture in ("Haswell", "Zen"):
            print(
                f"nmt: OPENBLAS_CORETYPE makes NumPy use {architecture} kernels on a processor "
                "with AVX-512, at about half the speed; unset it", file=sys.stderr,
            )
