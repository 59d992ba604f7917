"""Makes cases whose kernels run on a GPU, with inputs and outputs on the host.

Numerical differentiation runs on NumPy (`grads.check`). Its derivatives are compared with the
backward pass on the device, with fused kernels, and its outputs with the device's outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

import backend
from backend import Array
from grads.check.case import Case, Inputs, dense


def on_device(case: Case) -> Case:
    """The case with its kernels on the backend in use. If that is NumPy, the case itself.

    Complex steps with continued arrays cannot run on a device, so they stay on the host.
    """
    home = backend.module()
    if backend.on_host(home):
        return case

    def forward(inputs: Inputs) -> tuple[dict[str, Array], Any]:
        if not all(type(value) is np.ndarray for value in inputs.values()):
            return case.forward(inputs)
        with backend.using(home):
            outputs, cache = case.forward({k: backend.to_device(v) for k, v in inputs.items()})
        return {name: backend.to_host(out) for name, out in outputs.items()}, cache

    def vjp(d_outputs: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        with backend.using(home):
            gradients = case.vjp(
                {k: None if d is None else backend.to_device(d) for k, d in d_outputs.items()},
                cache,
            )
            return {name: backend.to_host(dense(d)) for name, d in gradients.items()}

    return replace(case, forward=forward, vjp=vjp)
