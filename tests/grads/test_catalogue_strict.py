"""Every kernel on the stand-in for CuPy: the same numbers, and nothing fetched on the way."""

from __future__ import annotations

import numpy as np
import pytest
from host_cuda.launcher import HostLauncher, needs_compiler
from strict.compare import TOLERANCE, compare
from strict.module import HostTransferError, StrictArray

import backend
from backend.fused import switch
from grads.case import Case, Entry
from grads.catalogue import ENTRIES

BY_NAME = {entry.name: entry for entry in ENTRIES}
ALL = [(name, shape) for name, entry in BY_NAME.items()
       for shape in dict.fromkeys((entry.shapes[0], entry.shapes[-1]))]


@pytest.mark.parametrize("name, shape", ALL)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_kernels_on_the_stand_in(name, shape, dtype):
    assert compare(BY_NAME[name], shape, dtype) == (0, 0)


@needs_compiler
@pytest.mark.parametrize("name, shape", ALL)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_fused_kernels_on_the_stand_in(name, shape, dtype, monkeypatch):
    """The same with the CUDA C of the fused kernels, compiled for the host."""
    monkeypatch.setattr(switch, "_launchers", {StrictArray: HostLauncher()})
    assert compare(BY_NAME[name], shape, dtype) == (0, 0)


@pytest.mark.parametrize("flaw, error", [
    (lambda y: y * float(y.sum()), HostTransferError),
    (lambda y: y * np.ones(3), HostTransferError),
    (lambda y: y * np.float64(2), (HostTransferError, AssertionError)),
])  # fmt: skip
def test_a_flawed_kernel_is_caught(flaw, error):
    entry = Entry("flawed", (), lambda rng, shape: Case(
        {"x": rng.normal(size=3)}, lambda a: ({"y": flaw(a["x"])}, None),
        lambda d, _: {"x": d["y"]}))
    with pytest.raises(error):
        compare(entry, "full", "float32")


def test_a_fetch_that_was_asked_for_is_counted():
    entry = Entry("fetches", (), lambda rng, shape: Case(
        {"x": rng.normal(size=3)},
        lambda a: ({"y": a["x"] * float(backend.to_host(a["x"].sum()))}, None),
        lambda d, _: {"x": d["y"]}))
    assert compare(entry, "full", "float64") == (2, 0)
