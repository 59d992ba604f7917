"""Arguments that a user's backward overwrites."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from grads.stepper.trace import Origin, Trace
from grads.stepper.tracing.values import at, is_array


def written_over(trace: Trace, arguments: Sequence[Any]) -> Origin | None:
    """The first assignment that wrote into the first argument, the upstream gradient."""
    held_by = trace.alive
    changed = [i for i, target in enumerate(trace.steps[0].targets)
               if target.place and target.place[0] == 0 and (0, i) in held_by and is_array(
                   held_by[0, i]) and not np.array_equal(
                   held_by[0, i], at(arguments, target.place), equal_nan=True)]
    for i in changed:
        for origin, value in trace.alive.items():
            step = trace.steps[origin[0]]
            into = trace.program.sites[step.site].augmented or (
                "[" in trace.target(origin).written)
            if step.kind == "assign" and into and np.shares_memory(value, held_by[0, i]):
                return origin
    return None
