"""Times implementations, interleaved in one process, and describes the environment."""

from __future__ import annotations

import importlib
import os
import platform
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_info

from backend import gemm
from backend.host import blas_architecture, cores
from nmt.console.progress import counted

# What numbers depend on, and the distributions that may hold it.
LIBRARIES = {"numpy": ("numpy",), "torch": ("torch",), "jax": ("jax",),
             "cupy": ("cupy", "cupy-cuda12x", "cupy-cuda13x")}
KERNELS = {"haswell": "Haswell kernels", "native": "native kernels"}  # of the BLAS


class Timing(NamedTuple):
    """Wall-clock times of an implementation, in seconds."""

    median: float
    low: float  # first quartile
    high: float  # third quartile
    best: float

    def __str__(self) -> str:
        median, low, high, best = (1e3 * seconds for seconds in self)
        return f"{median:8.1f} ms  (quartiles {low:.1f}-{high:.1f}, best {best:.1f})"


# BLAS's and OpenMP's worker threads keep spinning for a while after a call, on the cores that the
# next call needs: measured, nn.LSTM took 104 ms right after a NumPy product and 19 ms on its own.
PAUSE = 0.3  # seconds of rest before a call, or 30 times what the call before it took
BRIEF = 0.05  # seconds; a shorter call is run once before it counts, so that its data is cached
ITERATIONS = 5, 50  # at least, at most


def interleave(
    implementations: Mapping[str, Callable[[], Any]], iterations: int, warm_up: int
) -> dict[str, Timing]:
    """Time each implementation once per iteration, so that other load affects all of them alike.

    Arguments: implementations by name, each returning when its work is done; iterations that count;
    warm_up iterations before them that do not. The order is reversed in every second iteration, so
    that no implementation always runs after the same other one. The machine rests before each call
    (`PAUSE`).
    """
    samples: dict[str, list[float]] = {name: [] for name in implementations}
    last = 0.0  # seconds that the call before took
    for iteration in counted(range(warm_up + iterations), "timing, iterations"):
        names = list(implementations)
        for name in names if iteration % 2 == 0 else names[::-1]:
            time.sleep(pause_after(last))
            last = stopped(implementations[name])
            if iteration >= warm_up:
                samples[name].append(stopped(implementations[name]) if last < BRIEF else last)
    timings = {}
    for name, seconds in samples.items():
        low, median, high = (float(value) for value in np.percentile(seconds, [25, 50, 75]))
        timings[name] = Timing(median, low, high, min(seconds))
    return timings


def timed(
    implementations: Mapping[str, Callable[[], Any]], seconds: float, least: int | None = None
) -> dict[str, Timing]:
    """`interleave` for about `seconds`, with at least `least` iterations. The first iteration warms
    up, and estimates the time of an iteration."""
    first = interleave(implementations, 1, 0)
    each_once = sum(timing.median + pause_after(timing.median) for timing in first.values())
    fewest, most = ITERATIONS
    iterations = max(least or fewest, min(most, int(seconds / each_once)))
    return interleave(implementations, iterations, 0)


def pause_after(last: float) -> float:
    """Seconds to wait after a call that took `last` seconds."""
    return min(PAUSE, 30 * last)


def stopped(run: Callable[[], Any]) -> float:
    """The seconds that a call takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def environment() -> dict[str, Any]:
    """The facts needed to interpret the numbers; no host name and no path."""
    keys = "internal_api", "version", "architecture", "num_threads"
    return {"kernels": blas_kernels(), "cpu": cpu_model(), "cores": cores(),
            "load": os.getloadavg()[0], "python": platform.python_version(),
            "versions": {name: installed(*names) for name, names in LIBRARIES.items()},
            "thread_pools": [{key: pool.get(key) for key in keys} for pool in threadpool_info()],
            "gpu": gpu()}


def gpu() -> dict[str, Any] | None:
    """Name, memory (bytes), driver and runtime (CUDA's version numbers, 12040 for 12.4) of the GPU
    on which CuPy computes, and the precision of float32 products; None without a GPU."""
    if installed(*LIBRARIES["cupy"]) is None:
        return None
    cupy = importlib.import_module("cupy")
    if not cupy.is_available():
        return None
    runtime = cupy.cuda.runtime
    properties = runtime.getDeviceProperties(cupy.cuda.Device().id)
    return {"name": properties["name"].decode(), "memory": properties["totalGlobalMem"],
            "driver": runtime.driverGetVersion(), "runtime": runtime.runtimeGetVersion(),
            "gemm": gemm.precision()}


def blas_kernels() -> str:
    """ "haswell" where NumPy's BLAS runs these kernels (AVX2), "native" where it runs its own.

    An exported OPENBLAS_CORETYPE=Haswell forces the former and halves GEMM where there is AVX-512.
    """
    return "haswell" if blas_architecture() == "Haswell" else "native"


def cpu_model() -> str:
    """The processor's name, as the kernel reports it if it does."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def installed(*names: str) -> str | None:
    """The version of the first of these distributions that is installed; None if none is."""
    for name in names:
        with suppress(PackageNotFoundError):
            return version(name)
    return None


def describe(environment: Mapping[str, Any]) -> str:
    """Three lines of `environment` for the terminal."""
    pools = ", ".join(" ".join(filter(None, (pool["internal_api"], pool["version"],
                                             pool["architecture"], f"x{pool['num_threads']}")))
                      for pool in environment["thread_pools"])
    versions = ", ".join(f"{name} {number or 'absent'}"
                         for name, number in environment["versions"].items())
    gpu = environment["gpu"]
    device = "none" if gpu is None else (
        f"{gpu['name']}, {gpu['memory'] / 2**30:.0f} GiB, CUDA driver {gpu['driver']}, "
        f"runtime {gpu['runtime']}, matrix products in {gpu['gemm']}")
    return (f"{KERNELS[environment['kernels']]}: {environment['cpu']}, "
            f"{environment['cores']} cores, load {environment['load']:.1f}\n"
            f"python {environment['python']}, {versions}; {pools}\n"
            f"GPU: {device}")
