"""Sums of dense gradients over ranks, in buckets that are begun while the next are computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from backend import Array
from backend.rows import RowGradient
from nmt.models.contract import Gradients

BUCKET = 1 << 20  # elements that are summed at once

StartSum = Callable[[Array], Callable[[], None]]


class Buckets:
    """Gradients of some parameters, one after another in one flat array.

    A bucket's sum is begun when all gradients before its end are there, whatever comes first: all
    ranks begin the same sums in the same order, also one that has no gradient and adds zeros.
    """

    def __init__(self, flat: Array, parameters: Mapping[str, Array], start_sum: StartSum) -> None:
        """flat, as long as the parameters together, in whose order it is filled; start_sum, as a
        transport's."""
        self._flat, self._start_sum, self._size = flat, start_sum, BUCKET
        self._parts, self._given, self._ends = dict[str, Array](), Gradients(), list[Any]()
        self._left, self._full, self._sent = list(parameters), 0, 0
        start = 0
        for name, parameter in parameters.items():
            self._parts[name] = flat[start : start + parameter.size].reshape(parameter.shape)
            start += parameter.size

    def put(self, gradients: Gradients) -> None:
        """Take those that belong here, and begin the sums of the buckets that are full."""
        for name, gradient in gradients.items():
            if name in self._parts and name not in self._given:
                self._given[name] = gradient
                _put(gradient, self._parts[name])
        while self._left and self._left[0] in self._given:
            self._full += self._parts[self._left.pop(0)].size
        while self._full - self._sent >= self._size or (not self._left and self._sent < self._full):
            end = min(self._sent + self._size, self._full)
            self._ends.append(self._start_sum(self._flat[self._sent : end]))
            self._sent = end

    def close(self, gradients: Gradients) -> None:
        """Begin all sums that are left: a parameter without a gradient adds zeros.

        Raises RuntimeError where a gradient that was put is not the one of the end.
        """
        for name, gradient in self._given.items():
            if gradients.get(name) is not gradient:
                raise RuntimeError(f"{name}: expected the gradient that its model said was "
                                   "finished, got another one at the end of the backward pass")
        self.put({name: gradients.get(name) for name in self._left})

    def sums(self) -> Gradients:
        """Wait for all; the sums by name, views of the flat array."""
        for end in self._ends:
            end()
        return dict(self._parts)


def _put(gradient: Any, part: Array) -> None:
    """Write a gradient, of rows as a dense one, none as zeros, into its place."""
    if gradient is None:
        part[...] = 0
    else:
        part[...] = gradient.dense() if isinstance(gradient, RowGradient) else gradient
