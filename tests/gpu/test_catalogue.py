"""Every entry of the gradient catalogue on the GPU against NumPy: forward and backward.

Among its shapes are B = 1, T = 1, ragged batches and batches of nothing but padding; fused and
unfused, float64 and float32.
"""

from __future__ import annotations

import numpy as np
import pytest
from gpu.arrays import to_gpu, to_numpy

from grads.case import SHAPES, dense, draw
from grads.catalogue import ENTRIES

TOLERANCE = {"float64": 1e-10, "float32": 5e-4}
BY_NAME = {entry.name: entry for entry in ENTRIES}
ALL = [(name, shape) for name, entry in BY_NAME.items()
       for shape in dict.fromkeys((entry.shapes[0], entry.shapes[-1]))]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name, shape", ALL)
def test_kernels(name, shape, dtype, fusing):
    rng = np.random.default_rng(3)
    import backend

    with backend.using("numpy"):
        case = BY_NAME[name].make(rng, SHAPES[shape])
        inputs = {key: value.astype(dtype) for key, value in case.inputs.items()}
        outputs = case.forward(inputs)
        upstream = {key: draw(rng, *np.shape(out)).astype(dtype) for key, out in outputs.items()}
        expected = {**outputs,
                    **{f"d{k}": v for k, v in case.backward(inputs, upstream).items()}}
    inputs, upstream = to_gpu(inputs), to_gpu(upstream)
    found = case.forward(inputs)
    found = {**found, **{f"d{k}": v for k, v in case.backward(inputs, upstream).items()}}
    assert found.keys() == expected.keys()
    for key, array in expected.items():
        ours = to_numpy(dense(found[key]))
        assert ours.dtype == dtype, key
        np.testing.assert_allclose(ours, dense(array), rtol=TOLERANCE[dtype],
                                   atol=TOLERANCE[dtype], err_msg=key)
