"""Every model on the stand-in for CuPy gives the same numbers and fetches nothing to the host."""

from __future__ import annotations

import numpy as np
import pytest
from families import for_all
from host_cuda.launcher import HostLauncher, needs_compiler
from strict.compare import TOLERANCE, compare
from strict.module import HostTransferError, StrictArray, strict

import backend
from backend.fused import switch
from grads.check.case import Case
from grads.verification.cases import model_case
from grads.verification.catalogue import entries, random_model

ENTRIES = [entry for entry in entries("tiny") if entry.shape in ("ragged", "smallest")]


@for_all(ENTRIES)
def alike(entry):
    """Assert, in both dtypes, that a model's numbers on the stand-in are NumPy's, and that nothing
    is fetched."""
    case = model_case(random_model(entry))
    for dtype in TOLERANCE:
        strict.counts.reset()
        assert compare(case, dtype) == (0, 0), dtype


def test_models_on_the_stand_in():
    alike()


@needs_compiler
def test_fused_kernels_on_the_stand_in(monkeypatch):
    """The same with the CUDA C of the fused kernels, compiled for the host."""
    monkeypatch.setattr(switch, "_launchers", {StrictArray: HostLauncher()})
    alike()


def case_of(forward):
    return Case({"x": np.random.default_rng(0).normal(size=3)},
                lambda a: ({"y": forward(a["x"])}, None), lambda d, _: {"x": d["y"]})


@pytest.mark.parametrize("flaw, error", [
    (lambda y: y * float(y.sum()), HostTransferError),
    (lambda y: y * np.ones(3), HostTransferError),
    (lambda y: y * np.float64(2), (HostTransferError, AssertionError)),
])  # fmt: skip
def test_a_flawed_kernel_is_caught(flaw, error):
    with pytest.raises(error):
        compare(case_of(flaw), "float32")


def test_a_fetch_that_was_asked_for_is_counted():
    fetching = case_of(lambda x: x * float(backend.to_host(x.sum())))
    assert compare(fetching, "float64") == (2, 0)
