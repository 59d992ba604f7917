"""Parametrizations: functions from stored parameters to a model's parameters, with their backward.

The word is PyTorch's (torch.nn.utils.parametrize). `Parametrized` is trained like the model. The
stored parameters are initialised, clipped, updated and saved. The model's kernels see only the
model's parameters.

| parametrization | the model's parameter | source |
|---|---|---|
| `Tied` | a stored one, also used elsewhere | Press and Wolf (2017); Nguyen (2019), 3.2.2 |
| `Leading` | the first rows of a stored one | one vocabulary: Nguyen (2019), 3.3.3.1 |
| `Normalized` | rows of one length, r g / |g| | fixnorm: Nguyen (2019), 3.2.3 |
| `Masked` | m o g, with a fixed mask of zeros and ones | pruning: Luong (2016), section 6.2 |
| `Stacked` | several stored ones side by side | shared and private parts |
| `Frozen` | the stored one, without a gradient | |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import DTypeLike

from backend import Array, array_module, on_host, to_device
from backend.rows import Gradient, RowGradient, add_gradients
from lstm.parameters import Axis, Parameters, Weight, initialise, uniform
from nmt.data.batches import Batch
from nmt.models.contract import Cache, Gradients, Losses, Noise, Trainable


class Parametrization(Protocol):
    """The way in which a parameter of a model is computed."""

    def stored(self, name: str, weight: Weight) -> dict[str, Weight]:
        """The stored weights for the model's parameter `name`. Raises ValueError if its shape does
        not fit."""

    def forward(self, name: str, stored: Mapping[str, Array]) -> Array:
        """The model's parameter."""

    def backward(self, name: str, d: Gradient, stored: Mapping[str, Array]) -> Gradients:
        """Gradients of the stored weights, from the parameter's gradient, an array or table
        rows."""


@dataclass(frozen=True)
class Tied:
    """W = g, where g is the stored parameter `to`: another parameter of the model, or a further
    stored parameter."""

    to: str

    def stored(self, name: str, weight: Weight) -> dict[str, Weight]:
        return {self.to: weight}

    def forward(self, name: str, stored: Mapping[str, Array]) -> Array:
        return stored[self.to]                                              # (Nguyen 3.2.2 tied)

    def backward(self, name: str, d: Gradient, stored: Mapping[str, Array]) -> Gradients:
        return {self.to: d}


@dataclass(frozen=True)
class Leading:
    """The first n = `rows` of the stored parameter `to`, a table of `size` rows. W = g[:n].

    A vocabulary of both sides has the target's words first, so the table of the target's words is
    the beginning of the table of all words. Then there are logits of the target's words only. This
    is the same as logits of all words, if those of the other words are minus infinity.
    """

    to: str
    rows: int
    size: int

    def stored(self, name: str, weight: Weight) -> dict[str, Weight]:
        if not weight.shape[0] == self.rows <= self.size:
            raise ValueError(f"{name}: expected {self.rows} of the {self.size} rows of {self.to}, "
                             f"got {weight.shape[0]}")
        first, *others = weight.axes
        return {self.to: Weight((Axis(first.name, self.size), *others), weight.initial)}

    def forward(self, name: str, stored: Mapping[str, Array]) -> Array:
        return stored[self.to][: self.rows]                        # (Nguyen 3.3.3.1 table)

    def backward(self, name: str, d: Gradient, stored: Mapping[str, Array]) -> Gradients:
        shape = stored[self.to].shape
        if isinstance(d, RowGradient):
            return {self.to: d._replace(shape=shape)}
        dg = array_module(d).zeros(shape, dtype=d.dtype)
        dg[: len(d)] = d
        return {self.to: dg}


@dataclass(frozen=True)
class Normalized:
    """Rows of length r: w_i = r g_i / |g_i| (fixnorm). A row of zeros is a ValueError.

    If the prediction layer's table follows a ScaleNorm of length g, the logits are r g cos (Nguyen
    Eq. 3.7).

    radius: r. learned: whether r is a parameter, `{name}.radius` (1,), with this initial value. of:
    the stored table, by default that with the parameter's name. scale: half-width of its uniform
    initial values, None for the model's. Shorter rows turn faster: dg is r / |g| times dw.
    """

    radius: float
    learned: bool = False
    of: str | None = None
    scale: float | None = None

    def stored(self, name: str, weight: Weight) -> dict[str, Weight]:
        if len(weight.shape) != 2:
            raise ValueError(f"{name}: expected a matrix to normalise, got shape {weight.shape}")
        if self.scale is not None:
            weight = weight._replace(initial=uniform(self.scale))  # Nguyen, section 3.3.3.3
        radius = Weight((Axis("radius", 1),), lambda rng, shape: np.full(shape, self.radius))
        return {self.of or name: weight} | ({f"{name}.radius": radius} if self.learned else {})

    def forward(self, name: str, stored: Mapping[str, Array]) -> Array:
        g = stored[self.of or name]
        return g * (self._radius(name, stored) / _lengths(name, g))        # (Nguyen 3.2.3 fixnorm)

    def backward(self, name: str, d: Gradient, stored: Mapping[str, Array]) -> Gradients:
        g, r = stored[self.of or name], self._radius(name, stored)
        rows, dw = (g[d.ids], d.values) if isinstance(d, RowGradient) else (g, d)
        length = _lengths(name, rows)
        g_hat = rows / length                                              # (N, E), of length 1
        along = (g_hat * dw).sum(axis=1, keepdims=True)                    # g_hat'dw, (N, 1)
        dg = (dw - g_hat * along) * (r / length)           # dg = r / |g| (dw - g_hat g_hat'dw)
        gradients = {self.of or name: d._replace(values=dg) if isinstance(d, RowGradient) else dg}
        return gradients | ({f"{name}.radius": along.sum(axis=0)} if self.learned else {})

    def _radius(self, name: str, stored: Mapping[str, Array]) -> Any:
        return stored[f"{name}.radius"] if self.learned else self.radius


