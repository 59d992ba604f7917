"""Runs a traced function again with some variables perturbed, many perturbations at once.

A perturbation is added where a variable is assigned, or whenever it is read in chosen iterations of
a loop. All perturbations of one run are lanes (`grads.stepper.lanes`) of the arrays that they
affect. If lanes do not support the function, it runs once for each perturbation.
"""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from backend.errors import UserError
from grads.check.continuation.array import continued, plain
from grads.check.continuation.namespace import replaced
from grads.check.copies import deep_copy
from grads.stepper.lanes import LaneArray, making_lanes
from grads.stepper.trace import Trace
from grads.stepper.tracing.record import Origin
from grads.stepper.tracing.values import Path, at, changed, is_array, unpack

Loss = Callable[[Any, Sequence[Any]], Any]  # of a forward's result, and its arguments after the run
SPARE = 1000  # steps by which a perturbed run may be longer: it may iterate to a tolerance
LANES = 512  # perturbations in one run
MEMORY = 2**18  # numbers of one array in all lanes: they fit a cache


@dataclass(frozen=True, eq=False)
class Held:
    """An array that is perturbed wherever it is kept."""

    array: np.ndarray


class Places(NamedTuple):
    """The assignments or readings of one variable, which all get the same perturbation."""

    steps: tuple[tuple[int, Path], ...] = ()  # number of a step, place in the value it assigned
    readings: tuple[tuple[int, Path], ...] = ()  # number of a reading, place in the variable
    arrays: tuple[Held, ...] = ()  # what the arguments hold, or a global variable


class Untouched(tuple[Any, ...]):
    """Arguments that each run gets a copy of, because the function may write into them."""

    def copied(self, arrays: Mapping[int, Any] | None = None) -> tuple[Any, ...]:
        """A copy of the arguments. One that cannot be copied is used as it is. Argument arrays:
        replacements for some arrays, by id()."""
        memo = dict(arrays or {})
        return tuple([deep_copy(value, memo) for value in self])


class Reached(BaseException):
    """Raised, with the loss, to end a run as soon as its loss is known."""


class Bumps(NamedTuple):
    """The entries of one variable that are perturbed one after another."""

    places: Places
    shape: tuple[int, ...]  # of the variable; what is broadcast to it (a bias of 0.0) may be less
    entries: np.ndarray  # (n,) flat positions in that shape


def assigned(trace: Trace, origin: Origin) -> Places:
    """The place where a target is assigned. Raises `UserError` for a starred target."""
    target = trace.steps[origin[0]].targets[origin[1]]
    if target.place is None:
        raise UserError(f"{target.name}: what a starred target gathers cannot be perturbed")
    return Places(steps=((origin[0], target.place),))


