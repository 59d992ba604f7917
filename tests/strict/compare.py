"""A case of a gradient check on NumPy and on the stand-in for CuPy."""

from __future__ import annotations

import numpy as np
from strict.module import strict, to_numpy, to_strict

import backend
from grads.check.case import dense
from grads.verification.shapes import draw

TOLERANCE = {"float64": 1e-12, "float32": 1e-4}


def compare(case, dtype):
    """Forward and backward on NumPy and on the stand-in; returns the stand-in's counts."""
    rng = np.random.default_rng(3)
    inputs = {name: value.astype(dtype) for name, value in case.inputs.items()}
    outputs = case.outputs(inputs)
    upstream = {name: draw(rng, *np.shape(out)).astype(dtype) for name, out in outputs.items()}
    expected = {**outputs, **{f"d{k}": v for k, v in case.gradients(inputs, upstream).items()}}
    inputs, upstream = to_strict(inputs), to_strict(upstream)
    with backend.using(strict):
        outputs, gradients = case.outputs(inputs), case.gradients(inputs, upstream)
    counts = (strict.counts.to_host, strict.counts.syncs)
    results = {**outputs, **{f"d{k}": v for k, v in gradients.items()}}
    assert results.keys() == expected.keys()
    for name, array in expected.items():
        ours = to_numpy(dense(results[name]))
        assert ours.dtype == dtype, name
        np.testing.assert_allclose(
            ours, dense(array), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype], err_msg=name
        )
    return counts
