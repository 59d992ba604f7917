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
WHOLE = 1e-6  # fraction of the largest singular value above which a value counts for the rank

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
                        _terms(evidence, pair), _of_lines(evidence, pair),
                        _antisymmetric(pair), _of_another_axis(evidence, pair)):
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


def _alike(evidence: Evidence, pair: Pair) -> dict[str, Array]:
    """The tensor itself and the outputs that have its shape."""
    arrays = {evidence.name: evidence.inputs.get(evidence.name, np.zeros(0)), **{
        f"output {name}": out for name, out in evidence.outputs.items()}}
    return {name: a for name, a in arrays.items() if np.shape(a) == pair.analytic.shape and a.ndim}


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


def _of_lines(evidence: Evidence, pair: Pair) -> Iterator[str]:
    """Phrases for a missing or wrong sum over an axis: each line along the axis differs by its own
    multiple of a term."""
    shape, alike = pair.analytic.shape, _alike(evidence, pair)
    ones = np.ones(shape)
    tried = {"one number": ("is a mean over axis {} missing or wrong?", [ones])}
    tried |= {f"a multiple of {name}": (
        "is a sum over axis {} missing or wrong (of a norm, or of a softmax)?", [a])
        for name, a in alike.items()}
    tried |= {f"a multiple of {name} and one number": (
        "is the path through the mean or the variance over axis {} missing or wrong?", [a, ones])
        for name, a in alike.items()}
    outer = {}
    for name, d in evidence.upstream.items():
        if np.shape(d) == shape and f"output {name}" in alike:
            y = alike[f"output {name}"]
            outer[phrase := f"a softmax's cross terms, of output {name},"] = y * y * d
            tried[phrase] = "is only the diagonal of its Jacobian over axis {} used?", [y]
    for phrase, (question, basis) in tried.items():
        for axis in range(len(shape)):
            known = pair._replace(analytic=pair.analytic + outer.get(phrase, 0.0))
            repaired, fitted = _fitted_lines(known, axis, basis)
            if 0 < 2 * fitted < pair.known.sum() and pair.accepts(repaired, fitted=fitted):
                yield f"differs by {phrase} in each line of axis {axis}: {question.format(axis)}"


def _fitted_lines(pair: Pair, axis: int, basis: list[Array]) -> tuple[Array, int]:
    """The gradient without the multiples of the basis that fit the difference in each line, and the
    number of fitted numbers."""
    repaired = np.full(pair.analytic.shape, np.nan)
    lines, a, n = (np.moveaxis(array, axis, -1).reshape(-1, array.shape[axis])
                   for array in (np.array(repaired), pair.analytic, pair.numeric))
    columns = np.stack([np.moveaxis(array, axis, -1).reshape(a.shape) for array in basis], -1)
    fitted = 0
    for k, known in enumerate(np.isfinite(n)):
        if known.sum() > len(basis):
            rows = columns[k][known]
            coefficients = np.linalg.lstsq(rows, (a[k] - n[k])[known], rcond=None)[0]
            lines[k][known] = a[k][known] - rows @ coefficients
            fitted += len(basis)
    moved = np.moveaxis(repaired, axis, -1)
    moved[...] = lines.reshape(moved.shape)
    return repaired, fitted


def _antisymmetric(pair: Pair) -> Iterator[str]:
    """The phrase for a transposed term of a square matrix that has other terms, too."""
    n = len(pair.analytic) if pair.analytic.ndim == 2 else 0
    if n > 1 and pair.analytic.shape == (n, n):
        gap = pair.analytic - pair.numeric
        if pair.accepts(pair.analytic - (gap - gap.T) / 2, fitted=n * (n - 1) // 2):
            yield ("differs by an antisymmetric matrix: is a term used where its transpose "
                   "belongs?")


def _of_another_axis(evidence: Evidence, pair: Pair) -> Iterator[str]:
    """The phrase for a sum over the wrong axis: t_ij (a_i + b_j w_i), where t is known."""
    if pair.analytic.ndim != 2 or min(pair.analytic.shape) < 3 or not pair.known.all():
        return
    alike = _alike(evidence, pair)
    x = alike.get(evidence.name, pair.analytic)
    for t in (np.ones(x.shape), *alike.values(), x - x.mean(axis=0), x - x.mean(axis=1)[:, None]):
        E = (pair.analytic - pair.numeric) / t
        if not np.isfinite(E).all() or _rank_one(E)[1] < WHOLE:
            continue
        for axis in (0, 1):
            mean = E.mean(axis=axis, keepdims=True)
            outer, _ = _rank_one(E - mean)
            fitted = mean.size + sum(E.shape) - 2
            if pair.accepts(pair.analytic - t * (mean + outer), fitted=fitted):
                yield "differs as by a sum or a mean over the wrong axis"


def _rank_one(E: Array) -> tuple[Array, float]:
    """The nearest matrix of rank one, and the second singular value as a fraction of the first."""
    U, values, Vt = np.linalg.svd(E)
    return values[0] * np.outer(U[:, 0], Vt[0]), values[1] / values[0]
