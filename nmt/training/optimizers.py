"""Parameter updates in place: plain SGD and Adam, and the scale that normalises and clips.

A gradient is never rewritten: dividing by the batch size and clipping are one number, and the
optimizer multiplies by it while it reads the gradient. On a CPU each update runs block by block,
so that a block's several passes stay in the cache and nothing of a parameter's size is allocated.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from backend import Array, array_module, to_device, to_host
from backend.fused import fusable
from backend.rows import RowGradient
from backend.workspace import Workspace

# Elements per block on a CPU, measured: SGD and the norm gain nothing beyond it, smaller blocks pay
# more per call than they save. A GPU has no such cache to mind: there a block is a whole parameter.
BLOCK = 1 << 16


class Optimizer(Protocol):
    """What the trainer needs of an optimizer."""

    learning_rate: float  # set by the schedule before each epoch

    def __init__(self, learning_rate: float) -> None:
        """An optimizer without a past."""

    def update(self, parameters: dict[str, Array], gradients: Mapping[str, Any],
               scale: Array | float = 1.0) -> None:
        """Move `parameters` against `scale * gradients`, in place."""

    def state_arrays(self) -> dict[str, Array]:
        """The state as a flat mapping from name to array: what a checkpoint holds."""

    def load_state_arrays(self, arrays: Mapping[str, Array]) -> None:
        """Put back what `state_arrays` gave."""


class SGD:
    """Plain stochastic gradient descent.

    Source: thesis, Eq. 2.9: theta <- theta - eta grad J(theta).
    """

    def __init__(self, learning_rate: float = 1.0) -> None:
        self.learning_rate = learning_rate
        self._workspace = Workspace()

    def update(self, parameters: dict[str, Array], gradients: Mapping[str, Any],
               scale: Array | float = 1.0) -> None:
        """Eq. 2.9 with the gradient times `scale`; of a RowGradient only its rows are touched.

        Arguments: parameters, C-contiguous arrays, changed in place; gradients, arrays of the same
        names and shapes or `RowGradient`s (a parameter without one stays as it is); scale, a
        number or a 0-d array (`gradient_scale`).
        Raises ValueError for a gradient that fits no parameter.
        """
        factor_of = _factors(scale, self.learning_rate)
        for name, gradient in gradients.items():
            parameter = _parameter_of(parameters, name, gradient)
            factor = factor_of(parameter.dtype)
            if isinstance(gradient, RowGradient):
                sgd_rows(parameter, gradient.ids, gradient.values, factor)
            else:
                sgd_dense(parameter, gradient, factor, self._workspace)

    def state_arrays(self) -> dict[str, Array]:
        """Plain SGD has no state: an empty mapping."""
        return {}

    def load_state_arrays(self, arrays: Mapping[str, Array]) -> None:
        """Raises ValueError unless `arrays` is empty."""
        if arrays:
            raise ValueError(f"arrays: expected no state for SGD, got {sorted(arrays)}")


@fusable
def sgd_dense(
    parameter: Array, gradient: Array, factor: Array | float, workspace: Workspace
) -> None:
    """p <- p - factor g, block by block."""
    xp = array_module(parameter, gradient)
    scratch = _scratch(workspace, xp, parameter)
    for p, g in _blocks(xp, parameter, gradient):
        step = scratch[:p.size]
        xp.multiply(g, factor, out=step)
        xp.subtract(p, step, out=p)  # (2.9)


@fusable
def sgd_rows(parameter: Array, ids: Array, values: Array, factor: Array | float) -> None:
    """The same on the rows `ids` (N,), all different, with gradients `values` (N, E)."""
    parameter[ids] -= values * factor  # (2.9)


class AdamNumbers(NamedTuple):
    """What one update of one parameter multiplies with: the corrections need no further pass."""

    beta1: float
    beta2: float
    square: float  # turns ((1 - beta1) g)^2 into (1 - beta2) g^2
    epsilon: float  # times sqrt(1 - beta2^t)
    rate: float  # eta sqrt(1 - beta2^t) / (1 - beta1^t)


class Adam:
    """Adam: steps of about the learning rate, whatever the gradient's scale.

    Source: Kingma and Ba, ICLR 2015, their Algorithm 1, with bias correction:
    m <- beta1 m + (1 - beta1) g;  v <- beta2 v + (1 - beta2) g^2;
    theta <- theta - eta (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon).
    The defaults are the paper's, and those of Nguyen, section 4. A `RowGradient` means the dense
    gradient it stands for: the moments of all rows decay and all rows move. A parameter's t counts
    its own updates, so one that gets no gradient in some batches is corrected as it should be.
    """

    def __init__(self, learning_rate: float = 0.001, beta1: float = 0.9, beta2: float = 0.999,
                 epsilon: float = 1e-8) -> None:
        self.learning_rate = learning_rate
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon
        self._first: dict[str, Array] = {}  # m
        self._second: dict[str, Array] = {}  # v
        self._steps: dict[str, int] = {}  # t
        self._workspace = Workspace()

    def update(self, parameters: dict[str, Array], gradients: Mapping[str, Any],
               scale: Array | float = 1.0) -> None:
        """One step of their Algorithm 1; arguments and errors as `SGD.update`."""
        factor_of = _factors(scale, 1 - self.beta1)
        for name, gradient in gradients.items():
            parameter = _parameter_of(parameters, name, gradient)
            if name not in self._steps:
                xp = array_module(parameter)
                self._first[name] = xp.zeros(parameter.shape, dtype=parameter.dtype)
                self._second[name] = xp.zeros(parameter.shape, dtype=parameter.dtype)
                self._steps[name] = 0
            self._steps[name] += 1
            factor = factor_of(parameter.dtype)
            own = parameter, self._first[name], self._second[name]
            numbers = self._numbers(self._steps[name])
            if isinstance(gradient, RowGradient):
                adam_rows(*own, gradient.ids, gradient.values, factor, numbers, self._workspace)
            else:
                adam_dense(*own, gradient, factor, numbers, self._workspace)

    def _numbers(self, t: int) -> AdamNumbers:
        """The numbers of a parameter's update t."""
        root = math.sqrt(1 - self.beta2**t)
        return AdamNumbers(
            self.beta1, self.beta2, (1 - self.beta2) / (1 - self.beta1) ** 2, self.epsilon * root,
            self.learning_rate * root / (1 - self.beta1**t),
        )

    def state_arrays(self) -> dict[str, Array]:
        """`first/<name>` and `second/<name>` (the moments), `steps/<name>` (t, int64, on the host).

        The arrays are the optimizer's own: save them, do not change them.
        """
        state = {f"first/{name}": array for name, array in self._first.items()}
        state |= {f"second/{name}": array for name, array in self._second.items()}
        return state | {f"steps/{name}": np.array(t) for name, t in self._steps.items()}

    def load_state_arrays(self, arrays: Mapping[str, Array]) -> None:
        """Put back what `state_arrays` gave; host arrays are moved to the device in use."""
        kinds: dict[str, dict[str, Array]] = {"first": {}, "second": {}, "steps": {}}
        for full_name, array in arrays.items():
            kind, _, name = full_name.partition("/")
            if kind not in kinds:
                raise ValueError("arrays: expected Adam's first/, second/ and steps/, "
                                 f"got {full_name!r}")
            kinds[kind][name] = array
        if not kinds["first"].keys() == kinds["second"].keys() == kinds["steps"].keys():
            raise ValueError("arrays: expected first/, second/ and steps/ of the same parameters")
        self._steps = {name: int(to_host(t)) for name, t in kinds["steps"].items()}
        self._first = {name: _own_copy(m) for name, m in kinds["first"].items()}
        self._second = {name: _own_copy(v) for name, v in kinds["second"].items()}


