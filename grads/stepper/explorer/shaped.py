"""Trees of a user's lines with NumPy's shapes, and the operations that combine them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from grads.stepper.explorer.expand import Tree
from grads.stepper.explorer.tensors import flat
from grads.stepper.tracing.values import KEEP


class Shaped(NamedTuple):
    """A tree with the shape that NumPy gives it."""

    tree: Tree
    shape: tuple[int, ...]


def sides(shape: tuple[int, ...]) -> tuple[int, int]:
    """The rows and columns in which the page shows an array."""
    if len(shape) < 2:
        return (*shape, 1)[0], 1
    return int(np.prod(shape[:-1])), shape[-1]


def constant(value: Any, name: str) -> Shaped:
    """Numbers that no tensor of the page holds. Raises LookupError for a value that is not
    numeric."""
    numbers = np.asarray(value)
    if numbers.dtype.kind not in "fiub" or numbers.size > KEEP:
        raise LookupError(name)
    return Shaped(["v", list(sides(numbers.shape)), flat(numbers), name], numbers.shape)


def gathered(operand: Shaped, entries: np.ndarray) -> Shaped:
    """Some entries of a tree, given by their flat positions."""
    tree, width, places = operand.tree, sides(operand.shape)[1], entries.ravel()
    if tree[0] == "g":
        tree, places, width = tree[1], np.array(tree[3], int)[places], tree[4]
    return Shaped(["g", tree, list(sides(entries.shape)), places.tolist(), width], entries.shape)


def moved(operand: Shaped, change: Callable[[np.ndarray], np.ndarray]) -> Shaped:
    """A tree with its entries rearranged. The same tree if no entry changes its position."""
    before = np.arange(int(np.prod(operand.shape))).reshape(operand.shape)
    entries = np.asarray(change(before))
    if sides(entries.shape) == sides(operand.shape) and np.array_equal(
            entries.ravel(), before.ravel()):
        return Shaped(operand.tree, entries.shape)
    if len(operand.shape) == 2 and np.array_equal(entries, before.T):
        return Shaped(["T", operand.tree], entries.shape)
    return gathered(operand, entries)


def broadcast(operand: Shaped, shape: tuple[int, ...]) -> Shaped:
    """A tree broadcast to a larger shape. A single number is left as it is."""
    if operand.shape == () or operand.shape == shape:
        return operand
    return moved(operand, lambda entries: np.broadcast_to(entries, shape))


def elementwise(kind: str, left: Shaped, right: Shaped) -> Shaped:
    """An operation on each element."""
    shape = np.broadcast_shapes(left.shape, right.shape)
    return Shaped([kind, broadcast(left, shape).tree, broadcast(right, shape).tree], shape)


def product(left: Shaped, right: Shaped) -> Shaped:
    """A matrix product, also of vectors. Raises LookupError for arrays with more than two axes."""
    if not left.shape or not right.shape:
        return elementwise("*", left, right)
    if max(len(left.shape), len(right.shape)) > 2:
        raise LookupError("@")
    tree: Tree = ["@", left.tree if len(left.shape) == 2 else ["T", left.tree], right.tree]
    if (len(left.shape), len(right.shape)) == (1, 2):
        tree = ["T", tree]
    return Shaped(tree, left.shape[:-1] + right.shape[1:])


def joined(parts: list[Shaped], axis: int) -> Shaped:
    """The concatenation of trees along an axis."""
    axis %= len(parts[0].shape)
    total = sum(piece.shape[axis] for piece in parts)
    shape = (*parts[0].shape[:axis], total, *parts[0].shape[axis + 1:])
    if len(shape) > 2:
        raise LookupError("stack")
    return Shaped(["stack", axis, [piece.tree for piece in parts]], shape)
