"""What a gradient check says of a tensor: a row, with its verdict; and of other faults."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

VERDICTS = {
    "ok": "ok",
    "inconclusive": "inconclusive",  # there is a kink, or a second method is too uncertain
    "disagree": "METHODS DISAGREE",  # complex step and differences disagree
    "wrong": "WRONG",
    "undecided": "UNDECIDED",  # fewer than three digits can be had
    "unfinished": "NOT FINISHED",  # the time was up
}
BAD = ("wrong", "disagree", "undecided")
SAID = {"ok": "ok", "wrong": "WRONG", "undecided": "UNDECIDED",
        "unfinished": "NOT FINISHED"}  # of a report
HEADINGS = {"complex": "complex step", "ridders": "Ridders", "central": "central",
            "forward": "forward", "directions": "directions"}


class ErrorMap(NamedTuple):
    """The relative errors of the entries that were differentiated one by one; (n,) each."""

    where: np.ndarray  # flat positions
    relative: np.ndarray
    status: np.ndarray  # one of those of a row, by all methods
    method: str  # the method of these errors
    axes: tuple[str, ...]  # the labels of the axes, if given


class StepErrors(NamedTuple):
    """Relative errors of three numerical derivatives of an entry; (steps,) each."""

    steps: np.ndarray
    complex: np.ndarray  # NaN where the function takes no complex numbers
    central: np.ndarray
    forward: np.ndarray
    at: tuple[int, ...] = ()


@dataclass(frozen=True)
class Row:
    """A tensor. `at`, `place`, `analytic` and `numeric` are those of its worst entry."""

    name: str
    upstream: str  # "all", or the only output that had an upstream gradient
    shape: tuple[int, ...] | None  # None: the row is about all tensors together
    checked: int  # entries differentiated one by one
    directions: int  # random directions over the whole tensor
    inconclusive: int  # entries that are undecided
    errors: Mapping[str, float]  # method, or "directions" -> worst |a - n| / max(|a|, |n|, floor)
    status: str  # "ok", "inconclusive", "disagree", "wrong" or "unfinished"
    at: tuple[int, ...]
    place: str  # the worst entry in words
    analytic: float
    numeric: float
    hints: tuple[str, ...] = ()
    entries: ErrorMap | None = field(default=None, compare=False, repr=False)
    steps: StepErrors | None = field(default=None, compare=False, repr=False)  # of one entry
    floor: float = 0.0  # an error of an entry below this fraction of the largest gradient may pass

    @property
    def error(self) -> float:
        """The worst relative error by any method."""
        return max(self.errors.values(), default=0.0,
                   key=lambda error: math.inf if math.isnan(error) else error)

    @property
    def size(self) -> int:
        """The number of entries of the tensor."""
        return math.prod(self.shape) if self.shape is not None else 0

    @property
    def compares(self) -> bool:
        """Whether anything was compared. If every entry is undecided, nothing was: then directions
        through the entries say nothing, either."""
        if self.status == "inconclusive" and self.checked == self.size > 0:
            return self.checked > self.inconclusive
        return self.checked + self.directions > self.inconclusive


class Finding(NamedTuple):
    """A fault other than wrong values; `kind` is one word, `name` the input or output."""

    kind: str
    name: str
    message: str
