"""Runs a user's backward with a variable corrected, to see whether that makes its results right."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from backend.errors import UserError
from grads.stepper.trace import Origin, Trace
from grads.stepper.tracing.replay import Replay
from grads.stepper.tracing.returned import Kept, Returned
from grads.stepper.tracing.values import at


class Put(Replay):
    """A run in which variables are given other values where they are assigned or read."""

    def other(self, old: Any, added: Any) -> Any:
        return np.array(added).reshape(np.shape(old))[()]  # a copy: the run may write into it


class Mending:
    """A backward with a wrong result, to be run again.

    Arguments: given, its arguments; returned, its gradients, and statuses, that of each; verdict, a
    function that returns the status of another value of one of them, by its number; kept, how
    gradients are read that are not returned in the order of the inputs.
    """

    def __init__(self, backward: Trace, given: Sequence[Any], returned: Sequence[Returned],
                 statuses: Sequence[str], verdict: Callable[[int, Any], str],
                 kept: Kept | None = None) -> None:
        self.backward, self.given, self.returned = backward, given, returned
        self.statuses, self.verdict, self.kept = statuses, verdict, kept

    @property
    def needed(self) -> bool:
        """Whether anything returned is wrong."""
        return "wrong" in self.statuses

    def by(self, assigned: Mapping[Origin, np.ndarray],
           read: Mapping[int, np.ndarray] | None = None) -> int:
        """How many wrong results become right with these values in place of the assigned ones or of
        those read (by number of the reading); 0 if a right one becomes wrong."""
        replay = Put(self.backward, [])
        replay.end = None
        for origin, value in assigned.items():
            target = self.backward.target(origin)
            if target.sliced or target.place is None:
                return 0
            replay.steps[origin[0]].append((target.place, value))
        for number, value in (read or {}).items():
            replay.readings[number].append(((), value))
        try:
            with np.errstate(all="ignore"):
                result = replay.run(self.given, {})
            gradients = self.kept.gradients(replay.arguments, result) if self.kept else result
            after = [self.verdict(i, at(gradients, gradient.path))
                     for i, gradient in enumerate(self.returned)]
        except (UserError, ArithmeticError, LookupError, TypeError, ValueError):
            return 0
        both = list(zip(self.statuses, after, strict=True))
        if any(was != "wrong" and now == "wrong" for was, now in both):
            return 0
        return sum(was == "wrong" and now != "wrong" for was, now in both)
