"""What a forward keeps for its backward: it must survive both another forward and the backward."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from grads.check.analytic import Kept, dense, same_bits
from grads.check.case import Case
from grads.check.report import Finding

STEP = 0.25  # relative change of the inputs of another run

Arrays = Mapping[str, np.ndarray]


def cache_findings(case: Case, upstream: Arrays, gradients: Arrays) -> list[Finding]:
    """Faults of a cache that one forward and one backward do not show.

    Arguments: upstream gradients by output; gradients, what one backward gave for them. A second
    run of the forward, with other inputs, and a second call of the backward on the same cache must
    change nothing. A layer that keeps its state in itself returns no arrays in a cache, and is not
    asked for that.
    """
    if case.cacheless:
        return []
    inputs = {name: np.array(value) for name, value in case.inputs.items()}
    outputs, cache = case.forward(inputs)
    if not _holds_arrays(cache.cache if isinstance(cache, Kept) else cache):
        return []
    others = {name: value + np.asarray(STEP * (1 + np.abs(value)), value.dtype)
              for name, value in case.inputs.items()}
    with np.errstate(all="ignore"):
        try:
            case.forward(others)
        except Exception:  # the other inputs need not suit it
            pass
    if same_bits(_backward(case, upstream, outputs, cache), gradients):
        return [Finding("aliased", "cache", "another run of the forward changes the gradients of "
                        "this one: its cache shares a buffer")]
    try:
        again = _backward(case, upstream, outputs, cache)
    except Exception as error:
        return [Finding("cache", "backward", "a second call of the backward on the same cache "
                        f"fails, {type(error).__name__}: {error}: it changes its cache")]
    if same_bits(again, gradients):
        return [Finding("cache", "backward", "a second call of the backward on the same cache "
                        "gives something else: it changes its cache")]
    return []


def _holds_arrays(cache: Any) -> bool:
    """Whether a cache is an array, or a tuple, list, mapping or dataclass with one inside."""
    if isinstance(cache, np.ndarray):
        return True
    if is_dataclass(cache) and not isinstance(cache, type):
        return any(_holds_arrays(getattr(cache, field.name)) for field in fields(cache))
    parts = cache.values() if isinstance(cache, Mapping) else cache
    return isinstance(cache, (tuple, list, Mapping)) and any(map(_holds_arrays, parts))


def _backward(case: Case, upstream: Arrays, outputs: Mapping[str, Any], cache: Any) -> Arrays:
    """The gradients from this cache."""
    dtype = next(iter(case.inputs.values())).dtype
    given = {name: np.array(upstream[name], dtype) if name in upstream
             else np.zeros(np.shape(out), dtype) for name, out in outputs.items()}
    return {name: dense(d, name, case.inputs) for name, d in case.vjp(given, cache).items()}
