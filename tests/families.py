"""Runs many small cases in one test, because a test for each would cost more than the case
itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from functools import wraps
from typing import Any

import pytest

Test = Callable[..., None]


def for_all(
    cases: Collection[Any], name: Callable[[Any], str] = lambda case: str(case.name)
) -> Callable[[Test], Test]:
    """Decorator of a test that runs once for each case, its first argument.

    The other arguments are fixtures and parameters, which the cases share. The test raises a
    BaseExceptionGroup of the errors of all cases that fail, each with the name of its case.
    """
    if not cases:
        raise ValueError("cases: expected at least one, got none")

    def decorate(test: Test) -> Test:
        @wraps(test)
        def of_all(**others: Any) -> None:
            errors: list[BaseException] = []
            for case in cases:
                try:
                    test(case, **others)
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"case: {name(case)}")
                    errors.append(error)
            if errors:
                raise BaseExceptionGroup(f"{len(errors)} of {len(cases)} cases fail", errors)

        signature = inspect.signature(test)
        others = list(signature.parameters.values())[1:]
        of_all.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return of_all

    return decorate
