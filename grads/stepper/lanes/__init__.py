"""Batched replay: a derivation runs once for many perturbed versions of one of its variables.

A lane is one perturbed copy. The derivation runs, unchanged, on arrays that hold all copies side by
side (`grads.stepper.lanes.array`). What they cannot do raises LanesError, and the caller runs the
copies one by one. The explorer's pages need some 60,000 runs of a derivation, a second in lanes,
two minutes one by one.
"""

from __future__ import annotations

from grads.stepper.lanes import functions  # noqa: F401, it attaches operators and functions
from grads.stepper.lanes.array import LaneArray
from grads.stepper.lanes.memory import LanesError

__all__ = ["LaneArray", "LanesError"]
