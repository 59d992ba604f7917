"""Compares analytic and numerical derivatives: which differences are rounding?

a is an entry of the analytic gradient, eps that of its dtype, and v the numerical derivative with
its estimated error. The entry is right if

    |a - v| <= eps (8192 max(|a|, |v|) + 512 (terms + largest of the tensor) + 8 largest of all)
               + 10 error

In float32 the multiples of eps are smaller, and 10 times the observed rounding is added
(`precision`). `terms` is the sum of |upstream * derivative| over the outputs: v is what is left
after these terms cancel. The limit along a direction is the sum of the limits of its entries, added
as independent errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from grads.check.case import Case
from grads.check.differentiate import AMPLIFIES, Numeric, derivatives
from grads.check.evaluate import Evaluator, Line, entry_line, length
from grads.check.result import HEADINGS, Row
from grads.check.watch import Watch

HALF = 1e-4  # only float16 has an eps above this
EXACT = 1e-12  # a dtype with an eps below this needs no observation of rounding
SAFETY = 10  # factor by which an error estimate may be too small
OBSERVED = 4  # the same for an estimate that rests on observed rounding
COARSE = 1e-3  # a limit above this fraction of the largest gradient confirms nothing
COARSE_ALONG = 1e-5  # an error above this fraction of sum |gradient * v| confirms nothing
NOISY = 0.02  # the same if the function itself is computed in less than float64
CLEAR = 100  # a derivative of so many times its error is certainly not zero
FLOOR, FLOOR_ALL = 1e-4, 1e-8  # floors of relative errors, as fractions of the largest gradients
TINY = 1e-6  # fraction of the largest gradient below which uncertainty is ignored
SAME_SIGN = 64  # 1/64 of the entries' rounding along a direction may have the same sign

Arrays = Mapping[str, np.ndarray]


class Allowance(NamedTuple):
    """The change that rounding may cause: multiples of eps, and an absolute part."""

    relative: float  # of the entry
    tensor: float  # of the terms that were summed, and of the largest entry of the tensor
    all: float  # of the largest entry of all tensors
    absolute: float


IN_FLOAT64 = Allowance(8192, 512, 8, 0.0)


def allowance(eps: float, rounding: float | None) -> Allowance:
    """The allowance for a gradient whose rounding was observed. Arguments: eps of the dtype;
    rounding, or None if it is not known.

    A gradient that is given as an array cannot be computed again. Its relative error may be 0.02%
    in float32 and 1.6% in float16.
    """
    if eps < EXACT:
        return IN_FLOAT64._replace(absolute=SAFETY * (rounding or 0.0))
    half = eps > HALF  # float16's own roundings are so large that few of them may pass
    least = SAFETY * float(np.finfo(np.float16 if half else np.float32).smallest_subnormal)
    if rounding is None:
        return Allowance(16, 8, 1, least) if half else Allowance(2048, 256, 8, least)
    return Allowance(*((8, 4, 0) if half else (64, 32, 0)), SAFETY * rounding + least)


class Compared(NamedTuple):
    """Analytic derivatives at n places, compared with those of a numerical method; (n,) each."""

    analytic: np.ndarray
    numeric: np.ndarray
    limit: np.ndarray  # the allowed absolute difference
    relative: np.ndarray  # error, relative to the derivative or to a floor
    excess: np.ndarray  # error as a multiple of the limit
    words: np.ndarray  # "right", "wrong", or "coarse": too uncertain to confirm anything


class Check:
    """A case with its analytic gradients and the function to differentiate.

    Gradients are known by choice of upstream gradients: "all", or the name of an output that alone
    has an upstream gradient. Attributes: largest gradients, by choice and input; eps, at least that
    of the dtype in which gradients are computed; rounding of the analytic gradients by input, as
    observed (`grads.check.precision`); rtol, the relative error that is allowed in addition; apart,
    tensors for which other tensors' gradients do not count; watch of the time; rows along
    directions; notes of the report; confirmed, notes that hold if all is right.
    """

    def __init__(self, case: Case, evaluate: Evaluator, analytic: Mapping[str, Arrays],
                 upstream: Arrays, watch: Watch | None = None) -> None:
        self.case, self.evaluate, self.analytic, self.upstream = case, evaluate, analytic, upstream
        self.watch = watch or Watch()
        self.notes: list[str] = []
        self.confirmed: list[str] = []
        self.rows: list[Row] = []
        self.largest = {choice: {name: largest_of(gradient) for name, gradient in gradients.items()}
                        for choice, gradients in analytic.items()}
        self.eps = self.rtol = 0.0
        self.rounding: dict[str, float] = {}
        self.apart: set[str] = set()

    def left_out(self, method: str, numeric: np.ndarray) -> bool:
        """Whether a method has no finite derivative. The notes say why: its steps leave the domain,
        or rounding changes an output as much as they do."""
        chaotic = any(np.isinf(noise).any() for noise in self.evaluate.noise.values())
        note = f"{HEADINGS[method]}: " + (
            AMPLIFIES if chaotic else "not run, its steps leave the domain")
        nothing = numeric.size > 0 and not np.isfinite(numeric).any()
        self.notes += [note] * (nothing and note not in self.notes)
        return nothing

    def weights(self, choice: str) -> Arrays:
        """The upstream gradients of a choice: of all outputs, or of one output."""
        return {name: d for name, d in self.upstream.items() if choice in ("all", name)}

    def along(self, lines: Sequence[Line], method: str) -> Numeric:
        """The numerical derivatives along lines, through each output."""
        return derivatives(self.evaluate, self.upstream, lines, method)

    def at(self, name: str, where: np.ndarray, method: str) -> Numeric:
        """The numerical derivatives at entries of a tensor, through each output."""
        return self.along([entry_line(self.evaluate.inputs, name, int(k)) for k in where], method)

    def through(self, numeric: Numeric, choice: str, at: slice = slice(None)) -> Numeric:
        """The derivatives (n,) through the outputs of a choice, at some of the places."""
        rows = [k for k, output in enumerate(self.upstream) if choice in ("all", output)]
        return Numeric(*(values[rows, at].sum(axis=0) for values in numeric))

    def at_limits(self, choice: str, name: str, where: np.ndarray, numeric: Numeric) -> Compared:
        """Entries of a tensor compared with numerical derivatives."""
        overall, largest = max(self.largest[choice].values()), self.largest[choice][name]
        a = self.analytic[choice][name].reshape(-1).astype(np.float64)[where]
        numeric = self.through(numeric, choice)
        largest = max(largest, largest_of(numeric.value))
        floor = FLOOR * largest + FLOOR_ALL * overall
        sure = np.maximum(np.abs(numeric.value), FLOOR * largest + TINY * overall) * COARSE
        return self._compared([name], choice, a, np.abs(a), self._rounding(choice, name, largest),
                              floor, sure, numeric, largest)

    @np.errstate(all="ignore")  # a gradient that is not finite is wrong
    def along_limits(
        self, choice: str, line: Line, numeric: Numeric, k: int = 0
    ) -> Compared:
        """The derivative along a line compared with its numerical derivative, the k-th."""
        overall, largest = max(self.largest[choice].values()), self.largest[choice]
        products = [self.analytic[choice][name].astype(np.float64) * v
                    for name, v in line.direction.items()]
        a = np.array([sum(float(product.sum()) for product in products)])
        numeric = self.through(numeric, choice, slice(k, k + 1))
        spread = np.array([sum(float(np.abs(product).sum()) for product in products)])
        lengths = {name: float(np.abs(v).sum()) for name, v in line.direction.items()}
        terms = sum(self._rounding(choice, name, largest[name]) * max(
            3 * length([v]), lengths[name] / SAME_SIGN) for name, v in line.direction.items())
        floor = sum(n * (FLOOR * largest[name] + FLOOR_ALL * overall)
                    for name, n in lengths.items())
        sure = np.maximum((NOISY if self.evaluate.noise else COARSE_ALONG) * spread, terms)
        size = largest[line.row] if list(line.direction) == [line.row] else 0.0
        return self._compared([*line.direction], choice, a, spread, terms, floor, sure, numeric,
                              size)

    def _rounding(self, choice: str, name: str, largest: float) -> float:
        """The change of any entry of a tensor that rounding may cause, whatever its gradient is."""
        eps, may = self._allowance(choice, [name])
        reference = largest if name in self.apart else max(self.largest[choice].values())
        return eps * may.tensor * largest + eps * may.all * reference + may.absolute

    def _allowance(self, choice: str, names: Sequence[str]) -> tuple[float, Allowance]:
        """The largest eps of the gradients of some tensors, and what rounding may change."""
        eps = max(self.eps, *(float(np.finfo(self.analytic[choice][name].dtype).eps)
                              for name in names))
        if eps < EXACT and not self.rounding:
            return eps, IN_FLOAT64
        rounding = [self.rounding[name] for name in names if name in self.rounding]
        return eps, allowance(eps, max(rounding, default=None))

    @np.errstate(all="ignore")
    def _compared(
        self, names: Sequence[str], choice: str, a: np.ndarray, spread: np.ndarray, terms: float,
        floor: float, sure: np.ndarray, numeric: Numeric, largest: float,
    ) -> Compared:
        """The comparison of analytic derivatives a with numerical ones; all (n,).

        Arguments: spread, the sum of |gradient * v|, whose terms may cancel; terms, the rounding
        that does not depend on the derivative; floor of relative errors; sure, the numerical error
        from which a derivative confirms nothing if even the largest gradient is rounding; largest
        gradient of the tensor: a derivative known to fewer than three digits of it confirms
        nothing.
        """
        value, error, scale = numeric
        eps, may = self._allowance(choice, names)
        size = np.maximum(np.abs(a), np.abs(value))
        spread = np.maximum(spread, size)
        limit = eps * may.relative * size + eps * may.tensor * scale  # eps first: no overflow
        safe = error * (OBSERVED if self.evaluate.noise else SAFETY)
        limit += terms + safe + self.rtol * spread
        gap = np.where(a == value, 0.0, np.abs(a - value))
        relative = np.where(gap == 0, 0.0, gap / np.maximum(spread, floor))
        excess = np.where(gap == 0, 0.0, np.where(gap < np.inf, gap / limit, np.inf))
        right = (excess <= 1) & (spread < np.inf)
        rounding = eps * may.all * max(self.largest[choice].values()) + may.absolute
        doubt = limit if eps < HALF else np.maximum(safe, COARSE * limit)  # float16 has fewer
        if eps > EXACT:  # rounding of other terms does not hide a derivative that is surely not 0
            sure = np.where(np.abs(value) > CLEAR * error, 0.0, sure)
        fine = (doubt <= COARSE * largest if COARSE * largest > rounding or eps > HALF
                else error <= sure)
        unknown = np.isfinite(a) & ~np.isfinite(value)  # its steps left the domain: no witness
        words = np.where(right, np.where(fine, "right", "coarse"),
                         np.where(unknown, "coarse", "wrong"))
        return Compared(a, value, limit, relative, excess, words.astype(object))


def contradictory(first: Numeric, second: Numeric, largest: float, overall: float) -> np.ndarray:
    """Whether two methods contradict each other, whatever the gradient is; (n,) bool."""
    eps, may = float(np.finfo(np.float64).eps), IN_FLOAT64
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(first.value), np.abs(second.value))
        limit = eps * may.relative * size + eps * may.tensor * (second.scale + largest)
        limit += eps * may.all * overall + SAFETY * (first.error + second.error)
        return np.abs(first.value - second.value) > limit  # False if a value is unknown


def index_of(position: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index of a flat position."""
    return tuple(int(i) for i in np.unravel_index(position, shape))


def largest_of(values: np.ndarray) -> float:
    """The largest finite magnitude; zero if there is none."""
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
