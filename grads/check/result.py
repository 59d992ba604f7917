"""The result of a gradient check: a row for each tensor, other faults, and the verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from nmt.console.messages import several

VERDICTS = {
    "ok": "ok",
    "inconclusive": "inconclusive",  # there is a kink, or a second method is too uncertain
    "disagree": "METHODS DISAGREE",  # complex step and differences disagree
    "wrong": "WRONG",
    "undecided": "UNDECIDED",  # fewer than three digits can be had
    "unfinished": "NOT FINISHED",  # the time was up
}
UNDECIDED = ("nothing", "unchecked")  # kinds of findings that are no mistakes
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


@dataclass(frozen=True, repr=False)
class Result:
    """The result of a check, with its verdict, its table and its remarks. True if it is ok."""

    rows: list[Row]
    findings: list[Finding] = field(default_factory=list)
    title: str = "gradient check"
    outputs: tuple[str, ...] = ()  # outputs with upstream gradients, together and each alone
    evaluations: int = 0  # evaluations of the function with perturbed inputs
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    stopped: str = ""  # why the check ended early, and what it has covered; "" if it did not

    @property
    def wrong(self) -> list[Row]:
        """The rows that do not pass: they are wrong, undecided, or methods disagree."""
        return [row for row in self.rows if row.status in BAD]

    @property
    def verdict(self) -> str:
        """"ok", "wrong", "undecided" (two methods disagree, or are too uncertain) or "unfinished"
        (the time was up, and nothing wrong was found until then)."""
        bad = [finding for finding in self.findings if finding.kind not in UNDECIDED]
        if bad or any(row.status == "wrong" for row in self.rows):
            return "wrong"
        if self.stopped:
            return "unfinished"
        return "undecided" if self.wrong or self.findings else "ok"

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong or undecided, and the check is complete."""
        return not self.wrong and not self.findings and not self.stopped

    def __bool__(self) -> bool:
        """`ok`, so that `assert check_pair(...)` fails for a wrong gradient."""
        return self.ok

    def summary(self) -> str:
        """One line: verdict, coverage, cost."""
        rows = [row for row in self.rows if row.upstream == "all"]
        tensors = [row for row in rows if row.shape is not None]
        checked, size = sum(row.checked for row in rows), sum(row.size for row in rows)
        alone = f", {len(self.outputs)} outputs together and alone" * (len(self.outputs) > 1)
        directions = sum(row.directions for row in rows)
        entries = several(size, "entry", "entries")
        extent = ([f"{several(len(tensors), 'tensor')}, {checked} of {entries}"] if tensors
                  else [])
        extent += [several(directions, "random direction")] if directions else []
        covered = [" and ".join(extent) + alone] if extent else []
        return "; ".join([f"{self.title}: {SAID[self.verdict]}", *covered,
                          f"{several(self.evaluations, 'evaluation')} in "
                          f"{said_seconds(self.seconds)}"])

    def table(self, digits: int = 9) -> tuple[list[str], list[list[str]]]:
        """Headings and cells. Arguments: digits of the gradients at the worst entry."""
        methods = list(dict.fromkeys(m for row in self.rows for m in row.errors))
        alone = any(row.upstream != "all" for row in self.rows)
        headings = ["name", *["upstream"] * alone, "shape", "checked",
                    *(HEADINGS[m] for m in methods), "at", "analytic", "numeric", ""]
        return headings, [
            [row.name, *[row.upstream] * alone, "" if row.shape is None else str(row.shape),
             coverage(row), *(f"{row.errors[m]:.1e}" if m in row.errors else "" for m in methods),
             *_worst(row, digits), VERDICTS[row.status]]
            for row in self.rows
        ]

    def remarks(self) -> list[str]:
        """Findings, then the diagnoses, each with the worst entries of its rows, then notes."""
        lines = [self.stopped] * bool(self.stopped)
        lines += [f"{finding.kind}: {finding.name}: {finding.message}" for finding in self.findings]
        said: dict[str, dict[str, str]] = {}
        for row in self.rows:
            where = f"{row.name} at {row.place}" if row.status in BAD else row.name
            quiet = row.status in ("ok", "unfinished", "wrong") or any(
                row.name in places for places in said.values())
            for hint in row.hints or (() if quiet else (VERDICTS[row.status],)):
                hint = hint.removeprefix(f"{row.place}: ") if row.status in BAD else hint
                said.setdefault(hint, {}).setdefault(row.name, where)
        lines += [f"{', '.join(places.values())}: {hint}" for hint, places in said.items()]
        return [*lines, *self.notes]


def said_seconds(seconds: float) -> str:
    """A time to two digits."""
    return f"{seconds:.2g} s" if seconds < 100 else f"{seconds:.0f} s"


def _worst(row: Row, digits: int) -> tuple[str, str, str]:
    """The worst entry and its two numbers; empty if none was compared."""
    if not row.errors:
        return "", "", ""
    analytic, numeric = row.analytic + 0.0, row.numeric + 0.0  # -0 reads badly
    return str(row.at), f"{analytic:.{digits}g}", f"{numeric:.{digits}g}"


def coverage(row: Row) -> str:
    """The number of entries and of directions that were checked."""
    text = str(row.checked) if row.checked == row.size else f"{row.checked} of {row.size}"
    return text + (f" + {row.directions}" if row.directions else "")
