"""Gradient checks: hand-written gradients against numerical differentiation of the loss itself.

Complex step is the first opinion: for an analytic loss, Im J(theta + i h) / h is the derivative
without any subtraction, hence to machine precision. Central differences, extrapolated once, are
the second opinion: slower and less exact, but they ask nothing of the loss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Tensors = Mapping[str, Any] | Sequence[Any]  # a sequence's tensors are named "0", "1", ...
Loss = Callable[[Any], Any]  # given what was passed as parameters, the loss: a real scalar, nats
Entries = Mapping[str, Array]  # tensor name -> flat positions to differentiate at
Differentiate = Callable[..., dict[str, Array]]

COMPLEX_STEP = 1e-30  # its square vanishes beside 1, and no subtraction sets a lower limit
CENTRAL_STEP = 1e-3  # times max(1, |x|): after one extrapolation the error is of order h^4 = 1e-12

# Relative error accepted, and the size below which a gradient counts as noise, as a part of the
# largest gradient checked. The worse of method and dtype of the analytic gradient holds. Their
# product is about 50 roundings of the dtype, or the noise of the central difference.
TOLERANCE = {"complex": 1e-10, "central": 1e-6, "float64": 1e-10, "float32": 1e-3}
FLOOR = {"float64": 1e-4, "float32": 1e-2}


# --- numerical differentiation ------------------------------------------------------------------


def complex_step(
    f: Loss, arrays: Tensors, entries: Entries | None = None, *, h: float = COMPLEX_STEP
) -> dict[str, Array]:
    """df/dx = Im f(x + i h) / h (Squire and Trapp, 1998), one evaluation per entry.

    Arguments: f, an analytic function of tensors of complex128, returning a scalar; arrays, real;
    entries, flat positions by tensor name, or None for all of them. Returns the derivatives by
    name: one per position, or in the tensor's shape for all. Raises ValueError where f returns a
    real number for complex arguments: something in it drops the imaginary part.
    """

    def derivative(evaluate: Callable[[complex], Any], x: float) -> float:
        value = evaluate(complex(x, h))
        if not np.iscomplexobj(value):
            raise ValueError("f: expected a complex value for complex arguments, got "
                             f"{value!r}; something drops the imaginary part")
        return complex(value).imag / h

    return _differentiate(f, arrays, entries, derivative, np.dtype(np.complex128))


def central_difference(
    f: Loss, arrays: Tensors, entries: Entries | None = None, *, h: float = CENTRAL_STEP
) -> dict[str, Array]:
    """df/dx = (4 D(s / 2) - D(s)) / 3, D(s) = (f(x + s) - f(x - s)) / 2s, s = h max(1, |x|).

    One step of Richardson extrapolation removes the error of order h^2; four evaluations per
    entry, in float64. Arguments and return value as in `complex_step`; f need only be smooth.
    """

    def derivative(evaluate: Callable[[float], Any], x: float) -> float:
        def slope(s: float) -> float:
            return (float(evaluate(x + s)) - float(evaluate(x - s))) / (2 * s)

        s = h * max(1.0, abs(x))
        return (4 * slope(s / 2) - slope(s)) / 3

    return _differentiate(f, arrays, entries, derivative, np.dtype(np.float64))


METHODS: dict[str, Differentiate] = {"complex": complex_step, "central": central_difference}


def _differentiate(
    f: Loss, arrays: Tensors, entries: Entries | None,
    derivative: Callable[[Callable[[Any], Any], float], float], dtype: np.dtype[Any],
) -> dict[str, Array]:
    """`derivative` at the given entries, each varied alone in a private copy of the arrays."""
    copies = {name: np.array(a, dtype, order="C") for name, a in _named(arrays).items()}
    argument = copies if isinstance(arrays, Mapping) else list(copies.values())

    def at(name: str, position: int) -> float:
        flat = copies[name].reshape(-1)  # a view: the copy is contiguous
        x = flat[position]

        def evaluate(value: Any) -> Any:
            flat[position] = value
            result = f(argument)
            flat[position] = x
            return result

        return derivative(evaluate, float(x.real))

    if entries is not None:
        return {name: np.array([at(name, k) for k in where]) for name, where in entries.items()}
    return {name: np.array([at(name, k) for k in range(a.size)]).reshape(a.shape)
            for name, a in copies.items()}


def _named(tensors: Tensors) -> dict[str, Any]:
    """The tensors by name; a gradient that has `.dense()` is written out in full."""
    if not isinstance(tensors, Mapping):
        tensors = {str(k): tensor for k, tensor in enumerate(tensors)}
    return {name: np.asarray(t.dense() if hasattr(t, "dense") else t)
            for name, t in tensors.items()}


# --- the check ----------------------------------------------------------------------------------


class Row(NamedTuple):
    """What was found for one tensor; error and after describe its worst entry."""

    name: str
    shape: tuple[int, ...]
    checked: int  # number of entries differentiated
    error: float  # |a - n| / max(|a|, |n|, floor)
    worst: tuple[int, ...]  # its index
    analytic: float
    numeric: float


@dataclass(frozen=True)
class Report:
    """The outcome of `check_gradients`; `print(report)` shows it as a table."""

    rows: list[Row]
    method: str
    tolerance: float

    @property
    def wrong(self) -> list[Row]:
        """The rows whose error exceeds the tolerance or is not a number."""
        return [row for row in self.rows if not row.error <= self.tolerance]

    @property
    def ok(self) -> bool:
        """Whether every tensor's worst error is within the tolerance."""
        return not self.wrong

    def raise_if_wrong(self) -> None:
        """Raise AssertionError, with the table, unless the report is ok."""
        if not self.ok:
            names = ", ".join(row.name for row in self.wrong)
            raise AssertionError(f"wrong gradient: {names}\n{self}")

    def __str__(self) -> str:
        table = [("name", "shape", "checked", "error", "at", "analytic", "numeric", "")]
        for row in self.rows:
            verdict = "ok" if row.error <= self.tolerance else "WRONG"
            table.append((
                row.name, str(row.shape), str(row.checked), f"{row.error:.1e}", str(row.worst),
                f"{row.analytic:.9g}", f"{row.numeric:.9g}", verdict))
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
                 for line in table]
        title = f"gradient check, method {self.method}, tolerance {self.tolerance:g}"
        return "\n".join([title, *(line.rstrip() for line in lines)])


