"""Adadelta: steps in the parameters' own units, from running averages, without a learning rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backend import Array, array_module
from backend.rows import RowGradient
from backend.workspace import Workspace
from nmt.training.optimizers import _as_factor, _blocks, _own_copy, _parameter_of, _scratch


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
        for name, gradient in gradients.items():
            parameter = _parameter_of(parameters, name, gradient)
            if name not in self._steps:
                xp = array_module(parameter)
                self._gradients[name] = xp.zeros(parameter.shape, dtype=parameter.dtype)
                self._steps[name] = xp.zeros(parameter.shape, dtype=parameter.dtype)
            factor = _as_factor(scale, parameter.dtype)
            if isinstance(gradient, RowGradient):
                self._update_rows(name, parameter, gradient, factor)
            else:
                self._update_dense(name, parameter, gradient, factor)

    def _update_dense(self, name: str, parameter: Array, gradient: Array,
                      factor: Array | float) -> None:
        """Averages and step, block by block."""
        xp = array_module(parameter, gradient)
        works = [_scratch(self._workspace, xp, parameter) for _ in range(2)]
        arrays = parameter, self._gradients[name], self._steps[name], gradient
        for p, squares, steps, g in _blocks(xp, *arrays):
            step, work = (scratch[: p.size] for scratch in works)
            xp.multiply(g, factor, out=step)
            squares *= self.rho
            self._move(xp, p, squares, steps, step, work)

    def _update_rows(self, name: str, parameter: Array, gradient: RowGradient,
                     factor: Array | float) -> None:
        """All averages decay; what the rows add is worked out on them alone."""
        xp = array_module(parameter, gradient.values)
        ids, squares, steps = gradient.ids, self._gradients[name], self._steps[name]
        squares *= self.rho
        p, own, before = parameter[ids], squares[ids], steps[ids]  # (N, E)
        steps *= self.rho
        step = gradient.values * factor
        self._move(xp, p, own, before, step, xp.empty_like(step))
        parameter[ids], squares[ids], steps[ids] = p, own, before

    def _move(self, xp: Any, p: Array, squares: Array, steps: Array, step: Array,
              work: Array) -> None:
        """In place: `step` holds g and becomes -d; `squares` has decayed already, `steps` not."""
        xp.multiply(step, step, out=work)
        work *= 1 - self.rho
        squares += work                                      # E[g^2]
        xp.add(squares, self.epsilon, out=work)
        xp.sqrt(work, out=work)
        step /= work
        xp.add(steps, self.epsilon, out=work)
        xp.sqrt(work, out=work)
        step *= work                                         # -d
        xp.multiply(step, step, out=work)
        work *= 1 - self.rho
        steps *= self.rho
        steps += work                                        # E[d^2]
        step *= self.learning_rate
        xp.subtract(p, step, out=p)

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
