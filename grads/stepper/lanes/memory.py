"""Storage of arrays in lanes; it grows from one copy to P when the lanes first differ."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
PLAIN = "a plain array cannot receive lanes (np.zeros(n) is plain, np.zeros_like(x) is not)"


class LanesError(Exception):
    """The function uses something that cannot be done for all lanes at once."""


class Memory:
    """The values that an array and its views share: (*shape, 1), or (*shape, P) after widening.

    Borrowed values belong to a plain array, which cannot be widened.
    """

    __slots__ = ("block", "borrowed")

    def __init__(self, block: Array, borrowed: bool) -> None:
        self.block, self.borrowed = block, borrowed

    def widen(self, lanes: int) -> None:
        """Before a write: space for `lanes` different values."""
        if lanes > self.block.shape[-1] == 1:
            if self.borrowed:
                raise LanesError(PLAIN)
            shape = (*self.block.shape[:-1], lanes)
            block = np.empty(shape, self.block.dtype).view(type(self.block))
            block[...] = self.block
            self.block = block
