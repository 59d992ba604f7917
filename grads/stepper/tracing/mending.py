"""Runs a user's backward with a variable corrected, to see whether its results become right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from backend.errors import UserError
from grads.stepper.trace import Origin
from grads.stepper.tracing.compared import Compared
from grads.stepper.tracing.replay import Replay
from grads.stepper.tracing.values import at


class Put(Replay):
    """A run that replaces the values of variables where they are assigned or read."""

    def other(self, old: Any, added: Any) -> Any:
        return np.array(added).reshape(np.shape(old))[()]  # a copy: the run may write into it


class Mending:
    """Runs a backward with a wrong result again, with corrections.

    Arguments: pair, the gradients with their derivatives.
    """

    def __init__(self, pair: Compared) -> None:
        self.pair = pair
        self.statuses = [numbers.status for numbers in pair.results]

    @property
    def needed(self) -> bool:
        """Whether any returned gradient is wrong."""
        return "wrong" in self.statuses

    def by(self, assigned: Mapping[Origin, np.ndarray],
           read: Mapping[int, np.ndarray] | None = None) -> int:
        """The number of wrong results that become right with these values; 0 if a right result
        becomes wrong.

        The values replace assigned variables (by origin) and read variables (by the reading's
        number).
        """
        backward, run = self.pair.backward, self.pair.run
        replay = Put(backward, [])
        replay.end = None
        for origin, value in assigned.items():
            target = backward.target(origin)
            if target.sliced or target.place is None:
                return 0
            replay.steps[origin[0]].append((target.place, value))
        for number, value in (read or {}).items():
            replay.readings[number].append(((), value))
        try:
            with np.errstate(all="ignore"), backward.rewound():
                result = replay.run(run.given, {})
            kept = run.derivation.kept
            gradients = kept.gradients(replay.arguments, result) if kept else result
            after = [self.pair.status(i, at(gradients, gradient.path))
                     for i, gradient in enumerate(self.pair.returned)]
        except (UserError, ArithmeticError, LookupError, TypeError, ValueError):
            return 0
        both = list(zip(self.statuses, after, strict=True))
        if any(was != "wrong" and now == "wrong" for was, now in both):
            return 0
        return sum(was == "wrong" and now == "verified" for was, now in both)