def _lengths(name: str, rows: Array) -> Array:
    """|g_i| of rows (N, E): (N, 1). Raises ValueError for a row of zeros, on the host only."""
    xp = array_module(rows)
    squares = (rows * rows).sum(axis=1, keepdims=True)
    if on_host(xp) and not squares.real.all():
        raise ValueError(f"{name}: expected no row of zeros, got row {int(squares.real.argmin())}")
    return xp.sqrt(squares)


@dataclass(frozen=True, eq=False)
class Masked:
    """m o g: entries where the mask is False are zero, and stay zero.

    Source: thesis, section 6.2.2: "we use binary 'mask' matrices [...] to ignore updates to weights
    at pruned locations". The stored weight starts at zero there and its gradient is zero, so that
    an optimizer with a fresh state does not change it, and it does not count in the gradient's
    norm.
    """

    mask: np.ndarray  # bool, of the parameter's shape, on the host
    moved: dict[Any, Array] = field(default_factory=dict, repr=False)  # copies, by array module

    def stored(self, name: str, weight: Weight) -> dict[str, Weight]:
        if self.mask.shape != weight.shape:
            raise ValueError(f"{name}: expected a mask of shape {weight.shape}, got "
                             f"{self.mask.shape}")
        return {name: weight._replace(initial=lambda rng, shape: np.where(
            self.mask, weight.initial(rng, shape), 0.0))}

    def forward(self, name: str, stored: Mapping[str, Array]) -> Array:
        return stored[name] * self._mask(stored[name])                     # (6.2.2 pruning)

    def backward(self, name: str, d: Gradient, stored: Mapping[str, Array]) -> Gradients:
        mask = self._mask(stored[name])
        if isinstance(d, RowGradient):
            return {name: d._replace(values=d.values * mask[d.ids])}
        return {name: d * mask}

    def _mask(self, like: Array) -> Array:
        """The mask on the device of `like`, transferred once."""
        xp = array_module(like)
        if xp not in self.moved:
            self.moved[xp] = to_device(self.mask)
        return self.moved[xp]


@dataclass(frozen=True)
class Stacked:
    """Stored arrays side by side along an axis: shared and private parts of one parameter.

    parts: stored name -> its size along the axis, in order. blocks: the number of matrices that are
    already stacked along the axis, such as an LSTM's gates. Each block consists of all parts, so
    that half of an LSTM's rows is half of each gate. A part of n rows stores blocks times n rows.
    """

    parts: Mapping[str, int]
    axis: int = 0
    blocks: int = 1

    def stored(self, name: str, weight: Weight) -> dict[str, Weight]:
        whole, size = weight.axes[self.axis], weight.shape[self.axis]
        if sum(self.parts.values()) * self.blocks != size:
            raise ValueError(
                f"{name}: expected parts that make up {size // self.blocks} in each of "
                f"{self.blocks} blocks along axis {self.axis}, got {dict(self.parts)}")
        weights = {}
        for stored_name, n in self.parts.items():
            gated = len(whole.parts) == self.blocks
            gates = tuple((gate, n) for gate, _ in whole.parts) if gated else ()
            axes = list(weight.axes)
            axes[self.axis] = Axis(whole.name, n * self.blocks, gates)
            weights[stored_name] = Weight(tuple(axes), weight.initial)
        return weights

    def forward(self, name: str, stored: Mapping[str, Array]) -> Array:
        arrays = [self._by_block(stored[stored_name]) for stored_name in self.parts]
        joined = array_module(arrays[0]).concatenate(arrays, axis=self.axis + 1)
        return joined.reshape(*joined.shape[: self.axis], -1, *joined.shape[self.axis + 2 :])

    def backward(self, name: str, d: Gradient, stored: Mapping[str, Array]) -> Gradients:
        if isinstance(d, RowGradient):
            if self.axis == 1 and self.blocks == 1:
                return {stored_name: d._replace(values=d.values[:, place], shape=(d.shape[0], n))
                        for stored_name, n, place in self._places()}
            d = d.dense()
        blocks = self._by_block(d)
        index = (slice(None),) * (self.axis + 1)
        return {stored_name: blocks[(*index, place)].reshape(stored[stored_name].shape)
                for stored_name, _, place in self._places()}

    def _by_block(self, array: Array) -> Array:
        """The array with its axis split in two: blocks, and size of a block."""
        before, after = array.shape[: self.axis], array.shape[self.axis + 1 :]
        return array.reshape(*before, self.blocks, -1, *after)

    def _places(self) -> Iterator[tuple[str, int, slice]]:
        """Each part, its size, and its slice of a block."""
        start = 0
        for stored_name, n in self.parts.items():
            yield stored_name, n, slice(start, start + n)
            start += n


