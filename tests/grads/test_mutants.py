"""Every seeded bug is caught; planting leaves no trace; a change that is no bug survives."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest
from lstm.lstm import lstm_cell_backward

from grads import catalogue, mutants
from grads.case import SHAPES
from grads.mutants import ENTRIES, MUTANTS, find, planted, run, table
from grads.mutants.kernels import CELL, Mutant
from lstm.stack import UNITS

BY_NAME = {mutant.name: mutant for mutant in MUTANTS}
PAGE = Path(mutants.__file__).parents[2] / "docs" / "mutants.md"
HARMLESS = Mutant("no mistake", CELL, "dc *= f", "dc *= 1.0 * f", "lstm cell", "none made")


@pytest.fixture(scope="module")
def outcomes():
    return {}


@pytest.mark.parametrize("name, shape", dict.fromkeys((m.entry, m.shape) for m in MUTANTS))
def test_entries_of_mutants_are_right_without_them(name, shape):
    catalogue.check(ENTRIES[name], shape).raise_if_wrong()


@pytest.mark.parametrize("name", BY_NAME)
def test_mutant_is_caught(name, outcomes):
    outcomes[name] = run(BY_NAME[name])
    assert outcomes[name].caught


def test_there_are_enough_of_them_in_every_room():
    assert len(BY_NAME) == len(MUTANTS) >= 50
    for room in ("backend.", "lstm.", "attention.", "nmt.models.", "grads.derivations."):
        assert sum(mutant.function.startswith(room) for mutant in MUTANTS) >= 3, room


@pytest.mark.parametrize("entry", catalogue.DERIVATIONS, ids=lambda entry: entry.name)
def test_derivations_are_right(entry):
    for shape in entry.shapes:
        catalogue.check(entry, shape).raise_if_wrong()


# --- the page -----------------------------------------------------------------------------------


def names_of(page):
    """The first column of a page's table."""
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    return [line.split(" | ")[0].removeprefix("| ") for line in lines[2:]]


def test_the_page_lists_the_mutants_that_exist():
    assert names_of(PAGE.read_text(encoding="utf-8")) == [mutant.name for mutant in MUTANTS]


def test_the_page_tells_what_caught_a_mutant(outcomes):
    found = [outcomes.get(name) or run(BY_NAME[name])
             for name in ("upstream dc written into", "printed sign of ds")]
    page = table(found)
    assert names_of(page) == [outcome.mutant.name for outcome in found]
    assert "2 mutants, 2 caught" in page and "complex step" in page and "mutated" in page
    assert mutants.SURVIVED not in page
    assert all(outcome.mutant.why in page for outcome in found)


def test_a_change_that_is_no_mistake_is_told_as_a_survivor():
    """So that the tests above can fail."""
    outcome = run(HARMLESS)
    assert not outcome.caught
    page = table([outcome])
    assert "1 mutants, 0 caught." in page and mutants.SURVIVED in page


# --- planting -----------------------------------------------------------------------------------


def gradient_of_a_cell():
    """dc_{t-1} of the catalogue's cell, through the function as `UNITS` holds it."""
    case = ENTRIES["lstm cell"].make(np.random.default_rng(0), SHAPES["smallest"])
    gradients = case.backward(case.inputs, {"h": np.ones((1, 2)), "c": np.ones((1, 2))})
    return gradients["c_prev"]


def test_planting_reaches_every_reference_and_leaves_no_trace():
    plain = inspect.unwrap(lstm_cell_backward)  # behind what looks for its fused form
    right, code = gradient_of_a_cell(), plain.__code__
    mutant = BY_NAME["dc carried without f"]
    with planted(mutant):
        assert UNITS["lstm"].cell_backward is lstm_cell_backward
        assert plain.__code__ is not code
        assert (gradient_of_a_cell() != right).all()
    assert plain.__code__ is code
    with pytest.raises(ZeroDivisionError), planted(mutant):
        raise ZeroDivisionError
    assert plain.__code__ is code
    np.testing.assert_array_equal(gradient_of_a_cell(), right)


def test_methods_and_strings_that_span_lines():
    mutant = BY_NAME["values and keys swapped"]
    code = find(mutant.function).__code__
    with planted(mutant):
        assert find(mutant.function).__code__ is not code
    assert find(mutant.function).__code__ is code
    assert any("\n" in mutant.old for mutant in MUTANTS)


def scaler(factor):
    def scale(x, power=1, *, shift=0.5):
        return factor * x**power + shift

    return scale


triple = scaler(3.0)


def test_outer_variables_and_defaults():
    path = f"{__name__}.triple"
    with planted(Mutant("outer", path, "factor *", "2 * factor *", "", "")):
        assert triple(1.0) == 6.5
    with planted(Mutant("default", path, "shift=0.5", "shift=0.25", "", "")):
        assert triple(1.0) == 3.25
    assert triple(1.0) == 3.5
    with pytest.raises(ValueError, match=r"outer: expected the outer variables \('factor',\)"):
        with planted(Mutant("outer", path, "factor *", "2 *", "", "")):
            pass


@pytest.mark.parametrize("function, old, complaint", [
    (CELL, "nowhere", "expected 'nowhere' exactly once in lstm.lstm.lstm_cell_backward"),
    (CELL, "dc", "found it"),
    ("lstm.lstm.nothing", "", "expected the path of a Python function, got 'lstm.lstm.nothing'"),
    ("no.such.module", "", "expected the path of a Python function, got 'no.such.module'"),
    ("lstm.lstm.GATES", "", "expected the path of a Python function"),
    ("math.sqrt", "", "expected the path of a Python function"),
])  # fmt: skip
def test_a_mutant_that_does_not_fit_is_refused(function, old, complaint):
    with pytest.raises(ValueError, match=complaint), planted(
            Mutant("unfit", function, old, "pass", "", "")):
        pass


def test_two_mutants_in_one_function_are_refused():
    code = inspect.unwrap(lstm_cell_backward).__code__
    with planted(HARMLESS), pytest.raises(ValueError, match="no other mutant planted"):
        with planted(BY_NAME["g' forgotten"]):
            pass
    assert inspect.unwrap(lstm_cell_backward).__code__ is code


def test_a_mutant_that_crashes_is_an_error_of_the_list():
    with pytest.raises(ZeroDivisionError):
        run(Mutant("crash", CELL, "dc *= f", "1 / 0", "lstm cell", ""))
