"""Exercises that check their own answers.

    @exercise(1, form="a number", hint="What becomes of h_0 = 0?",
              mistakes=[("h_0 is zero.", 7)])
    def check_exercise_1(answer):
        return None if answer == 6 else f"{answer} are too many or too few"

An answer is a function, or what `form` says: here `form="a number"`.
`check_exercise_1(answer_1)` prints a verdict. That of the solution says that it is the solution's:
`check_exercise_1(solution_1, "Solution")`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial, wraps
from typing import Any

import numpy as np

from grads.check.report import Report

Compare = Callable[[Any], str | None]  # answer -> what is wrong with it, or None
Outcome = tuple[str | None, tuple[Any, ...]]  # what is wrong; all that a function returned
NO_ANSWER = "no answer so far"
RAISED = "it raised "
OTHER_KIND = "expected an answer of another kind"
FUNCTION, NUMBER = "a function", "a number"  # forms of an answer
HINT = "\n  Hint: "  # ends what is wrong with an answer, where that is a hint by itself
UNHELPFUL = ("spread over", "right with", "tolerance", "entries compared")
# diagnoses: nothing said, or the solution
OF_SHAPES = ("matmul", "broadcast", "not aligned")  # in NumPy's messages


def exercise(
    number: int, hint: str, mistakes: Iterable[tuple[str, Any]] = (), form: str = FUNCTION
) -> Callable[[Compare], Callable[..., None]]:
    """Makes a check that a reader can call of a function that says what is wrong with an answer.

    An answer of None is not solved yet. A function that raises is wrong, and its error is shown.
    Any other wrong answer gets a hint: that of the mistake which it is, or else one by the kind of
    the fault (a reversed sign, a shape, an order), or else `hint`. A list of one number counts as
    the number.

    Arguments: mistakes, hints and the wrong answers that they are for. Where the answer is a
    function it is such a mistake if both return the same; where it is a value and the mistake is a
    function, if that is true of the value. form, what the answer has to be, in words.
    """
    known = list(mistakes)

    def decorate(compare: Compare) -> Callable[..., None]:
        tried = cache(lambda k: _tried(compare, known[k][1]))  # each mistake once

        @wraps(compare)
        def check(answer: Any, whose: str = "Exercise") -> None:
            is_row = isinstance(answer, tuple | list) or np.ndim(answer) == 1
            if is_row and len(answer) == 1 and np.isscalar(answer[0]):
                answer = answer[0]
            kind = wrong_kind(answer, form)
            outcome = (kind, ()) if kind else _tried(compare, answer)
            fault = outcome[0]
            if fault == OTHER_KIND:
                fault = f"expected {form}, got {answer!r}"
            if fault is None:
                print(f"{whose} {number}: right.")
                return
            said, _, advice = fault.partition(HINT)
            if kind and kind != NO_ANSWER:
                advice = advice or hint
            elif not fault.startswith((NO_ANSWER, RAISED)):
                fits = (of for k, (of, wrong) in enumerate(known)
                        if _is(answer, outcome, wrong, partial(tried, k)))
                advice = next(fits, advice or hint)
            end = "" if advice.endswith((".", "?")) else "."
            print(f"Exercise {number}: not yet: {said.rstrip()}."
                  f"{HINT + advice + end if advice else ''}")
        return check
    return decorate


def wrong_kind(answer: Any, form: str) -> str | None:
    """What keeps an answer from being of the form that is asked for, as far as that is seen."""
    if answer is None:
        return NO_ANSWER
    is_wrong = callable(answer) != (form == FUNCTION) or isinstance(answer, str)
    if not is_wrong and (form != NUMBER or (np.ndim(answer) == 0 and not isinstance(answer, bool))):
        return None
    advice = HINT + "keep the line with `def`" if form == FUNCTION else ""
    if form == NUMBER and isinstance(answer, str):
        advice = HINT + "leave out the quotes"
    got = f"the function {answer.__name__}" if hasattr(answer, "__name__") else repr(answer)
    return f"expected {form}, got {got}{advice}"


def _tried(compare: Compare, answer: Any) -> Outcome:
    """What is wrong with an answer, and all that it returned if it is a reader's function."""
    results: list[Any] = []
    raised: list[Exception] = []

    @wraps(answer)
    def recorded(*given: Any) -> Any:
        try:
            results.append(answer(*given))
        except Exception as error:  # whatever the reader's own code raises
            raised.append(error)
            raise
        return results[-1]

    try:
        return compare(recorded if callable(answer) else answer), tuple(results)
    except Exception as error:  # of the reader's function, or of a check that got another kind
        if raised:
            is_shape = any(words in str(error) for words in OF_SHAPES)
            why = f"{HINT}print the shape of each array in that line" if is_shape else ""
            return f"{RAISED}{type(error).__name__}: {error}{why}", tuple(results)
        other = f"expected a result of another kind than {results[-1]!r}" if results else OTHER_KIND
        return other, tuple(results)


