"""Finding the variables of a user's backward that make its results wrong.

They are the variables that differ from their derivative, where forward variables are paired by name
or by a guess, and whose correction makes a result right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from grads.stepper.trace import Origin, Trace
from grads.stepper.tracing.compared import Compared, Numbers
from grads.stepper.tracing.filled import held, readings_after
from grads.stepper.tracing.guesses import Candidate, Guesses
from grads.stepper.tracing.mending import Mending
from grads.stepper.tracing.numerical import Derivative
from grads.stepper.tracing.pairing import Partner, root_of
from grads.stepper.tracing.verify import bumps_of

GUESSED = 6144  # entries whose derivatives are taken for guesses at what has no name
PROBES = 3000  # single entries that are tried before
STEP, NEAR = 1e-5, 1e-3  # of such an entry, and its relative error
NAMED = 16  # entries that a guess at a forward variable of the same name counts for
COMPLETE = "complete here, and {:.1e} from d loss / d {}"

Made = Mapping[Origin, tuple[Partner | None, Numbers | None]]  # of each variable, by its name


class BestGuess(NamedTuple):
    """The result of the best guess at a line's variable."""

    guess: dict[Origin, tuple[Candidate, Numbers]]
    first: Origin | None  # of its assignments that differs from the derivative
    mended: int  # results that its correction makes right
    is_right: bool  # whether the line is right by another guess
    is_named: bool = False  # whether the guess is at a variable of that name


