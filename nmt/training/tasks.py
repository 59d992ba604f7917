"""Training several tasks at once: a mixture of batches, a model of models, and what they share.

Source: thesis, section 6.1.1. "Each parameter update consists of training data from one task only.
When switching between tasks, we select randomly a new task i with probability alpha_i / sum_j
alpha_j." The first task is the reference: alpha_1 = 1, its updates are prespecified to be N, and it
"specif[ies] the number of training epochs and the finetune start/cycle values" (6.1.2). A task i is
trained for about alpha_i N updates.

The trainer knows nothing of tasks. `Mixture` is a source of batches with keys (task, key).
`Several` is a model that passes a batch to the model of its task. Sharing is the parametrization
`Tied` over the names `task/name` (`shared`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from backend import Array
from lstm.parameters import Weight
from nmt.data.batches import Batch
from nmt.models.contract import CHARACTERS, Cache, Gradients, Losses, Noise, Trainable
from nmt.models.parametrization import Parametrization, Stacked, Tied
from nmt.training.batch_source import BatchSource
from nmt.training.sources import Accumulated

Key = tuple[str, Any]  # task, and a key of its source
PARTS = ("encoder", "decoder")
READERS = ("encoder", CHARACTERS[0])  # prefixes of an encoder's parameters
Groups = Mapping[str, Sequence[Sequence[str]]]  # encoder, decoder -> groups of tasks that share it


class Mixture:
    """A source that mixes the batches of several tasks in random order.

    An epoch is an epoch of the first task, the reference: tasks are drawn, each with probability
    alpha_i / sum_j alpha_j, until all batches of the reference have been drawn. Another task's
    batches are the first ones of a new shuffle, or of several if it has too few. So an epoch
    depends only on the generator and leaves no state.
    """

    def __init__(self, sources: Mapping[str, BatchSource], ratios: Mapping[str, float]) -> None:
        """sources: by task, the reference first. ratios: alpha_i, by task."""
        self.sources, self.names = dict(sources), list(sources)
        self._alpha = np.array([ratios[name] for name in self.names], dtype=np.float64)

    def epoch(self, rng: np.random.Generator) -> list[Key]:
        """(task, key) of each update, up to the reference's last one."""
        reference, *others = self.names
        waiting = {reference: list(self.sources[reference].epoch(rng))}
        order = self._order(len(waiting[reference]), rng)
        for name in others:
            count, drawn = order.count(name), list[Any]()
            while len(drawn) < count:
                drawn += self.sources[name].epoch(rng)
            waiting[name] = drawn[:count]
        turns = {name: iter(keys) for name, keys in waiting.items()}
        return [(name, next(turns[name])) for name in order]

    def _order(self, n: int, rng: np.random.Generator) -> list[str]:
        """The task of each update, drawn until the reference has n. A single task is not drawn."""
        order: list[str] = []
        chances = self._alpha / self._alpha.sum()  # alpha_i / sum_j alpha_j  (6.1.1 mixing)
        while n:
            drawn = (rng.choice(len(chances), 2 * n, p=chances) if len(chances) > 1
                     else np.zeros(n, np.int64))
            reference_places = np.flatnonzero(drawn == 0)[:n]
            n -= len(reference_places)
            order += [self.names[i] for i in (drawn if n else drawn[: reference_places[-1] + 1])]
        return order

    def clock(self, keys: Sequence[Key]) -> np.ndarray:
        """(len(keys) + 1,) the reference's updates before each key, and in all."""
        return np.cumsum([0, *(name == self.names[0] for name, _ in keys)])

    def accumulated(self, count: int) -> Mixture:
        """The mixture with `count` batches of one task in each update."""
        return Mixture({name: Accumulated(source, count) for name, source in self.sources.items()},
                       dict(zip(self.names, self._alpha.tolist(), strict=True)))

    def batch(self, key: Key) -> Batch:
        """The batch of a key, with the name of its task."""
        name, inner = key
        return replace(self.sources[name].batch(inner), task=name)

    def tokens(self, batch: Batch) -> int:
        """The target tokens of a batch, as its task counts them."""
        return self.sources[batch.task].tokens(batch)

    def weight(self, batch: Batch) -> int:
        """The number that the batch's gradient is divided by, as its task says."""
        return self.sources[batch.task].weight(batch)


class SeveralCache(NamedTuple):
    task: str
    inner: Cache  # of the task's model, as the next two
    losses: Losses
    state: Any


