"""Evaluates a function at given inputs and along lines through them, and counts the evaluations.

A user's function gets complex inputs as continued arrays (`grads.check.continuation`). This
project's functions accept complex arrays as they are.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from grads.check.continuation.array import NotAnalytic, is_own
from grads.check.continuation.namespace import continue_run, namespaces_of

Array = NDArray[Any]
OUTSIDE = (ArithmeticError, AssertionError, LookupError, ValueError)  # of a user's function
UNKNOWN = object()  # the user's modules, before they are looked for
Function = Callable[[dict[str, Array]], Mapping[str, Any]]  # inputs by name -> outputs by name


class Line(NamedTuple):
    """A line x + t d through the inputs: d is a direction in some inputs, or a single entry."""

    direction: Mapping[str, Array]  # of the inputs' shapes
    row: str = ""  # the row of the report to which the line belongs
    entry: int | None = None  # flat position, if d is a single entry

    def scales(self, inputs: Mapping[str, Array]) -> tuple[float, float, float]:
        """The lengths `coarse`, `unit` and `near` of `grads.check.differentiate.Probe`."""
        moving = [(inputs[name], d) for name, d in self.direction.items()]
        with np.errstate(all="ignore"):
            size = length([d for _, d in moving]) or 1.0
            coarse = length([x[d != 0] for x, d in moving]) / size
            unit = max(1.0, length([d * x for x, d in moving]) / size) / size
            exponent = min(np.ceil(np.log2(unit)), np.finfo(float).maxexp - 1)
            unit = float(2.0**exponent)  # adding a power of 2 to x rounds little or nothing
            near = [np.abs(x / d)[(d != 0) & (x != 0)].min(initial=np.inf) for x, d in moving]
            if any(((d != 0) & (x == 0)).any() for x, d in moving):
                # a zero has no size of its own: it moves by that of the other entries
                longest = max(np.abs(d).max(initial=0.0) for _, d in moving)
                near += [np.abs(x).max() / longest for x in inputs.values()
                         if x.dtype.kind == "f" and x.any()]
        return coarse, unit, float(min([*near, unit]))


def entry_line(inputs: Mapping[str, Array], name: str, entry: int, row: str = "") -> Line:
    """The line along an entry (flat position) of an input."""
    unit = np.zeros(inputs[name].size)
    unit[entry] = 1.0
    return Line({name: unit.reshape(inputs[name].shape)}, row, entry)


class Evaluator:
    """A function at given inputs: its outputs there, and with some inputs replaced.

    Arguments: f, inputs by name -> outputs by name; inputs, by name: floating arrays become
    float64, others (ids, masks) are passed as they are; outputs at these inputs, if known. f gets
    private copies, so changes to its arguments have no effect elsewhere. Raises ValueError if an
    input is complex or an output is not a real number.

    Attributes: outputs, float64, at the given inputs; evaluations, the number of runs with
    perturbed inputs; noise, (size,) by output, the observed rounding of outputs that are computed
    in less than float64; complex_step, False if the complex step is known to be unsuitable.
    """

    def __init__(
        self, f: Function, inputs: Mapping[str, Any], *,
        outputs: Mapping[str, Array] | None = None,
    ) -> None:
        self.f = f
        self.inputs = {name: np.array(a, float if np.asarray(a).dtype.kind == "f" else None)
                       for name, a in inputs.items()}
        self.evaluations = 0
        self.noise: dict[str, Array] = {}
        self.complex_step = True
        self._namespaces: Any = UNKNOWN
        known = self._first_run() if outputs is None else outputs
        self.outputs = {name: a.astype(np.float64) for name, a in known.items()}

    def __call__(self, changed: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs with some inputs replaced; NaN if f raises an exception, as it may outside of
        its domain. If an input is complex, all floating inputs become complex.

        Raises NotAnalytic if f cannot be run with complex numbers.
        """
        self.evaluations += 1
        is_complex = any(np.iscomplexobj(a) for a in changed.values())
        inputs = {name: np.array(changed.get(name, a), np.complex128 if (
                      is_complex and a.dtype.kind == "f") else a.dtype)
                  for name, a in self.inputs.items()}
        try:
            with np.errstate(all="ignore"):
                outputs = self._run_complex(inputs) if is_complex else self.f(inputs)
        except OUTSIDE:
            if is_complex or not changed:
                raise
            return {name: np.full(out.shape, np.nan) for name, out in self.outputs.items()}
        copies = {name: np.array(out) for name, out in outputs.items()}  # f may reuse its buffers
        return {name: out.astype(np.float64) if out.dtype.kind == "b" else out
                for name, out in copies.items()}  # booleans cannot be subtracted

    def along(self, line: Line, t: Array) -> dict[str, Array]:
        """The outputs (m, size) by name at steps t (m,) along a line."""
        runs = [self({name: self.inputs[name] + step * d for name, d in line.direction.items()})
                for step in t]
        return {name: np.array([run[name].reshape(-1) for run in runs]) for name in self.outputs}

    def in_float32(self) -> bool:
        """Whether all outputs are fractions that float32 can represent."""
        values = np.concatenate([np.ravel(out) for out in self.outputs.values()] or [np.zeros(0)])
        values = values[np.isfinite(values) & (values != np.rint(values))]
        with np.errstate(over="ignore"):
            return bool(values.size) and bool((values.astype(np.float32) == values).all())

    def _first_run(self) -> dict[str, Array]:
        """The outputs at the given inputs. Raises ValueError unless all are real numbers."""
        for name, a in self.inputs.items():
            if a.dtype.kind == "c":
                raise ValueError(f"inputs: expected {name!r} of a real dtype, got {a.dtype}")
        outputs = self({})
        self.evaluations = 0
        for name, a in outputs.items():
            if a.dtype.kind not in "fiub":
                raise ValueError(f"f: expected output {name!r} of a real dtype, got {a.dtype}")
        return outputs

    def _run_complex(self, inputs: dict[str, Array]) -> Mapping[str, Any]:
        """The outputs for complex inputs. Raises NotAnalytic if an imaginary part is dropped, or if
        f fails."""
        if self._namespaces is UNKNOWN:
            self._namespaces = namespaces_of(self.f)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", np.exceptions.ComplexWarning)
                return (self.f(inputs) if self._namespaces is None
                        else continue_run(self.f, inputs, self._namespaces))
        except (NotAnalytic, MemoryError):
            raise
        except np.exceptions.ComplexWarning as error:
            raise NotAnalytic("f: the imaginary part of a complex argument is dropped "
                              f"{_where(error)}") from error
        except Exception as error:
            raise NotAnalytic(f"f: complex arguments are refused {_where(error)}: "
                              f"{type(error).__name__}: {error}") from error


