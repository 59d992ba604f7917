"""Every entry of the gradient catalogue on the GPU against NumPy: forward and backward.

Ragged batches, B = 1 and T = 1, sizes beyond every threshold; fused and unfused, float64 and
float32. In float32, deep stacks lose digits on NumPy, too. There the GPU may differ from float64 by
`ROUNDING` times as much as NumPy's float32 does.
"""

from __future__ import annotations

import numpy as np
import pytest
from gpu.arrays import to_gpu, to_numpy

import backend
from grads.check.case import dense
from grads.verification.cases import model_case
from grads.verification.catalogue import entries, random_model
from grads.verification.shapes import draw

TOLERANCE = {"float64": 1e-10, "float32": 5e-4}
ROUNDING = 3  # sums in another order have errors of the same size
ENTRIES = [entry for entry in entries() if entry.shape in ("ragged", "smallest", "real")]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_kernels(entry, dtype, fusing):
    with backend.using("numpy"):
        case = model_case(random_model(entry))
        inputs = {key: value.astype(dtype) for key, value in case.inputs.items()}
        rng, outputs = np.random.default_rng(3), case.outputs(inputs)
        upstream = {key: draw(rng, *np.shape(out)).astype(dtype) for key, out in outputs.items()}
        on_numpy = run(case, inputs, upstream)
        exact = run(case, in_float64(inputs), in_float64(upstream))
    on_gpu = run(case, to_gpu(inputs), to_gpu(upstream))
    assert on_gpu.keys() == exact.keys()
    for key, array in exact.items():
        ours = to_numpy(on_gpu[key])
        assert ours.dtype == dtype, key
        rounding = ROUNDING * np.abs(on_numpy[key] - array).max(initial=0.0)
        np.testing.assert_allclose(ours, array, rtol=TOLERANCE[dtype],
                                   atol=max(TOLERANCE[dtype], rounding), err_msg=key)


def run(case, inputs, upstream):
    """Outputs, and gradients under `d` and the input's name."""
    gradients = case.gradients(inputs, upstream)
    return {key: dense(array) for key, array in
            (case.outputs(inputs) | {f"d{k}": v for k, v in gradients.items()}).items()}


def in_float64(arrays):
    return {key: array.astype("float64") for key, array in arrays.items()}
