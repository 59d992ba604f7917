"""Checkpoint averaging: a model whose parameters are the mean of several checkpoints.

Source: Sennrich's slides describe the ensemble of the last checkpoints of a run. Their mean is as
cheap as a single model (Junczys-Dowmunt et al., 2016). Only checkpoints of one run can be averaged,
since the hidden units of different runs do not correspond.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from backend import Array, to_device, to_host
from backend.errors import UserError
from nmt.base_system import BaseSystem
from nmt.recipe.file import as_mapping

S = TypeVar("S", bound=BaseSystem)


def mean_parameters(members: Sequence[Mapping[str, Array]]) -> dict[str, np.ndarray]:
    """The mean of the members' parameters, theta = 1/M sum of theta_m, by name.

    members: parameters of equal names and shapes. They are summed in float64; the means have their
    dtype.
    """
    means = {}
    for name, first in members[0].items():
        total = np.zeros(first.shape, np.float64)
        for member in members:
            total += to_host(member[name])
        means[name] = (total / len(members)).astype(first.dtype)
    return means


def average(names: Sequence[str], systems: Sequence[S]) -> S:
    """The system whose stored parameters are the mean of the systems'.

    names: the systems', for errors. Raises UserError for fewer than two systems, and for a system
    whose model, vocabularies or masks differ from the first one's.
    """
    if len(systems) < 2:
        raise UserError(f"{names[0]}: expected two checkpoints or more, got one")
    first = systems[0]
    for name, other in zip(names, systems, strict=True):
        for fact, expected, actual in _facts(first, other):
            if expected != actual:
                raise UserError(f"{name}: expected the {fact} of {names[0]}, got another")
    means = {name: to_device(array) for name, array in
             mean_parameters([system.stored or system.parameters for system in systems]).items()}
    return replace(first, stored=means, parameters=first.plain(means))


def _facts(first: BaseSystem, other: BaseSystem) -> list[tuple[str, object, object]]:
    """What two systems must have in common: (name, the first's value, the other's value)."""
    masks = [{name: mask.tobytes() for name, mask in (
        system.pruning.masks if system.pruning else {}).items()} for system in (first, other)]
    sections = [as_mapping(system.recipe) for system in (first, other)]
    words = [{name: (side.words, side.codes)
              for name, side in system.vocabularies.items()} for system in (first, other)]
    return [("kind of model", first.kind, other.kind), ("vocabularies", words[0], words[1]),
            ("model section", sections[0]["model"], sections[1]["model"]),
            ("parametrize section", sections[0]["parametrize"], sections[1]["parametrize"]),
            ("pruning", masks[0], masks[1])]
