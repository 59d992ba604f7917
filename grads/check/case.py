"""What a gradient check is run on: a kernel's pair with its inputs, at one shape of batch.

Inputs, outputs and gradients are flat mappings from name to array, so that one check serves every
pair. What is not differentiated (ids, lengths, dropout masks) stays inside a case, on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from backend import Array, array_module, to_device
from backend.rows import RowGradient
from lstm.parameters import Weight

V, E, H = 6, 3, 2  # sizes of everything here, all different, so that a transposed product shows
WORDS = (2, 5)  # ids are 2, 3 or 4: some repeat, some do not, and the table's other rows rest
END = 1  # the id on padding, and the decoder's first
STD = 0.7  # standard deviation of what is drawn, less in large matrices


class Shape(NamedTuple):
    """A batch of sequences side by side."""

    lengths: tuple[int, ...]  # real steps of each sequence
    least: int = 0  # steps there are at least, padding or not
    targets: tuple[int, ...] = ()  # those of translations; () for the same in another order
    words: int = 3  # how many different words there are
    reverse: bool = True  # whether sources are reversed, so that positions count from the end

    @property
    def steps(self) -> int:
        """T, to which all sequences are padded."""
        return max((self.least, *self.lengths))

    @property
    def batch(self) -> int:
        """B."""
        return len(self.lengths)

    @property
    def host_lengths(self) -> np.ndarray:
        """(B,) int64."""
        return np.array(self.lengths, dtype=np.int64)

    @property
    def padding(self) -> np.ndarray:
        """(T, B) bool, True on padding."""
        return np.arange(self.steps)[:, None] >= self.host_lengths


SHAPES = {
    "ragged": Shape((5, 3, 1)),
    "late padding": Shape((4, 3), reverse=False),  # the first steps are whole
    "full": Shape((3, 3)),
    "one sentence": Shape((4,), reverse=False),
    "one step": Shape((1, 1, 1)),
    "smallest": Shape((1,)),
    "padding alone": Shape((3, 0, 2)),  # one sequence has no real step
    "empty batch": Shape((), 3),  # B = 0
    # beyond every threshold of size: 16 steps, 16 repeats of 16 ids, 32 rows of predictions
    "real": Shape((20,) * 9 + (18, 17, 16, 15, 14, 13, 12, 11, 9, 7, 5),
                  targets=(5, 9, 12, 14, 16, 17, 18, 19, 20, 21, 22, 23) + (24,) * 8, words=17),
}
USUAL = ("ragged", "late padding", "full", "one sentence", "one step", "smallest")

Inputs = Mapping[str, Array]


class Block(NamedTuple):
    """A named part of a tensor: rows of a gate, columns that multiply x."""

    name: str
    where: tuple[slice, ...]  # one slice an axis


class Labels(NamedTuple):
    """What a tensor's axes count ("time", "batch", "gate", "unit", "word" ...), and its blocks."""

    axes: tuple[str, ...]
    blocks: tuple[Block, ...] = ()


@dataclass(frozen=True)
class Case:
    """One pair at one shape. `zeros` says which entries of an input cannot matter."""

    inputs: dict[str, np.ndarray]  # float64
    forward: Callable[[Inputs], tuple[dict[str, Array], Any]]  # inputs -> outputs, cache
    vjp: Callable[[Mapping[str, Any], Any], dict[str, Any]]  # d_outputs, cache -> gradients
    zeros: dict[str, np.ndarray] = field(default_factory=dict)  # bool, of the inputs' shapes
    optional: bool = False  # whether the backward takes None for an output without a gradient
    labels: dict[str, Labels] = field(default_factory=dict)  # of inputs and outputs
    facts: dict[str, Any] = field(default_factory=dict)  # ids, lengths, masks: for oracles
    decisions: Callable[[Any], Any] | None = None  # inputs -> branch decisions: see kinks

    def outputs(self, inputs: Inputs) -> dict[str, Array]:
        """The outputs by name, in the dtype and on the device of `inputs`."""
        return self.forward(inputs)[0]

    def gradients(self, inputs: Inputs, d_outputs: Inputs) -> dict[str, Any]:
        """Gradients by input name; an output missing from `d_outputs` has no upstream gradient."""
        outputs, cache = self.forward(inputs)
        xp = array_module(*inputs.values())

        def upstream(name: str) -> Any:
            if name in d_outputs or self.optional:
                return d_outputs.get(name)
            return xp.zeros(outputs[name].shape, dtype=outputs[name].dtype)

        return self.vjp({name: upstream(name) for name in outputs}, cache)


