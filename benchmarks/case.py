"""A case of a benchmark: its implementations, and the comparison of their results before timing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from backend import to_host
from backend.rows import RowGradient
from benchmarks.devices import Device
from benchmarks.timing import Timing

Call = Callable[[], Any]
Results = Mapping[str, Any]  # outputs and gradients by name


class Limit(NamedTuple):
    """A call that runs at the machine's limit, which is timed for comparison."""

    call: Call
    work: float  # of the case's unit


class Prepared(NamedTuple):
    """A case whose results were found equal, ready to be timed."""

    calls: Mapping[str, Call]  # by implementation, ours first; each returns when its work is done
    differences: Mapping[str, float] = {}  # relative differences of the results
    absent: Mapping[str, str] = {}  # implementations that are not timed, and why
    limit: Limit | None = None
    fields: Callable[[Mapping[str, Timing]], Mapping[str, Any]] = lambda _: {}  # fields of the row
    end: Call = lambda: None  # called once it is timed


class Case(NamedTuple):
    """A piece of work of one size: a row of a benchmark's record."""

    name: str
    sizes: Mapping[str, Any]
    prepare: Callable[[Device], Prepared]  # raises AssertionError if results are not equal
    amount: float = 1.0  # the work of a call
    unit: str = ""  # of the amount: target tokens, sentences, FLOP, B
    goals: Mapping[str, float] = {}  # our time / the time of an implementation
    seconds: float = 1.0  # factor of the options' seconds for which it is timed
    least: int | None = None  # iterations, instead of `timing.ITERATIONS`

    @property
    def title(self) -> str:
        """Name and sizes."""
        return "  ".join([self.name, " ".join(f"{name}={n}" for name, n in self.sizes.items())])


class Difference(NamedTuple):
    """The largest difference among several arrays."""

    size: float  # ||a - b|| / ||b||
    name: str  # of the array


def expect_equal(
    results: str, differences: Mapping[str, Difference], tolerances: Mapping[str, float]
) -> dict[str, float]:
    """The sizes of the differences. Raises AssertionError naming the kind and the array that
    differs most."""
    for kind, (size, name) in differences.items():
        if not size <= tolerances[kind]:
            raise AssertionError(f"{kind}: {results} differ by {size:.1e} in {name}")
    return {kind: difference.size for kind, difference in differences.items()}


def host_copy(value: Any) -> np.ndarray:
    """A host copy of an array or a tensor. Sparse tensors and row gradients become dense."""
    if isinstance(value, RowGradient):
        value = value.dense()
    if hasattr(value, "detach"):
        return np.array(value.detach().to_dense().cpu().numpy())
    return np.array(to_host(value))


def furthest(got: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> Difference:
    """The array that differs most; the difference of a missing one is infinite."""
    missing = got.keys() ^ expected.keys()
    if missing:
        return Difference(float("inf"), min(missing))
    return max(Difference(distance(got[name], b), name) for name, b in expected.items())


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """||a - b|| / ||b|| in float64; infinite if the shapes differ, or if b is all zero or has a
    NaN."""
    if a.shape != b.shape:
        return float("inf")
    scale = float(np.linalg.norm(b.astype(np.float64)))
    away = float(np.linalg.norm(a.astype(np.float64) - b))
    return away / scale if scale and np.isfinite(away) else float("inf")
