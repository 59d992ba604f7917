"""What a forward keeps for its backward: it must survive both another forward and the backward."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from grads.check.analytic import dense, host, same_bits
from grads.check.case import Case
from grads.check.report import Finding

STEP = 0.25  # relative change of the inputs of another run

Arrays = Mapping[str, np.ndarray]


def cache_findings(case: Case, upstream: Arrays, gradients: Arrays) -> list[Finding]:
    """Faults of outputs and cache that one forward and one backward do not show.

    Arguments: upstream gradients by output; gradients, what one backward gave for them. A second
    run of the forward, with other inputs, and a second call of the backward on the same cache must
    change nothing.
    """
    inputs = {name: np.array(value) for name, value in case.inputs.items()}
    outputs, cache = case.forward(inputs)
    before = {name: np.array(host(out)) for name, out in outputs.items()}
    others = {name: value + np.asarray(STEP * (1 + np.abs(value)), value.dtype)
              for name, value in case.inputs.items()}
    with np.errstate(all="ignore"):
        try:
            case.forward(others)
        except Exception:  # the other inputs need not suit it
            pass
    aliased = same_bits({name: host(out) for name, out in outputs.items()}, before)
    if aliased:
        return [Finding("aliased", aliased[0], "another run of the forward changes the outputs of "
                        "this one: they share a buffer")]
    if same_bits(_backward(case, upstream, outputs, cache), gradients):
        return [Finding("aliased", "cache", "another run of the forward changes the gradients of "
                        "this one: its cache shares a buffer")]
    if same_bits(_backward(case, upstream, outputs, cache), gradients):
        return [Finding("cache", "backward", "a second call of the backward on the same cache "
                        "gives something else: it changes its cache")]
    return []


def _backward(case: Case, upstream: Arrays, outputs: Mapping[str, Any], cache: Any) -> Arrays:
    """The gradients from this cache."""
    dtype = next(iter(case.inputs.values())).dtype
    given = {name: np.array(upstream[name], dtype) if name in upstream
             else np.zeros(np.shape(out), dtype) for name, out in outputs.items()}
    return {name: dense(d, name, case.inputs) for name, d in case.vjp(given, cache).items()}