def _where(error: BaseException) -> str:
    """File and line of the last frame outside of libraries and the checker."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)
              if is_own(frame.filename)]
    return f"at {frames[-1].filename}:{frames[-1].lineno}" if frames else "somewhere"


def length(vectors: Sequence[Array]) -> float:
    """The Euclidean length of the concatenated vectors, safe from overflow of squares."""
    largest = max((float(np.abs(v).max(initial=0.0)) for v in vectors), default=0.0)
    if not 0.0 < largest < np.inf:
        return largest
    return largest * float(np.sqrt(sum(float(np.square(v / largest).sum()) for v in vectors)))


def weights_of(evaluate: Evaluator, upstream: Mapping[str, Any]) -> dict[str, Array]:
    """The upstream gradients, (size,) by output name. Raises ValueError if they do not fit the
    outputs."""
    weights = {name: np.asarray(d_out, np.float64) for name, d_out in upstream.items()}
    shapes = {name: out.shape for name, out in evaluate.outputs.items()}
    if not shapes:
        raise ValueError("f: expected at least one output, got none")
    if not weights:
        raise ValueError("upstream: expected the gradient of at least one output, got none")
    for name, weight in weights.items():
        if name not in shapes:
            raise ValueError(f"upstream: expected names of {sorted(shapes)}, got {name!r}")
        if weight.shape != shapes[name]:
            raise ValueError(f"upstream: expected {name!r} of shape {shapes[name]}, "
                             f"got {weight.shape}")
    return {name: weight.reshape(-1) for name, weight in weights.items()}
