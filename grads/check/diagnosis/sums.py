"""Missing terms of a sum: the time steps and batch items over which a weight's gradient is summed.

The gradient of a matrix is a sum of outer products, dW = sum_k dz_k x_k^T. If one group of terms is
wrong (a time step, a batch item), the rows of the difference lie in the span of that group's x_k
and, where the span is smaller than that of all x_k, in no other group's.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np

from grads.check.case import Labels
from grads.check.diagnosis.evidence import DIGITS, Evidence, Pair, padding_of
from grads.check.diagnosis.places import block_families, block_name, restricted, word

UNNAMED = ("axis 0", "axis 1")  # names of the axes of inputs without labels
SUMMED = ("time", "batch", "row", "position", *UNNAMED)  # axes that a weight's gradient sums over
MOST = 500  # most groups that are tried
RANK = 1e-9  # singular values below this part of the largest are rounding


class Group(NamedTuple):
    """A group of terms: their name and an orthonormal basis of their span."""

    name: str
    basis: np.ndarray  # (rank, width)


def missing_terms(evidence: Evidence, pair: Pair) -> list[str]:
    """Phrases for the one group of terms that is wrong, or that is the only one in the gradient."""
    if pair.analytic.ndim != 2:
        return []
    found = []
    for prefix, columns in _column_blocks(evidence):
        part = pair.at((slice(None), columns))
        part = part.at(part.known.all(axis=1))
        if not part.wrong.any():
            continue
        for name, groups, rank in _groupings(evidence, part.analytic.shape[1]):
            said = _found_in(part, name, groups, rank)
            if said:
                found.append(said + prefix)
                break
    return list(dict.fromkeys(found))


def _column_blocks(evidence: Evidence) -> Iterator[tuple[str, slice]]:
    """The whole width and each column block, with the words to be added to a phrase about it."""
    yield "", slice(None)
    for blocks in block_families(evidence.labels, 2):
        for block in blocks if restricted(blocks[0]) == (1,) else ():
            assert evidence.labels is not None
            yield f" (seen in {block_name(evidence.labels, block)})", block.where[1]


def _groupings(evidence: Evidence, width: int) -> Iterator[tuple[str, list[Group], int]]:
    """Every way to group the rows of an input of this width, the finest first; the rank of all."""
    unlabelled = {name: Labels((*UNNAMED[:np.ndim(value) - 1], "column"))
                  for name, value in evidence.inputs.items() if 2 <= np.ndim(value) <= 3}
    for name, labels in (evidence.all_labels or unlabelled).items():
        x = np.asarray(evidence.inputs.get(name, 0.0), dtype=np.float64)
        if name == evidence.name or x.ndim < 2 or x.shape[-1] != width or (
                len(labels.axes) != x.ndim or x.size == 0):
            continue
        axes = [k for k, axis in enumerate(labels.axes[:-1]) if axis in SUMMED]
        padding = padding_of(evidence._replace(analytic=x, labels=labels))
        x = x if padding is None else np.where(padding, 0.0, x)
        rank = len(_basis(x.reshape(-1, width)))
        for along in ([axes] if len(axes) > 1 else []) + [[axis] for axis in axes]:
            if np.prod([x.shape[axis] for axis in along]) > MOST:
                continue
            groups = [g for g in _groups(x, labels, along) if len(g.basis)]
            if all(len(g.basis) < rank for g in groups) or len(along) == 1:
                yield name, [g for g in groups if len(g.basis) < rank], rank


def _groups(x: np.ndarray, labels: Labels, along: list[int]) -> Iterator[Group]:
    """One group for each index along the given axes."""
    for index in product(*(range(x.shape[axis]) for axis in along)):
        where: list[slice | int] = [slice(None)] * x.ndim
        said = []
        for axis, k in zip(along, index, strict=True):
            where[axis] = k
            last = labels.axes[axis] == "time" and 0 < k == x.shape[axis] - 1
            kind = labels.axes[axis]
            said.append(f"index {k} of {kind}" if kind in UNNAMED else
                        f"{word(kind)} {k}" + " (the last)" * last)
        yield Group(", ".join(said), _basis(x[tuple(where)].reshape(-1, x.shape[-1])))


def _basis(rows: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the rows' span."""
    _, values, right = np.linalg.svd(rows, full_matrices=False)
    return right[values > RANK * values.max(initial=0.0)]