@dataclass(frozen=True)
class Frozen:
    """The stored parameter itself. It has no gradient, so that it is not updated."""

    def stored(self, name: str, weight: Weight) -> dict[str, Weight]:
        return {name: weight}

    def forward(self, name: str, stored: Mapping[str, Array]) -> Array:
        return stored[name]

    def backward(self, name: str, d: Gradient, stored: Mapping[str, Array]) -> Gradients:
        return {}


class ParametrizedCache(NamedTuple):
    stored: Mapping[str, Array]
    inner: Cache  # the model's cache, which also has the next two
    losses: Losses
    state: Any


class Parametrized:
    """A model that computes some parameters from stored parameters. Trainable, like the model."""

    def __init__(self, model: Trainable, table: Mapping[str, Parametrization]) -> None:
        """table: parametrization by the name of a parameter of the model. The model may itself be
        parametrized; then its parameters are those that it stores.

        Raises ValueError for a name that the model does not have, and for stored shapes that do
        not fit each other.
        """
        known = model.weights()
        for name in table:
            if name not in known:
                raise ValueError(f"{name}: expected a parameter of the model, one of "
                                 f"{', '.join(known)}")
        self.model, self.config, self.table = model, model.config, dict(table)
        self._weights = self._collect(known)

    def _collect(self, known: Mapping[str, Weight]) -> dict[str, Weight]:
        """All stored weights. A name that several parameters use must have the same shape."""
        weights: dict[str, Weight] = {}
        plain = {name: weight for name, weight in known.items() if name not in self.table}
        for name, weight in known.items():
            made_from = {name: weight}
            if name in self.table:
                made_from = self.table[name].stored(name, weight)
            for stored, its_weight in made_from.items():
                first: Weight = weights.get(stored) or plain.get(stored) or its_weight
                if first.shape != its_weight.shape:
                    other_way = f"; did you mean {stored}: {name}?" if (
                        stored in known and first.shape[1:] == its_weight.shape[1:]) else ""
                    raise ValueError(f"{name}: expected {stored}, which it is made from, to have "
                                     f"shape {its_weight.shape}, got {first.shape}{other_way}")
                weights.setdefault(stored, first)
        return weights

    def weights(self) -> dict[str, Weight]:
        """All stored parameters by name, in the order in which they are initialised."""
        return dict(self._weights)

    def initial_parameters(
        self, rng: np.random.Generator, dtype: DTypeLike = "float32"
    ) -> Parameters:
        """Fresh stored parameters on the backend in use, drawn from `rng`."""
        return initialise(self.weights(), rng, dtype)

    def plain(self, stored: Mapping[str, Array]) -> Parameters:
        """The model's parameters. Search and validation compute them only once."""
        made = self._made(stored)
        return self.model.plain(made) if isinstance(self.model, Parametrized) else made

    def _made(self, stored: Mapping[str, Array]) -> Parameters:
        """The parameters of the inner model."""
        return {name: self.table[name].forward(name, stored) if name in self.table else stored[name]
                for name in self.model.weights()}

    def noise(self, batch: Batch, rng: np.random.Generator, dtype: DTypeLike) -> Noise | None:
        """The dropout masks of the model."""
        return self.model.noise(batch, rng, dtype)

    def loss(
        self, parameters: Mapping[str, Array], batch: Batch, noise: Noise | None = None
    ) -> tuple[Array, ParametrizedCache]:
        """The model's loss as a function of the stored parameters."""
        loss, inner = self.model.loss(self._made(parameters), batch, noise)
        return loss, ParametrizedCache(parameters, inner, inner.losses, inner.state)

    def backward(self, cache: ParametrizedCache) -> Gradients:
        """Gradients of the stored parameters. Gradients with the same name are added."""
        gradients: Gradients = {}
        for name, d in self.model.backward(cache.inner).items():
            parametrization = self.table.get(name)
            of_stored = {name: d}
            if parametrization is not None:
                of_stored = parametrization.backward(name, d, cache.stored)
            for stored, d_stored in of_stored.items():
                gradients[stored] = (add_gradients(gradients[stored], d_stored)
                                     if stored in gradients else d_stored)
        return gradients
