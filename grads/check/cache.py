"""Checks a cache: another forward pass and its own backward pass must not change it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from grads.check.analytic import Kept, dense, same_bits
from grads.check.case import Case
from grads.check.result import Finding

STEP = 0.25  # relative change of the inputs of another run

Arrays = Mapping[str, np.ndarray]


def cache_findings(case: Case, upstream: Arrays, gradients: Arrays) -> list[Finding]:
    """Faults of a cache that a single forward and backward do not show.

    Arguments: upstream gradients by output; gradients, the result of one backward for them. Neither
    a second forward with other inputs nor a second backward on the same cache may change these
    gradients.
    """
    if case.cacheless:
        return []
    inputs = {name: np.array(value) for name, value in case.inputs.items()}
    outputs, cache = case.forward(inputs)
    kept = list(_arrays(cache.cache if isinstance(cache, Kept) else cache))
    if not kept:
        return []
    before = [np.array(array) for array in kept]
    elsewhere = {name: value + np.asarray(STEP * (1 + np.abs(value)), value.dtype)
                 for name, value in case.inputs.items()}
    with np.errstate(all="ignore"):
        try:
            case.forward(elsewhere)
        except Exception:  # the other inputs may be invalid for it
            pass
    changed = not all(np.array_equal(array, old, equal_nan=array.dtype.kind in "fc")
                      for array, old in zip(kept, before, strict=True))
    if changed and same_bits(_backward(case, upstream, outputs, cache), gradients):
        return [Finding("aliased", "cache", "another run of the forward changes the gradients of "
                        "this one: its cache shares a buffer")]
    if not changed:
        gradients = _backward(case, upstream, outputs, cache)
    try:
        again = _backward(case, upstream, outputs, cache)
    except Exception as error:
        return [Finding("cache", "backward", "a second call of the backward on the same cache "
                        f"fails, {type(error).__name__}: {error}: it changes its cache")]
    names = same_bits(again, gradients)
    if names and all(np.allclose(again[name], 2 * gradients[name]) for name in names):
        return [Finding("cache", f"d{name}", "the second is twice the first when the backward is "
                        "called again: is it not set to zero before it is added to?")
                for name in names]
    return [Finding("cache", "backward", "a second call of the backward on the same cache gives "
                    "something else: it changes its cache")] if names else []


def _arrays(cache: Any) -> Iterator[np.ndarray]:
    """The arrays of a cache: itself, or those inside a tuple, list, mapping or object."""
    pending, seen = [cache], set()
    while pending:
        value = pending.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, np.ndarray):
            yield value
        elif isinstance(value, (tuple, list)):
            pending += value
        elif isinstance(value, Mapping):
            pending += value.values()
        elif is_dataclass(value) and not isinstance(value, type):
            pending += [getattr(value, field.name) for field in fields(value)]
        elif hasattr(value, "__dict__") and not callable(value):
            pending += vars(value).values()


def _backward(case: Case, upstream: Arrays, outputs: Mapping[str, Any], cache: Any) -> Arrays:
    """The gradients from this cache."""
    dtype = next(iter(case.inputs.values())).dtype
    d_outputs = {name: np.array(upstream[name], dtype) if name in upstream
                 else np.zeros(np.shape(out), dtype) for name, out in outputs.items()}
    return {name: np.array(dense(d, name, case.inputs))
            for name, d in case.vjp(d_outputs, cache).items()}