@fusable
def adam_dense(
    parameter: Array, first: Array, second: Array, gradient: Array, factor: Array | float,
    numbers: AdamNumbers, workspace: Workspace,
) -> None:
    """Moments and step in one go over each block; factor times the gradient is (1 - beta1) g."""
    xp = array_module(parameter, gradient)
    scratch = _scratch(workspace, xp, parameter)
    for p, m, v, g in _blocks(xp, parameter, first, second, gradient):
        work = scratch[:p.size]
        xp.multiply(g, factor, out=work)  # (1 - beta1) g
        m *= numbers.beta1
        m += work
        xp.multiply(work, work, out=work)
        work *= numbers.square
        v *= numbers.beta2
        v += work
        _adam_step(xp, p, m, v, work, numbers)


@fusable
def adam_rows(
    parameter: Array, first: Array, second: Array, ids: Array, values: Array,
    factor: Array | float, numbers: AdamNumbers, workspace: Workspace,
) -> None:
    """All moments decay, the rows `ids` (N,), ascending, are added, then all rows move."""
    xp = array_module(parameter, values)
    rows = values * factor  # (N, E)
    first *= numbers.beta1
    first[ids] += rows
    second *= numbers.beta2
    second[ids] += rows * rows * numbers.square
    scratch = _scratch(workspace, xp, parameter)
    for p, m, v in _blocks(xp, parameter, first, second):
        _adam_step(xp, p, m, v, scratch[:p.size], numbers)


