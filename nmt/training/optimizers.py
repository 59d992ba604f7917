"""SGD, Adam and Adadelta after their papers, and the scale that normalises and clips.

An optimizer is a class with the names of its state, a `rule` on arrays of one size (a parameter p,
its state, its gradient g), and the `numbers` that the rule takes at update t. Recipes name the
class in lower case. The kernel of the same name in `updates.cu` is its rule on a GPU. On a CPU the
rule runs on slices that are short enough to stay in the cache. Dividing by the batch size and
clipping are a single number, `factor`, by which the rule multiplies g, so that no gradient is
rewritten.

Weight decay is decoupled from the gradient and the rule (Loshchilov and Hutter, 2019, their
Algorithms 1 and 2): each update also does p <- (1 - eta lambda) p, with its learning rate eta, as
in PyTorch's AdamW. Their schedule multiplier eta_t is eta divided by the first learning rate, so
that their lambda is ours times the first rate. With SGD, weight decay equals the gradient of
lambda/2 ||p||^2 (their Proposition 1), so that L2 needs no key of its own; but the decay of an
update is not part of the gradient that is clipped. All parameters decay.

A `RowGradient` is treated like the dense gradient, which is zero in all other rows: at every update
the averages of all rows decay, and Adam and weight decay move all rows. No row's update is
deferred.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from backend import Array, array_module, on_host, to_device, to_host
from backend.fused import fused
from backend.fused.source import Kernel
from backend.rows import RowGradient
from nmt.training import updates

# Elements of a slice on a CPU; on a GPU a slice is the whole array. Adam on 5.1 million parameters
# takes 1.05 times as long with 32,768, 1.3 times with 16,384, and as long with 131,072.
SLICE = 1 << 16


OPTIMIZERS: dict[str, type[Optimizer]] = {}  # by their names in recipes


class Optimizer(ABC):
    """The base of all optimizers, which applies a rule to dense gradients and to rows, and keeps
    the state. Its subclasses are entered in `OPTIMIZERS`.

    A parameter's t counts the updates of this parameter, so that the bias correction is right for a
    parameter that has no gradient in some batches.
    """

    state_names: ClassVar[tuple[str, ...]] = ()  # names of arrays like the parameter, zero at first
    kernel: ClassVar[Kernel]  # `rule` as CUDA C

    def __init_subclass__(cls) -> None:
        """Enter the optimizer in `OPTIMIZERS`."""
        name = cls.__name__.lower()
        cls.kernel, OPTIMIZERS[name] = updates.UPDATES[name], cls

    def __init__(self, learning_rate: float, weight_decay: float = 0.0) -> None:
        self.learning_rate = learning_rate  # set by the schedule before each update
        self.weight_decay = weight_decay  # lambda
        self.moves_all_rows = bool(self.state_names) or weight_decay > 0  # those without gradient
        self._state: dict[str, tuple[Array, ...]] = {}  # in the order of `state_names`
        self._t: Counter[str] = Counter()

    @property
    def keep(self) -> float:
        """1 - eta lambda, the share of a parameter that weight decay leaves."""
        return 1.0 - self.learning_rate * self.weight_decay

    @abstractmethod
    def numbers(self, t: int) -> tuple[float, ...]:
        """The numbers that `rule` takes after the arrays, at update t; the kernel takes `keep`
        before them."""

    @staticmethod
    @abstractmethod
    def rule(*arrays_and_numbers: Any) -> None:
        """Make an update in place, from p, its state and g, which have one size; factor, which
        multiplies g; and the numbers. g may be None, for zeros; averages then decay. Weight decay
        comes before."""

    def update(self, parameters: dict[str, Array], gradients: Mapping[str, Any],
               scale: Array | float = 1.0) -> None:
        """Move `parameters` against `scale * gradients`, in place.

        parameters: C-contiguous arrays. gradients: arrays of the same names and shapes, or
        `RowGradient`s; a parameter without a gradient is unchanged. scale: a number or a 0-d array,
        see `gradient_scale`. Raises ValueError for a gradient that fits no parameter.
        """
        xp = array_module(*parameters.values())
        # 0-d arrays of each dtype: a float64 one would promote a float32 gradient.
        factors = {dtype: xp.full((), scale, dtype=dtype)
                   for dtype in {p.dtype for p in parameters.values()}}
        dense: dict[tuple[Any, int], list[tuple[tuple[Array, ...], Array]]] = {}
        for name, gradient in gradients.items():
            p = _parameter_of(parameters, name, gradient)
            if name not in self._state:
                self._state[name] = tuple(xp.zeros(p.shape, p.dtype) for _ in self.state_names)
            self._t[name] += 1
            arrays, t = (p, *self._state[name]), self._t[name]
            if isinstance(gradient, RowGradient):
                self.update_rows(arrays, gradient.ids, gradient.values, factors[p.dtype], t)
            else:
                dense.setdefault((p.dtype, t), []).append((arrays, gradient))
        for (dtype, t), pairs in dense.items():
            p_and_states, dense_gradients = zip(*pairs, strict=True)
            self.update_dense(p_and_states, dense_gradients, factors[dtype], t)

    @fused(updates.update_dense)
    def update_dense(self, arrays: Sequence[Sequence[Array]], gradients: Sequence[Array],
                     factor: Array, t: int) -> None:
        """Make update t of parameters of one dtype. arrays: p and its state, for each parameter."""
        numbers = self.numbers(t)
        for p_and_state, gradient in zip(arrays, gradients, strict=True):
            for p, *others in slices(*p_and_state, gradient):
                if self.weight_decay:
                    p *= self.keep                     # (Loshchilov and Hutter, 2019)
                self.rule(p, *others, factor, *numbers)

    @fused(updates.update_rows)
    def update_rows(self, arrays: Sequence[Array], ids: Array, values: Array, factor: Array,
                    t: int) -> None:
        """Make update t of a table. arrays: p and its state. ids: (N,) distinct rows that have the
        gradients `values`."""
        rows = [array[ids] for array in arrays]  # (N, E)
        self.update_dense([rows], [values], factor, t)
        if self.moves_all_rows:  # the rows with a gradient are overwritten below
            for p, *states in slices(*arrays):
                if self.weight_decay:
                    p *= self.keep
                self.rule(p, *states, None, factor, *self.numbers(t))
        for array, moved in zip(arrays, rows, strict=True):
            array[ids] = moved

    def state_arrays(self) -> dict[str, Array]:
        """The state for a checkpoint: `m/<name>` and so on, and `t/<name>` (int64, on the host).

        The arrays are not copied; do not change them.
        """
        if not self.state_names:
            return {}
        state = {f"{kind}/{name}": array for name, arrays in self._state.items()
                 for kind, array in zip(self.state_names, arrays, strict=True)}
        return state | {f"t/{name}": np.array(t) for name, t in self._t.items()}

    def load_state_arrays(self, arrays: Mapping[str, Array],
                          parameters: Mapping[str, Array]) -> None:
        """Restore what `state_arrays` returned. Host arrays are moved to the device in use.

        Raises ValueError for the state of another optimizer, an incomplete state, and a state with
        other names, shapes or dtypes than the parameters or with values that are not finite.
        """
        kinds = (*self.state_names, "t") if self.state_names else ()
        expectation = (f"arrays: expected the state of {type(self).__name__} "
                       f"({', '.join(f'{kind}/' for kind in kinds) or 'nothing'})")
        state: dict[str, dict[str, Array]] = {kind: {} for kind in kinds}
        for full_name, array in arrays.items():
            kind, _, name = full_name.partition("/")
            if kind not in state:
                raise ValueError(f"{expectation}, got {full_name!r}")
            state[kind][name] = array
        if len({frozenset(named) for named in state.values()}) > 1:
            raise ValueError(f"{expectation}, each for the same parameters")
        for kind, named in state.items():
            for name, array in named.items():
                _check_state(kind, name, array, parameters)
        self._t = Counter({name: int(to_host(t)) for name, t in state.pop("t", {}).items()})
        self._state = {name: tuple(to_device(np.array(to_host(named[name])))  # copies
                                   for named in state.values()) for name in self._t}


class SGD(Optimizer):
    """Plain stochastic gradient descent.

    Source: thesis, Eq. 2.9: theta <- theta - eta grad J(theta).
    """

    def __init__(self, learning_rate: float = 1.0, weight_decay: float = 0.0) -> None:
        super().__init__(learning_rate, weight_decay)

    def numbers(self, t: int) -> tuple[float, ...]:
        """eta."""
        return (self.learning_rate,)

    @staticmethod
    def rule(p: Array, g: Array | None, factor: Array, rate: float) -> None:
        """p <- p - eta g."""
        if g is not None:
            p -= rate * factor * g  # (2.9)


class Adam(Optimizer):
    """Adam: steps of about the learning rate, whatever the gradient's scale.

    Source: Kingma and Ba, ICLR 2015, their Algorithm 1, with bias correction:
    m <- beta1 m + (1 - beta1) g;  v <- beta2 v + (1 - beta2) g^2;
    m_hat = m / (1 - beta1^t);  v_hat = v / (1 - beta2^t);
    theta <- theta - alpha m_hat / (sqrt(v_hat) + epsilon).
    The defaults are the paper's, and those of Nguyen, section 4. With weight decay it is AdamW,
    Algorithm 2 of Loshchilov and Hutter (2019).
    """

    state_names = ("m", "v")

    def __init__(self, learning_rate: float = 0.001, beta1: float = 0.9, beta2: float = 0.999,
                 epsilon: float = 1e-8, weight_decay: float = 0.0) -> None:
        super().__init__(learning_rate, weight_decay)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon

    def numbers(self, t: int) -> tuple[float, ...]:
        """alpha, beta1, beta2, epsilon and the two corrections."""
        return (self.learning_rate, self.beta1, self.beta2, self.epsilon, 1 - self.beta1**t,
                1 - self.beta2**t)

    @staticmethod
    def rule(p: Array, m: Array, v: Array, g: Array | None, factor: Array, rate: float,
             beta1: float, beta2: float, epsilon: float, correction1: float,
             correction2: float) -> None:
        """The lines of the comments, computed in one buffer: written literally, they take 1.5 times
        as long. The corrections are scalars, as at the end of their section 2."""
        work, root = None, math.sqrt(correction2)
        m *= beta1
        v *= beta2
        if g is not None:
            work = (1 - beta1) * factor * g
            m += work                              # m = beta1 m + (1 - beta1) g
            work *= work
            work *= (1 - beta2) / (1 - beta1) ** 2
            v += work                              # v = beta2 v + (1 - beta2) g^2
        xp = array_module(p)
        work = xp.sqrt(v, out=work)
        work += epsilon * root
        xp.divide(m, work, out=work)               # m_hat = m / (1 - beta1^t)
        work *= rate * root / correction1          # v_hat = v / (1 - beta2^t)
        p -= work                                  # p = p - alpha m_hat / (sqrt(v_hat) + epsilon)


class Adadelta(Optimizer):
    """Adadelta: each step is the gradient times the ratio of two root mean squares.

    Source: Zeiler (2012), their Algorithm 1, with the constants of (Bahdanau B.2 adadelta):
    E[g^2] <- rho E[g^2] + (1 - rho) g^2;  d = -sqrt(E[d^2] + epsilon) / sqrt(E[g^2] + epsilon) g;
    E[d^2] <- rho E[d^2] + (1 - rho) d^2;  theta <- theta + d.
    The learning rate multiplies d only where theta moves; 1 gives the algorithm as printed.
    """

    state_names = ("g2", "d2")  # E[g^2], E[d^2]

    def __init__(self, learning_rate: float = 1.0, rho: float = 0.95, epsilon: float = 1e-6,
                 weight_decay: float = 0.0) -> None:
        super().__init__(learning_rate, weight_decay)
        self.rho, self.epsilon = rho, epsilon

    def numbers(self, t: int) -> tuple[float, ...]:
        """The rate, rho and epsilon."""
        return self.learning_rate, self.rho, self.epsilon

    @staticmethod
    def rule(p: Array, g2: Array, d2: Array, g: Array | None, factor: Array, rate: float,
             rho: float, epsilon: float) -> None:
        """The averages are updated in place (new arrays take 1.3 times as long), with one root. d
        is the paper's -d, and zero without a gradient."""
        g2 *= rho
        if g is None:
            d2 *= rho
            return
        g = factor * g
        g2 += (1 - rho) * (g * g)
        d = array_module(p).sqrt((d2 + epsilon) / (g2 + epsilon)) * g
        d2 *= rho
        d2 += (1 - rho) * (d * d)
        p -= rate * d


