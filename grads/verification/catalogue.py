"""The catalogue of gradient checks: every architecture of the registry in every variant.

The catalogue is generated. An architecture declares its weights and the choices of its
configuration. Here the choices are combined, the weights are initialised at random, and the model
is checked by the complex step along random directions and by the rules of
`grads.verification.rules`. Element-wise clipping does not give a gradient. Therefore the clipping
limit of the choices is never reached, and tests compare clipping with a literal loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

import backend
from attention import blocks
from grads.check import check_case
from grads.check.report import Report
from grads.verification import tasks, translators
from grads.verification.cases import RandomModel, draw_model, model_case, numbers_of
from grads.verification.device import on_device
from grads.verification.parametrized import PARAMETRIZED
from grads.verification.rules import rules
from grads.verification.shapes import SHAPES
from grads.verification.variants import name_of, pairwise, valid
from nmt.models.contract import Architecture, character_tables
from nmt.models.registry import MODELS

SHAPES_OF = {  # tier -> shapes of its batches
    "tiny": ("ragged", "late padding", "full", "one sentence", "one step", "smallest"),
    "real": ("real",),
    "every": ("ragged",),
}
OF_CHARACTERS = {  # tier -> more shapes, of models that read or write characters
    "tiny": ("frequent words too",),
    "real": ("real, no rare word", "real, rare words only"),
}
TIERS = tuple(SHAPES_OF)
NONZERO = ("ragged", "real")  # shapes at which every weight has a nonzero gradient
SMALL = 1 << 13  # elements of a block of attention in checks, so that sums have several blocks


class Entry(NamedTuple):
    """A configuration of an architecture at one shape of batch."""

    architecture: str  # a name in `architectures`
    variant: str  # the options that distinguish the configuration
    options: Mapping[str, Any]  # options of the configuration
    tier: str  # tiny: all shapes; real: sizes above every threshold; every: other combinations
    shape: str  # a name in `grads.verification.shapes.SHAPES`

    @property
    def name(self) -> str:
        """The name of the entry, made of architecture, variant, tier and shape."""
        tier = "" if self.tier == "tiny" else f"{self.tier}, "
        return f"{self.architecture}: {self.variant}; {tier}{self.shape}"


def architectures() -> dict[str, Architecture]:
    """What is checked, by name: the registry, its models with options that have variants of their
    own, and what has no recipe alone: parametrizations, tasks that share parts."""
    return {**MODELS, "parametrized": PARAMETRIZED, "tasks": tasks.ARCHITECTURE,
            **translators.ARCHITECTURES}


def entries(*tiers: str, start: str = "") -> list[Entry]:
    """The catalogue; tiers: some of TIERS, by default the tiny one and that of real sizes.

    Both have every value of every option, and every pair of values that is allowed. start: a prefix
    of names; other architectures are left out.
    """
    return [entry for tier in tiers or ("tiny", "real")
            for name, architecture in architectures().items()
            if f"{name}: ".startswith(start) or start.startswith(f"{name}: ")
            for entry in _kept(name, architecture, tier)]


@cache
def _kept(name: str, architecture: Architecture, tier: str) -> tuple[Entry, ...]:
    """The entries of one architecture, cached."""
    return tuple(_entries(name, tier))


def _entries(name: str, tier: str) -> Iterator[Entry]:
    """The entries of one architecture."""
    architecture = architectures()[name]
    tiers = architecture.variants()
    variants = tiers.get(tier, tiers["tiny"] if tier == "every" else None)
    if variants is None:
        return
    chosen = pairwise(architecture.config, tiers["tiny"] if tier == "every" else variants)
    if tier == "every":
        chosen = [options for options in valid(architecture.config, variants)
                  if options not in chosen]
    for options in chosen:
        spelled = character_tables(architecture.config(**options))
        for shape in (*SHAPES_OF[tier], *(OF_CHARACTERS.get(tier, ()) if spelled else ())):
            yield Entry(name, name_of(options, variants), options, tier, shape)


def random_model(entry: Entry, seed: int = 0) -> RandomModel:
    """The model of an entry and the inputs of its loss."""
    return draw_model(architectures()[entry.architecture], entry.options, SHAPES[entry.shape],
                      np.random.default_rng(seed))


def check(entry: Entry, seed: int = 0, **extent: Any) -> Report:
    """Check the gradients of an entry, and that it follows the rules: `check_model`.

    Arguments: seed of parameters, batch, noise and directions; extent as there.
    """
    with _blocks(entry):
        return check_model(random_model(entry, seed), entry.name, seed, entry.shape not in NONZERO,
                           **extent)


def check_model(
    drawn: RandomModel, title: str, seed: int = 0, vanish: bool = True, **extent: Any
) -> Report:
    """Check the gradients of a random model, and that it follows the rules.

    In float64, on the backend in use: forward and backward run there (`grads.verification.device`).
    Arguments: seed of directions; vanish, whether a gradient may be zero everywhere; extent, as in
    `grads.check.check_case`: by default all tensors along two directions each, and for one entry,
    by complex step.
    """
    case = on_device(model_case(drawn))
    how: dict[str, Any] = {"method": "complex", "diagnosis": 64} | extent
    with backend.using("numpy"):  # numerical differentiation; the case knows its device
        report = check_case(case, rng=np.random.default_rng(seed), title=title, vanish=vanish,
                            **how)
    if report.rows:
        report.findings.extend(rules(case, drawn))
    return report


def numbers(entry: Entry, seed: int = 0) -> dict[str, np.ndarray]:
    """The numbers that `check` compares, computed once: see `numbers_of`."""
    with _blocks(entry):
        return numbers_of(on_device(model_case(random_model(entry, seed))))


def _blocks(entry: Entry) -> AbstractContextManager[Any]:
    """Context: at real sizes, blocks of attention are so small that there are several."""
    real = entry.tier == "real"
    return patch.object(blocks, "ON_HOST", SMALL) if real else nullcontext()
