"""Compares the steps of two traces."""

from __future__ import annotations

import numpy as np


def same_values(steps, others):
    """Whether steps are equal, and all numbers that they assigned."""
    return len(steps) == len(others) and all(
        step._replace(targets=()) == other_step._replace(targets=())
        and len(step.targets) == len(other_step.targets)
        and all(a._replace(value=None) == b._replace(value=None)
                and np.array_equal(a.value, b.value)
                for a, b in zip(step.targets, other_step.targets, strict=True))
        for step, other_step in zip(steps, others, strict=True))