def check_gradients(
    loss: Loss, parameters: Tensors, gradients: Tensors, *, method: str = "complex",
    h: float | None = None, sample: int | None = None, rng: np.random.Generator | None = None,
    names: Sequence[str] | None = None, tolerance: float | None = None,
) -> Report:
    """Compare analytic gradients with numerical ones, entry by entry.

    The error of an entry is |a - n| / max(|a|, |n|, floor); floor is FLOOR times the largest
    gradient checked, so that rounding of gradients that should be zero is no error, and both
    exactly zero is error 0.

    Arguments: loss, a function of tensors like `parameters` (mapping or sequence), computing in
    the dtype it is given; parameters, real; gradients, same names and shapes (a row gradient with
    `.dense()` is accepted); method "complex" or "central"; h the step, None for the method's own;
    sample, how many entries to draw from each tensor that has more (at least half of them, where
    there are so many, from where the gradient is not zero), None for all; rng draws them, seed 0
    if None; names, which tensors to check, None for all; tolerance, None for what method and
    dtype of the gradients allow. Arguments are not modified. Raises ValueError on an unknown
    method, on names or shapes that do not match, on complex parameters.
    """
    if method not in METHODS:
        raise ValueError(f"method: expected one of {sorted(METHODS)}, got {method!r}")
    analytic = _matching(_named(parameters), _named(gradients), names)
    rng = rng or np.random.default_rng(0)
    entries = {name: _choose(a, sample, rng) for name, a in analytic.items()}
    step = {} if h is None else {"h": h}
    numeric = METHODS[method](loss, parameters, entries, **step)
    found = {name: (analytic[name].reshape(-1)[entries[name]], numeric[name]) for name in entries}
    dtype = "float32" if any(a.dtype.itemsize < 8 for a in analytic.values()) else "float64"
    floor = FLOOR[dtype] * max((_largest(pair) for pair in found.values()), default=0.0)
    rows = [_row(name, analytic[name].shape, entries[name], *found[name], floor)
            for name in entries]
    allowed = max(TOLERANCE[method], TOLERANCE[dtype]) if tolerance is None else tolerance
    return Report(rows, method, allowed)


def _matching(
    parameters: dict[str, Any], gradients: dict[str, Any], names: Sequence[str] | None
) -> dict[str, Array]:
    """The gradients to be checked, once names, shapes and dtypes are known to fit."""
    wanted = list(parameters) if names is None else list(names)
    for name in wanted if names is not None else [*wanted, *gradients]:
        if name not in parameters or name not in gradients:
            side = "gradients" if name in parameters else "parameters"
            raise ValueError(f"{side}: expected an entry named {name!r}, got none")
        if parameters[name].shape != gradients[name].shape:
            raise ValueError(f"gradients: expected {name!r} of shape {parameters[name].shape}, "
                             f"got {gradients[name].shape}")
        for argument, array in (("parameters", parameters[name]), ("gradients", gradients[name])):
            if array.dtype.kind != "f":
                raise ValueError(f"{argument}: expected {name!r} of a real floating dtype, "
                                 f"got {array.dtype}")
    return {name: gradients[name] for name in wanted}


def _choose(gradient: Array, sample: int | None, rng: np.random.Generator) -> Array:
    """Flat positions to check, ascending; half of a sample from non-zero gradients if possible."""
    if sample is None or gradient.size <= sample:
        return np.arange(gradient.size)
    nonzero = np.flatnonzero(gradient)
    first = rng.choice(nonzero, min(len(nonzero), (sample + 1) // 2), replace=False)
    rest = np.setdiff1d(np.arange(gradient.size), first)
    return np.sort(np.append(first, rng.choice(rest, sample - len(first), replace=False)))


def _largest(gradients: tuple[Array, Array]) -> float:
    """The largest finite magnitude, zero where there is none."""
    values = np.concatenate(gradients)
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def _row(
    name: str, shape: tuple[int, ...], where: Array, analytic: Array, numeric: Array, floor: float
) -> Row:
    """The worst entry of one tensor; NaN and infinity count as worst of all."""
    if not where.size:
        return Row(name, shape, 0, 0.0, (), 0.0, 0.0)
    scale = np.maximum(np.maximum(np.abs(analytic), np.abs(numeric)), floor)
    with np.errstate(invalid="ignore"):  # inf - inf and inf / inf are NaN, which is the answer
        error = np.abs(analytic - numeric) / np.where(scale == 0, 1.0, scale)
    k = int(error.argmax())
    worst = tuple(int(i) for i in np.unravel_index(where[k], shape))
    return Row(name, shape, len(where), float(error[k]), worst, float(analytic[k]),
               float(numeric[k]))
