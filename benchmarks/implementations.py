"""A kernel's implementations, and the comparison of their results before they are timed.

A `Kernel` is a computation of one size: host inputs, our code, and equivalent PyTorch code. Our
code is timed on NumPy and, if there is a GPU, on CuPy; PyTorch's on the CPU and, if there is one,
on CUDA. Every result of every pass is first compared with NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from backend import load, to_device, to_host, using
from backend.errors import UserError
from backend.rows import RowGradient
from benchmarks.timing import environment

# Relative to an array's norm. Implementations sum float32 numbers in different orders, some 1e-6
# apart where the sums have thousands of terms: this is far above that and far below a mistake.
TOLERANCE = 1e-4

Arrays = Mapping[str, Any]  # inputs by name: NumPy's, CuPy's, or tensors
Results = Mapping[str, Any]  # outputs and gradients by name


def as_it_is(results: Results) -> Results:
    """The layout of the results is ours."""
    return results


class Passes(NamedTuple):
    """The passes of one implementation, over its own inputs."""

    run: Mapping[str, Callable[[], Results]]  # by name of pass: "forward", "both", "update", ...
    read: Callable[[Results], Results] = as_it_is  # brings host arrays into our layout, untimed


@dataclass(frozen=True)
class Kernel:
    """A computation of one size."""

    name: str
    sizes: Mapping[str, int]  # by letter of the legend
    inputs: Mapping[str, np.ndarray]
    work: Mapping[str, float]  # floating-point operations, or bytes, of each pass
    unit: str  # "FLOP" or "B": what `work` counts, and so its roofline
    ours: Callable[[Arrays], Passes]
    theirs: Mapping[str, Callable[[Arrays], Passes]] = field(default_factory=dict)  # of tensors
    others: Mapping[str, Callable[[Arrays], Passes]] = field(default_factory=dict)  # of NumPy's
    tolerance: float = TOLERANCE
    cuda: bool = True  # whether PyTorch's can run there too
    goals: Mapping[tuple[str, str], float] = field(default_factory=dict)  # (peer, pass): our ratio

    def own(self) -> Kernel:
        """The kernel without peers, to time ours alone."""
        return replace(self, theirs={}, others={})


class Implementation(NamedTuple):
    """One implementation on one device."""

    passes: Passes
    wait: Callable[[], Any]  # returns when the device has done all work
    gpu: bool

    def timeable(self, pass_: str) -> Callable[[], None]:
        """A pass that returns when the device has done it."""
        def run() -> None:
            self.passes.run[pass_]()
            self.wait()

        return run


def find_cupy() -> tuple[Any | None, str]:
    """CuPy's module, or None and the reason."""
    try:
        return load("cupy"), ""
    except UserError as error:
        return None, str(error).removeprefix("backend: ")


def find_torch() -> Any | None:
    """PyTorch on all cores and in full float32, or None."""
    if find_spec("torch") is None:
        return None
    import torch

    torch.set_num_threads(environment()["cores"])
    torch.backends.cudnn.allow_tf32 = False  # cuDNN's recurrent layers use it by default
    return torch


def implementations_of(kernel: Kernel) -> dict[str, Implementation]:
    """Every implementation that this machine can run, NumPy's first, by name."""
    implementations = {"NumPy": our_implementation(kernel, "numpy", lambda: None)}
    cupy, _ = find_cupy()
    if cupy is not None:
        implementations["CuPy"] = our_implementation(kernel, cupy, cupy.cuda.Device().synchronize)
    for name, make in kernel.others.items():
        inputs = {key: value.copy() for key, value in kernel.inputs.items()}
        implementations[name] = Implementation(make(inputs), lambda: None, False)
    torch = find_torch()
    if torch is not None:
        for name, make in kernel.theirs.items():
            implementations[name] = their_implementation(kernel, make, torch, "cpu")
            if kernel.cuda and torch.cuda.is_available():
                implementations[f"{name}, CUDA"] = their_implementation(kernel, make, torch, "cuda")
    return implementations


def our_implementation(kernel: Kernel, module: Any, wait: Callable[[], Any]) -> Implementation:
    """Our code over arrays of `module`, which stays in use while it runs."""
    with using(module):
        inputs = {name: _moved(value) for name, value in kernel.inputs.items()}
        passes = kernel.ours(inputs)

    def inside(run: Callable[[], Results]) -> Callable[[], Results]:
        def call() -> Results:
            with using(module):
                return run()
        return call

    run = {name: inside(pass_) for name, pass_ in passes.run.items()}
    return Implementation(Passes(run, passes.read), wait, module != "numpy")


def _moved(value: np.ndarray) -> Any:
    """A copy on the device in use, which a pass may change; ids stay on the host."""
    return value if value.dtype.kind == "i" else to_device(value.copy())


def their_implementation(
    kernel: Kernel, make: Callable[[Arrays], Passes], torch: Any, device: str
) -> Implementation:
    """PyTorch's code over tensors on `device`."""
    tensors = {name: torch.tensor(value, device=device) for name, value in kernel.inputs.items()}
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    return Implementation(make(tensors), wait, device == "cuda")


# --- equality first -------------------------------------------------------------------------------


class Difference(NamedTuple):
    """The worst of one pass of one implementation."""

    size: float  # ||a - b|| / ||b|| of one array
    name: str  # of that array


Differences = dict[tuple[str, str], Difference]  # by implementation and pass


def check_equal(
    implementations: Mapping[str, Implementation], doubted: Collection[str] = (),
    tolerance: float = TOLERANCE,
) -> Differences:
    """Compare every array of every pass with the first implementation's; none may be zero or
    missing.

    Arguments: implementations by name; doubted, names of implementations that may be wrong: their
    wrong passes are left out, and not timed; tolerance, relative to an array's norm. Returns the
    worst difference by (implementation, pass).
    Raises AssertionError naming implementation, pass and array where any other implementation is
    above the tolerance.
    """
    (first, trusted), *others = implementations.items()
    found: Differences = {}
    for pass_ in trusted.passes.run:
        expected = fetch(trusted, pass_)
        for name, other in others:
            if pass_ not in other.passes.run:
                continue
            found[name, pass_] = worst = furthest(fetch(other, pass_), expected)
            if not worst.size <= tolerance and name not in doubted:
                raise AssertionError(f"{name} and {first} differ in {pass_}, {worst.name}: "
                                     f"{worst.size:.1e} of its norm")
    return found


def fetch(implementation: Implementation, pass_: str) -> dict[str, np.ndarray]:
    """The results of one pass on the host, in our layout."""
    results = implementation.passes.run[pass_]()
    implementation.wait()
    on_host = {name: host_copy(value) for name, value in results.items()}
    return dict(implementation.passes.read(on_host))


def host_copy(value: Any) -> np.ndarray:
    """A host copy of an array, a tensor, or a row gradient made dense."""
    if isinstance(value, RowGradient):
        value = value.dense()
    if hasattr(value, "detach"):
        return np.array(value.detach().cpu().numpy())
    return np.array(to_host(value))


def furthest(got: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> Difference:
    """The array that differs most; the difference of a missing one is infinite."""
    missing = got.keys() ^ expected.keys()
    if missing:
        return Difference(float("inf"), min(missing))
    return max(Difference(distance(got[name], b), name) for name, b in expected.items())


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """||a - b|| / ||b|| in float64; infinite where the shapes differ, or b is all zero or a nan."""
    if a.shape != b.shape:
        return float("inf")
    scale = float(np.linalg.norm(b.astype(np.float64)))
    away = float(np.linalg.norm(a.astype(np.float64) - b))
    return away / scale if scale and np.isfinite(away) else float("inf")