def _is(answer: Any, outcome: Outcome, wrong: Any, tried: Callable[[], Outcome]) -> bool:
    """Whether an answer is a known mistake. Arguments: the outcomes of both, the mistake's as a
    function."""
    if callable(wrong) and not callable(answer):
        return _tried(lambda value: None if wrong(value) else "no", answer)[0] is None
    (fault, results), (other, others) = outcome, tried()
    if not callable(answer):
        return _without_hint(fault) == _without_hint(other)
    is_same = _without_hint(fault) == _without_hint(other) and len(results) == len(others)
    return is_same and all(map(_alike, results, others))


def _without_hint(fault: str | None) -> str | None:
    return fault and fault.partition(HINT)[0]


def _alike(result: Any, other: Any) -> bool:
    """Whether two results are the same, as written or as numbers."""
    if repr(result) == repr(other):
        return True
    try:
        return difference(result, other) is None
    except (TypeError, ValueError):
        return False


def difference(answer: Any, expected: Any, what: str = "the result") -> str | None:
    """What keeps an array (or several, in a tuple or list) from being the expected one, or None."""
    if fault := wrong_form(answer, expected, what):
        return fault
    if isinstance(expected, tuple):
        for number, (a, b) in enumerate(zip(answer, expected, strict=True), 1):
            if fault := difference(a, b, f"result {number}"):
                places = [k for k, other in enumerate(expected, 1) if not difference(a, other)]
                order = f"{HINT}this would be right as result {places[0]}" if places else ""
                return fault.partition(HINT)[0] + order if order else fault
        return None
    answer, expected = np.asarray(answer), np.asarray(expected)
    if answer.dtype.kind not in "biufc":
        return f"expected {what} in numbers, got {answer.tolist()!r}"
    given, wanted = answer * 1, expected * 1  # True and False as numbers
    if np.allclose(given, wanted, rtol=1e-9, atol=1e-12, equal_nan=True):
        return None
    index = np.unravel_index(np.abs(given - wanted).argmax(), given.shape)
    where = f" at {tuple(map(int, index))}" if index else ""
    advice = ""
    if np.allclose(given, -wanted, rtol=1e-9):
        advice = f"{HINT}its sign is reversed"
    elif not np.isfinite(given).all():
        advice = f"{HINT}an exp overflows, or zero is divided by zero"
    return (f"expected {what} to be {_written(expected[index])}{where}, "
            f"got {_written(answer[index])}{advice}")


def _written(value: Any) -> str:
    """A number with six digits, a whole one with all of them."""
    is_whole = value == np.round(value) and abs(value) < 1e15
    return f"{value:.6g}" if not is_whole else f"{value if value.dtype == bool else int(value)}"


def wrong_form(answer: Any, expected: Any, what: str = "the result") -> str | None:
    """What keeps an answer from having the expected number of results, and shapes, or None."""
    if is_empty(answer):
        return NO_ANSWER
    if isinstance(expected, tuple):
        is_row = isinstance(answer, tuple | list) or (
            isinstance(answer, np.ndarray) and answer.ndim)
        if not is_row or len(answer) != len(expected):
            return (f"expected {len(expected)} results, got {_shown(answer)}"
                    f"{HINT}return {len(expected)} results, with commas between them")
        for number, (a, b) in enumerate(zip(answer, expected, strict=True), 1):
            if fault := wrong_form(a, b, f"result {number}"):
                shape = np.shape(a)
                places = [k for k, other in enumerate(expected, 1) if np.shape(other) == shape]
                order = f"{HINT}result {places[0]} has this shape" if places else ""
                fault = fault.partition(HINT)[0] + order if order else fault
                return fault.replace(NO_ANSWER, "one result is None")
        return None
    shape = np.shape(expected)
    if isinstance(answer, tuple | list):
        is_deeper = max(map(np.ndim, answer), default=0) >= max(len(shape), 1)
        if is_deeper or len({np.shape(result) for result in answer}) > 1:
            got = f"a {type(answer).__name__} of {len(answer)}"
            return f"expected {what} alone, of shape {shape}, got {got}"
    if isinstance(answer, dict) and not isinstance(expected, dict):
        return f"expected {what} as an array of shape {shape}, got a dict"
    if np.shape(answer) == shape:
        return None
    advice = ""
    if np.size(answer) == np.size(expected) > 1:
        advice = f"{HINT}its numbers may be right, but it has another shape"
    elif len(shape) == 2 and shape[1] == 1 and np.shape(answer) == (shape[0],) * 2:
        advice = f"{HINT}a column has met a row, which makes a matrix"
    return f"expected {what} of shape {shape}, got {np.shape(answer)}{advice}"


def is_empty(answer: Any) -> bool:
    """Whether a function of the reader returns nothing so far: None, or a tuple of it."""
    return answer is None or (isinstance(answer, tuple | list) and len(answer) > 0
                              and all(result is None for result in answer))


def verdict(report: Report) -> str | None:
    """The first thing that the gradient checker objects to, or None."""
    if report.ok:
        return None
    if report.findings:
        return report.findings[0].message
    row = report.wrong[0]
    hints = [HINT + hint for hint in row.hints if not any(word in hint for word in UNHELPFUL)]
    return (f"the gradient of {row.name} at {row.place} is {row.numeric:.6g}, "
            f"not {row.analytic:.6g}{''.join(hints[:1])}")


def _shown(answer: Any) -> str:
    is_several = isinstance(answer, tuple | list)
    return f"{len(answer)}" if is_several else f"one {type(answer).__name__}"
