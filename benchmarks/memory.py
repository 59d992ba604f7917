"""Peak memory of a training step, compared with the memory that it needs at least.

At least it needs parameters, gradients and saved activations: the arrays reachable from the cache
that the forward passes to the backward, each byte counted once. The peak is the growth of the
process since before the parameters were made (Linux's high-water mark, in a fresh process), or the
size of CuPy's memory pool. Two steps are run: the second reuses the buffers of the first. Default:
the model of the thesis's size, half a minute a step on two cores.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from multiprocessing import get_context
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

import backend
from backend.command import natural
from backend.errors import UserError
from backend.workspace import Workspace
from benchmarks.cases import KNOWN, load_case, random_batch
from benchmarks.devices import devices
from benchmarks.options import make_parser
from benchmarks.options import parse as read_options
from benchmarks.parts import REST, Stopwatch, watching
from benchmarks.pictures import COLOURS, HATCHES, titled
from benchmarks.record import publish_rows
from benchmarks.timing import describe, environment
from nmt.models.registry import make_model
from nmt.training.optimizers import gradient_scale

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
STEPS = 2
GOAL = 1.5  # peak / (parameters + gradients + saved activations)


def main(arguments: list[str]) -> None:
    """Measure, print, and write `memory-<kernels>.json` (or `memory-gpu.json`)."""
    parser = make_parser("memory", __doc__)
    parser.add_argument("--recipe", nargs="+", default=["thesis-size"], choices=KNOWN,
                        help="default thesis-size")
    parser.add_argument("--seed", type=natural, default=1, help="of parameters and ids, default 1")
    parser.add_argument("--device", choices=("cpu", "gpu", "all"), default="all",
                        help="where to run, default all there are")
    options = read_options(parser, arguments)
    print(describe(environment()))
    for device in devices(options.device):
        rows = []
        for name in options.recipe:
            with get_context("spawn").Pool(1) as fresh:
                rows.append(fresh.apply(measure, (name, options, device.name)))
            report(rows[-1])
        publish_rows("memory", vars(options), rows, picture, directory=options.output,
                     gpu=device.name == "gpu")


def measure(name: str, options: argparse.Namespace, device_name: str) -> dict[str, Any]:
    """The row of one recipe; to be called in a process that has done nothing else."""
    (device,) = devices(device_name)
    case, rng = load_case(name, options), np.random.default_rng(options.seed)
    with backend.using(device.backend):
        gauge = Gauge(backend.module())
        model: Any = make_model(case.model, case.tables)
        gauge.start()
        parameters = model.initial_parameters(rng)
        batch, optimizer = random_batch(case, rng), case.train.make_optimizer()
        held = covered(parameters.values())
        watch, peaks, saved, gradient_bytes = PeakWatch(gauge), [], 0, 0
        for _ in range(STEPS):
            gauge.reset()
            with watching(watch), watch.part(REST):
                noise = model.noise(batch, rng, "float32")
                loss, cache = model.loss(parameters, batch, noise)
                saved = covered([*parameters.values(), *reachable(cache)]) - held
                gradients = model.backward(cache)
                gradient_bytes = covered(reachable(gradients))
                with watch.part("clip"):
                    scale, _ = gradient_scale(gradients, len(batch.indices),
                                              case.train.max_norm)
                with watch.part("update"):
                    optimizer.update(parameters, gradients, scale)
            peaks.append(gauge.peak())
            del noise, loss, cache, gradients
    needed = {"parameters": held, "gradients": gradient_bytes, "saved": saved}
    return {
        "recipe": name, "device": device.name, "target_tokens": int(batch.target.lengths.sum()),
        "bytes": {**needed, "peaks": peaks, "workspace": model.workspace.nbytes,
                  "by_part": dict(watch.highest)},
        "ratio": max(peaks) / sum(needed.values()), "peak_in": watch.where,
    }


# --- memory of the process ----------------------------------------------------------------------


class Gauge:
    """The growth of this process in bytes since `start`, on the host or in CuPy's pool."""

    def __init__(self, xp: Any) -> None:
        """Raises UserError where Linux's high-water mark cannot be read and reset."""
        self._pool = None if xp is np else xp.get_default_memory_pool()
        self._before = 0
        if self._pool is None and not (STATUS.exists() and CLEAR.exists()):
            raise UserError("memory: expected Linux's /proc/self/status and clear_refs, got none")

    def start(self) -> None:
        """Count from the memory held now."""
        ready = np.ones((256, 256)) @ np.ones((256, 256))  # the BLAS takes its buffers
        del ready
        self._before = 0 if self._pool is not None else _status("VmRSS")

    def reset(self) -> None:
        """Reset the peak to the memory held now. CuPy's pool never shrinks, so its peak is not
        reset."""
        if self._pool is None:
            CLEAR.write_text("5")

    def peak(self) -> int:
        """The most that was held since `reset`."""
        if self._pool is not None:
            return int(self._pool.total_bytes())
        return max(_status("VmHWM") - self._before, 0)  # of a small step pages given back are more


