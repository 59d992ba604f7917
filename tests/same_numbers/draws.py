"""The inputs of the stored numbers, and the fingerprint of an array in three numbers.

Everything is drawn from `RandomState`, whose streams NumPy promises never to change, seeded by
the name that a tensor had when the numbers were stored: a later tree under other names draws the
same arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from zlib import crc32

import numpy as np

Fingerprint = list[float]  # [norm, projection, projection]
REAL = "real"  # in the name of every batch whose sizes are those of real use


def random_state(*key: object) -> np.random.RandomState:
    """A generator seeded by a text."""
    return np.random.RandomState(crc32("/".join(map(str, key)).encode()))


def parameters(
    shapes: Mapping[str, Sequence[int]], draw: int, real: bool
) -> dict[str, np.ndarray]:
    """Parameters by their old names, float64, normal.

    Arguments: shapes by name; draw, which of the many sets of values; real, whether matrices are
    scaled by 1 / sqrt(columns), so that no unit saturates and no rounding error grows. Otherwise,
    and for vectors and tables of embeddings, the standard deviation is 0.7.
    """
    arrays = {}
    for name, shape in shapes.items():
        matrix = len(shape) == 2 and not name.endswith("W_e")
        std = 1.0 / np.sqrt(shape[-1]) if real and matrix else 0.7
        arrays[name] = std * random_state("value", name, draw).standard_normal(tuple(shape))
    return arrays


def states(
    layers: int, arrays: int, batch: int, hidden_size: int
) -> list[tuple[np.ndarray, ...]]:
    """The states of a language model's streams before the batch, one for each layer."""
    return [tuple(0.7 * random_state("state", layer, k).standard_normal((batch, hidden_size))
                  for k in range(arrays)) for layer in range(layers)]


def fingerprint(name: str, array: np.ndarray) -> Fingerprint:
    """The Euclidean norm of an array and its products with two random directions of its shape.

    The directions are normal with variance one, so that a product is about as large as the norm,
    and two arrays' products differ by about as much as the norm of the arrays' difference.
    """
    flat = np.asarray(array, dtype=np.float64).reshape(-1)
    draws = random_state("direction", name)
    products = [float(draws.standard_normal(flat.size) @ flat) for _ in range(2)]
    return [float(np.sqrt(flat @ flat)), *products]


def error(numbers: Sequence[float], stored: Sequence[float]) -> float:
    """The largest difference, relative to the larger of 1 and the largest stored number; NaN if any
    is.

    A fingerprint's largest number is at least the array's norm. So an array's error is relative to
    its norm, or to 1 if the norm is smaller.
    """
    assert len(numbers) == len(stored)
    away = np.abs(np.subtract(numbers, stored)).max()
    return float(away / max(1.0, np.abs(stored).max()))
