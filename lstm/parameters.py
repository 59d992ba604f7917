"""Parameters: a flat mapping from dotted name to array; their declaration and initialisation.

The scheme `uniform` draws from [-scale, scale] (Luong, 4.3.1: 0.1); `xavier` from [-a, a] with
a = sqrt(6 / (rows + columns)) of each stacked matrix (Glorot and Bengio, 2010), embeddings as
`uniform`; `orthogonal` as Bahdanau et al. (2015), B.1: random orthogonal matrices of the state,
zeros for the vectors of attention scores, everything else normal. `normal` draws normals of
standard deviation sqrt(2 / (rows + columns)) (Nguyen Eq. 3.5; not a variance, erratum 23), and 1 /
sqrt(E) for embeddings; `small` (SmallInit, Nguyen 3.3.2.2) is the same, but sqrt(2 / (d + 4 d)) for
the matrices (d, d) of multi-head attention. Biases start at zero, except those of forget gates,
which start at `forget_bias` (Jozefowicz et al., 2015, recommend 1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from backend import Array, to_device
from backend.errors import check_among

Parameters = dict[str, Array]
Shape = tuple[int, ...]
Initial = Callable[[np.random.Generator, Shape], np.ndarray]

SCHEMES = ("uniform", "xavier", "orthogonal", "normal", "small")
STD = 0.01  # standard deviation of normals under `orthogonal` (Bahdanau B.1)


class Axis(NamedTuple):
    """The label of an axis, which says what it counts, and the named parts along it, in order."""

    name: str  # "word", "gate", "unit", "column" ...
    size: int
    parts: tuple[tuple[str, int], ...] = ()  # (name, size)


def axis(name: str, size: int | Mapping[str, int]) -> Axis:
    """An axis of this size, or with parts of these sizes: axis("gate", {"i": H, "f": H})."""
    if isinstance(size, int):
        return Axis(name, size)
    return Axis(name, sum(size.values()), tuple(size.items()) if len(size) > 1 else ())


class Weight(NamedTuple):
    """The declaration of a parameter: its axes and its initialisation."""

    axes: tuple[Axis, ...]
    initial: Initial

    @property
    def shape(self) -> Shape:
        """The size of each axis."""
        return tuple(axis.size for axis in self.axes)


def initialise(
    weights: Mapping[str, Weight], rng: np.random.Generator, dtype: DTypeLike = "float32"
) -> Parameters:
    """Draw parameters on the backend in use, in the order of `weights`: name -> array."""
    return {name: to_device(weight.initial(rng, weight.shape).astype(dtype))
            for name, weight in weights.items()}


# --- initialisation -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scheme:
    """The initialisation of a model's weights. Each method returns the `initial` of a kind of
    weight."""

    name: str = "uniform"  # one of SCHEMES
    scale: float = 0.1  # half-width of the uniform distribution
    forget_bias: float = 0.0
    uniform_biases: bool = False  # whether biases are random as matrices are, in [-scale, scale]

    def __post_init__(self) -> None:
        check_among("initialisation", self.name, SCHEMES)
        if self.uniform_biases and self.name != "uniform":
            raise ValueError("uniform_biases: expected false unless initialisation is 'uniform', "
                             f"got true with {self.name!r}")
        if self.uniform_biases and self.forget_bias:
            raise ValueError("forget_bias: expected 0 where biases are drawn (uniform_biases), got "
                             f"{self.forget_bias}")

    def embedding(self) -> Initial:
        """A look-up table (V, E)."""
        if self.name in ("normal", "small"):
            return lambda rng, shape: rng.normal(0.0, shape[1] ** -0.5, shape)
        return normal(STD) if self.name == "orthogonal" else uniform(self.scale)

    def matrix(self, blocks: int = 1, std: float = STD) -> Initial:
        """A matrix, or `blocks` of them stacked; std: of the normals under `orthogonal`."""
        if self.name == "orthogonal":
            return normal(std)
        if self.name in ("normal", "small"):
            return xavier_normal(blocks)
        return xavier(blocks) if self.name == "xavier" else uniform(self.scale)

    def attention(self) -> Initial:
        """A matrix (d, d) of multi-head attention."""
        if self.name != "small":
            return self.matrix()
        return lambda rng, shape: rng.normal(0.0, (2.0 / (5 * shape[1])) ** 0.5, shape)

    def recurrent(self, blocks: int) -> Initial:
        """`blocks` stacked matrices whose last columns multiply the state."""
        return orthogonal_states(blocks) if self.name == "orthogonal" else self.matrix(blocks)

    def vector(self) -> Initial:
        """A weight vector, as in a score: initialised as a matrix of one row."""
        return zeros if self.name == "orthogonal" else self.matrix()

    def bias(self, gates: tuple[str, ...] = ()) -> Initial:
        """A bias of stacked `gates`."""
        if self.uniform_biases:
            return uniform(self.scale)
        return zeros if "f" not in gates else block_bias(gates, "f", self.forget_bias)


def zeros(rng: np.random.Generator, shape: Shape) -> np.ndarray:
    """All zeros; `rng` is not used."""
    return np.zeros(shape)


def constant(value: float) -> Initial:
    """The same number everywhere."""
    return lambda rng, shape: np.full(shape, value)


def block_bias(blocks: tuple[str, ...], name: str, value: float) -> Initial:
    """Zeros, but `value` in the block of that name."""

    def initial(rng: np.random.Generator, shape: Shape) -> np.ndarray:
        bias = np.zeros(shape)
        bias.reshape(len(blocks), -1)[blocks.index(name)] = value
        return bias

    return initial


def uniform(limit: float) -> Initial:
    """From [-limit, limit]."""
    most = limit + 0.0  # -0.0 becomes 0.0, since NumPy refuses an interval from 0.0 to -0.0
    return lambda rng, shape: rng.uniform(-most, most, shape)


def normal(std: float) -> Initial:
    """With mean 0 and this standard deviation."""
    return lambda rng, shape: rng.normal(0.0, std, shape)


def xavier(blocks: int) -> Initial:
    """From [-a, a], a = sqrt(6 / (rows + columns)) of one of the `blocks` stacked matrices."""

    def initial(rng: np.random.Generator, shape: Shape) -> np.ndarray:
        rows, columns = shape if len(shape) == 2 else (1, *shape)
        limit = float(np.sqrt(6.0 / (rows / blocks + columns)))
        return rng.uniform(-limit, limit, shape)

    return initial


def xavier_normal(blocks: int) -> Initial:
    """Of standard deviation sqrt(2 / (rows + columns)) of one of the `blocks` stacked matrices."""

    def initial(rng: np.random.Generator, shape: Shape) -> np.ndarray:
        rows, columns = shape if len(shape) == 2 else (1, *shape)
        std = float(np.sqrt(2.0 / (rows / blocks + columns)))              # (Nguyen 3.5)
        return rng.normal(0.0, std, shape)

    return initial


def orthogonal_states(blocks: int) -> Initial:
    """Normals; but each block of the state's columns is a random orthogonal matrix."""

    def initial(rng: np.random.Generator, shape: Shape) -> np.ndarray:
        value, H = rng.normal(0.0, STD, shape), shape[0] // blocks  # (Bahdanau B.1 initialisation)
        value[:, -H:] = np.vstack([orthogonal(rng, H) for _ in range(blocks)])
        return value

    return initial


def orthogonal(rng: np.random.Generator, size: int) -> np.ndarray:
    """A random orthogonal matrix (size, size), uniform over all of them (Haar measure).

    Q of the QR decomposition of a normal matrix, with the signs that make R's diagonal positive:
    without them the distribution is not uniform (Mezzadri, 2007).
    """
    q, r = np.linalg.qr(rng.normal(size=(size, size)))
    return np.asarray(q * np.where(np.diag(r) < 0, -1.0, 1.0))