def gradient_scale(gradients: Mapping[str, Any], batch_size: int,
                   max_norm: float | None) -> tuple[Array, Array]:
    """The factor that normalises and clips the gradient of a summed loss, and the gradient's norm.

    Source: thesis, section 2.2.2 (Pascanu et al., 2013): g <- tau / ||g|| g when ||g|| > tau,
    where g is the summed gradient divided by the batch size ("the normalized gradient", 4.3.1;
    erratum 13).

    gradients: arrays or `RowGradient`s, at least one. batch_size: in sentences. max_norm: tau, None
    for no clipping. Returns (scale, norm), float64 0-d arrays on the gradients' device. `scale` is
    for the optimizer's `update`. `norm` is that of the normalised gradient before clipping, summed
    in float64 over slices. Nothing is fetched to the host.
    """
    arrays = [g.values if isinstance(g, RowGradient) else g for g in gradients.values()]
    xp, norm = array_module(*arrays), gradient_norm(arrays)
    norm /= batch_size
    scale = xp.full((), 1 / batch_size, dtype=np.float64)
    if max_norm is not None:
        scale *= max_norm / xp.maximum(norm, max_norm)  # 1 up to tau, then tau / ||g|| (2.2.2 norm)
    return scale, norm


@fused(updates.gradient_norm)
def gradient_norm(arrays: list[Array]) -> Array:
    """||g|| of all arrays together, 0-d, summed in float64 over slices."""
    xp = array_module(*arrays)
    norm = xp.zeros((), dtype=np.float64)
    for array in arrays:
        for (g,) in slices(array):
            norm += xp.dot(g, g)
    return xp.sqrt(norm, out=norm)


