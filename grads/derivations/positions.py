"""Position encodings (Nguyen Eqs. 1.14 and 1.15): constants, which have no backward."""

from __future__ import annotations

import numpy as np

from grads.derivations.calculus import Array


def position_encoding(T: int, d: int) -> Array:
    """PE (T, d) of the positions 0 .. T - 1."""
    PE = np.zeros((T, d))
    for pos in range(T):
        for i in range((d + 1) // 2):
            PE[pos, 2 * i] = np.sin(pos / 10000 ** (2 * i / d))  # (Nguyen 1.14)
            if 2 * i + 1 < d:
                PE[pos, 2 * i + 1] = np.cos(pos / 10000 ** (2 * i / d))  # (Nguyen 1.15)
    return PE


def countdown_encoding(T: int, d: int) -> Array:
    """PE (T, d) of the positions T - 1 .. 0: word t of T has T - t."""
    PE = position_encoding(T, d)
    PE_down = np.zeros((T, d))
    for t in range(1, T + 1):
        PE_down[t - 1] = PE[T - t]                               # (Nguyen 4.1.2 position)
    return PE_down
