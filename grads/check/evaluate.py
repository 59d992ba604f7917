"""Runs a function at many perturbed versions of its inputs, and counts the evaluations.

A version is the inputs with some tensors replaced. Many versions run at once where the function
allows it (`grads.check.lanes`), one at a time otherwise, with the same results. Complex versions
run on continued arrays (`grads.check.continuation`), unless the first run shows that NumPy's
complex arithmetic suffices.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backend.workspace import Workspace
from grads.check.continuation import NotAnalytic, continue_run, namespaces_of
from grads.check.continuation.state import is_users
from grads.check.lanes import LanesError, in_lanes
from grads.check.watch import Watch

Array = NDArray[Any]
Function = Callable[[dict[str, Array]], Mapping[str, Any]]  # inputs by name -> outputs by name

LANES = 256  # most versions at once: more gain nothing, and cost memory
NUMBERS = 4_000_000  # elements of the largest array of a run, about: 32 MB, or 64 MB if complex
SPACINGS = (2.0**-22, 2.0**-16, 2.0**-10)  # of values that show an output's rounding
BESIDE = np.concatenate([np.arange(-8.0, 0.0), np.arange(1.0, 9.0)])  # on both sides
LOUD = 2.0**16  # rounding, in eps of float64, from which an output counts as less precise
ALIKE = 1e-9  # allowed difference between a version run alone and in a batch


class Evaluator:
    """A function at given inputs: its outputs there, and at perturbed versions.

    Arguments: f, inputs by name -> outputs by name; inputs, by name: floating arrays are computed
    with in float64, others (ids, masks) are passed as they are; lanes, whether versions may run
    at once; outputs at these inputs, if they are known. f gets private copies, so that changes to
    its arguments have no effect elsewhere.
    Raises ValueError where an input is complex or an output is not a real number.

    Attributes: outputs, float64, of the unperturbed inputs; evaluations, the number of perturbed
    versions computed; calls of f, including that with the unperturbed inputs; width, how many
    versions should be requested at once; alone, why versions ran one at a time in spite of lanes
    ("" if not so); noise, (size,) by output, the observed rounding of outputs that are computed in
    less than float64; rounding, of the analytic gradients by input, where observed
    (`grads.check.precision`); eps, at least that of the dtype in which gradients are computed;
    rtol, the relative error tolerated beside rounding; complex_step, whether that is known to be
    unsuitable (False); watch, the check's.
    """

    def __init__(
        self, f: Function, inputs: Mapping[str, Any], *, lanes: bool = True,
        outputs: Mapping[str, Array] | None = None, watch: Watch | None = None,
    ) -> None:
        self.f, self.watch = f, watch or Watch()
        self.inputs = {name: _real(name, a) for name, a in inputs.items()}
        self.evaluations = self.calls = 0
        self.alone = ""
        self._lanes, self._buffers = lanes, Workspace()
        self._trusted: dict[Any, bool] = {}  # by the names of the perturbed inputs
        self.noise: dict[str, Array] = {}
        self.rounding: dict[str, float] = {}
        self.eps = self.rtol = 0.0
        self.complex_step = True
        self._plain: bool | None = None  # whether complex runs need no continuation; None: unknown
        found = self._run({}, 0, False) if outputs is None else outputs
        self.outputs = {name: _output(name, a) for name, a in found.items()}
        arrays = (*self.inputs.values(), *self.outputs.values())
        largest = max((a.size for a in arrays), default=1)
        self.width = max(1, min(LANES, NUMBERS // max(1, largest)))

    def __call__(self, changed: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs of P versions.

        Arguments: changed, float64 or complex128 (P, *shape) by name, the replaced tensors. If one
        is complex, all floating inputs are made complex. Returns (P, *shape of the output) by name.
        Raises NotAnalytic if f cannot be run with complex numbers.
        """
        P = len(next(iter(changed.values())))
        is_complex = any(np.iscomplexobj(a) for a in changed.values())
        self.evaluations += P
        with np.errstate(all="ignore"), _complex_is_kept() if is_complex else nullcontext():
            known = {}
            if is_complex and self._plain is None:
                known = {0: self._run(changed, 0, is_complex)}
            found = self._at_once(changed, P, is_complex, known)
            if found is None:
                runs = [known[p] if p in known else self._run(changed, p, is_complex)
                        for p in range(P)]
                found = {name: np.stack([run[name] for run in runs]) for name in self.outputs}
        return {name: out.astype(np.float64) if out.dtype.kind == "b" else out
                for name, out in found.items()}  # decisions have no differences

    def at(self, places: Entries | Lines, which: Array, t: Array) -> dict[str, Array]:
        """The outputs (P, size) by name, with entry or line `which` (P,) moved by `t` (P,)."""
        parts = [slice(k, k + self.width) for k in range(0, len(t), self.width)]
        runs = [self(places.moved(which[part], t[part])) for part in parts]
        return {name: np.concatenate([run[name].reshape(len(run[name]), -1) for run in runs])
                for name in self.outputs}

    @property
    def coarse_outputs(self) -> bool:
        """Whether all outputs are fractions that float32 can represent."""
        values = np.concatenate([np.ravel(out) for out in self.outputs.values()] or [np.zeros(0)])
        values = values[np.isfinite(values) & (values != np.rint(values))]
        with np.errstate(over="ignore"):
            return bool(values.size) and bool((values.astype(np.float32) == values).all())

    def observe_noise(self, direction: Mapping[str, Any]) -> None:
        """Estimate the rounding of the outputs: `noise`.

        At the smallest spacing at which anything changes, third differences are rounding only. They
        are taken of values on one side, and the smaller of both sides counts, since a kink or a
        jump is no rounding. Values that float32 can represent are taken to be rounded to it.
        """
        line = Lines(self.inputs, [direction])
        near = min(line.unit[0], 256 * line.near[0])  # small inputs stay in their domain
        for spacing in [*(h * near for h in SPACINGS), *(h * line.unit[0] for h in SPACINGS[1:])]:
            found = self.at(line, np.zeros(16, np.int64), spacing * BESIDE)
            sides = {name: (values[:8], values[8:]) for name, values in found.items()}
            if any(all((np.ptp(side, axis=0) > 0).any() for side in both)
                   for both in sides.values()):
                break
        for name, both in sides.items():
            level = np.minimum(*(np.sqrt((np.diff(side, 3, axis=0) ** 2).mean(axis=0) / 20)
                                 for side in both))
            level = np.maximum(level, _spacing_of_float32(np.concatenate(both)))
            loud = level > LOUD * np.finfo(np.float64).eps * np.abs(both[0]).max(axis=0)
            if loud.any():
                self.noise[name] = np.where(loud, level, 0.0)

    def _run(self, changed: Mapping[str, Array], p: int, is_complex: bool) -> dict[str, Array]:
        """The outputs of version p, copied, since f may reuse its buffers."""
        self.calls += 1
        if not is_complex or self._plain:
            return self._by_itself(changed, p, is_complex)
        outputs, run = continue_run(self.f, self._version(changed, p, True), self._namespaces)
        if self._plain is None:
            self._plain = not run.differs and (
                not run.creates or self._alike_by_itself(changed, p, outputs))
        return outputs

    def _by_itself(self, changed: Mapping[str, Array], p: int, is_complex: bool
                   ) -> dict[str, Array]:
        """The outputs of version p on plain NumPy arrays."""
        outputs = self.f(self._version(changed, p, is_complex))
        return {name: np.array(out) for name, out in outputs.items()}

    def _alike_by_itself(
        self, changed: Mapping[str, Array], p: int, outputs: Mapping[str, Array]
    ) -> bool:
        """Whether a run on plain NumPy arrays gives the same outputs, without dropped imaginary
        parts."""
        try:
            found = self._by_itself(changed, p, True)
        except Exception:  # an imaginary part would be dropped
            return False
        return all(_alike(found[name], out) for name, out in outputs.items())

    @cached_property
    def _namespaces(self) -> list[dict[str, Any]]:
        return namespaces_of(self.f)

    def _version(self, changed: Mapping[str, Array], p: int, is_complex: bool) -> dict[str, Array]:
        """Copies of the inputs of version p."""
        arguments = self._arguments(is_complex)
        arguments.update((name, np.array(a[p])) for name, a in changed.items())
        return arguments

    def _arguments(self, is_complex: bool) -> dict[str, Array]:
        """Copies of the inputs."""
        return {name: np.array(a, np.complex128 if is_complex and a.dtype.kind == "f" else a.dtype)
                for name, a in self.inputs.items()}

    def _at_once(
        self, changed: Mapping[str, Array], P: int, is_complex: bool,
        known: Mapping[int, dict[str, Array]],
    ) -> dict[str, Array] | None:
        """All versions in one call of f; None if that is impossible or differs from `known`.

        Arguments: known, versions that have been run alone.
        """
        key = (is_complex, *changed)
        if not self._lanes or P == 1 or not self._trusted.get(key, True):
            return None
        try:
            found = in_lanes(self.f, self._arguments(is_complex), changed, self._buffers,
                             self._namespaces, is_complex and not self._plain)
        except LanesError as error:
            self._trusted[key], self.alone = False, str(error)
            return None
        self.calls += 1
        if key not in self._trusted:
            runs = {p: known[p] if p in known else self._run(changed, p, is_complex)
                    for p in (0, P - 1)}
            self._trusted[key] = all(_alike(found[name][p], out) for p, run in runs.items()
                                     for name, out in run.items())
            if not self._trusted[key]:
                self.alone = "versions side by side gave another result"
        return found if self._trusted[key] else None