def slices(*arrays: Array) -> Iterator[list[Array]]:
    """Matching flat slices of arrays of one size. Slices of contiguous arrays are views."""
    flat = [array.reshape(-1) for array in arrays]
    size = flat[0].size
    length = SLICE if on_host(array_module(*arrays)) else max(size, 1)
    for start in range(0, size, length):
        yield [array[start:start + length] for array in flat]


def _parameter_of(parameters: dict[str, Array], name: str, gradient: Any) -> Array:
    """The parameter that a gradient belongs to. Raises ValueError if they do not fit."""
    if name not in parameters:
        raise ValueError(f"gradients: {name!r} is not among the parameters")
    parameter = parameters[name]
    if tuple(gradient.shape) != parameter.shape:
        raise ValueError(f"gradients: {name!r}: expected shape {parameter.shape}, "
                         f"got {tuple(gradient.shape)}")
    if not parameter.flags.c_contiguous:  # a reshaped copy would take the update and be lost
        raise ValueError(f"parameters: {name!r}: expected a C-contiguous array")
    return parameter


def _check_state(kind: str, name: str, array: Array, parameters: Mapping[str, Array]) -> None:
    """Raise ValueError unless an array of a state fits its parameter."""
    if name not in parameters:
        raise ValueError(f"{kind}/{name}: expected a parameter of the model, found none")
    host = to_host(array)
    if kind == "t":
        if host.shape != () or host.dtype.kind != "i" or host < 1:
            raise ValueError(f"t/{name}: expected a number of updates, found {host.dtype} of shape "
                             f"{host.shape}")
        return
    like = parameters[name]
    if host.shape != like.shape or host.dtype != like.dtype:
        raise ValueError(f"{kind}/{name}: expected {like.dtype} of shape {like.shape}, found "
                         f"{host.dtype} of shape {host.shape}")
    if not np.isfinite(host).all():
        raise ValueError(f"{kind}/{name}: expected finite numbers, found others")