def _status(name: str) -> int:
    """A line of Linux's /proc/self/status, in bytes."""
    found = re.search(rf"{name}:\s+(\d+) kB", STATUS.read_text(encoding="utf-8"))
    assert found is not None, name
    return 1024 * int(found[1])


class PeakWatch(Stopwatch):
    """Records the peak at the end of each part instead of its seconds, and in which part it is
    reached."""

    def __init__(self, gauge: Gauge) -> None:
        super().__init__()
        self.highest: dict[str, int] = {}
        self.where, self._gauge, self._most = "", gauge, 0

    def _account(self) -> None:
        if not self._entered:
            return
        part, peak = self._entered[-1], self._gauge.peak()
        self.highest[part] = max(peak, self.highest.get(part, 0))
        if peak > 1.01 * self._most:  # pages that come and go are not a new peak
            self.where, self._most = part, peak


# --- memory needed ------------------------------------------------------------------------------


def reachable(value: Any) -> Iterator[Any]:
    """All arrays in a cache or in gradients, however nested.

    Raises TypeError for what is neither a container nor known to hold no array.
    """
    if hasattr(value, "strides") and not isinstance(value, np.generic):
        yield value
    elif isinstance(value, dict):
        yield from reachable(list(value.values()))
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from reachable(part)
    elif dataclasses.is_dataclass(value):
        yield from reachable([getattr(value, field.name) for field in dataclasses.fields(value)])
    elif type(value).__module__.startswith("nmt."):  # what a loop over time keeps for its backward
        yield from reachable(vars(value))
    elif isinstance(value, FunctionType) and value.__closure__ is None:
        return  # a cell or a score, without arrays
    elif not isinstance(value, (str, int, float, np.generic, Workspace, type(None))):
        raise TypeError(f"expected arrays, containers or plain values, got {type(value).__name__}")


def covered(arrays: Iterable[Any]) -> int:
    """Bytes from the first to the last element of each array, shared ones counted once."""
    total = end = 0
    for low, high in sorted(extent(array) for array in arrays if array.size):
        total += max(0, high - max(low, end))
        end = max(end, high)
    return total


def extent(array: Any) -> tuple[int, int]:
    """The addresses of an array's first byte and of the one after its last."""
    data = array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr
    reach = [(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)]
    return (data + sum(min(0, r) for r in reach),
            data + sum(max(0, r) for r in reach) + array.itemsize)


def report(row: dict[str, Any]) -> None:
    """Print one row, in MB of 10^6 bytes."""
    sizes = row["bytes"]
    print(f"\n{row['recipe']}, {row['device']}: one step over {row['target_tokens']} target tokens")
    for name in ("parameters", "gradients", "saved"):
        print(f"  {name:>12} {sizes[name] / 1e6:9.1f} MB")
    print(f"  {'sum':>12} {sum(sizes[n] for n in ('parameters', 'gradients', 'saved')) / 1e6:9.1f}")
    print(f"  {'peak':>12} {', then '.join(f'{p / 1e6:.1f}' for p in sizes['peaks'])} MB "
          f"(reached in: {row['peak_in']}); workspace {sizes['workspace'] / 1e6:.1f} MB")
    print(f"  {'ratio':>12} {row['ratio']:9.2f} peak / sum, goal {GOAL}")


def picture(plt: Any, record: Mapping[str, Any]) -> Any:
    """For each recipe the memory needed, by part, and the peak below it."""
    rows = record["rows"]
    figure, axes = plt.subplots(figsize=(8.5, 2.1 + 0.7 * len(rows)), layout="constrained")
    for place, row in enumerate(rows):
        start, sizes = 0.0, row["bytes"]
        for colour, hatch, name in zip(COLOURS, HATCHES, ("parameters", "gradients", "saved"),
                                       strict=False):
            label = {"saved": "saved activations"}.get(name, name) if place == 0 else None
            axes.barh(place - 0.2, sizes[name] / 1e9, 0.36, left=start, color=colour, hatch=hatch,
                      edgecolor="white", label=label)
            start += sizes[name] / 1e9
        peak = max(sizes["peaks"]) / 1e9
        axes.barh(place + 0.2, peak, 0.36, color=COLOURS[-1], label=None if place else "peak")
        axes.text(peak, place + 0.2, f" {row['ratio']:.2f} of the sum", va="center", fontsize=8)
    axes.set_yticks(range(len(rows)), [f"{row['recipe']},\non the {row['device'].upper()}"
                                       for row in rows])
    axes.set(xlabel="GB", ylim=(len(rows) - 0.4, -0.6))
    axes.margins(x=0.15)
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    titled(figure, "Memory of a training step", record["environment"],
           "the upper bar is what a step cannot do without, the lower one the most that it held; "
           "the closer the two, the better.")
    return figure