def _found_in(part: Pair, name: str, groups: list[Group], rank: int) -> str | None:
    """The one group that explains the difference, or all of the analytic gradient."""
    for what, rows in (("differs", part.analytic - part.numeric), ("holds", part.analytic)):
        fits = [g for g in groups if _lie_in(rows, part, g, rank)]
        if len(fits) != 1 or _inside(part.numeric, part, fits[0]):
            continue
        if what == "holds":
            return (f"holds only the term of {name} at {fits[0].name}, of all that it should sum: "
                    "is = written for +=?")
        return (f"differs by a multiple of {name} at {fits[0].name}: this term of the sum is "
                "missing or wrong")
    return None


def _inside(rows: np.ndarray, part: Pair, group: Group) -> bool:
    """Whether all rows lie in the span of a group, within rounding."""
    rest = rows - (rows @ group.basis.T) @ group.basis
    return bool((np.linalg.norm(rest, axis=1) <= _limits(part)).all())


def _lie_in(rows: np.ndarray, part: Pair, group: Group, rank: int) -> bool:
    """As `_inside`, and significant: each row has rank - rank(group) dimensions outside the
    span."""
    if not rows.size or not _inside(rows, part, group):
        return False
    gained = np.log10(np.maximum(np.linalg.norm(rows, axis=1) / _limits(part), 1.0))
    return float(gained.sum()) * (rank - len(group.basis)) >= DIGITS


def _limits(part: Pair) -> np.ndarray:
    """The largest remainder of each row outside a span that rounding explains."""
    return 2 * np.sqrt(part.allowed.shape[1]) * part.allowed.max(axis=1)


# --- rows of a table whose id repeats -----------------------------------------------------------


def duplicates(evidence: Evidence, pair: Pair) -> list[str]:
    """Phrases where only the rows of a table whose id occurs more than once are wrong."""
    ids, rows = evidence.facts.get("ids"), pair.analytic.shape[:1]
    if not isinstance(ids, np.ndarray) or ids.dtype.kind not in "iu" or pair.analytic.ndim != 2:
        return []
    padding = evidence.facts.get("padding")
    real: np.ndarray = np.ones(ids.shape, dtype=bool)
    if isinstance(padding, np.ndarray) and padding.shape == ids.shape:
        real &= ~padding
    if not real.any() or ids[real].min() < 0 or ids[real].max() >= rows[0]:
        return []
    counts = np.bincount(ids[real], minlength=rows[0])
    wrong, significant = (np.asarray(a.any(axis=1)) for a in (pair.wrong, pair.significant))
    if significant[counts == 0].any() or not wrong.any() or (counts[wrong] < 2).any():
        return []
    times = np.maximum(counts, 1)[:, None]
    if pair.accepts(pair.analytic * times, float(times.max())):
        return ["is divided in each row by how often its id occurs: a mean where the sum belongs"]
    for upstream in evidence.upstream.values():
        said = _one_share(pair, ids, real, np.asarray(upstream))
        if said:
            return [said]
    right = significant & ~wrong
    if not (right & (counts == 1)).any() or (right & (counts > 1)).any():
        return []
    return ["is wrong only in rows whose id occurs more than once: is a repeated id overwritten "
            "instead of added?"]


def _one_share(pair: Pair, ids: np.ndarray, real: np.ndarray, upstream: np.ndarray) -> str | None:
    """The phrase if each row holds the gradient of a single occurrence of its id; else None."""
    if upstream.shape != (*ids.shape, pair.analytic.shape[1]):
        return None
    flat, shares = ids[real], upstream[real]
    total = np.zeros_like(pair.analytic)
    np.add.at(total, flat, shares)
    if (np.abs(np.where(pair.known, total - pair.numeric, 0.0)) > 2 * pair.allowed).any():
        return None
    for which, order in (("last", slice(None)), ("first", slice(None, None, -1))):
        single = np.zeros_like(total)
        single[flat[order]] = shares[order]
        if pair.accepts(pair.analytic - single + pair.numeric):
            return (f"holds only the {which} occurrence of each repeated id: duplicates are "
                    "overwritten instead of added")
    return None
