"""The time limit of a check, the reports of its progress, and its result when the time was up.

When the time is up, the check ends. What it has not covered is unfinished, not wrong.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from grads.check.case import Case
from grads.check.report import Report
from grads.check.result import Finding, Row
from nmt.console.messages import several

Returned = TypeVar("Returned")
Told = Callable[[str, int, int], None]  # callback: name of the stage, number done, total number

NONE: Mapping[str, np.ndarray] = MappingProxyType({})
PART = 0.25  # seconds after which progress is reported and the limit is checked
AFTER = 0.001  # seconds after the limit at which an alarm rings
RUNS = 12  # approximate number of evaluations for an entry by two methods
UNSURE = "it differs from the derivative here, but the time was up before that was confirmed"


class TimeUp(BaseException):
    """The time of a check is up. It is not an Exception, so that a user's code does not catch it.
    """


class Watch:
    """The watch of one check.

    Arguments: limit in seconds from now on, None for no limit; told, called with the progress.
    Attributes: active, whether there is a limit or a callback; stopped, whether the time was up
    before the check was complete; running, whether a user's function is running; run_time, the
    seconds of its fastest run.
    """

    def __init__(self, limit: float | None = None, told: Told | None = None) -> None:
        if limit is not None and not limit > 0:
            raise ValueError(f"time_limit: expected seconds above 0, got {limit!r}")
        self.limit, self.told = limit, told
        self.start = time.perf_counter()
        self.stopped = self.running = False
        self.active = limit is not None or told is not None
        self.run_time = np.inf

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.start

    def watched(self, case: Case) -> Case:
        """The case with functions that raise TimeUp, before they start or return, if the time is
        up."""
        return replace(case, forward=self._watched(case.forward), vjp=self._watched(case.vjp))

    def _watched(self, function: Callable[..., Returned]) -> Callable[..., Returned]:
        @wraps(function)
        def run(*arguments: Any) -> Returned:
            with self.user_code():
                start = time.perf_counter()
                result = function(*arguments)
                self.run_time = min(self.run_time, time.perf_counter() - start)
            return result

        return run

    @contextmanager
    def user_code(self) -> Iterator[None]:
        """Context of a user's code, which an alarm ends at the limit. Raises TimeUp if the time is
        up before or after the code."""
        self.check()
        with alarm(self):
            self.running = True
            try:
                yield
            finally:
                self.running = False
        self.check()

    def check(self) -> None:
        """Raise TimeUp if the time is up."""
        if self.limit is not None and self.seconds >= self.limit:
            self.stopped = True
            raise TimeUp

    def ring(self, *_: Any) -> None:
        """Handle an alarm: end a run of the user's function that takes too long."""
        if self.running:
            self.check()

    def tell(self, stage: str, done: int, total: int) -> None:
        """Report the progress of the check."""
        if self.told is not None:
            self.told(stage, done, total)

    def parts(self, where: np.ndarray) -> Iterator[np.ndarray]:
        """The positions in parts that take about PART seconds each; in one part if there is neither
        a limit nor a callback."""
        size = max(1, len(where))
        if self.active:
            size = int(np.clip(PART / (RUNS * self.run_time), 1, size))
        yield from (where[k:k + size] for k in range(0, len(where), size))


@contextmanager
def alarm(watch: Watch) -> Iterator[None]:
    """Context of an alarm at the watch's limit, if the system has alarms. It rings again and again:
    a check inside of the context may have ended by the first."""
    if watch.limit is None or not hasattr(signal, "setitimer") or (
            threading.current_thread() is not threading.main_thread()):
        yield
        return
    before, start = signal.signal(signal.SIGALRM, watch.ring), time.perf_counter()
    left = max(watch.limit - watch.seconds, 0.0) + AFTER
    delay, interval = signal.setitimer(signal.ITIMER_REAL, left, PART)  # of an alarm around this
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if delay:
            left = max(delay - (time.perf_counter() - start), AFTER)
            signal.setitimer(signal.ITIMER_REAL, left, interval)


# --- the result when the time was up ------------------------------------------------------------


def uncovered(name: str, upstream: str, shape: tuple[int, ...], checked: int = 0,
              hints: tuple[str, ...] = ()) -> Row:
    """The row of an unfinished tensor."""
    return Row(name, upstream, shape, checked, 0, 0, {}, "unfinished", (), "", 0.0, 0.0, hints)


def unconfirmed(row: Row) -> Row:
    """The row; as unfinished if one method found it wrong and no other method has confirmed it."""
    if row.status not in ("wrong", "disagree"):
        return row
    return replace(row, status="unfinished", hints=(UNSURE,))


def unfinished(
    title: str, watch: Watch, rows: Sequence[Row] = (), inputs: Mapping[str, np.ndarray] = NONE,
    findings: Sequence[Finding] = (), check: Any = None,
) -> Report:
    """The report of a check whose time was up.

    Arguments: rows of what was covered; inputs that were to be checked: each without a row gets an
    unfinished one; findings; check (`grads.check.comparison.Check`), None if it was not prepared.
    """
    known = {row.name for row in rows}
    done: dict[str, Any] = {} if check is None else {
        "outputs": tuple(check.upstream), "evaluations": check.evaluate.evaluations,
        "notes": tuple(check.notes)}
    rows = [*rows, *(uncovered(name, "all", np.shape(x)) for name, x in inputs.items()
                     if name not in known)]
    return Report(rows, [*findings], title, seconds=watch.seconds, stopped=_covered(rows, watch),
                  **done)


def _covered(rows: Sequence[Row], watch: Watch) -> str:
    """The sentence on why the check ended, and what it has covered."""
    tensors = [row for row in rows if row.upstream == "all" and row.shape is not None]
    parts = [f"{row.name} {row.checked} of {row.size}"
             + f" and {several(row.directions, 'direction')}" * bool(row.directions)
             for row in tensors if row.checked + row.directions]
    nothing = [row.name for row in tensors if not row.checked + row.directions]
    said = [*[f"entries covered: {', '.join(parts)}"] * bool(parts),
            *[f"nothing of {', '.join(nothing)}"] * bool(nothing)]
    return f"the time was up after {watch.seconds:.3g} s; {'; '.join(said) or 'nothing was run'}"