class Several:
    """The models of several tasks as one Trainable, which passes a batch to its task's model.

    Parameters are named `task/name`. A batch has gradients of its task's parameters only, so that
    no other parameter changes.
    """

    def __init__(self, models: Mapping[str, Trainable]) -> None:
        self.models = dict(models)
        self.config = {name: model.config for name, model in self.models.items()}

    def weights(self) -> dict[str, Weight]:
        """The weights of all tasks, in their order."""
        return {f"{task}/{name}": weight for task, model in self.models.items()
                for name, weight in model.weights().items()}

    def noise(self, batch: Batch, rng: np.random.Generator, dtype: Any) -> Noise | None:
        """The dropout masks of the batch's task."""
        return self.models[batch.task].noise(batch, rng, dtype)

    def loss(
        self, parameters: Mapping[str, Array], batch: Batch, noise: Noise | None = None
    ) -> tuple[Array, SeveralCache]:
        """J_i, the loss of the batch's task i."""
        loss, inner = self.models[batch.task].loss(of_task(batch.task, parameters), batch, noise)
        return loss, SeveralCache(batch.task, inner, inner.losses, inner.state)

    def backward(self, cache: SeveralCache) -> Gradients:
        """The gradients of the parameters of the batch's task; the others have none."""
        gradients = self.models[cache.task].backward(cache.inner)
        return {f"{cache.task}/{name}": gradient for name, gradient in gradients.items()}


def of_task(task: str, parameters: Mapping[str, Array]) -> dict[str, Array]:
    """The parameters of a task, under the names of its model."""
    prefix = f"{task}/"
    return {name[len(prefix):]: array for name, array in parameters.items()
            if name.startswith(prefix)}


def part_of(name: str) -> str:
    """The part, "encoder" or "decoder", that a parameter belongs to.

    "When sharing an encoder or a decoder, we share both the recurrent connections and the
    corresponding embeddings" (6.1.1). All other parameters belong to the decoder: those of
    attention, of the prediction layer, and of a bridge to its initial state (erratum 43).
    """
    return PARTS[name.split(".")[0] not in READERS]


def shared(
    models: Mapping[str, Trainable], groups: Groups, private: float = 0.0
) -> dict[str, Parametrization]:
    """The parametrizations that let tasks share parts, for `Parametrized(Several(models), ...)`.
    All tasks of a group have the parameters of its first task.

    groups: by part, "encoder" or "decoder", the groups of tasks that share it. private: the share
    of a shared layer's units that each task has alone (Nguyen 4.3). Raises ValueError for tasks
    whose parts have different parameters or shapes, and for a private share that leaves no unit, or
    all units, to be shared.
    """
    table: dict[str, Parametrization] = {}
    for side, lists in groups.items():
        for first, *others in lists:
            weights = _weights_of(models[first], side)
            for other in others:
                other_shapes = _shapes(_weights_of(models[other], side))
                _check_alike(side, first, _shapes(weights), other, other_shapes)
                table |= {f"{other}/{name}": Tied(f"{first}/{name}") for name in weights}
            if private:
                table |= {f"{task}/{name}": _divided(first, task, name, weight, private)
                          for task in (first, *others) for name, weight in weights.items()
                          if _is_layer(name, weight)}
    return table


def _weights_of(model: Trainable, side: str) -> dict[str, Weight]:
    """The weights of a model's part, by name."""
    return {name: weight for name, weight in model.weights().items() if part_of(name) == side}


def _shapes(weights: Mapping[str, Weight]) -> dict[str, tuple[int, ...]]:
    return {name: weight.shape for name, weight in weights.items()}


def _is_layer(name: str, weight: Weight) -> bool:
    """Whether the rows of a weight are units, of a recurrent layer or of h~."""
    return weight.axes[0].name == "gate" or name == "attention.W_c"


def _divided(first: str, task: str, name: str, weight: Weight, private: float) -> Stacked:
    """[W_shared; W_private] (Nguyen 4.3), for each gate."""
    blocks = max(1, len(weight.axes[0].parts))
    units = weight.shape[0] // blocks
    alone = round(private * units)
    if not 0 < alone < units:
        raise ValueError(f"private: expected a fraction that leaves some of {units} units on both "
                         f"sides, got {private}")
    return Stacked({f"{first}/{name}.shared": units - alone, f"{task}/{name}.private": alone}, 0,
                   blocks)


def _check_alike(side: str, first: str, shapes: Mapping[str, tuple[int, ...]], other: str,
                 other_shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise ValueError with the first parameter in which the parts of two tasks differ."""
    for name in [*shapes, *other_shapes]:
        if shapes.get(name) != other_shapes.get(name):
            raise ValueError(f"{side}: expected the same parameters in {first} and {other}, got "
                             f"{name} {_shape(shapes.get(name))} in {first}, "
                             f"{_shape(other_shapes.get(name))} in {other}")


def _shape(shape: tuple[int, ...] | None) -> str:
    """A shape as text."""
    return "none" if shape is None else f"of shape {shape}"
