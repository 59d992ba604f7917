"""Every kernel on the stand-in for CuPy: the same numbers, and nothing fetched on the way."""

from __future__ import annotations

import numpy as np
import pytest
from strict.module import HostTransferError, strict, to_numpy, to_strict

import backend
from grads.case import SHAPES, Case, Entry, dense, draw
from grads.catalogue import ENTRIES

TOLERANCE = {"float64": 1e-12, "float32": 1e-4}
BY_NAME = {entry.name: entry for entry in ENTRIES}
ALL = [(name, shape) for name, entry in BY_NAME.items()
       for shape in dict.fromkeys((entry.shapes[0], entry.shapes[-1]))]


def compare(entry, shape, dtype):
    """Forward and backward on NumPy and on the stand-in; returns the stand-in's counts."""
    rng = np.random.default_rng(3)
    case = entry.make(rng, SHAPES[shape])
    inputs = {name: value.astype(dtype) for name, value in case.inputs.items()}
    outputs = case.forward(inputs)
    upstream = {name: draw(rng, *np.shape(out)).astype(dtype) for name, out in outputs.items()}
    expected = {**outputs, **{f"d{k}": v for k, v in case.backward(inputs, upstream).items()}}
    inputs, upstream = to_strict(inputs), to_strict(upstream)
    with backend.using(strict):
        outputs, gradients = case.forward(inputs), case.backward(inputs, upstream)
    counts = (strict.counts.to_host, strict.counts.syncs)
    found = {**outputs, **{f"d{k}": v for k, v in gradients.items()}}
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        ours = to_numpy(dense(found[name]))
        assert ours.dtype == dtype, name
        np.testing.assert_allclose(
            ours, dense(array), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype], err_msg=name
        )
    return counts


@pytest.mark.parametrize("name, shape", ALL)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_kernels_on_the_stand_in(name, shape, dtype):
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
