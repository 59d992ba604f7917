"""A kernel of the product and equivalent code of others, for the same inputs.

Every result of every pass is compared with ours on NumPy before it is timed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

import backend
from backend import to_device
from backend.host import blas_threads
from benchmarks.case import Case, Limit, Prepared, Results, furthest, host_copy
from benchmarks.devices import CPU, Device

# Relative to an array's norm. Implementations sum float32 numbers in different orders. Sums of
# thousands of terms differ by some 1e-6. The tolerance is far above that and far below a mistake.
TOLERANCE = 1e-4
TITLES = {"forward": "forward", "both": "forward and backward"}  # of passes

Arrays = Mapping[str, Any]  # inputs by name: NumPy's, CuPy's, or tensors


class Passes(NamedTuple):
    """The passes of one implementation, over its own inputs."""

    run: Mapping[str, Callable[[], Results]]  # by name of pass: "forward", "both", "update", ...
    read: Callable[[Results], Results] = lambda results: results  # converts into our layout


Make = Callable[[Arrays], Passes]


def differentiated(
    forward: Callable[[], tuple[Results, Any]], backward: Callable[[Any], Results],
    read: Callable[[Results], Results] = lambda results: results,
) -> Passes:
    """The passes of a forward that returns outputs and a cache, and of its backward."""
    def both() -> Results:
        outputs, cache = forward()
        return {**outputs, **backward(cache)}

    return Passes({"forward": lambda: forward()[0], "both": both}, read)


@dataclass(frozen=True)
class Kernel:
    """A computation of one size."""

    name: str
    sizes: Mapping[str, int]  # by letter of the legend
    draw: Callable[[], Mapping[str, np.ndarray]]  # the inputs
    work: Mapping[str, float]  # floating-point operations, or bytes, of each pass
    unit: str  # "FLOP" or "B": what `work` counts
    ours: Make
    theirs: Mapping[str, Make] = field(default_factory=dict)  # of tensors
    others: Mapping[str, Make] = field(default_factory=dict)  # of NumPy's, on the CPU
    tolerance: float = TOLERANCE
    goals: Mapping[str, float] = field(default_factory=dict)  # our time / another's, both passes

    def cases(
        self, absent: Mapping[str, str] = {}
    ) -> Iterator[Case]:
        """A case for each pass. absent: implementations that are not here, and why."""
        for pass_, amount in self.work.items():
            yield Case(f"{self.name}, {TITLES.get(pass_, pass_)}", self.sizes,
                       partial(self.prepare, pass_, absent=absent), amount, self.unit,
                       self.goals if pass_ == "both" else {})

    def prepare(
        self, pass_: str, device: Device, absent: Mapping[str, str] = {}
    ) -> Prepared:
        """Compare every array of a pass of every implementation with NumPy's.

        Raises AssertionError naming implementation, pass and array where one is missing, zero, or
        further away than the tolerance.
        """
        inputs = self.draw()
        every = implementations(self, device, inputs)
        trusted = every.get("NumPy") or our_passes(self, inputs, CPU)
        expected = fetch(trusted, pass_)
        worst = {name: furthest(fetch(passes, pass_), expected)
                 for name, passes in every.items() if passes is not trusted}
        for name, (size, array) in worst.items():
            if not size <= self.tolerance:
                raise AssertionError(f"{name} and NumPy differ in {pass_}, {array}: "
                                     f"{size:.1e} of its norm")
        return Prepared({name: device.finished(passes.run[pass_])
                         for name, passes in every.items()},
                        {name: size for name, (size, _) in worst.items()}, absent,
                        limit_of(self, device))


def implementations(
    kernel: Kernel, device: Device, inputs: Mapping[str, np.ndarray]
) -> dict[str, Passes]:
    """All implementations that exist for a device, by name, ours first."""
    calls = {device.ours: our_passes(kernel, inputs, device)}
    if device.name == "cpu":
        for name, make in kernel.others.items():
            calls[name] = make({key: value.copy() for key, value in inputs.items()})
    torch = find_torch() if device.torch else None
    if torch is not None:
        for name, make in kernel.theirs.items():
            calls[name] = make({key: torch.tensor(value, device=device.torch)
                                for key, value in inputs.items()})
    return calls


def find_torch() -> Any | None:
    """PyTorch on as many threads as NumPy's BLAS, or None."""
    if find_spec("torch") is None:
        return None
    import torch

    torch.set_num_threads(blas_threads())
    return torch


def our_passes(kernel: Kernel, inputs: Mapping[str, np.ndarray], device: Device) -> Passes:
    """Our code over arrays on the device, which stays in use while it runs; ids are on the host."""
    with backend.using(device.backend):
        passes = kernel.ours({name: value if value.dtype.kind == "i" else to_device(value.copy())
                              for name, value in inputs.items()})
    return passes._replace(run={name: device.finished(run) for name, run in passes.run.items()})


def fetch(passes: Passes, pass_: str) -> dict[str, np.ndarray]:
    """The results of one pass on the host, in our layout."""
    return {name: host_copy(value) for name, value in passes.read(passes.run[pass_]()).items()}


def autograd(
    run: Callable[[], Mapping[str, Any]], leaves: Mapping[str, Any],
    upstream: Mapping[str, Any] | None = None,
    read: Callable[[Results], Results] = lambda results: results,
) -> Passes:
    """PyTorch's passes of a function that returns tensors by name.

    Arguments: leaves, tensors by the name of their gradient; upstream, gradients of the outputs by
    name, none of a scalar; read, as of `Passes`.
    """
    import torch

    def forward() -> Results:
        with torch.no_grad():
            return run()

    def both() -> Results:
        outputs = run()
        d_outputs = None if upstream is None else [upstream[name] for name in outputs]
        gradients = torch.autograd.grad(list(outputs.values()), list(leaves.values()), d_outputs)
        return {**outputs, **dict(zip(leaves, gradients, strict=True))}

    return Passes({"forward": forward, "both": both}, read)


def leaves_of(a: Arrays, names: Mapping[str, str]) -> dict[str, Any]:
    """Tensors that require a gradient, by the gradient's name."""
    return {gradient: a[name].requires_grad_() for name, gradient in names.items()}


def limit_of(kernel: Kernel, device: Device) -> Limit:
    """A large product of float32 matrices, or a copy far larger than any cache; small if the kernel
    is small. No kernel of ours multiplies or moves memory faster."""
    big = max(kernel.work.values()) > 1e6
    with backend.using(device.backend):
        xp = backend.module()
        if kernel.unit == "FLOP":
            size = (8192 if device.name == "gpu" else 1536) if big else 128
            a, b, out = (to_device(np.full((size, size), value, np.float32))
                         for value in (0.5, 0.25, 0.0))
            return Limit(device.finished(lambda: xp.matmul(a, b, out=out)), 2.0 * size**3)
        size = 1 << ((30 if device.name == "gpu" else 26) if big else 16)
        source, target = (to_device(np.full((size // 4,), value, np.float32)) for value in (1., 0.))
        return Limit(device.finished(lambda: xp.copyto(target, source)), 2.0 * size)
