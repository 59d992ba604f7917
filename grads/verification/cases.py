"""The case of an entry of the catalogue: a model with random parameters, batch and noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain, product
from typing import Any, NamedTuple

import numpy as np

import backend
from backend import to_device, to_host
from grads.check.case import Block, Case, Inputs, Labels, dense
from grads.verification.shapes import (
    CHARACTERS,
    Shape,
    draw_batch,
    draw_parameters,
    spell,
    with_factors,
)
from lstm.parameters import Weight
from lstm.sampled import SITE
from nmt.data.batches import Batch
from nmt.data.lexicon import Lexicon
from nmt.models.contract import Architecture, Tables, character_tables
from nmt.models.parametrization import Frozen, Parametrized


class RandomModel(NamedTuple):
    """A model and the inputs of its loss, in float64 on the host."""

    model: Any
    build: Callable[[], Any]  # a second instance, for the backend in use
    tables: Tables  # the tables for which it was built
    parameters: dict[str, np.ndarray]
    frozen: frozenset[str]  # names of parameters without a gradient
    batch: Batch
    noise: Mapping[str, np.ndarray] | None


def draw_model(
    architecture: Architecture, options: Mapping[str, Any], shape: Shape,
    rng: np.random.Generator,
) -> RandomModel:
    """The model of a configuration, and random parameters (normal), words, noise and initial
    states."""
    config = architecture.config(**options)
    V = shape.vocabulary
    characters = character_tables(config)
    factors = tuple(range(3, 3 + len(getattr(config, "factors", ()))))  # numbers of values
    extras: dict[str, Any] = {"factors": factors, **dict.fromkeys(characters, CHARACTERS)}
    if getattr(config, "lexicon_epsilon", None) is not None:
        extras["lexicon"] = draw_lexicon(rng, V)
    tables = Tables((V,) * architecture.sources, V, shape.reverse, **extras)
    build = partial(architecture.build, config, tables)
    model = build()
    parameters = draw_parameters(rng, model.weights())
    with backend.using("numpy"):
        batch = draw_batch(rng, architecture.sources, shape)
        batch = spell(rng, batch, shape) if characters else batch
        batch = with_factors(rng, batch, factors) if factors else batch
        if not architecture.sources:  # it continues an earlier piece of its streams
            batch = replace(batch, state=model.loss(parameters, batch)[1].state, begins=False)
            batch = replace(batch, target=draw_batch(rng, 0, shape).target)
        noise = model.noise(batch, rng, "float64")
    return RandomModel(model, build, tables, parameters, _frozen(model), batch, noise)


def draw_lexicon(rng: np.random.Generator, V: int) -> Lexicon:
    """Up to three translations of each of V words, with probabilities that sum to less than 1."""
    entries: dict[tuple[int, int], float] = {}
    for word in range(V):
        translations = rng.choice(V, rng.integers(0, 4), replace=False).tolist()
        shares = rng.dirichlet(np.ones(len(translations) + 1)).tolist()
        entries |= {(word, e): p for e, p in zip(translations, shares, strict=False)}
    return Lexicon.of(entries, V)


def _frozen(model: Any) -> frozenset[str]:
    """The names of parameters without a gradient, including those of inner models."""
    if not isinstance(model, Parametrized):
        return frozenset()
    names = {name for name, parameter in model.table.items() if isinstance(parameter, Frozen)}
    return _frozen(model.model) | names


def model_case(drawn: RandomModel) -> Case:
    """The case of a model's loss and its gradient with respect to every parameter."""
    batch = drawn.batch
    trained = {name: a for name, a in drawn.parameters.items() if name not in drawn.frozen}
    fixed = {name: drawn.parameters[name] for name in drawn.frozen}

    def forward(a: Inputs) -> Any:
        like = next(iter(a.values()))
        model = drawn.model if backend.module() is np else drawn.build()
        parameters = {**_moved(fixed, like), **a}
        loss, cache = model.loss(parameters, replace(batch, state=_moved(batch.state, like)),
                                 _noise(drawn.noise, like))
        return {"loss": loss}, (model, cache)

    def vjp(d: Mapping[str, Any], kept: Any) -> dict[str, Any]:
        model, cache = kept
        return {name: dense(gradient) * d["loss"]
                for name, gradient in model.backward(cache).items()}

    labels = {name: labels_of(weight) for name, weight in drawn.model.weights().items()}
    return Case(trained, forward, vjp, labels={**labels, "loss": Labels(())})


def _noise(noise: Mapping[str, Any] | None, like: Any) -> dict[str, Any] | None:
    """Noise as constants in the dtype of `like`. The sample of words stays on the host."""
    return None if noise is None else {site: mask if site == SITE else _moved(mask, like)
                                       for site, mask in noise.items()}


def _moved(tree: Any, like: Any) -> Any:
    """Nested arrays as constants of a dtype and on a device."""
    if isinstance(tree, Mapping):
        return {name: _moved(item, like) for name, item in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(_moved(item, like) for item in tree)
    return None if tree is None else to_device(to_host(tree).astype(like.dtype))


def numbers_of(case: Case) -> dict[str, np.ndarray]:
    """The loss, its gradients, and the inputs afterwards, which must be unchanged."""
    inputs = {name: value.copy() for name, value in case.inputs.items()}
    outputs, cache = case.forward(inputs)
    gradients = case.vjp({"loss": np.ones(())}, cache)
    values = {**outputs, **inputs,
              **{f"d{name}": dense(value) for name, value in gradients.items()}}
    return {name: to_host(value) for name, value in values.items()}


def labels_of(weight: Weight) -> Labels:
    """The names of a weight's axes, and of the blocks into which the axes' parts divide it."""
    uncut = (slice(None),) * len(weight.axes)
    along: list[list[Block]] = []
    for k, axis in enumerate(weight.axes):
        ends = np.cumsum([size for _, size in axis.parts]).tolist()
        along.append([Block(name, (*uncut[:k], slice(end - size, end), *uncut[k + 1:]))
                      for (name, size), end in zip(axis.parts, ends, strict=True)])
    crossed = [Block(f"{row.name}, {column.name}", (row.where[0], column.where[1]))
               for row, column in (product(*along) if len(along) == 2 else ())]
    return Labels(tuple(axis.name for axis in weight.axes), (*chain(*along), *crossed))
