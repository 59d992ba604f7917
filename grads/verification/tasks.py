"""Two tasks that share parts, as an architecture of the catalogue.

The loss is the sum of both tasks' losses of the same batch. All updates together minimise it. So
the gradient of a shared weight has the terms of both tasks, and the gradient of a task's own weight
has only one term.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from backend import Array
from backend.rows import add_gradients
from lstm.parameters import Weight
from nmt.data.batches import Batch
from nmt.models.contract import Architecture, Gradients, Losses, Noise, Tables, Trainable
from nmt.models.parametrization import Parametrized
from nmt.models.translator import Translator
from nmt.models.translator_config import ModelConfig
from nmt.models.variants import Variants
from nmt.training.tasks import Several, shared

TASKS = ("one", "two")
SHARES = {"encoder": ("encoder",), "decoder": ("decoder",), "both": ("encoder", "decoder")}


@dataclass(frozen=True)
class TasksConfig:
    """The shared parts, a name in SHARES, and the translators' options."""

    share: str
    attention: str  # of both tasks; the second task has no attention if it has its own decoder
    alike: bool  # whether both have the same attention
    layers: int
    hidden_size: int
    dropout: float = 0.3

    def __post_init__(self) -> None:
        if not self.alike and (self.share != "encoder" or self.attention == "none"):
            raise ValueError(f"alike: expected true where {self.share} is shared, got false")

    def model(self, task: str) -> ModelConfig:
        """The translator of a task."""
        attention = self.attention if self.alike or task == TASKS[0] else "none"
        return ModelConfig(layers=self.layers, hidden_size=self.hidden_size, attention=attention,
                           embedding_size=self.hidden_size + 1, dropout=self.dropout)


class SumCache(NamedTuple):
    parts: list[Any]  # by task
    losses: Losses
    state: None = None


class SumOverTasks:
    """A model of several tasks whose loss is the sum of all tasks' losses of a batch."""

    def __init__(self, model: Trainable, config: TasksConfig) -> None:
        self.model, self.config = model, config

    def weights(self) -> dict[str, Weight]:
        """The stored weights."""
        return self.model.weights()

    def noise(self, batch: Batch, rng: np.random.Generator, dtype: Any) -> Noise | None:
        """The noise of all tasks, by `task/site`."""
        return {f"{task}/{site}": mask for task in TASKS for site, mask in (
            self.model.noise(replace(batch, task=task), rng, dtype) or {}).items()}

    def loss(
        self, parameters: Mapping[str, Array], batch: Batch, noise: Noise | None = None
    ) -> tuple[Array, SumCache]:
        """J = sum over tasks of J_i."""
        passes = [self.model.loss(parameters, replace(batch, task=task), _own(noise, task))
                 for task in TASKS]
        total: Any = sum(loss for loss, _ in passes)
        return total, SumCache([cache for _, cache in passes], Losses(total))

    def backward(self, cache: SumCache) -> Gradients:
        """The sum of the tasks' gradients."""
        total: Gradients = {}
        for task_cache in cache.parts:
            for name, d in self.model.backward(task_cache).items():
                total[name] = add_gradients(total[name], d) if name in total else d
        return total


def _own(noise: Noise | None, task: str) -> Noise | None:
    """A task's masks, under the sites of its model."""
    prefix = f"{task}/"
    return {site.removeprefix(prefix): mask for site, mask in (noise or {}).items()
            if site.startswith(prefix)} or None


def build(config: TasksConfig, tables: Tables) -> SumOverTasks:
    """Two translators that share parts."""
    models = {task: Translator(config.model(task), tables.sources[0], tables.target,
                               tables.reverse_source) for task in TASKS}
    groups = {prefix: [TASKS] for prefix in SHARES[config.share]}
    return SumOverTasks(Parametrized(Several(models), shared(models, groups)), config)


def variants() -> dict[str, Variants]:
    """All options, at tiny and at real sizes."""
    together = ("share", "attention", "alike")
    return {tier: Variants({"hidden_size": (size,), "share": tuple(SHARES),
                            "attention": ("global", "none"), "alike": (True, False),
                            "layers": (2, 1)}, together)
            for tier, size in (("tiny", 2), ("real", 24))}


ARCHITECTURE = Architecture(TasksConfig, build, variants)