def _adam_step(
    xp: Any, p: Array, m: Array, v: Array, work: Array, numbers: AdamNumbers
) -> None:
    """p moves by m over sqrt(v)."""
    xp.sqrt(v, out=work)
    work += numbers.epsilon
    xp.divide(m, work, out=work)
    work *= numbers.rate
    xp.subtract(p, work, out=p)


def gradient_scale(gradients: Mapping[str, Any], batch_size: int,
                   max_norm: float | None) -> tuple[Array, Array]:
    """The factor that normalises and clips the gradient of a summed loss, and its norm.

    Source: thesis, section 2.2.2 (Pascanu et al., 2013): g <- tau / ||g|| g when ||g|| > tau,
    where g is the summed gradient divided by the batch size ("the normalized gradient", 4.3.1;
    erratum 13).

    Arguments: gradients, arrays or `RowGradient`s, at least one; batch_size in sentences; max_norm
    tau, None for no clipping.
    Returns (scale, norm), 0-d arrays where the gradients are, in float64: give `scale` to the
    optimizer's `update`. norm is that of the normalised gradient before clipping; it is summed in
    float64 over blocks. Nothing is fetched to the host.
    """
    arrays = [g.values if isinstance(g, RowGradient) else g for g in gradients.values()]
    xp, norm = array_module(*arrays), gradient_norm(arrays)
    norm /= batch_size
    scale = xp.full((), 1 / batch_size, dtype=np.float64)
    if max_norm is not None:
        scale *= max_norm / xp.maximum(norm, max_norm)  # 1 up to tau, then tau / ||g|| (2.2.2 norm)
    return scale, norm


@fusable
def gradient_norm(arrays: list[Array]) -> Array:
    """||g|| of all arrays together, 0-d, summed in float64 over blocks."""
    xp = array_module(*arrays)
    norm = xp.zeros((), dtype=np.float64)
    for array in arrays:
        for (block,) in _blocks(xp, array):
            norm += xp.dot(block, block)
    return xp.sqrt(norm, out=norm)


def _blocks(xp: Any, *arrays: Array) -> Iterator[tuple[Array, ...]]:
    """Matching contiguous pieces of arrays of one size: views, where the array is contiguous."""
    flat = [array.reshape(-1) for array in arrays]
    size = flat[0].size
    length = _block_length(xp, size)
    for start in range(0, size, length):
        yield tuple(array[start:start + length] for array in flat)


def _block_length(xp: Any, size: int) -> int:
    """Elements per block of an array of `size` elements."""
    return min(BLOCK, max(size, 1)) if xp is np else max(size, 1)


def _scratch(workspace: Workspace, xp: Any, parameter: Array) -> Array:
    """A buffer of one block, which all blocks of the parameter share."""
    return workspace.empty(xp, (_block_length(xp, parameter.size),), parameter.dtype)


def _parameter_of(parameters: dict[str, Array], name: str, gradient: Any) -> Array:
    """The parameter that `gradient` belongs to, checked."""
    if name not in parameters:
        raise ValueError(f"gradients: {name!r} is not among the parameters")
    parameter = parameters[name]
    if tuple(gradient.shape) != parameter.shape:
        raise ValueError(f"gradients: {name!r}: expected shape {parameter.shape}, "
                         f"got {tuple(gradient.shape)}")
    if not parameter.flags.c_contiguous:  # a reshaped copy would take the update and be lost
        raise ValueError(f"parameters: {name!r}: expected a C-contiguous array")
    return parameter


def _factors(scale: Array | float, times: float = 1.0) -> Callable[[Any], Array | float]:
    """`scale * times` in a parameter's dtype: a float64 0-d array would promote its array.

    It is worked out once for each dtype: a GPU has small launches enough.
    """

    @functools.cache
    def of(dtype: Any) -> Array | float:
        if isinstance(scale, (int, float)):
            return scale * times
        factor = scale.astype(dtype, copy=False)
        return factor if times == 1.0 else factor * times

    return of


def _own_copy(array: Array) -> Array:
    """A copy, on the device in use, that may be written to."""
    return to_device(np.array(to_host(array)))
