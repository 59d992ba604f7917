"""A right gradient broken as a whole or in a part: the hint names how and where."""

from __future__ import annotations

import numpy as np
import pytest
from broken_lstm import (
    ALL,
    LABELS,
    RECURRENT,
    ROWS,
    TRUE,
    D,
    P,
    T,
    X,
    broken,
    hints,
    noisy,
    plain,
    run,
    terms,
)

from grads.check.case import Labels
from grads.check.diagnosis.diagnose import place


@pytest.mark.parametrize("outputs", [("h", "c"), ("h",), ("c",)])
def test_the_gradients_that_are_broken_below_are_right_to_begin_with(outputs):
    right = terms(P, {name: D[name] for name in outputs})[1]
    exact = {name: a.astype(complex) for name, a in P.items()}
    for name, array in exact.items():
        for position in range(array.size):
            array.flat[position] += 1e-30j
            gradients = run(exact)[0]
            slope = sum((gradients[name] * D[name]).sum() for name in outputs).imag / 1e-30
            array.flat[position] -= 1e-30j
            assert slope == pytest.approx(right[name].flat[position], rel=0, abs=1e-13)


# --- right gradients ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", TRUE)
def test_a_right_gradient_gets_no_hint(name):
    assert hints(name, TRUE[name]) == []
    assert hints(name, noisy(TRUE[name], 5)) == []


# --- the whole gradient -------------------------------------------------------------------------


@pytest.mark.parametrize("change, said", [
    (lambda g: -g, "it has the reversed sign (ratio -1)"),
    (lambda g: 0 * g, "it is zero everywhere"),
    (lambda g: 2 * g, "it is off by the factor 2"),
    (lambda g: g / 2, "it is off by the factor 0.5"),
    (lambda g: g * T, "it is off by the factor 5 (the length of axis 0 of x)"),
    (lambda g: g / T, "it is off by the factor 0.2 (1/(the length of axis 0 of x))"),
    (lambda g: g * 0.7, "it is off by the constant factor 0.7"),
])
def test_all_of_it(change, said):
    assert hints("T", change(TRUE["T"])) == [said]


def test_a_mean_over_a_single_item_is_no_factor():
    said = plain(np.array([[1.5, 2.0]]), np.array([[1.0, 2.0]]), labels=Labels(("batch", "unit")))
    assert not any("factor" in hint for hint in said)


def test_values_that_are_not_finite():
    wrong = broken("T", (3, 5), lambda g: np.nan)
    assert hints("T", wrong) == [
        "it is not finite in 1 of 84 entries, the first at gate f, row 0; column 5 (h 1)"]
    assert hints("T", np.full_like(wrong, np.inf)) == ["it is not finite anywhere"]


# --- parts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, where, said", [
    ("T", ROWS[1], "gate f"), ("T", (ALL, RECURRENT), "column block h"),
    ("T", (ROWS[2], X), "block o, x"), ("b", ROWS[3], "gate h_hat"),
    ("x", 2, "time 2"), ("x", (ALL, 1), "batch item 1"), ("h_0", (ALL, 2), "unit 2"),
])
@pytest.mark.parametrize("change, how", [
    (lambda g: 0 * g, "in {} it is zero; elsewhere it is right"),
    (lambda g: -g, "in {} it has the reversed sign (ratio -1); elsewhere it is right"),
    (lambda g: 3.7 * g, "in {} it is off by the constant factor 3.7; elsewhere it is right"),
    (lambda g: np.sin(9 * g) + 0.1 * (g != 0), "it is wrong only in {}"),
])
def test_one_part(name, where, said, change, how):
    assert hints(name, broken(name, where, change))[0] == how.format(said)


def test_one_entry():
    assert hints("T", broken("T", (7, 2), lambda g: g + 1)) == [
        "only one entry of those compared is wrong: gate o, row 1; column 2 (x 2)"]


def test_nonzero_where_it_should_be_zero():
    numeric = np.random.default_rng(0).normal(size=(5, 4))
    numeric[[0, 1, 3], [0, 2, 3]] = 0
    wrong = np.where(numeric == 0, 1.0, numeric)
    assert plain(wrong, 0 * wrong) == [
        "it is nonzero although the numerical gradient is zero"]


def test_shapes_that_differ():
    with pytest.raises(ValueError, match="analytic"):
        plain(np.zeros((2, 3)), np.zeros((3, 2)))


# --- places -------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels, index, said", [
    (LABELS["T"], (7, 5), "gate o, row 1; column 5 (h 1)"),
    (LABELS["b"], (3,), "gate f, row 0"),
    (LABELS["x"], (2, 0, 1), "time 2, batch item 0, input 1"),
    (Labels(("word", "unit")), (3, 1), "word 3, unit 1"),
    (Labels(("gate",)), (3,), "gate row 3"),
    (Labels(("unit",)), (3, 1), "(3, 1)"), (None, (3, 1), "(3, 1)"), (None, (), "()"),
])
def test_place(labels, index, said):
    assert place(labels, index) == said
