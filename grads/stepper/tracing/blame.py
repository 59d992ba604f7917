"""Finds the variables of a user's backward that make its results wrong.

A variable is faulty if it differs from its derivative and if correcting it makes a result right.
The forward variable that it differentiates is found by its name or by a guess.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from grads.stepper.trace import Origin, Trace
from grads.stepper.tracing.compared import Compared, Numbers
from grads.stepper.tracing.filled import held, readings_after
from grads.stepper.tracing.guesses import Candidate, Guess, Guesses
from grads.stepper.tracing.mending import Mending
from grads.stepper.tracing.pairing import Partner, root_of
from grads.stepper.tracing.replay import Bumps
from grads.stepper.tracing.verify import bumps_of

GUESSED = 6144  # budget: entries whose derivatives are computed for guesses
PROBES = 3000  # budget: single entries that are tried first
STEP, NEAR = 1e-5, 1e-3  # step size of such a trial, and the relative error that it allows
NAMED = 16  # entries that a guess by name takes from the budget
COMPLETE = "complete here, and {:.1e} from d loss / d {}"

Made = Mapping[Origin, tuple[Partner | None, Numbers | None]]  # partner by name


class BestGuess(NamedTuple):
    """The best guess at the forward variable of a line, and what it explains."""

    guess: dict[Origin, tuple[Candidate, Numbers]]
    first: Origin | None  # of its assignments that differs from the derivative
    mended: int  # results that its correction makes right
    is_right: bool  # whether the line is right by another guess
    is_named: bool = False  # whether the guess is at a variable of that name


class Blame:
    """Finds the faulty variables of one backward.

    Arguments: pair, the gradients with their derivatives. Attribute: made, the pairs by name with
    their numbers; it must be set before use.
    """

    def __init__(self, pair: Compared) -> None:
        self.pair = pair
        self.backward, self.floor = pair.backward, pair.floor
        self.guesses = Guesses(pair.pairs, pair.run.parts)
        self.left, self.probes = GUESSED, PROBES
        self.made: Made = {}
        self.mending = Mending(pair)

    def guilty(self, differing: dict[Origin, tuple[Any, Any]]) -> set[Origin]:
        """The variables that make a result wrong, among those that differ from their derivative.

        Each line is tried by itself. All entries of one array are tried together if they are wrong
        earlier than what was found.
        """
        if not self.mending.needed:
            return set()
        exact = {origin: numbers.exact(self.floor) for origin, (_, numbers) in differing.items()
                 if self.pair.is_whole(origin, numbers)}
        guilty: set[Origin] = set()
        entries = [origin for origin in exact if "[" in self.backward.target(origin).name
                   and not any(gradient.last is not None
                               and same_variable(self.backward, gradient.last, origin)
                               for gradient in self.pair.returned)]
        for group in (*self.lines(exact), *self.grouped(entries, self.variable)):
            if (not guilty or group[0] < min(guilty) or self.is_line(group)) and (
                    self.mending.by({origin: exact[origin] for origin in group})):
                guilty.update(group)
        return guilty

    def is_line(self, origins: Sequence[Origin]) -> bool:
        """Whether all assignments are executions of one line."""
        return len({self.backward.steps[origin[0]].site for origin in origins}) == 1

    def filled(self, origins: Sequence[Origin]) -> dict[Origin, str]:
        """The assignments that complete an array with wrong values, each with a message.

        Such an array is filled part by part. Only its last assignment is named, if correcting the
        array makes a result right.
        """
        messages: dict[Origin, str] = {}
        if not self.mending.needed:
            return messages
        for group in self.grouped(origins, self.variable):
            partner, value = self.guesses.whole(group), held(self.backward, group)
            if partner is None or value is None or value.shape != partner.shape or (
                    self.pair.most is not None and value.size > self.pair.most):
                continue
            numbers = self.pair.numbers(partner, value, value.shape)
            read = {number: numbers.exact(self.floor)
                    for number in readings_after(self.backward, group[-1])}
            if numbers.status == "wrong" and read and self.mending.by({}, read):
                messages[group[-1]] = COMPLETE.format(numbers.error, partner.name)
        return messages

    def lines(self, origins: Iterable[Origin]) -> list[list[Origin]]:
        """The assignments, grouped by their line and their variable."""
        return self.grouped(origins, lambda origin: (
            self.backward.steps[origin[0]].site, root_of(self.backward.target(origin).name)))

    def written(self, origins: Sequence[Origin]) -> dict[Origin, tuple[Partner, Numbers]]:
        """The verified numbers of arrays that are changed in place, by the last change of each
        array.

        Such an array is created and then changed entry by entry in the same iteration (`dy =
        p.copy(); dy[k] -= 1`). It is compared after the last change.
        """
        last_change: dict[Origin, Origin] = {}
        for origin in origins:
            step, name = self.backward.steps[origin[0]], self.backward.target(origin).name
            first = [earlier for earlier in self.made if earlier < origin and self.variable(earlier)
                     == self.variable(origin) and "[" not in self.backward.target(earlier).name]
            if "[" in name and first and self.backward.steps[first[-1][0]].own_loops == (
                    step.own_loops):
                last_change[first[-1]] = origin
        completed = {}
        for created, origin in last_change.items():
            partner, value = self.made[created][0], self.backward.alive.get(created)
            if partner is not None and value is not None and np.size(value) == (
                    partner.entries.size):
                completed[origin] = partner, self.pair.numbers(partner, np.array(value),
                                                               value.shape)
        return completed

    def variable(self, origin: Origin) -> tuple[Any, ...]:
        """A key for the call and the variable that an assignment belongs to."""
        return self.backward.steps[origin[0]].frame, root_of(self.backward.target(origin).name)

    def grouped(self, origins: Iterable[Origin], key: Callable[[Origin], Any]
                ) -> list[list[Origin]]:
        """The assignments as lists, one for each value of the key."""
        groups: dict[Any, list[Origin]] = defaultdict(list)
        for origin in origins:
            groups[key(origin)].append(origin)
        return list(groups.values())

    def carried(self, origins: Sequence[Origin], before: Origin | None
                ) -> dict[Origin, tuple[Candidate, Numbers]]:
        """The first line that makes a result wrong where its variables are paired by a guess.

        The line must come before the first line that was found by name. All variables that it
        assigns are returned (`dright, dleft = ...`). The pairing is a guess, but it is measured
        that the correction makes a result right. A line that is right by name or by another guess
        is not blamed, because a variable computed from it may be the wrong one.
        """
        if not self.mending.needed:
            return {}
        guesses = [self.best_guess(line) for line in self.lines(origins)
                  if (before is None or line[0] < before) and not all(map(self.is_right, line))]
        mending = [guess for guess in guesses if guess.first is not None and not guess.is_right
                 and (before is None or guess.first < before)]
        first = min((guess.first[0] for guess in mending if guess.first), default=None)
        return {origin: pair for guess in mending if guess.first and guess.first[0] == first
                for origin, pair in guess.guess.items()}

    def is_right(self, origin: Origin) -> bool:
        """Whether a gradient is verified against the forward variable of its name."""
        numbers = self.made.get(origin, (None, None))[1]
        return numbers is not None and numbers.status == "verified"

    def best_guess(self, line: list[Origin]) -> BestGuess:
        """The guess at a line's variable that makes the most results right. Guesses by name come
        first."""
        best, right = BestGuess({}, None, 0, False), {True: False, False: False}
        for attempt in self.attempts(line):
            is_named = all(candidate.named for candidate, _ in attempt.values())
            if best.is_named and not is_named and len(best.guess) == len(line):
                break
            wrong = {origin: numbers.exact(self.floor) for origin, (_, numbers) in attempt.items()
                     if numbers.status == "wrong"}
            complete = len(attempt) == len(line)
            right[is_named] |= complete and not wrong and self.says_something(attempt)
            mended = self.mending.by(wrong) if wrong else 0
            if mended and (mended, len(attempt)) > (best.mended, len(best.guess)):
                best = BestGuess(attempt, min(wrong), mended, False, is_named)
        return best._replace(is_right=right[True] or (right[False] and not best.is_named))

    def attempts(self, line: list[Origin]) -> Iterator[dict[Origin, tuple[Candidate, Numbers]]]:
        """The guesses at a line's variable, each with its numbers."""
        for guess in self.guesses.of(line):
            pairs = self.guessed(guess)
            if len(pairs) == len(guess):
                yield pairs

    def confirmed(self, line: list[Origin]) -> dict[Origin, tuple[Candidate, Numbers]]:
        """The guess at a line's variable that the numbers confirm for the most assignments.

        The guess must hold for the first assignment, and not only for zeros. One entry is tried
        before all entries are compared.
        """
        best: dict[Origin, tuple[Candidate, Numbers]] = {}
        for guess in self.close(line[0], list(self.guesses.of(line))):
            pairs = {origin: pair for origin, pair in self.guessed(guess).items()
                     if pair[1].status == "verified"}
            if len(pairs) > len(best) and self.says_something(pairs):
                best = pairs
            if len(best) == len(line):
                break
        return best

    def close(self, origin: Origin, guesses: Sequence[Guess]) -> list[Guess]:
        """The guesses whose derivative by central differences is close to the largest entry of a
        gradient. The runs are shared."""
        value = np.ravel(np.asarray(self.backward.target(origin).value, float))
        tried = [guess for guess in guesses if origin in guess][:self.probes * bool(value.size)]
        self.probes -= len(tried)
        entry = int(np.argmax(np.abs(value))) if tried else 0
        close = []
        for _, group in groupby(tried, lambda guess: id(guess[origin].trace)):
            some = list(group)
            partners = [guess[origin].partner for guess in some]
            ends = self.pair.run.runs(some[0][origin].trace).losses(
                [bumps_of(partner, partner.shape, partner.shape, np.array([entry] * 2))
                 for partner in partners], [np.array([STEP, -STEP])] * len(some))
            close += [guess for guess, (right, left) in zip(some, ends, strict=True)
                      if abs((right - left) / (2 * STEP) - value[entry])
                      <= NEAR * max(abs(value[entry]), self.floor)]
        return close

    def says_something(self, pairs: dict[Origin, tuple[Candidate, Numbers]]) -> bool:
        """Whether a guess has a derivative that is not zero."""
        return any(np.any(numbers.exact(self.floor)) for _, numbers in pairs.values())

    def guessed(self, guess: Guess) -> dict[Origin, tuple[Candidate, Numbers]]:
        """The numbers of a guess; without assignments of too many entries, and without those for
        which the budget is spent."""
        bumps = {origin: bump for origin, candidate in guess.items()
                 if (bump := self.affordable(origin, candidate)) is not None}
        forward = next(iter(guess.values())).trace  # that of all candidates of a guess
        self.pair.prepare(forward, list(bumps.values()))
        pairs = {}
        for origin, bump in bumps.items():
            value = np.asarray(self.backward.target(origin).value, float)
            derivative = self.pair.derivative(forward, bump)
            where = np.arange(value.size)
            pairs[origin] = guess[origin], Numbers(where, derivative, *self.pair.verdict(
                derivative, value, where))
        return pairs

    def affordable(self, origin: Origin, candidate: Candidate) -> Bumps | None:
        """All entries of the forward variable, taken from the budget; None if that is spent, or if
        there are too many."""
        target = self.backward.target(origin)
        size = np.size(target.value)
        bump = bumps_of(candidate.partner, candidate.partner.shape, candidate.partner.shape,
                        np.arange(size))
        if self.pair.key(candidate.trace, bump) not in self.pair.known:
            cost = NAMED if candidate.named else size
            if target.sliced or (self.pair.most is not None and size > self.pair.most) or (
                    self.left < cost):
                return None
            self.left -= cost
        return bump


def same_variable(trace: Trace, first: Origin, second: Origin) -> bool:
    """Whether two targets belong to one variable of one call."""
    names = [trace.target(origin).name.partition("[")[0] for origin in (first, second)]
    frames = [trace.steps[origin[0]].frame for origin in (first, second)]
    return names[0] == names[1] and frames[0] == frames[1]
