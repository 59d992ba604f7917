"""The options of an architecture that the catalogue of gradient checks combines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lstm.cells import CELLS

NEVER = 1e6  # a limit of element-wise clipping above all gradients in the catalogue
NORMALISED = tuple(unit for unit, cell in CELLS.items() if cell.normalised)
PLAIN = tuple(unit for unit in CELLS if unit not in NORMALISED)  # units that all variants combine


class Variants(NamedTuple):
    """Options and their values, from which the catalogue takes combinations."""

    choices: Mapping[str, Sequence[Any]]  # option -> its values, the usual value first
    together: tuple[str, ...] = ()  # options of which all combinations occur, not only all pairs
