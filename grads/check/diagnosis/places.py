"""Names for positions and parts of a tensor, from its labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from grads.check.case import Block, Labels
from grads.check.diagnosis.evidence import Evidence

# The name of an index of an axis, if it is not that of the axis
WORDS = {"batch": "batch item", "gate": "gate row"}
LONGEST = 100  # a longer axis is not examined index by index


class Part(NamedTuple):
    """A named part of a tensor."""

    name: str
    where: np.ndarray  # bool, the tensor's shape


Family = list[Part]  # parts that do not overlap


def place(labels: Labels | None, index: Sequence[int]) -> str:
    """An entry in words: "gate o, row 1; column 4 (h 1)", or the bare index without labels."""
    if labels is None or not len(index) or len(labels.axes) != len(index):
        return str(tuple(int(k) for k in index))
    said = [_place_on(labels, axis, int(k)) for axis, k in enumerate(index)]
    return ("; " if any("," in words for words in said) else ", ").join(said)


def _place_on(labels: Labels, axis: int, k: int) -> str:
    """An index of an axis in words."""
    kind = labels.axes[axis]
    for block in labels.blocks:
        if restricted(block) == (axis,) and k in range(10**9)[block.where[axis]]:
            within = k - (block.where[axis].start or 0)
            return (f"gate {block.name}, row {within}" if kind == "gate"
                    else f"{word(kind)} {k} ({block.name} {within})")
    return f"{word(kind)} {k}"


def word(axis: str) -> str:
    """The name of an index along an axis: "batch item"."""
    return WORDS.get(axis, axis)


def restricted(block: Block) -> tuple[int, ...]:
    """The axes along which a block is smaller than the tensor."""
    return tuple(axis for axis, cut in enumerate(block.where) if cut != slice(None))


def block_name(labels: Labels, block: Block) -> str:
    """A block in words: "gate f", "column block h", "block f, h"."""
    axes = restricted(block)
    kind = labels.axes[axes[0]] if len(axes) == 1 else ""
    return {"gate": "gate", "column": "column block"}.get(kind, "block") + f" {block.name}"


def block_families(labels: Labels | None, ndim: int) -> list[list[Block]]:
    """The blocks grouped by the axes that they divide."""
    by_axes: dict[tuple[int, ...], list[Block]] = {}
    for block in labels.blocks if labels is not None and len(labels.axes) == ndim else ():
        if restricted(block):
            by_axes.setdefault(restricted(block), []).append(block)
    return list(by_axes.values())


def axis_name(labels: Labels | None, axis: int, ndim: int) -> str:
    """The name of an axis: "time", or "axis 0" without labels."""
    if labels is None or len(labels.axes) != ndim:
        return f"axis {axis}"
    return labels.axes[axis]


def families(evidence: Evidence) -> list[Family]:
    """The ways to divide a tensor into parts: its blocks, and the indices of each axis."""
    labels, shape = evidence.labels, evidence.analytic.shape
    divisions = []
    for blocks in block_families(labels, len(shape)):
        assert labels is not None
        family = []
        for block in blocks:
            where = np.zeros(shape, dtype=bool)
            where[block.where] = True
            family.append(Part(block_name(labels, block), where))
        divisions.append(family)
    for axis, size in enumerate(shape):
        if 2 <= size <= LONGEST:
            along = np.arange(size).reshape([-1 if a == axis else 1 for a in range(len(shape))])
            name = axis_name(labels, axis, len(shape))
            name = f"index {{}} of {name}" if name.startswith("axis") else f"{word(name)} {{}}"
            divisions.append([Part(name.format(k), np.broadcast_to(along == k, shape))
                              for k in range(size)])
    return divisions
