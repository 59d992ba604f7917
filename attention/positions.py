"""Sinusoidal position encoding (Nguyen Eqs. 1.14 and 1.15), added to the word embeddings."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from backend import Array, to_device

BASE = 10000.0


def positions(first: int, steps: int, width: int, dtype: DTypeLike) -> Array:
    """PE (steps, 1, d) of the positions first, first + 1, ... of all sentences; d = width.

    Column 2i is sin(pos / 10000^(2i/d)), column 2i + 1 is cos(pos / 10000^(2i/d)).
    """
    return to_device(_waves(first, steps, width)[:, None].astype(dtype))


def positions_at(places: np.ndarray, width: int, dtype: DTypeLike) -> Array:
    """PE (..., d) of any positions (...), host integers of at least 0."""
    first = int(places.min())
    waves = _waves(first, int(places.max()) + 1 - first, width).astype(dtype)
    return to_device(waves[places - first])


def countdown(lengths: np.ndarray, steps: int) -> np.ndarray:
    """Positions (T, B) of the words of targets: m - 1, m - 2 .. 0 for m words (Nguyen 4.1.2).

    Arguments: lengths (B,), m; steps, T. Padding, which no word attends to, has position 0.
    """
    return np.maximum(lengths - 1 - np.arange(steps)[:, None], 0)          # (Nguyen 4.1.2 position)


def _waves(first: int, steps: int, width: int) -> np.ndarray:
    """PE (steps, d) in float64."""
    place, column = np.arange(first, first + steps)[:, None], np.arange(width)
    angle = place / BASE ** (column // 2 * 2 / width)
    return np.where(column % 2 == 0,
                    np.sin(angle),                                         # (Nguyen 1.14)
                    np.cos(angle))                                         # (Nguyen 1.15)
