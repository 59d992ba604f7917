"""Which kernels the host's BLAS runs, and whether it runs slower than it could."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from backend.errors import UserError
from backend.switch import module


def blas_architecture() -> str | None:
    """The processor whose kernels NumPy's BLAS runs, such as Haswell; None if it does not say."""
    for pool in threadpool_info():
        if pool["user_api"] == "blas":
            return pool.get("architecture")
    return None


def use_threads(count: int) -> None:
    """Make the BLAS compute with so many threads, in this process, from now on.

    Raises UserError for more than it has: OpenBLAS would take fewer without a word.
    """
    if (most := cores()) < count:
        raise UserError(f"--threads: expected at most {most}, the processors of this machine, "
                        f"got {count}")
    threadpool_limits(count, user_api="blas")


def cores() -> int:
    """The processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def crowded() -> str | None:
    """One line where other programs take the processors that the BLAS's threads need.

    Its threads wait for one another by turning, so one that does not get a processor holds up all:
    with one of two processors taken a training step of two threads took 2.4 times as long, one of
    one thread no longer than alone.
    """
    threads = blas_threads()
    free = cores() - _load()
    if threads < 2 or free > threads - 0.5:
        return None
    return (f"other programs take part of the {cores()} processors, and {threads} threads would "
            f"wait for one another: --threads {max(1, round(free))} may be faster")


def blas_threads() -> int:
    """How many threads NumPy's BLAS computes with; 1 if it does not say."""
    return max((pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"),
               default=1)


def _load() -> float:
    """Processes that were running or ready in the last minute, on average; 0 where none says."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def environment() -> dict[str, Any]:
    """What decides the last bits of results, beside the program and its input: name -> value.

    Threads and kernels of the BLAS sum in another order, NumPy's versions and vector instructions
    round some functions otherwise.
    """
    pools: list[dict[str, Any]] = threadpool_info()
    blas = next((pool for pool in pools if pool["user_api"] == "blas"), dict[str, Any]())
    found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    return {"NumPy": np.__version__, "arrays": module().__name__,
            "BLAS": f"{blas.get('internal_api')} {blas.get('version')}",
            "BLAS kernels": blas.get("architecture"), "BLAS threads": blas.get("num_threads"),
            "NumPy's vector instructions": found[-1] if found else "baseline"}


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What of an environment is not what it was, in words; "" for nothing."""
    return ", ".join(f"{name}: was {before[name]}, now {value}" for name, value in now.items()
                     if name in before and before[name] != value)


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
