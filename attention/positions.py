"""Sinusoidal position encoding (Nguyen Eqs. 1.14 and 1.15), added to the word embeddings."""

from __future__ import annotations

from typing import Any

import numpy as np

from backend import Array, to_device

BASE = 10000.0


def positions(first: int, steps: int, width: int, dtype: Any) -> Array:
    """PE (steps, 1, d) of the positions first, first + 1, ...; d = width, one for all sentences.

    Column 2i is sin(pos / 10000^(2i/d)), column 2i + 1 the cosine of the same.
    """
    place, column = np.arange(first, first + steps)[:, None], np.arange(width)
    angle = place / BASE ** (column // 2 * 2 / width)
    waves = np.where(column % 2 == 0,
                     np.sin(angle),                                        # (Nguyen 1.14)
                     np.cos(angle))                                        # (Nguyen 1.15)
    return to_device(waves[:, None].astype(dtype))
