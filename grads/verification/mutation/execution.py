"""Runs the checks on each mutant until one fails.

Every mutant runs in its own process, so that an endless loop, a crash of the interpreter or a
changed cache has no effect on other mutants.
"""

from __future__ import annotations

import random
import signal
import time
import warnings
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from typing import NamedTuple

import numpy as np

from grads.check.report import Report
from grads.verification.mutation.injection import injected
from grads.verification.mutation.record import Check, Mutant, Numbers, Recording, poisoned
from nmt.console.messages import several
from nmt.processes import in_processes, start

LIMIT = 20.0  # seconds of CPU time that checks may take beyond forty times that of their numbers
SAME = 1e-12  # largest difference by rounding, relative to a tensor's largest entry
NOT_RUN = "no check runs the line"


class Outcome(NamedTuple):
    """A mutant, and whether a check killed it."""

    mutant: Mutant
    by: str  # gradient, a kind of finding, reference, exception, time; "" if it survived
    check: str  # the check that failed; for a survivor, the number of checks
    seconds: float

    @property
    def killed(self) -> bool:
        """Whether a check failed."""
        return bool(self.by)


def execute(mutants: Sequence[Mutant], checks: Sequence[Check], recording: Recording,
          jobs: int = 1) -> Iterator[Outcome]:
    """The outcome of each mutant as soon as it is known, from `jobs` processes."""
    def work(k: int) -> Iterator[Outcome]:
        for mutant in mutants[k::jobs]:
            yield _executed(mutant, checks, recording)

    for _, outcome in in_processes(work, jobs):
        yield outcome


def running(mutant: Mutant, recording: Recording) -> list[int]:
    """The checks that run a mutant's line, the fastest first."""
    wanted = {(mutant.file, line) for line in mutant.lines}
    places = [k for k, lines in enumerate(recording.lines) if wanted & lines]
    return sorted(places, key=recording.seconds.__getitem__)


def _executed(mutant: Mutant, checks: Sequence[Check], recording: Recording) -> Outcome:
    """The outcome of a mutant, from its own process.

    A check whose numbers have not changed cannot fail. Only the other checks differentiate.
    """
    started, order = time.perf_counter(), running(mutant, recording)

    def act(writer: Connection) -> None:
        warnings.simplefilter("ignore")
        end = time.process_time() + LIMIT
        with poisoned(), injected(mutant.function, mutant.source):
            for k in order:
                end += 40 * recording.seconds[k]
                left = end - time.process_time()
                signal.setitimer(signal.ITIMER_PROF, max(left, 1e-3))  # 0 would switch it off
                changed = not computes_the_same(checks[k], recording.numbers[k])
                writer.send((changed, changed and complaint(checks[k]), checks[k].name))

    process, reader = start(act)
    by, name, changed = "", "", 0
    try:
        for _ in order:
            differs, by, name = reader.recv()
            changed += differs
            if by:
                break
    except EOFError:
        process.join()
        by = "time" if process.exitcode == -signal.SIGPROF else "exception"
    reader.close()
    process.kill()
    process.join()
    return Outcome(mutant, by or "", name if by else _unnoticed(len(order), changed),
                   time.perf_counter() - started)


def _unnoticed(run: int, changed: int) -> str:
    """The note on a survivor."""
    if not run:
        return NOT_RUN
    checks = several(run, "check runs", "checks run")
    return f"{checks} the line, the numbers of {changed or 'none'} change"


def computes_the_same(check: Check, numbers: Numbers) -> bool:
    """Whether a check computes these numbers, up to rounding."""
    try:
        changed = check.numbers()
    except Exception:
        return False
    if changed.keys() != numbers.keys():
        return False
    gaps = [(changed[name], value) for name, value in numbers.items()]
    return all(a.shape == b.shape and a.dtype == b.dtype
               and (not b.size or bool(np.abs(a - b).max() <= SAME * np.abs(b).max()))
               for a, b in gaps)


def complaint(check: Check) -> str:
    """The way in which a check with changed numbers fails; "" if it passes.

    "exception", "gradient", a kind of finding, or "reference" if only the same numbers are right.
    """
    try:
        if check.run is not None:
            return kind_of(check.run())
        check.numbers()
        return "reference"
    except Exception:
        return "exception"


def kind_of(report: Report) -> str:
    """The first fault of a report, in a word; "" if there is none."""
    if report.ok:
        return ""
    return "gradient" if report.wrong else report.findings[0].kind


# --- a part of them -------------------------------------------------------------------------------


def sample(mutants: Sequence[Mutant], number: int, seed: int = 0) -> list[Mutant]:
    """A fixed choice of mutants, stratified over modules and operators.

    Every stratum gives its first mutant before any stratum gives its second, in random order.
    """
    rng = random.Random(seed)
    strata: dict[tuple[str, str], list[Mutant]] = {}
    for mutant in mutants:
        strata.setdefault((mutant.file, mutant.operator), []).append(mutant)
    shuffled = [rng.sample(stratum, len(stratum)) for stratum in strata.values()]
    ranked = sorted((place, rng.random(), mutant) for stratum in shuffled
                    for place, mutant in enumerate(stratum))
    return [mutant for _, _, mutant in ranked[:number]]