class Runs:
    """Runs a traced forward with perturbed variables.

    Arguments: forward, its trace; arguments and named, of the call; loss, a function of its result
    and of its arguments after the run.
    """

    def __init__(self, forward: Trace, arguments: Sequence[Any], loss: Loss,
                 named: dict[str, Any]) -> None:
        self.forward, self.arguments, self.loss, self.named = forward, arguments, loss, named

    def losses(self, bumps: Sequence[Bumps], steps: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The losses with steps added to entries. Many bumps share a run.

        Arguments: bumps, the entries; steps, for each of the bumps an array () or (n,): one step
        for all its entries, or one for each. Returns one array (n,) for each of the bumps.
        """
        by_bump: dict[int, np.ndarray] = {}
        for group in groups(self.forward, bumps):
            by_bump |= zip(group, self.together([bumps[i] for i in group],
                                                [steps[i] for i in group]), strict=True)
        return [by_bump[i] for i in range(len(bumps))]

    def together(self, bumps: Sequence[Bumps], steps: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The losses of all bumps, computed in one run."""
        added = np.concatenate([step if step.ndim else np.full(len(bump.entries), step)
                                for bump, step in zip(bumps, steps, strict=True)])
        return rerun(self.forward, self.arguments, bumps, added, self.named, self.loss)


def groups(forward: Trace, bumps: Sequence[Bumps]) -> Iterator[list[int]]:
    """Groups of bumps that share a run, as lists of their numbers.

    A group has at most LANES entries, or a single bump. It has fewer if the arrays that are
    perturbed, or computed afterwards, are large.
    """
    sizes = [max(forward.largest_after[min((number for number, _ in bump.places.steps), default=0)],
                 int(np.prod(bump.shape))) for bump in bumps]
    group: list[int] = []
    lanes = 0
    for i in sorted(range(len(bumps)), key=lambda i: sizes[i]):
        lanes += len(bumps[i].entries)
        if group and lanes > min(LANES, MEMORY // sizes[i]):
            yield group
            group, lanes = [], len(bumps[i].entries)
        group.append(i)
    if group:
        yield group


def rerun(
    trace: Trace, arguments: Sequence[Any], bumps: Sequence[Bumps], steps: np.ndarray,
    named: dict[str, Any], loss: Loss,
) -> list[np.ndarray]:
    """The loss with a step added to one entry at a time.

    Arguments: trace, of the function; arguments and named, of its call; bumps, the entries to be
    perturbed in turn; steps, one for each entry of all bumps; loss, of the result and arguments.
    Returns one array (n,) for each of the bumps. Raises `UserError` if a perturbed run takes
    another path through the function.
    """
    width = len(steps)
    is_users = isinstance(arguments, Untouched)
    kind = continued if is_users and np.iscomplexobj(steps) else np.asarray
    try:
        with warnings.catch_warnings(), trace.rewound(), making_lanes(
                trace.program.spaces if is_users else [], width, kind):
            # a complex number cast to a real one has lost its step
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            replay = Replay(trace, [(bump.places, LaneArray(kind(added)))
                                    for bump, added in perturbations(bumps, steps)])
            values = lanes_of(loss(*replay.outcome(arguments, named)), width)
    except Exception as error:  # caused by lanes or by the function: a single run will show which
        if isinstance(error, UserError) and not is_users:
            raise
        values = apart(trace, arguments, singles(bumps), steps, named, loss)
    ends = np.cumsum([len(bump.entries) for bump in bumps])
    return np.split(values, ends[:-1])


def lanes_of(value: Any, width: int) -> np.ndarray:
    """The values (width,) of a scalar in all lanes."""
    if isinstance(value, LaneArray):
        value = value.values.reshape(-1)
    return np.broadcast_to(np.asarray(value).reshape(-1), (width,))


def singles(bumps: Sequence[Bumps]) -> list[Bumps]:
    """The bumps, split into bumps of one entry."""
    return [bump._replace(entries=bump.entries[[i]])
            for bump in bumps for i in range(len(bump.entries))]


def apart(
    trace: Trace, arguments: Sequence[Any], bumps: Sequence[Bumps], steps: np.ndarray,
    named: dict[str, Any], loss: Loss,
) -> np.ndarray:
    """The loss of each of the bumps, all of one entry, which cannot be lanes of one run.

    In a derivation a few lanes disagree, as a large step moves the window of attention: the halves
    are tried. A user's function may not take lanes at all: each of the bumps gets a run.
    """
    is_users, half = isinstance(arguments, Untouched), len(bumps) // 2
    if half and not is_users:
        return np.concatenate([
            losses for chosen in (slice(half), slice(half, None))
            for losses in rerun(trace, arguments, bumps[chosen], steps[chosen], named, loss)])
    kind = continued if is_users and np.iscomplexobj(steps) else np.asarray
    return np.array([alone(trace, bump, steps[[k]], arguments, named, loss, kind)
                     for k, bump in enumerate(bumps)])


def alone(
    trace: Trace, bump: Bumps, step: np.ndarray, arguments: Sequence[Any], named: dict[str, Any],
    loss: Loss, kind: Callable[[Any], Any],
) -> Any:
    """The loss of one perturbed run, without lanes.

    Argument kind: makes the arrays; `continued` for a user's function, as in `grads check`.
    """
    replay = Replay(trace, [(bump.places, kind(added[..., 0]))
                            for bump, added in perturbations([bump], step)])
    stand_in = replaced(trace.program.spaces) if kind is continued else nullcontext()
    try:
        with warnings.catch_warnings(), trace.rewound(), stand_in:
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            return np.reshape(plain(loss(*replay.outcome(arguments, named))), ())[()]
    except (TypeError, np.exceptions.ComplexWarning) as error:
        if kind is continued or not np.iscomplexobj(step):
            raise
        raise UserError(f"{trace.steps[0].function} cannot be run with complex numbers, which the "
                        f"verification needs ({error}): does it write into an array of real ones?"
                        ) from error


class Replay:
    """The listener of a perturbed run.

    Arguments: trace, of the function; added, pairs of places and the values to add there.
    """

    def __init__(self, trace: Trace, added: Iterable[tuple[Places, Any]]) -> None:
        self.trace, self.program = trace, trace.program
        self.sites, self.chains = trace.program.sites, trace.program.chains
        self.steps: dict[int, list[tuple[Path, Any]]] = defaultdict(list)
        self.readings: dict[int, list[tuple[Path, Any]]] = defaultdict(list)
        self.arrays: dict[int, Any] = {}
        self.end = trace.end
        self.arguments: Sequence[Any] = ()
        self.step_number = self.reading_number = 0
        for places, values in added:
            for number, path in places.steps:
                self.steps[number].append((path, values))
            for number, path in places.readings:
                self.readings[number].append((path, values))
            for held in places.arrays:
                self.arrays[id(held.array)] = perturbed(held.array, values)

    def run(self, arguments: Sequence[Any], named: dict[str, Any]) -> Any:
        """Run the perturbed function and return its result, or only the loss if the function
        assigns the loss on the way. It is run where the trace is `rewound`."""
        self.arguments = arguments
        if isinstance(arguments, Untouched):
            self.arguments = arguments.copied(self.arrays)
        spaces = [(space, name, value) for space in self.program.spaces * bool(self.arrays)
                  for name, value in space.items() if id(value) in self.arrays]
        try:
            for space, name, value in spaces:
                space[name] = self.arrays[id(value)]
            return self.program.run(self, *self.arguments, **named)
        except Reached as reached:
            return reached.args[0]
        finally:
            for space, name, value in spaces:
                space[name] = value

    def outcome(self, arguments: Sequence[Any], named: dict[str, Any]) -> tuple[Any, Sequence[Any]]:
        """The result of `run`, and the arguments after it: a layer may keep its output."""
        return self.run(arguments, named), self.arguments

    # --- what a rewritten function calls; a frame needs no state of its own

    def enter(self, number: int) -> Replay:
        return self

    def leave(self) -> None:
        return None

    def iteration(self, number: int, index: Any) -> None:
        return None

    def counted_down(self, number: int, iterable: Any) -> Any:
        return iterable

    def item(self, number: int, value: Any, indices: Path) -> Any:
        return value

    def entered(self, number: int, values: Any) -> Any:
        return self.assign(number, values, ())

    def returned(self, number: int, value: Any) -> Any:
        return self.assign(number, value, ())

    def assign(self, number: int, value: Any, indices: Any) -> Any:
        if isinstance(value, Iterator):  # what it calls was recorded before the assignment
            value = unpack(self.sites[number].targets[0], value)[0]
        count, self.step_number = self.step_number, self.step_number + 1
        bumps = self.steps.get(count)
        if bumps:
            self.same_path(number, count)
            value = unpack(self.sites[number].targets[0], value)[0]
            for path, added in bumps:
                value = changed(value, path, partial(self.other, added=added))
        if self.end is not None and count == self.end[0]:
            self.same_path(number, count)
            raise Reached(at(value, self.trace.target(self.end).place or ()))
        if not bumps and count > 2 * len(self.trace.steps) + SPARE:
            self.same_path(number, count)
        return value

    def read(self, number: int, value: Any) -> Any:
        reading_number, self.reading_number = self.reading_number, self.reading_number + 1
        for path, added in self.readings.get(reading_number, ()):
            value = changed(value, path, partial(self.other, added=added))
        return value

    def other(self, old: Any, added: Any) -> Any:
        """The value plus its perturbation."""
        return perturbed(old, added)

    def same_path(self, number: int, count: int) -> None:
        """Check that the run follows the path of the trace. Raises `UserError` if it does not."""
        site = self.sites[number]
        steps = self.trace.steps
        if count >= len(steps) or (steps[count].file, steps[count].line) != (site.file, site.line):
            raise UserError(f"{site.file}:{site.line}: the perturbed run took another path than "
                            "the trace: a branch depends on what is perturbed")


def perturbations(bumps: Sequence[Bumps], steps: np.ndarray
                  ) -> Iterator[tuple[Bumps, np.ndarray]]:
    """The values added to each variable (*shape, lanes), with one lane for each entry of all bumps.
    Bumps of the same variable share an array."""
    added: dict[int, tuple[Bumps, np.ndarray]] = {}
    first = 0
    for bump in bumps:
        lanes = range(first, first + len(bump.entries))
        _, values = added.setdefault(id(bump.places), (bump, np.zeros(
            (math.prod(bump.shape), len(steps)), np.result_type(steps, float))))
        values[bump.entries, lanes] = steps[first : lanes.stop]
        first = lanes.stop
    for bump, values in added.values():
        yield bump, values.reshape(*bump.shape, len(steps))


def perturbed(old: Any, added: Any) -> Any:
    """A variable plus its perturbation. A scalar that stands for an array is broadcast."""
    if is_array(old) and old.shape != added.shape and getattr(old, "size", 0) == added.size:
        added = added.reshape(old.shape)
    return old + added
