"""Every entry of the gradient catalogue on the GPU against NumPy: forward and backward.

Ragged batches, B = 1 and T = 1, sizes beyond every threshold; fused and unfused, float64 and
float32.
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
ENTRIES = [entry for entry in entries() if entry.shape in ("ragged", "smallest", "real")]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_kernels(entry, dtype, fusing):
    rng = np.random.default_rng(3)
    with backend.using("numpy"):
        case = model_case(random_model(entry))
        inputs = {key: value.astype(dtype) for key, value in case.inputs.items()}
        outputs = case.outputs(inputs)
        upstream = {key: draw(rng, *np.shape(out)).astype(dtype) for key, out in outputs.items()}
        expected = {**outputs,
                    **{f"d{k}": v for k, v in case.gradients(inputs, upstream).items()}}
    inputs, upstream = to_gpu(inputs), to_gpu(upstream)
    found = case.outputs(inputs)
    found = {**found, **{f"d{k}": v for k, v in case.gradients(inputs, upstream).items()}}
    assert found.keys() == expected.keys()
    for key, array in expected.items():
        ours = to_numpy(dense(found[key]))
        assert ours.dtype == dtype, key
        np.testing.assert_allclose(ours, dense(array), rtol=TOLERANCE[dtype],
                                   atol=TOLERANCE[dtype], err_msg=key)
