"""A family of cases in one test runs all of them, and names those that fail."""

from __future__ import annotations

import pytest
from families import for_all

seen = []


@for_all("abc", str)
@pytest.mark.parametrize("number", [1, 2])
def test_every_case_runs_with_every_parameter(letter, number, tmp_path):
    assert tmp_path.is_dir()
    seen.append((letter, number))
    assert len(seen) < 4 or seen == [(letter, number) for number in (1, 2) for letter in "abc"][
        : len(seen)]


def test_all_that_fail_are_told_by_name():
    @for_all(["right", "wrong", "missing"], str)
    def family(case):
        assert case != "wrong"
        if case == "missing":
            pytest.fail("no such thing")

    with pytest.raises(BaseExceptionGroup, match="2 of 3 cases fail") as caught:
        family()
    assert [error.__notes__ for error in caught.value.exceptions] == [["case: wrong"],
                                                                      ["case: missing"]]


def test_a_family_of_none_is_refused():
    with pytest.raises(ValueError, match="expected at least one"):
        for_all([])
