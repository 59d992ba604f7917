"""Storage of arrays in lanes; it grows from one copy to P when the lanes first differ."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from backend.workspace import Workspace

Array = NDArray[Any]
PLAIN = "a plain array cannot receive lanes (np.zeros(n) is plain, np.zeros_like(x) is not)"
_pool: list[Workspace] = []  # the last one is in use, see `drawing_from`


class LanesError(Exception):
    """The function uses something that cannot be done for all lanes at once."""


class Spots(NamedTuple):
    """An array (*shape, P), each lane of which differs from a common base in at most one entry."""

    base: Array  # shape
    entries: Array  # (N,) flat positions of the differences
    lanes: Array  # (N,) their lanes, distinct
    change: Array  # (N,) value minus base


class Memory:
    """The values that an array and its views share: (*shape, 1), or (*shape, P) after widening.

    Borrowed values belong to a plain array, which cannot be widened.
    """

    __slots__ = ("block", "borrowed", "spots")

    def __init__(self, block: Array, spots: Spots | None, borrowed: bool) -> None:
        self.block, self.spots, self.borrowed = block, spots, borrowed

    def widen(self, lanes: int) -> None:
        """Before a write: space for `lanes` different values."""
        self.spots = None
        if lanes > self.block.shape[-1] == 1:
            if self.borrowed:
                raise LanesError(PLAIN)
            shape = (*self.block.shape[:-1], lanes)
            block = (_pool[-1] if _pool else Workspace()).empty(np, shape, self.block.dtype)
            block[...] = self.block
            self.block = block


@contextmanager
def drawing_from(workspace: Workspace) -> Iterator[None]:
    """Context: widen arrays into buffers of `workspace`, which are recycled between runs."""
    _pool.append(workspace)
    try:
        yield
    finally:
        _pool.pop()