def _spacing_of_float32(values: Array) -> Array:
    """(size,) float32's rounding of values (n, size) that differ and that it can represent; else
    0."""
    with np.errstate(over="ignore", invalid="ignore"):
        single = values.astype(np.float32)
    held = (single == values).all(axis=0) & (np.ptp(values, axis=0) > 0)
    return np.where(held, np.spacing(np.abs(single[0])).astype(float) / 3, 0.0)


def _real(name: str, value: Any) -> Array:
    """A private copy, float64 if floating."""
    a = np.array(value)
    if a.dtype.kind == "c":
        raise ValueError(f"inputs: expected {name!r} of a real dtype, got {a.dtype}")
    return a.astype(np.float64) if a.dtype.kind == "f" else a


def _output(name: str, a: Array) -> Array:
    """The output in float64."""
    if a.dtype.kind not in "fiub":
        raise ValueError(f"f: expected output {name!r} of a real dtype, got {a.dtype}")
    return a.astype(np.float64)


def _alike(found: Array, out: Array) -> bool:
    """Whether two results differ by rounding only, in real and imaginary parts separately."""
    if found.shape != out.shape or np.iscomplexobj(found) != np.iscomplexobj(out):
        return False
    parts = [(found.real, out.real), (found.imag, out.imag)]
    return all(np.allclose(a, b, ALIKE, ALIKE * _largest(b), equal_nan=True) for a, b in parts)