class Blame:
    """Finds the faulty variables of one backward.

    Arguments: pair, the gradients beside their derivatives.
    Attribute: made, the pairs by name and their numbers, to be set before use.
    """

    def __init__(self, pair: Compared) -> None:
        self.pair = pair
        self.backward, self.floor = pair.backward, pair.floor
        self.guesses = Guesses(pair.pairs, pair.run.parts)
        self.left, self.probes = GUESSED, PROBES
        self.known: dict[Any, Derivative] = {}
        self.made: Made = {}
        self.mending = Mending(pair)

    def guilty(self, differing: dict[Origin, tuple[Any, Any]]) -> set[Origin]:
        """Among the variables that differ from their derivative, those that make a result wrong:
        line by line, and all entries of one array if these are wrong earlier."""
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
        """Whether assignments are of one line."""
        return len({self.backward.steps[origin[0]].site for origin in origins}) == 1

    def filled(self, origins: Sequence[Origin]) -> dict[Origin, str]:
        """The last assignment to parts of an array that, once filled, makes a result wrong; and its
        message."""
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
        """Assignments by the line and the variable that they are of."""
        return self.grouped(origins, lambda origin: (
            self.backward.steps[origin[0]].site, root_of(self.backward.target(origin).name)))

    def written(self, origins: Sequence[Origin]) -> dict[Origin, tuple[Partner, Numbers]]:
        """Arrays that are changed in place, entry by entry, after they were made in the same
        iteration (`dy = p.copy(); dy[k] -= 1`), by the last change, when they are complete."""
        last: dict[Origin, Origin] = {}
        for origin in origins:
            step, name = self.backward.steps[origin[0]], self.backward.target(origin).name
            made = [earlier for earlier in self.made if earlier < origin and self.variable(earlier)
                    == self.variable(origin) and "[" not in self.backward.target(earlier).name]
            if "[" in name and made and self.backward.steps[made[-1][0]].own_loops == (
                    step.own_loops):
                last[made[-1]] = origin
        completed = {}
        for made_at, origin in last.items():
            partner, value = self.made[made_at][0], self.backward.alive.get(made_at)
            if partner is not None and value is not None and np.size(value) == (
                    partner.entries.size):
                completed[origin] = partner, self.pair.numbers(partner, np.array(value),
                                                               value.shape)
        return completed

    def variable(self, origin: Origin) -> tuple[Any, ...]:
        """The call and the variable that an assignment is of."""
        return self.backward.steps[origin[0]].frame, root_of(self.backward.target(origin).name)

    def grouped(self, origins: Iterable[Origin], key: Callable[[Origin], Any]
                ) -> list[list[Origin]]:
        """Assignments with the same key, each in a list."""
        groups: dict[Any, list[Origin]] = defaultdict(list)
        for origin in origins:
            groups[key(origin)].append(origin)
        return list(groups.values())

    def carried(self, origins: Sequence[Origin], before: Origin | None
                ) -> dict[Origin, tuple[Candidate, Numbers]]:
        """The first of the lines that, paired by a guess, make a result wrong, if it is before the
        first one found by name: with all variables that it assigns (`dright, dleft = ...`).

        The pairing is a guess, but that the correction makes a result right is measured. A line
        that is right by name or by another guess is not taken: something computed from it may be
        wrong.
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
        """Whether a gradient is that of the forward variable of its name."""
        numbers = self.made[origin][1]
        return numbers is not None and numbers.status == "verified"

    def best_guess(self, line: list[Origin]) -> BestGuess:
        """The guess at a line's variable that makes most results right, the named ones first."""
        best, right = BestGuess({}, None, 0, False), {True: False, False: False}
        for made in self.attempts(line):
            is_named = all(candidate.named for candidate, _ in made.values())
            if best.is_named and not is_named and len(best.guess) == len(line):
                break
            wrong = {origin: numbers.exact(self.floor) for origin, (_, numbers) in made.items()
                     if numbers.status == "wrong"}
            whole = len(made) == len(line)
            right[is_named] |= whole and not wrong and self.says_something(made)
            mended = self.mending.by(wrong) if wrong else 0
            if mended and (mended, len(made)) > (best.mended, len(best.guess)):
                best = BestGuess(made, min(wrong), mended, False, is_named)
        return best._replace(is_right=right[True] or (right[False] and not best.is_named))

    def attempts(self, line: list[Origin]) -> Iterator[dict[Origin, tuple[Candidate, Numbers]]]:
        """The guesses at a line's variable with their numbers."""
        for guess in self.guesses.of(line):
            made = {origin: (candidate, numbers) for origin, candidate in guess.items()
                    if (numbers := self.guessed(origin, candidate)) is not None}
            if len(made) == len(guess):
                yield made

    def confirmed(self, line: list[Origin]) -> dict[Origin, tuple[Candidate, Numbers]]:
        """The guess at a line's variable that the numbers confirm for most of its assignments, the
        first among them, and not for zeros only. One entry is tried first."""
        best: dict[Origin, tuple[Candidate, Numbers]] = {}
        for guess in self.guesses.of(line):
            if line[0] in guess and self.probed(line[0], guess[line[0]]):
                made = {origin: (candidate, numbers) for origin, candidate in guess.items()
                        if (numbers := self.guessed(origin, candidate))
                        and numbers.status == "verified"}
                if len(made) > len(best) and self.says_something(made):
                    best = made
                if len(best) == len(line):
                    break
        return best

    def probed(self, origin: Origin, candidate: Candidate) -> bool:
        """Whether the largest entry of a gradient is near the derivative by differences."""
        value = np.ravel(np.asarray(self.backward.target(origin).value, float))
        if not value.size or self.probes <= 0:
            return False
        self.probes -= 1
        entry = int(np.argmax(np.abs(value)))
        bump = bumps_of(candidate.partner, candidate.partner.shape, candidate.partner.shape,
                        np.array([entry] * 2))
        ends, = self.pair.run.runs(candidate.trace).losses([bump], [np.array([STEP, -STEP])])
        return bool(abs((ends[0] - ends[1]) / (2 * STEP) - value[entry])
                    <= NEAR * max(abs(value[entry]), self.floor))

    def says_something(self, made: dict[Origin, tuple[Candidate, Numbers]]) -> bool:
        """Whether the derivatives of a guess are not zero throughout."""
        return any(np.any(numbers.exact(self.floor)) for _, numbers in made.values())

    def guessed(self, origin: Origin, candidate: Candidate) -> Numbers | None:
        """The numbers of a guess; None where it has too many, or too many were taken before."""
        target = self.backward.target(origin)
        value = np.asarray(target.value, float)
        key = (candidate.trace is self.pair.forward, candidate.partner.step,
               candidate.partner.places)
        if key not in self.known:
            cost = NAMED if candidate.named else value.size
            if target.sliced or (self.pair.most is not None and value.size > self.pair.most) or (
                    self.left < cost):
                return None
            self.left -= cost
            bump = bumps_of(candidate.partner, candidate.partner.shape, candidate.partner.shape,
                            np.arange(value.size))
            self.known[key] = self.pair.derivative(candidate.trace, bump)
        where = np.arange(value.size)
        return Numbers(where, self.known[key], *self.pair.verdict(self.known[key], value, where))


def same_variable(trace: Trace, first: Origin, second: Origin) -> bool:
    """Whether two targets are of one variable of one call."""
    names = [trace.target(origin).name.partition("[")[0] for origin in (first, second)]
    frames = [trace.steps[origin[0]].frame for origin in (first, second)]
    return names[0] == names[1] and frames[0] == frames[1]
