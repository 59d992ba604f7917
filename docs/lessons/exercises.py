"""Exercises that check their own answers.

    @exercise(1, hint="What becomes of h_0 = 0?")
    def check_exercise_1(answer):
        return None if answer == 6 else f"{answer} are too many or too few"

`check_exercise_1(answer_1)` prints a verdict and returns it: True once the answer is right.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from grads.check.report import Report

Compare = Callable[[Any], str | None]  # answer -> what is wrong with it, or None


def exercise(number: int, hint: str) -> Callable[[Compare], Callable[[Any], bool]]:
    """Makes a check that a reader can call of a function that says what is wrong with an answer.

    An answer of None is not solved yet; one that raises is wrong, and the error is shown.
    """
    def decorate(compare: Compare) -> Callable[[Any], bool]:
        @wraps(compare)
        def check(answer: Any) -> bool:
            fault = "there is no answer so far" if answer is None else _fault(compare, answer)
            if fault is None:
                print(f"Exercise {number}: right.")
            else:
                print(f"Exercise {number}: not yet: {fault}.\n  Hint: {hint}")
            return fault is None
        return check
    return decorate


def _fault(compare: Compare, answer: Any) -> str | None:
    try:
        return compare(answer)
    except Exception as error:  # whatever the reader's own code raises
        return f"it raised {type(error).__name__}: {error}"


def difference(found: Any, expected: Any, what: str = "the result") -> str | None:
    """What keeps an array (or several, in a tuple) from being the expected one, or None."""
    if found is None:
        return f"{what} is None so far"
    if isinstance(expected, tuple):
        if not isinstance(found, tuple) or len(found) != len(expected):
            return f"expected {len(expected)} results, got {_shown(found)}"
        pairs = enumerate(zip(found, expected, strict=True), 1)
        faults = [difference(a, b, f"result {number}") for number, (a, b) in pairs]
        return next((fault for fault in faults if fault), None)
    found, expected = np.asarray(found), np.asarray(expected)
    if found.shape != expected.shape:
        return f"expected {what} of shape {expected.shape}, got {found.shape}"
    if np.allclose(found, expected, rtol=1e-9, atol=1e-12):
        return None
    index = np.unravel_index(np.abs(found - expected).argmax(), found.shape)
    where = f" at {tuple(map(int, index))}" if index else ""
    return f"expected {what} to be {expected[index]:.6g}{where}, got {found[index]:.6g}"


def verdict(report: Report) -> str | None:
    """The first thing that the gradient checker objects to, or None."""
    if report.ok:
        return None
    if report.findings:
        return report.findings[0].message
    row = report.wrong[0]
    hint = f"; {row.hints[0]}" if row.hints else ""
    return (f"the gradient of {row.name} at {row.place} is {row.numeric:.6g}, "
            f"not {row.analytic:.6g}{hint}")


def _shown(found: Any) -> str:
    return f"{len(found)}" if isinstance(found, tuple) else f"one {type(found).__name__}"
