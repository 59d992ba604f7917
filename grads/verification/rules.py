"""Rules that a model must follow besides having the right gradient.

Data that a batch does not use have no effect, to the last bit. Dtypes are preserved. Gradients in
float32 equal those in float64 up to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from backend import to_host
from grads.check.analytic import differing
from grads.check.case import Case, dense
from grads.check.result import Finding
from grads.verification.cases import RandomModel, model_case
from grads.verification.device import on_device
from grads.verification.shapes import FIRST, draw
from nmt.data.batches import Side
from nmt.data.vocabulary import END

FLOAT32 = 1e-3  # largest difference in a tensor, relative to its largest gradient
ROUNDINGS = 16  # or as many times the change by rounding the inputs
ORDER = 1e-12  # the same, between sums of the same terms in another order
NOISE = 1e-4  # floor of a tensor's scale, as a fraction of the largest gradient: less is rounding

Gradients = Mapping[str, np.ndarray]


class Passes(NamedTuple):
    """The results of one forward and one backward pass."""

    loss: Gradients  # with the name "loss"
    gradients: Gradients  # of the loss, as full arrays


def rules(case: Case, drawn: RandomModel) -> Iterator[Finding]:
    """Findings on the rules that the case of a random model breaks."""
    right = passes(case)
    yield from padding(drawn, right)
    yield from unused_rows(case, drawn, right)
    yield from dtypes(case, right.gradients)


def passes(case: Case, dtype: Any = np.float64) -> Passes:
    """The loss and its gradients, computed in `dtype`."""
    outputs, cache = case.forward(_cast(case, dtype))
    loss = {name: to_host(out) for name, out in outputs.items()}
    gradients = case.vjp({"loss": np.ones((), dtype)}, cache)
    return Passes(loss, {name: to_host(dense(gradient)) for name, gradient in gradients.items()})


def gradients_of(case: Case, dtype: Any = np.float64) -> dict[str, np.ndarray]:
    """The gradients of the loss, computed in `dtype`, as full arrays."""
    return dict(passes(case, dtype).gradients)


def padding(drawn: RandomModel, right: Passes) -> Iterator[Finding]:
    """Findings unless, with other words on padding, the loss is the same to the last bit, and the
    gradients are the same up to the order of sums."""
    batch = drawn.batch
    repadded = replace(batch, sources=tuple(_repadded(side, 0) for side in batch.sources),
                       target=_repadded(batch.target, 1))
    again = passes(on_device(model_case(drawn._replace(batch=repadded))))
    for name in differing(again.loss, right.loss):
        yield Finding("padding", name, "the output depends on what stands on padding")
    error = distance(again.gradients, right.gradients)
    if not error <= ORDER:
        yield Finding("padding", "gradients", f"they depend on what stands on padding: a relative "
                                              f"difference of {error:.1e}")


def _repadded(side: Side, before: int) -> Side:
    """A side whose padding, also that of words' characters, holds a word; `before` ids precede the
    first step.
    """
    characters = tuple(group._replace(ids=_padded_by(FIRST, group.ids, group.lengths))
                       for group in side.characters)
    factors = side.factors
    if factors is not None:
        factors = np.stack([_padded_by(1, factor, side.lengths) for factor in factors])
    return replace(side, factors=factors, ids=_padded_by(FIRST, side.ids, side.lengths + before),
                   characters=characters)


def _padded_by(filling: int, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The ids, with another id after the ends."""
    return np.where(np.arange(len(ids))[:, None] < lengths, ids, filling)


def unused_rows(case: Case, drawn: RandomModel, right: Passes) -> Iterator[Finding]:
    """Findings unless rows of a table that no step reads have a gradient of exactly zero."""
    rng = np.random.default_rng([0, 1])  # not an entry's seed, which might draw the same rows
    for name, weight in drawn.model.weights().items():
        is_table = weight.axes[0].name in ("word", "character") and name not in drawn.frozen
        for used in _sides(drawn) if is_table else ():
            unread = np.setdiff1d(np.arange(weight.shape[0]), used)
            if not right.gradients[name][unread].any():
                continue
            redrawn = {**case.inputs, name: case.inputs[name].copy()}
            redrawn[name][unread] = draw(rng, len(unread), *weight.shape[1:])
            if not differing(_loss(case, redrawn), right.loss):
                yield Finding("unused row", f"d{name}", "expected exact zeros in rows that no "
                              "step reads")


def _sides(drawn: RandomModel) -> Iterator[np.ndarray]:
    """The words that each side of the batch has at its real steps, and their characters."""
    batch = drawn.batch
    for ids, side in [*((side.ids, side) for side in batch.sources),
                      (batch.target_in, batch.target)]:
        yield np.unique(ids[np.arange(len(ids))[:, None] < side.lengths])
        if side.characters:
            yield np.unique([i for group in side.characters for i in (
                END, *group.ids[np.arange(len(group.ids))[:, None] < group.lengths])])


def dtypes(case: Case, gradients: Gradients) -> Iterator[Finding]:
    """Findings unless float32 stays float32 in both passes and is close to float64, and complex
    stays complex in the forward. Close is also what differs by a few times as much as rounding the
    inputs changes: a norm in a cell may divide by a small deviation."""
    loss, single = passes(case, np.float32)
    yield from _other_than(np.float32, loss, "")
    yield from _other_than(np.float32, single, "d")
    yield from _other_than(np.complex128, _loss(case, _cast(case, np.complex128)), "")
    error = distance(single, gradients)
    if not error <= FLOAT32 and not error <= ROUNDINGS * _rounded(case, gradients):
        yield Finding("float32", "gradients", f"expected those of float64 but for rounding, got "
                                              f"a relative difference of {error:.1e}")


def _rounded(case: Case, gradients: Gradients) -> float:
    """By how much the gradients in float64 change if the inputs are rounded to float32."""
    inputs = {name: value.astype(np.float64) for name, value in _cast(case, np.float32).items()}
    return distance(gradients_of(replace(case, inputs=inputs)), gradients)


def _other_than(expected: Any, arrays: Gradients, prefix: str) -> Iterator[Finding]:
    """The names of arrays of another dtype."""
    for name, array in arrays.items():
        if array.dtype != expected:
            yield Finding("dtype", f"{prefix}{name}",
                          f"expected {np.dtype(expected)}, got {array.dtype}")


def distance(actual: Gradients, expected: Gradients) -> float:
    """The largest difference over all tensors, relative to each tensor's largest gradient."""
    largest = {name: float(np.abs(array).max(initial=0.0)) for name, array in expected.items()}
    floor = NOISE * max(largest.values(), default=0.0)
    errors = [_ratio(float(np.abs(actual[name] - array).max(initial=0.0)),
                     max(largest[name], floor)) for name, array in expected.items()]
    return float(np.max(errors, initial=0.0))


def _ratio(gap: float, scale: float) -> float:
    return gap / scale if scale else np.inf if gap else 0.0


def _cast(case: Case, dtype: Any) -> dict[str, np.ndarray]:
    return {name: value.astype(dtype) for name, value in case.inputs.items()}


def _loss(case: Case, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: to_host(out) for name, out in case.outputs(inputs).items()}
