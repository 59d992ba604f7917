"""Finds missing terms of a sum: a weight's gradient is summed over time steps and batch items.

The gradient of a matrix is a sum of outer products, dW = sum_k dz_k x_k^T. If one group of terms is
wrong (a time step, a batch item), the rows of the difference lie in the span of the x_k of this
group. If this span is smaller than that of all x_k, they lie in the span of no other group.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np

from grads.check.case import Labels
from grads.check.diagnosis.evidence import DIGITS, Evidence, Pair
from grads.check.diagnosis.places import block_families, block_name, restricted, word

UNNAMED = ("axis 0", "axis 1")  # names of the axes of inputs without labels
SUMMED = ("time", "batch", "row", "position", *UNNAMED)  # axes that a weight's gradient sums over
RANK = 1e-9  # singular values below this fraction of the largest are rounding


class Group(NamedTuple):
    """A group of terms: their name, an orthonormal basis of their span, the rank of all terms."""

    name: str
    basis: np.ndarray  # (rank, width)
    rank: int


def missing_terms(evidence: Evidence, pair: Pair) -> list[str]:
    """The phrases for a group of terms that alone is wrong, or that alone is in the gradient.

    The matrix may multiply x from the left, W x, or from the right, x W.
    """
    phrases: list[str] = []
    for axis in (1, 0) if pair.analytic.ndim == 2 else ():
        across = pair if axis == 1 else Pair(*(array.T for array in pair))
        for prefix, columns in _blocks(evidence, axis):
            rows = across.at((slice(None), columns))
            rows = rows.at(rows.known.all(axis=1))
            families = list(_groupings(evidence, rows.analytic.shape[1]))
            if rows.wrong.any() and families:
                said = filter(None, (_found_in(rows, family, families) for family in families))
                phrases += [f"{phrase}{prefix}" for phrase in [*said][:1]]
    return list(dict.fromkeys(phrases))


def _blocks(evidence: Evidence, axis: int) -> Iterator[tuple[str, slice]]:
    """The whole length of an axis and each block of it, with words to add to a phrase about it."""
    yield "", slice(None)
    for blocks in block_families(evidence.labels, 2):
        for block in blocks if restricted(blocks[0]) == (axis,) else ():
            assert evidence.labels is not None
            yield f" (seen in {block_name(evidence.labels, block)})", block.where[axis]


def _groupings(evidence: Evidence, width: int) -> Iterator[list[Group]]:
    """All ways to group the rows of an input or output of this width, the finest way first."""
    arrays = {**evidence.inputs, **{f"output {name}": a for name, a in evidence.outputs.items()}}
    plain = {name: Labels((*UNNAMED[:np.ndim(value) - 1], "column"))
             for name, value in arrays.items() if 2 <= np.ndim(value) <= 3}
    for name, labels in (evidence.all_labels or plain).items():
        x = np.asarray(arrays.get(name, 0.0), dtype=np.float64)
        if name == evidence.name or x.ndim < 2 or x.shape[-1] != width or (
                len(labels.axes) != x.ndim or x.size == 0):
            continue
        axes = [k for k, axis in enumerate(labels.axes[:-1]) if axis in SUMMED]
        padding = np.asarray(evidence.facts.get("padding", False))
        x = np.where(padding, 0.0, x) if padding.shape == x.shape else x
        full_basis = _basis(x.reshape(-1, width))
        for along in ([axes] if len(axes) > 1 else []) + [[axis] for axis in axes]:
            groups = [Group(f"{name} at {said}", basis, len(full_basis))
                      for said, basis in _groups(x, labels, along) if len(basis)]
            if all(len(g.basis) < g.rank for g in groups) or len(along) == 1:
                yield [g for g in groups if len(g.basis) < g.rank]
        if x.ndim == 2 and len(full_basis) < width and not evidence.all_labels:
            yield [Group(name, full_basis, width)]


def _groups(x: np.ndarray, labels: Labels, along: list[int]) -> Iterator[tuple[str, np.ndarray]]:
    """The name and the basis of a group for each index along the given axes."""
    for index in product(*(range(x.shape[axis]) for axis in along)):
        where: list[slice | int] = [slice(None)] * x.ndim
        said = []
        for axis, k in zip(along, index, strict=True):
            where[axis] = k
            last = labels.axes[axis] == "time" and 0 < k == x.shape[axis] - 1
            kind = labels.axes[axis]
            said.append(f"index {k} of {kind}" if kind in UNNAMED else
                        f"{word(kind)} {k}" + " (the last)" * last)
        yield ", ".join(said), _basis(x[tuple(where)].reshape(-1, x.shape[-1]))


def _basis(rows: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the rows' span."""
    _, values, right = np.linalg.svd(rows, full_matrices=False)
    return right[values > RANK * values.max(initial=0.0)]


def _found_in(pair: Pair, groups: list[Group], families: list[list[Group]]) -> str | None:
    """The phrase on the only group that explains the difference, or the whole analytic gradient."""
    for relation, rows in (("differs", pair.analytic - pair.numeric), ("holds", pair.analytic)):
        fits = [g for g in groups if _lie_in(rows, pair, g)]
        if len(fits) != 1 or _inside(pair.numeric, pair, fits[0]):
            continue
        if relation == "differs":
            return (f"differs by a multiple of {fits[0].name}: this term of the sum is missing or "
                    "wrong")
        right = [g.name for family in families for g in family if _lie_in(pair.numeric, pair, g)]
        if right:
            return f"is made of multiples of {fits[0].name} where those of {right[-1]} belong"
        if " at " not in fits[0].name:
            return (f"is made of multiples of {fits[0].name} only: is a factor of it forgotten, or "
                    "= written for +=?")
        return (f"holds only the term of {fits[0].name}, of all that it should sum: is = written "
                "for +=?")
    return None


def _inside(rows: np.ndarray, pair: Pair, group: Group) -> bool:
    """Whether all rows lie in the span of a group, within rounding."""
    remainder = rows - (rows @ group.basis.T) @ group.basis
    return bool((np.linalg.norm(remainder, axis=1) <= _limits(pair)).all())


def _lie_in(rows: np.ndarray, pair: Pair, group: Group) -> bool:
    """Whether all rows lie in the span of a group, and this is significant: each row has
    rank - rank(group) dimensions outside of the span."""
    if not rows.size or not _inside(rows, pair, group):
        return False
    gained = np.log10(np.maximum(np.linalg.norm(rows, axis=1) / _limits(pair), 1.0))
    return float(gained.sum()) * (group.rank - len(group.basis)) >= DIGITS


def _limits(pair: Pair) -> np.ndarray:
    """For each row, the largest part outside of a span that rounding explains."""
    return 2 * np.sqrt(pair.allowed.shape[1]) * pair.allowed.max(axis=1)
