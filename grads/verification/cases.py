"""What an entry of the catalogue is checked on: a model with drawn parameters, batch and noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, product
from typing import Any, NamedTuple

import numpy as np

import backend
from backend import to_device, to_host
from grads.case import Block, Case, Inputs, Labels, Shape, dense, draw_parameters, scaled
from lstm.parameters import Weight
from nmt.data.batches import Batch, Side
from nmt.data.vocabulary import END
from nmt.models.contract import Architecture, Tables
from nmt.models.parametrization import Frozen, Parametrized

FIRST = END + 1  # ids of words; those before are the special symbols
RESTING = 1  # words at the end of every vocabulary that no batch has


class Drawn(NamedTuple):
    """A model and what goes into its loss, on the host, in float64."""

    model: Any
    tables: Tables  # that it was built for
    parameters: dict[str, np.ndarray]
    frozen: frozenset[str]  # those that have no gradient
    batch: Batch
    noise: Mapping[str, np.ndarray] | None


def draw_model(
    architecture: Architecture, options: Mapping[str, Any], shape: Shape,
    rng: np.random.Generator,
) -> Drawn:
    """The model of a configuration, and normal parameters, words, noise and first states."""
    config = architecture.config(**options)
    V = shape.words + FIRST + RESTING
    tables = Tables((V,) * architecture.sources, V, shape.reverse)
    model = architecture.build(config, tables)
    parameters = draw_parameters(rng, model.weights())
    with backend.using("numpy"):
        batch = draw_batch(architecture.sources, shape, rng)
        if not architecture.sources:  # it goes on where another piece of the streams ended
            batch = replace(batch, state=model.loss(parameters, batch)[1].state, begins=False)
            batch = replace(batch, target=draw_batch(0, shape, rng).target)
        noise = model.noise(batch, rng, "float64")
    made = model.table if isinstance(model, Parametrized) else {}
    frozen = frozenset(name for name, one in made.items() if isinstance(one, Frozen))
    return Drawn(model, tables, parameters, frozen, batch, noise)


def draw_batch(sources: int, shape: Shape, rng: np.random.Generator) -> Batch:
    """Sides of the shape's lengths; targets have them in another order, streams have no end."""
    B, targets = shape.batch, shape.targets or tuple(np.roll(shape.lengths, 1).tolist())
    sides = tuple(draw_side(shape.lengths, shape, rng) for _ in range(sources))
    target = draw_side(targets if sources else (shape.steps,) * B, shape, rng)
    before = np.full((1, B), END) if sources else draw_side((1,) * B, Shape(()), rng).ids
    return Batch(sides, Side(np.concatenate([before, target.ids]), target.lengths), np.arange(B))


def draw_side(lengths: Sequence[int], shape: Shape, rng: np.random.Generator) -> Side:
    """Sequences of these lengths, all words about equally often; END on padding."""
    count = np.array(lengths, dtype=np.int64)
    ids = np.full((max(shape.least, int(count.max(initial=0))), len(count)), END)
    real = np.arange(len(ids))[:, None] < count
    ids[real] = FIRST + rng.permutation(np.arange(real.sum()) % shape.words)
    return Side(ids, count)


def model_case(drawn: Drawn) -> Case:
    """The case of a model's loss and its gradient with respect to every parameter."""
    model, batch = drawn.model, drawn.batch
    trained = {name: a for name, a in drawn.parameters.items() if name not in drawn.frozen}
    fixed = {name: drawn.parameters[name] for name in drawn.frozen}

    def run(a: Inputs) -> Any:
        like = next(iter(a.values()))
        given = {**_moved(fixed, like), **a}
        loss, cache = model.loss(given, replace(batch, state=_moved(batch.state, like)),
                                 _moved(drawn.noise, like))
        return {"loss": loss}, cache

    def pull(d: Mapping[str, Any], cache: Any) -> dict[str, Any]:
        return scaled(model.backward(cache), d["loss"])

    labels = {name: labels_of(weight) for name, weight in model.weights().items()}
    return Case(trained, run, pull, labels={**labels, "loss": Labels(())})


def _moved(tree: Any, like: Any) -> Any:
    """Nested arrays as constants of a dtype and on a device."""
    if isinstance(tree, Mapping):
        return {name: _moved(part, like) for name, part in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(_moved(part, like) for part in tree)
    return None if tree is None else to_device(to_host(tree).astype(like.dtype))


def numbers_of(case: Case) -> dict[str, np.ndarray]:
    """The loss, its gradients, and the inputs as they are after that, which nobody may write to."""
    inputs = {name: value.copy() for name, value in case.inputs.items()}
    outputs, cache = case.run(inputs)
    gradients = case.pull({"loss": np.ones(())}, cache)
    found = {**outputs, **{f"d{name}": dense(value) for name, value in gradients.items()}, **inputs}
    return {name: to_host(value) for name, value in found.items()}


def labels_of(weight: Weight) -> Labels:
    """The names of a weight's axes and of the blocks that their parts cut it into."""
    whole = (slice(None),) * len(weight.axes)
    along: list[list[Block]] = []
    for k, axis in enumerate(weight.axes):
        ends = np.cumsum([size for _, size in axis.parts]).tolist()
        along.append([Block(name, (*whole[:k], slice(end - size, end), *whole[k + 1:]))
                      for (name, size), end in zip(axis.parts, ends, strict=True)])
    both = [Block(f"{row.name}, {column.name}", (row.where[0], column.where[1]))
            for row, column in (product(*along) if len(along) == 2 else ())]
    return Labels(tuple(axis.name for axis in weight.axes), (*chain(*along), *both))
