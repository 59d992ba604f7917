"""Measures the peak memory of a training step, compared with the least memory that it needs.

A step needs at least parameters, gradients and saved activations: the arrays reachable from the
cache that the forward passes to the backward, each byte counted once. The peak is the growth of a
fresh process since before the parameters were made (Linux's high-water mark), or the size of CuPy's
memory pool. Two steps are run; the second reuses the buffers of the first. The default is the model
of the thesis's size, which takes half a minute per step on two cores.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
from collections.abc import Iterable, Iterator
from multiprocessing import get_context
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

import backend
from backend.errors import UserError
from backend.workspace import Workspace
from benchmarks.case import Case, Prepared
from benchmarks.devices import Device, devices
from benchmarks.parts import Stopwatch, watching
from benchmarks.pictures import Chart, Panel
from benchmarks.recipes import LARGE, SIZES, load
from benchmarks.records import nested
from benchmarks.runner import Benchmark, Record
from benchmarks.training import our_step, random_batch
from nmt.models.registry import make_model

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
STEPS = 2
GOAL = 1.5  # peak / (parameters + gradients + saved activations)
NEEDED = "parameters", "gradients", "saved"


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """A case for each recipe."""
    for name in options.recipe:
        def prepare(device: Device, name: str = name) -> Prepared:
            with get_context("spawn").Pool(1) as fresh:
                fields = fresh.apply(measure, (name, options, device.name))
            return Prepared({}, fields=lambda _: fields)

        work = load(name, options)
        yield Case(name, {}, prepare, work.train.batch_size * work.target, "target tokens")


def measure(name: str, options: argparse.Namespace, device_name: str) -> dict[str, Any]:
    """The bytes of a recipe. Call it in a process that has done nothing else."""
    (device,) = devices(device_name)
    work, rng = load(name, options), np.random.default_rng(options.seed)
    with backend.using(device.backend):
        gauge = Gauge(backend.module())
        model: Any = make_model(work.model, work.tables)
        gauge.start()
        parameters = model.initial_parameters(rng)
        needed = dict.fromkeys(NEEDED, covered(parameters.values()))

        def seen(name: str, value: Any) -> None:
            held = covered([*parameters.values(), *reachable(value)])
            needed[name] = held - needed["parameters"]

        watch, peaks = PeakWatch(gauge), []
        step = our_step(model, parameters, random_batch(work, rng), work.train, watch, seen)
        for _ in range(STEPS):
            gauge.reset()
            with watching(watch):
                step()
            peaks.append(gauge.peak())
    return {"bytes": {**needed, "peaks": peaks, "workspace": model.workspace.nbytes},
            "ratio": max(peaks) / sum(needed.values()), "peak_in": watch.where}


class Gauge:
    """The growth of this process in bytes since `start`, on the host or in CuPy's pool."""

    def __init__(self, xp: Any) -> None:
        """Raise UserError if Linux's high-water mark cannot be read and reset."""
        pool_of = getattr(xp, "get_default_memory_pool", None)
        self._pool = None if pool_of is None else pool_of()
        self._before = 0
        if self._pool is None and not (STATUS.exists() and CLEAR.exists()):
            raise UserError("memory: expected Linux's /proc/self/status and clear_refs, got none")

    def start(self) -> None:
        """Count from the memory that is held now."""
        np.ones((256, 256)) @ np.ones((256, 256))  # the BLAS takes its buffers
        self._before = 0 if self._pool is not None else _status("VmRSS")

    def reset(self) -> None:
        """Reset the peak to the memory that is held now. CuPy's pool never shrinks, so its peak is
        not reset."""
        if self._pool is None:
            CLEAR.write_text("5")

    def peak(self) -> int:
        """The largest amount of memory since `reset`."""
        if self._pool is not None:
            return int(self._pool.total_bytes())
        return max(_status("VmHWM") - self._before, 0)  # a small step may give back more pages


def _status(name: str) -> int:
    """A line of Linux's /proc/self/status, in bytes."""
    match = re.search(rf"{name}:\s+(\d+) kB", STATUS.read_text(encoding="utf-8"))
    assert match is not None, name
    return 1024 * int(match[1])


class PeakWatch(Stopwatch):
    """A stopwatch that notes, instead of seconds, the part in which the highest peak is reached."""

    def __init__(self, gauge: Gauge) -> None:
        super().__init__()
        self.where, self._gauge, self._most = "", gauge, 0

    def _account(self) -> None:
        peak = self._gauge.peak() if self._entered else 0
        if peak > 1.01 * self._most:  # pages that come and go are not a new peak
            self.where, self._most = self._entered[-1], peak


def reachable(value: Any) -> Iterator[Any]:
    """All arrays in a cache or in gradients, at any depth. Raises TypeError for an object that is
    neither a container nor known to hold no array."""
    if hasattr(value, "strides") and not isinstance(value, np.generic):
        yield value
    elif isinstance(value, dict):
        yield from reachable(list(value.values()))
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from reachable(item)
    elif dataclasses.is_dataclass(value):
        yield from reachable([getattr(value, field.name) for field in dataclasses.fields(value)])
    elif type(value).__module__.startswith("nmt."):  # what a loop over time keeps for its backward
        yield from reachable(vars(value))
    elif isinstance(value, FunctionType):  # a cell or a score, with what it is made from
        yield from reachable([cell.cell_contents for cell in value.__closure__ or ()])
    elif not isinstance(value, (str, int, float, np.generic, Workspace, type(None))):
        raise TypeError(f"expected arrays, containers or plain values, got {type(value).__name__}")


def covered(arrays: Iterable[Any]) -> int:
    """The bytes from the first to the last element of each array. Shared bytes count once."""
    total = end = 0
    for low, high in sorted(extent(array) for array in arrays if array.size):
        total += max(0, high - max(low, end))
        end = max(end, high)
    return total


def extent(array: Any) -> tuple[int, int]:
    """The addresses of an array's first byte and of the byte after its last."""
    array = getattr(array, "_data", array)  # of the tests' stand-in for CuPy's
    data = array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr
    reach = [(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)]
    return (data + sum(min(0, r) for r in reach),
            data + sum(max(0, r) for r in reach) + array.itemsize)


def summary(record: Record) -> list[str]:
    """In MB of 10^6 bytes."""
    return [f"{row['case']}: " + ", ".join(f"{name} {row['bytes'][name] / 1e6:.1f} MB"
                                           for name in NEEDED)
            + f"; peak {', then '.join(f'{p / 1e6:.1f}' for p in row['bytes']['peaks'])} MB "
            f"(reached in: {row['peak_in']}); peak / sum {row['ratio']:.2f}, goal {GOAL}"
            for row in record["rows"]]


def chart(record: Record) -> Chart:
    """For each recipe the memory needed, by part, and the peak below it."""
    pieces = nested(entry for row in record["rows"] for entry in (
        *((name, f"{row['case']}: needed", row["bytes"][name] / 1e9) for name in NEEDED),
        ("peak", f"{row['case']}: held", max(row["bytes"]["peaks"]) / 1e9)))
    return Chart("Memory of a training step", "the upper bar is what a step cannot do without, the "
                 "lower one the most that it held; the closer the two, the better.",
                 [Panel("stack", pieces, "GB")])


BENCHMARKS = {"memory": Benchmark(cases, {"recipe": [LARGE], **SIZES}, gpu=True, chart=chart,
                                  summary=summary)}