class Entry(NamedTuple):
    """A line of the catalogue: what it is called, what it covers, how a case of it is made."""

    name: str
    covers: tuple[str, ...]  # `module.stem` of each pair `stem_forward`, `stem_backward` it runs
    make: Callable[[np.random.Generator, Shape], Case]
    shapes: tuple[str, ...] = USUAL
    sample: int | None = None  # entries of each tensor that are checked, None for all
    kind: str = ""  # what cases it makes, whatever their options: an oracle is chosen by it

    @property
    def options(self) -> Mapping[str, Any]:
        """What was passed to the maker of its cases: unit, reverse, score ..."""
        return self.make.keywords if isinstance(self.make, partial) else {}


# --- drawing ------------------------------------------------------------------------------------


def draw(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Normals of standard deviation STD."""
    return np.asarray(rng.normal(scale=STD, size=shape))


def draw_parameters(
    rng: np.random.Generator, weights: Mapping[str, Weight]
) -> dict[str, np.ndarray]:
    """Normals for each weight, biases too: no gate saturates, none is linear, no state explodes."""
    return {name: rng.normal(scale=min(STD, 1.2 / one.shape[-1] ** 0.5), size=one.shape)
            for name, one in weights.items()}


def draw_words(rng: np.random.Generator, shape: Shape) -> np.ndarray:
    """Ids (T, B), END on padding."""
    ids = rng.integers(*WORDS, size=(shape.steps, shape.batch))
    return np.where(shape.padding, END, ids)


def draw_masks(
    rng: np.random.Generator, shape: Shape, widths: Sequence[int], dropout: Any
) -> list[np.ndarray | None]:
    """Dropout masks (T, B, width) that keep two thirds; all None unless there is dropout."""
    if not dropout:
        return [None] * len(widths)
    return [(rng.random((shape.steps, shape.batch, width)) < 2 / 3) * 1.5 for width in widths]


def frozen(array: np.ndarray | None, like: Array) -> Array | None:
    """A host constant moved to the device in use, in the real dtype of `like`; None stays."""
    return None if array is None else to_device(array.astype(like.real.dtype))


def unused_rows(ids: np.ndarray, width: int) -> np.ndarray:
    """(V, width) bool, True on the rows of a table that `ids` do not name."""
    rows = np.ones((V, width), dtype=bool)
    rows[ids] = False
    return rows


# --- names of nested states, gradients of a summed loss -----------------------------------------


def flatten(prefix: str, tree: Any) -> dict[str, Any]:
    """The leaves of nested lists and tuples as `prefix.0.1...`."""
    if not isinstance(tree, (list, tuple)):
        return {prefix: tree}
    return {name: leaf for i, branch in enumerate(tree)
            for name, leaf in flatten(f"{prefix}.{i}", branch).items()}


def nest(prefix: str, like: Any, leaves: Mapping[str, Any]) -> Any:
    """The reverse of `flatten`, nested as `like`; a missing leaf is None."""
    if not isinstance(like, (list, tuple)):
        return leaves.get(prefix)
    return type(like)(nest(f"{prefix}.{i}", branch, leaves) for i, branch in enumerate(like))


def dense(gradient: Any) -> Array:
    """A gradient written out in full."""
    return gradient.dense() if isinstance(gradient, RowGradient) else gradient


def scaled(gradients: Mapping[str, Any], d_loss: Array) -> dict[str, Array]:
    """Gradients of a summed loss (whose upstream gradient is one), times d_loss, 0-d."""
    return {name: dense(gradient) * d_loss for name, gradient in gradients.items()}
