"""The kernels that the host's BLAS runs, and a warning if faster ones are available."""

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
    """The architecture whose kernels NumPy's BLAS runs, such as Haswell; None if it is not
    reported."""
    for pool in threadpool_info():
        if pool["user_api"] == "blas":
            return pool.get("architecture")
    return None


def use_threads(count: int) -> None:
    """Set the number of threads of the BLAS in this process.

    Raises UserError for more threads than processors: OpenBLAS would silently take fewer.
    """
    if (most := cores()) < count:
        raise UserError(f"--threads: expected at most {most}, the processors of this machine, "
                        f"got {count}")
    threadpool_limits(count, user_api="blas")


def processors() -> set[int]:
    """The numbers of the processors on which this process may run."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def cores() -> int:
    """The number of processors on which this process may run."""
    return len(processors())


def crowded() -> str | None:
    """A warning in one line if other programs use processors that the BLAS's threads need; or None.

    The threads wait for one another in a busy loop: a thread without a processor delays all. When
    another program used one of two processors, a training step with two threads took 2.4 times as
    long. A step with one thread took no longer than on an idle machine.
    """
    threads = blas_threads()
    free = cores() - _load()
    if threads < 2 or free > threads - 0.5:
        return None
    return (f"other programs take part of the {cores()} processors, and {threads} threads would "
            f"wait for one another: --threads {max(1, round(free))} may be faster")


def blas_threads() -> int:
    """The number of threads of NumPy's BLAS; 1 if unknown."""
    return max((pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"),
               default=1)


def _load() -> float:
    """The number of processes of the last minute's load average, or of the other processes that
    run now, if they are fewer: a command that has ended still counts in the average. 0 if the
    system reports no load average."""
    average = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return min(average, _running())


def _running() -> float:
    """The number of threads of other processes that run or wait for a processor; infinity except on
    Linux."""
    try:
        return int(Path("/proc/loadavg").read_text().split()[3].split("/")[0]) - 1
    except (OSError, IndexError, ValueError):
        return float("inf")


def environment() -> dict[str, Any]:
    """The properties of the environment on which the last bits of results depend: name -> value.

    The order of sums depends on the BLAS's threads and kernels. The rounding of some functions
    depends on NumPy's version and on the processor's vector instructions.
    """
    pools: list[dict[str, Any]] = threadpool_info()
    blas = next((pool for pool in pools if pool["user_api"] == "blas"), dict[str, Any]())
    instructions = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    return {"NumPy": np.__version__, "arrays": module().__name__,
            "BLAS": f"{blas.get('internal_api')} {blas.get('version')}",
            "BLAS kernels": blas.get("architecture"), "BLAS threads": blas.get("num_threads"),
            "NumPy's vector instructions": instructions[-1] if instructions else "baseline"}


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """The entries of an environment that have changed, in words; "" if none has changed."""
    return ", ".join(f"{name}: was {before[name]}, now {value}" for name, value in now.items()
                     if name in before and before[name] != value)


def has_avx512() -> bool:
    """Whether the processor has AVX-512, as Linux reports it; False on other systems."""
    try:
        return "avx512f" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


def slow_blas() -> str | None:
    """A warning if AVX2 kernels are forced on an AVX-512 processor, at about half the speed; else
    None."""
    architecture = blas_architecture()
    if not os.environ.get("OPENBLAS_CORETYPE") or not has_avx512():
        return None
    if architecture not in ("Haswell", "Zen"):
        return None
    return (f"OPENBLAS_CORETYPE makes NumPy use {architecture} kernels on a processor with "
            "AVX-512, at about half the speed; unset it")
