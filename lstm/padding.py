"""Ragged batches: sequences of different lengths side by side, padded at the end."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from backend import Array, to_device


class Padding(NamedTuple):
    """Which steps of a padded batch (T, B) are padding."""

    full: int  # number of leading steps at which no sequence is padded
    mask: Array  # (T, B, 1) bool, True on padding
    lengths: Array  # (B,) int64, on the device

    def at(self, t: int) -> Array | None:
        """The mask (B, 1) of step t; None where nothing is padded."""
        return self.mask[t] if t >= self.full else None


def make_padding(lengths: np.ndarray, steps: int) -> Padding | None:
    """Describe a batch padded to `steps`; None when no sequence is shorter.

    Arguments: lengths (B,) host integers, real steps of each sequence, from 0 to `steps`.
    Raises ValueError when a length is out of that range.
    """
    if lengths.size and (lengths.min() < 0 or lengths.max() > steps):
        raise ValueError(f"lengths: expected 0 to {steps}, got {lengths.min()} to {lengths.max()}")
    if lengths.size == 0 or lengths.min() == steps:
        return None
    mask = (np.arange(steps)[:, None] >= lengths[None, :])[:, :, None]  # (T, B, 1)
    return Padding(int(lengths.min()), to_device(mask), to_device(lengths))
