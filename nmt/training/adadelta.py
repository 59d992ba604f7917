"""Adadelta: steps in the parameters' own units, from running averages, without a learning rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from backend import Array, array_module
from backend.fused import fusable
from backend.rows import RowGradient
from backend.workspace import Workspace
from nmt.training.optimizers import _blocks, _factors, _own_copy, _parameter_of, _scratch


class AdadeltaNumbers(NamedTuple):
    """What an update multiplies with."""

    rho: float
    epsilon: float
    rate: float


class Adadelta:
    """Each step is the gradient times the ratio of two root mean squares.

    Source: Zeiler (2012), their Algorithm 1, with what Bahdanau et al. (2015), B.2, set:
    E[g^2] <- rho E[g^2] + (1 - rho) g^2;  d = -sqrt(E[d^2] + epsilon) / sqrt(E[g^2] + epsilon) g;
    E[d^2] <- rho E[d^2] + (1 - rho) d^2;  theta <- theta + d.
    The learning rate multiplies d where theta moves and nowhere else; 1 is the algorithm as
    printed. A `RowGradient` means the dense gradient it stands for: the averages of all rows decay;
    only its own rows move, as the step of a zero gradient is zero.
    """

    def __init__(self, learning_rate: float = 1.0, rho: float = 0.95,
                 epsilon: float = 1e-6) -> None:
        self.learning_rate = learning_rate
        self.rho, self.epsilon = rho, epsilon
        self._gradients: dict[str, Array] = {}  # E[g^2]
        self._steps: dict[str, Array] = {}  # E[d^2]
        self._workspace = Workspace()

    def update(self, parameters: dict[str, Array], gradients: Mapping[str, Any],
               scale: Array | float = 1.0) -> None:
        """One step of their Algorithm 1; arguments and errors as `SGD.update`."""
        factor_of = _factors(scale)
        for name, gradient in gradients.items():
            parameter = _parameter_of(parameters, name, gradient)
            if name not in self._steps:
                xp = array_module(parameter)
                self._gradients[name] = xp.zeros(parameter.shape, dtype=parameter.dtype)
                self._steps[name] = xp.zeros(parameter.shape, dtype=parameter.dtype)
            factor = factor_of(parameter.dtype)
            own = parameter, self._gradients[name], self._steps[name]
            numbers = AdadeltaNumbers(self.rho, self.epsilon, self.learning_rate)
            if isinstance(gradient, RowGradient):
                adadelta_rows(*own, gradient.ids, gradient.values, factor, numbers)
            else:
                adadelta_dense(*own, gradient, factor, numbers, self._workspace)

    def state_arrays(self) -> dict[str, Array]:
        """`gradients/<name>` and `steps/<name>`, the averages of squares.

        The arrays are the optimizer's own: save them, do not change them.
        """
        state = {f"gradients/{name}": array for name, array in self._gradients.items()}
        return state | {f"steps/{name}": array for name, array in self._steps.items()}

    def load_state_arrays(self, arrays: Mapping[str, Array]) -> None:
        """Put back what `state_arrays` gave; host arrays are moved to the device in use."""
        kinds: dict[str, dict[str, Array]] = {"gradients": {}, "steps": {}}
        for full_name, array in arrays.items():
            kind, _, name = full_name.partition("/")
            if kind not in kinds:
                raise ValueError("arrays: expected Adadelta's gradients/ and steps/, "
                                 f"got {full_name!r}")
            kinds[kind][name] = _own_copy(array)
        if kinds["gradients"].keys() != kinds["steps"].keys():
            raise ValueError("arrays: expected gradients/ and steps/ of the same parameters")
        self._gradients, self._steps = kinds["gradients"], kinds["steps"]


@fusable
def adadelta_dense(
    parameter: Array, squares: Array, steps: Array, gradient: Array, factor: Array | float,
    numbers: AdadeltaNumbers, workspace: Workspace,
) -> None:
    """Averages and step, block by block; factor times the gradient is g."""
    xp = array_module(parameter, gradient)
    works = [_scratch(workspace, xp, parameter) for _ in range(2)]
    for p, square, before, g in _blocks(xp, parameter, squares, steps, gradient):
        step, work = (scratch[: p.size] for scratch in works)
        xp.multiply(g, factor, out=step)
        square *= numbers.rho
        _move(xp, p, square, before, step, work, numbers)


@fusable
def adadelta_rows(
    parameter: Array, squares: Array, steps: Array, ids: Array, values: Array,
    factor: Array | float, numbers: AdadeltaNumbers,
) -> None:
    """All averages decay; what the rows `ids` (N,), ascending, add is worked out on them alone."""
    xp = array_module(parameter, values)
    squares *= numbers.rho
    p, own, before = parameter[ids], squares[ids], steps[ids]  # (N, E)
    steps *= numbers.rho
    step = values * factor
    _move(xp, p, own, before, step, xp.empty_like(step), numbers)
    parameter[ids], squares[ids], steps[ids] = p, own, before


def _move(
    xp: Any, p: Array, squares: Array, steps: Array, step: Array, work: Array,
    numbers: AdadeltaNumbers,
) -> None:
    """In place: `step` holds g and becomes -d; `squares` has decayed already, `steps` not."""
    xp.multiply(step, step, out=work)
    work *= 1 - numbers.rho
    squares += work                                          # E[g^2]
    xp.add(squares, numbers.epsilon, out=work)
    xp.sqrt(work, out=work)
    step /= work
    xp.add(steps, numbers.epsilon, out=work)
    xp.sqrt(work, out=work)
    step *= work                                             # -d
    xp.multiply(step, step, out=work)
    work *= 1 - numbers.rho
    steps *= numbers.rho
    steps += work                                            # E[d^2]
    step *= numbers.rate
    xp.subtract(p, step, out=p)