def _largest(a: Array) -> float:
    """The largest finite magnitude, zero where there is none."""
    return float(np.abs(a[np.isfinite(a)]).max(initial=0.0))


@contextmanager
def _complex_is_kept() -> Iterator[None]:
    """Context: raise NotAnalytic if an imaginary part is dropped, or if f fails."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            yield
    except (NotAnalytic, MemoryError):
        raise
    except np.exceptions.ComplexWarning as error:
        raise NotAnalytic(
            f"f: the imaginary part of a complex argument is dropped {_where(error)}") from error
    except Exception as error:
        raise NotAnalytic(f"f: complex arguments are refused {_where(error)}: "
                          f"{type(error).__name__}: {error}") from error


def _where(error: BaseException) -> str:
    """File and line of the last frame that is neither NumPy's nor ours."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)
              if is_users(frame.filename)]
    return f"at {frames[-1].filename}:{frames[-1].lineno}" if frames else "somewhere"


# --- entries and lines
# -------------------------------------------------------------------------------------


class Entries:
    """Entries of one tensor."""

    def __init__(self, inputs: Mapping[str, Array], name: str, where: Any) -> None:
        x = _floating(inputs, name, "positions")
        self._name, self._x, self._where = name, x, np.asarray(where, dtype=np.int64).reshape(-1)
        if self._where.size and not 0 <= self._where.min() <= self._where.max() < x.size:
            raise ValueError(f"positions: expected {name!r} in 0..{x.size - 1}, "
                             f"got {self._where.min()}..{self._where.max()}")
        self.coarse, self.unit, self.near = scales_of(x.reshape(-1)[self._where])

    def __len__(self) -> int:
        return len(self._where)

    def moved(self, which: Array, t: Array) -> dict[str, Array]:
        """P versions, each with one entry moved by t."""
        P = len(which)
        moved = np.empty((P, *self._x.shape), t.dtype)
        moved[...] = self._x
        moved.reshape(P, -1)[np.arange(P), self._where[which]] += t
        return {self._name: moved}


