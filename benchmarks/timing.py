"""Interleaved timing of rivals in one process, and what the numbers depend on."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_info

from backend.host import blas_architecture


class Timing(NamedTuple):
    """Wall-clock times of one rival, in seconds."""

    median: float
    low: float  # first quartile
    high: float  # third quartile
    best: float

    def __str__(self) -> str:
        return (
            f"{1e3 * self.median:8.1f} ms  (quartiles {1e3 * self.low:.1f}-{1e3 * self.high:.1f}, "
            f"best {1e3 * self.best:.1f})"
        )


def interleave(
    rivals: Mapping[str, Callable[[], Any]], rounds: int, warm_up: int
) -> dict[str, Timing]:
    """Time each rival once per round, so that a disturbance hits all of them alike.

    Arguments: rivals by name, each returning when its work is done; rounds that count; warm_up
    rounds before them that do not. The order turns round every round, so that no rival always
    runs after the same other one.
    """
    samples: dict[str, list[float]] = {name: [] for name in rivals}
    for turn in range(warm_up + rounds):
        names = list(rivals) if turn % 2 == 0 else list(rivals)[::-1]
        for name in names:
            start = time.perf_counter()
            rivals[name]()
            if turn >= warm_up:
                samples[name].append(time.perf_counter() - start)
    return {name: summarise(seconds) for name, seconds in samples.items()}


def summarise(seconds: list[float]) -> Timing:
    """Median, quartiles and minimum of the samples of one rival."""
    low, median, high = np.percentile(seconds, [25, 50, 75])
    return Timing(float(median), float(low), float(high), min(seconds))


def environment() -> dict[str, Any]:
    """What a reader needs to judge the numbers; no host name and no path."""
    pools = [
        {key: pool.get(key) for key in ("internal_api", "version", "architecture", "num_threads")}
        for pool in threadpool_info()
    ]
    return {
        "mode": mode(),
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "versions": {name: installed(name) for name in ("numpy", "torch")},
        "thread_pools": pools,
    }


def mode() -> str:
    """ "H" where NumPy's BLAS runs Haswell (AVX2) kernels, else "S", the machine's own.

    An exported OPENBLAS_CORETYPE=Haswell forces the former and halves GEMM where there is AVX-512.
    """
    return "H" if blas_architecture() == "Haswell" else "S"


def cpu_model() -> str:
    """The processor's name, from the kernel where it tells."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def installed(name: str) -> str | None:
    """The version of a distribution, None where it is absent."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def describe(found: Mapping[str, Any]) -> str:
    """Two lines of `environment` for the terminal."""
    pools = ", ".join(
        f"{pool['internal_api']} {pool['version']} {pool['architecture'] or ''}".strip()
        + f" x{pool['num_threads']}"
        for pool in found["thread_pools"]
    )
    versions = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
    return (
        f"[{found['mode']}] {found['cpu']}, {found['cores']} cores, load {found['load']:.1f}\n"
        f"python {found['python']}, {versions}; {pools}"
    )
