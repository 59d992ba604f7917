"""Finds a factor or a term that a wrong gradient lacks or has too much.

The factor or term is made of known arrays: the inputs, the outputs and the upstream gradients. Each
explanation is a repair, as in `repairs`. A factor is tried as it is. A term is fitted, either for
the whole tensor or for each line along an axis; the fitted numbers do not count as evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from grads.check.diagnosis.evidence import Array, Evidence, Pair

# The name of a factor made of q, and the factor
FACTORS: dict[str, Callable[[Array], Array]] = {
    "{}": lambda q: q, "1/{}": lambda q: 1 / q, "{}^2": np.square, "1/{}^2": lambda q: q**-2.0,
    "exp({})": np.exp, "log({})": np.log, "cos({})": np.cos, "(1 - {})": lambda q: 1 - q,
}
# An activation: its slope as a function of its output y, its input as a function of y, the
# activation itself, and whether y may be its output
ACTIVATIONS: dict[str, tuple[Callable[[Array], Array], ...]] = {
    "tanh": (lambda y: 1 - y * y, np.arctanh, np.tanh, lambda y: np.abs(y) < 1),
    "the sigmoid": (lambda y: y * (1 - y), lambda y: np.log(y / (1 - y)),
                    lambda z: 1 / (1 + np.exp(-z)), lambda y: (y > 0) & (y < 1)),
    "a ReLU": (lambda y: (y > 0).astype(float), np.positive, np.positive, lambda y: y >= 0),
}

Values = Mapping[str, Array]


def fitting(arrays: Values, shape: tuple[int, ...]) -> dict[str, Array]:
    """The arrays, broadcast to a shape by NumPy's rules or along the shape's first axes."""
    fitted = {}
    for name, a in arrays.items():
        array = np.asarray(a)
        if array.size < 2 or array.dtype.kind not in "fiu":
            continue
        if array.ndim < len(shape) and array.shape == shape[:array.ndim]:
            array = array.reshape(array.shape + (1,) * (len(shape) - array.ndim))
        try:
            fitted[name] = np.broadcast_to(array, shape).astype(np.float64)
        except ValueError:
            pass
    return fitted


def counts(facts: Values, shape: tuple[int, ...]) -> dict[str, Array]:
    """For each array of ids, how often each index of a tensor's first axis occurs in it."""
    return {f"of how often its index is in {name}": np.bincount(
        ids.reshape(-1), minlength=shape[0]) for name, ids in facts.items()
        if isinstance(ids, np.ndarray) and ids.dtype.kind in "iu" and ids.size and shape
        and 0 <= ids.min() <= ids.max() < shape[0]}


def explained(evidence: Evidence, pair: Pair) -> list[str]:
    """The phrase for the simplest factor or term that makes a gradient right."""
    shape = pair.analytic.shape
    inputs, outputs = fitting(evidence.inputs, shape), fitting(evidence.outputs, shape)
    inputs |= fitting(counts(evidence.facts, shape), shape)
    with np.errstate(all="ignore"):
        for phrases in (slopes(pair, [(y, y) for y in outputs.values()]),
                        factors(pair, {**inputs, **outputs}, evidence.name),
                        _terms(evidence, pair)):
            said = next(phrases, None)
            if said:
                return [said]
    return []


def slopes(pair: Pair, outputs: Iterable[tuple[Array, Array]]) -> Iterator[str]:
    """Phrases for a forgotten or a wrong slope of an activation.

    Arguments: outputs, each at the pair's entries, and as a whole.
    """
    for y, everywhere in outputs:
        for name, (slope, inverse, itself, possible) in ACTIVATIONS.items():
            if not possible(everywhere).all():
                continue
            right = slope(y)
            other_slopes = {
                f"has the slope of {other_name} where that of {name} belongs": form[0](y)
                for other_name, form in ACTIVATIONS.items() if other_name != name}
            for phrase, wrong in {
                f"is computed without the slope of {name}"
                + ": is a mask forgotten?" * (name == "a ReLU"): np.ones_like(y),
                f"has the slope of {name} at its input, computed as if that were its output":
                    slope(inverse(y)),
                f"has {name} taken twice: its slope is that at the output's {name}":
                    slope(itself(y)),
                f"has the output where the slope of {name} belongs": y,
                f"has 1 - y where the slope of {name} belongs": 1 - y,
                **other_slopes,
            }.items():
                ratio = right / wrong
                if pair.accepts(pair.analytic * ratio, np.abs(ratio)):
                    yield phrase


def factors(pair: Pair, values: Values, tensor: str) -> Iterator[str]:
    """Phrases for a forgotten factor: one of FACTORS, of a known array."""
    for name, q in values.items():
        for form, f in FACTORS.items():
            factor = f(q)
            if pair.accepts(pair.analytic * factor, np.abs(factor)):
                function = {"1/{}": "log {}", "exp({})": "exp({})"}.get(form, "")
                yield f"lacks the factor {form.format(name)}" + (
                    f": is it the derivative with respect to {function.format(name)}?"
                    if name == tensor and function else "")


def _terms(evidence: Evidence, pair: Pair) -> Iterator[str]:
    """Phrases for a multiple of a known array that is missing or too much."""
    shape, tensor = pair.analytic.shape, evidence.name
    x = evidence.inputs.get(tensor)
    arrays = {}
    if x is not None and x.shape == shape and np.ptp(np.abs(x)) > 0:
        arrays[tensor] = (x, ": is weight decay missing?", ": is weight decay counted twice?")
    if x is not None and x.shape == shape and x.ndim and np.ptp(np.sign(x)) > 0:
        arrays[f"the sign of {tensor}"] = (np.sign(x), f": is the slope of |{tensor}| missing?", "")
    for name, d in evidence.upstream.items():
        if np.shape(d) == shape:
            arrays[f"the upstream gradient of output {name}"] = (
                d, ": is a path around the layer missing?", "")
    weight = np.where(pair.known, 1 / pair.allowed, 0.0)
    weight /= weight.max()
    gap = np.where(pair.known, pair.analytic - pair.numeric, 0.0) * weight
    for name, (t, lacking, too_much) in arrays.items():
        c = float((gap * t * weight).sum() / np.square(t * weight).sum())
        if pair.known.sum() > 2 and pair.accepts(pair.analytic - c * t, abs(c), fitted=1):
            times = "" if abs(abs(c) - 1) < 1e-6 else f"{abs(c):.6g} times "
            yield (f"lacks {times}{name}{lacking}" if c < 0 else
                   f"has {times}{name} too much{too_much}")