class Lines:
    """Directions over several tensors."""

    def __init__(
        self, inputs: Mapping[str, Array], directions: Sequence[Mapping[str, Any]]
    ) -> None:
        self._inputs, self._directions = inputs, list(directions)
        lengths = [self._lengths(direction) for direction in self._directions]
        d, x, dx = np.array(lengths).reshape(-1, 3).T  # (n,)
        d = np.where(d == 0, 1.0, d)
        self.coarse = x / d
        self.unit = _power_of_2(np.maximum(1.0, dx / d) / d)
        self.near = np.array([self._near(k) for k in range(len(self._directions))])

    def _near(self, k: int) -> float:
        """The largest step that changes no entry by more than its own size, zeros left out."""
        sizes = [np.abs(self._inputs[name][ok] / np.asarray(d)[ok]).min(initial=np.inf)
                 for name, d in self._directions[k].items()
                 for ok in [(np.asarray(d) != 0) & (self._inputs[name] != 0)]]
        return float(min([*sizes, self.unit[k]]))

    def _lengths(self, direction: Mapping[str, Any]) -> tuple[float, ...]:
        """The lengths of d, of x where d is not zero, and of d x."""
        parts = []
        for name, value in direction.items():
            x, d = _floating(self._inputs, name, "directions"), np.asarray(value, np.float64)
            if d.shape != x.shape:
                raise ValueError(f"directions: expected {name!r} of shape {x.shape}, got {d.shape}")
            with np.errstate(over="ignore"):
                parts.append((d, x[d != 0], d * x))
        return tuple(length(vectors) for vectors in zip(*parts, strict=True)) or (0.0, 0.0, 0.0)

    def __len__(self) -> int:
        return len(self._directions)

    def moved(self, which: Array, t: Array) -> dict[str, Array]:
        """P versions, each moved by t times its direction."""
        names = dict.fromkeys(name for k in which for name in self._directions[k])
        moved = {name: np.empty((len(t), *self._inputs[name].shape), t.dtype) for name in names}
        for name, versions in moved.items():
            versions[...] = self._inputs[name]
            for p, (k, step) in enumerate(zip(which, t, strict=True)):
                if name in self._directions[k]:
                    versions[p, ...] += step * np.asarray(self._directions[k][name], np.float64)
        return moved


def length(vectors: Sequence[Array]) -> float:
    """The Euclidean length of the concatenated vectors, safe from overflow of squares."""
    largest = max((float(np.abs(v).max(initial=0.0)) for v in vectors), default=0.0)
    if not 0.0 < largest < np.inf:
        return largest
    return largest * float(np.sqrt(sum(float(np.square(v / largest).sum()) for v in vectors)))


def scales_of(x: Array) -> tuple[Array, Array, Array]:
    """`coarse`, `unit` and `near` of `Probe`, for single entries."""
    coarse = np.abs(x)
    unit = _power_of_2(np.maximum(1.0, coarse))
    return coarse, unit, np.where(coarse > 0, coarse, unit)


def _power_of_2(a: Array) -> Array:
    """The next power of 2, or the largest: adding it to x rounds little or nothing."""
    return 2.0 ** np.minimum(np.ceil(np.log2(a)), np.finfo(float).maxexp - 1)


def _floating(inputs: Mapping[str, Array], name: str, argument: str) -> Array:
    if name not in inputs or inputs[name].dtype.kind != "f":
        kind = inputs[name].dtype if name in inputs else "none of that name"
        raise ValueError(f"{argument}: expected the name of a floating input, got {name!r}: {kind}")
    return inputs[name]


def weights_of(evaluate: Evaluator, upstream: Mapping[str, Any]) -> dict[str, Array]:
    """The upstream gradients, (size,) by output name. Raises ValueError if they do not fit the
    outputs."""
    weights = {}
    for name, d_out in upstream.items():
        if name not in evaluate.outputs:
            raise ValueError(f"upstream: expected names of {sorted(evaluate.outputs)}, "
                             f"got {name!r}")
        weight, shape = np.asarray(d_out, np.float64), evaluate.outputs[name].shape
        if weight.shape != shape:
            raise ValueError(f"upstream: expected {name!r} of shape {shape}, got {weight.shape}")
        weights[name] = weight.reshape(-1)
    if not weights:
        raise ValueError("upstream: expected the gradient of at least one output, got none")
    return weights
