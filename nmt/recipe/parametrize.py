"""The recipe's section `parametrize`: tied, normalised and frozen parameters of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from backend.errors import UserError, check
from nmt.console.messages import nearest
from nmt.models.parametrization import (
    Frozen,
    Leading,
    Normalized,
    Parametrization,
    Parametrized,
    Tied,
)


@dataclass(frozen=True)
class ParametrizeConfig:
    """Which of the model's parameters, by name, are tied, normalised or frozen.

    Masks and stacked parts have no keys: pruning and multi-task models make them.
    """

    tied: dict[str, str] = field(default_factory=dict)  # parameter: the parameter that it equals
    normalized: dict[str, float] = field(default_factory=dict)  # parameter: row length (fixnorm)
    learned_radius: bool = False  # fixnorm: learn these lengths, starting from the given ones
    normalized_scale: float | None = None  # half-width of their initial values; null: the model's
    frozen: list[str] = field(default_factory=list)  # not trained; * stands for any characters

    def __post_init__(self) -> None:
        for name, radius in self.normalized.items():
            if not 0.0 < radius < float("inf"):
                raise ValueError(f"normalized: expected a positive number for {name}, got {radius}")
        for name in self.normalized.keys() & self.tied.keys():
            raise ValueError(f"normalized: expected parameters that are not tied too, got {name}")
        if self.learned_radius and not self.normalized:
            raise ValueError("learned_radius: expected false where nothing is normalized, got true")
        scale = self.normalized_scale
        check(self, "normalized_scale", scale is None or 0.0 < scale < float("inf"),
              "a positive number")
        check(self, "normalized_scale", scale is None or bool(self.normalized),
              "null where nothing is normalized")


def parametrized(
    model: Any, config: ParametrizeConfig, shared_vocabulary: bool = False
) -> Parametrized | None:
    """The parametrization that is trained in the model's place; None if the recipe has none.

    shared_vocabulary: whether the target's words are the first of the source's, so that a table of
    the target may be tied to one of the source. Parameters that are tied to a normalized one are
    normalized with it, since they are the same table with one radius. Raises UserError, naming the
    key, for parameters that the model does not have, that are frozen and also tied or normalized,
    or whose shapes do not fit, and if all parameters are frozen.
    """
    tied = _tied(model, config.tied, shared_vocabulary)
    table: dict[str, Parametrization] = {}
    key = "tied"
    try:
        tied_model = Parametrized(model, tied) if tied else model
        key = "normalized"
        table |= {name: Normalized(radius, config.learned_radius, scale=config.normalized_scale)
                  for name, radius in config.normalized.items()}
        Parametrized(tied_model, table)
        key = "frozen"
        for pattern in config.frozen:
            table |= _frozen(pattern, model, tied | table)
        if all(isinstance(table.get(name), Frozen) for name in model.weights()):
            raise ValueError("expected patterns that leave a parameter to be trained, got "
                             f"{', '.join(config.frozen)}")
    except ValueError as error:
        raise UserError(f"parametrize.{key}: {error}") from None
    return Parametrized(tied_model, table) if tied or table else None


def _tied(
    model: Any, names: Mapping[str, str], shared_vocabulary: bool
) -> dict[str, Parametrization]:
    """The parametrizations that make parameters equal to others, or to the first rows of others."""
    rows = {name: weight.shape[0] for name, weight in model.weights().items()}
    tied: dict[str, Parametrization] = {}
    for name, original in names.items():
        row_count, target_rows = rows.get(name, 0), rows.get(original, 0)
        is_leading = shared_vocabulary and row_count < target_rows
        tied[name] = Leading(original, row_count, target_rows) if is_leading else Tied(original)
    return tied


def _frozen(
    pattern: str, model: Any, table: dict[str, Parametrization]
) -> dict[str, Parametrization]:
    """The parametrizations that freeze the parameters that match a pattern. Raises ValueError if
    none matches, or if one is in `table` already."""
    names = [name for name in model.weights() if fnmatchcase(name, pattern)]
    if not names:
        raise ValueError(f"{pattern}: expected a parameter of the model, got none"
                         f"{nearest(pattern, list(model.weights()))}")
    for name in names:
        if not isinstance(table.get(name, Frozen()), Frozen):
            raise ValueError(f"{name}: expected a parameter that is neither tied nor normalized")
    return {name: Frozen() for name in names}
