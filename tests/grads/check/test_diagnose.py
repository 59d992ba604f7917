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
    B,
    D,
    H,
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

from grads.check.case import Block, Labels
from grads.check.diagnosis.diagnose import Evidence, diagnose, place


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
    (lambda g: 2 * g, "it is off by the factor 2 (B)"),
    (lambda g: g / 2, "it is off by the factor 0.5 (1/B)"),
    (lambda g: g * T, "it is off by the factor 5 (T)"),
    (lambda g: g / T, "it is off by the factor 0.2 (1/T)"),
    (lambda g: g * B * T, "it is off by the factor 10 (B*T)"),
    (lambda g: g / 8, "it is off by the factor 0.125 (1/(the number of real steps))"),
    (lambda g: g * 0.7, "it is off by the constant factor 0.7"),
])
def test_all_of_it(change, said):
    assert hints("T", change(TRUE["T"])) == [said]


def test_a_factor_that_two_sizes_explain_names_both():
    labels = {"w": Labels(("time", "batch")), "s": Labels(("position", "unit"))}
    numeric = np.random.default_rng(0).normal(size=(3, 3))
    said = plain(3 * numeric, numeric, labels=labels["w"], all_labels=labels,
                 inputs={"s": np.zeros((3, 2))})
    assert said == ["it is off by the factor 3 (T or B or S)"]


def test_a_mean_over_a_single_item_is_no_factor():
    said = plain(np.array([[1.5, 2.0]]), np.array([[1.0, 2.0]]), labels=Labels(("batch", "unit")))
    assert not any("factor" in hint for hint in said)


def test_values_that_are_not_finite():
    wrong = broken("T", (3, 5), lambda g: np.nan)
    assert hints("T", wrong) == [
        "it is not finite in 1 of 84 entries, the first at gate f, row 0; column 5 (h 1)"]
    assert hints("T", np.full_like(wrong, np.inf)) == ["it is not finite anywhere"]


def test_the_transpose():
    numeric = np.random.default_rng(0).normal(size=(4, 4))
    assert plain(numeric.T, numeric) == ["it equals the transpose of what it should be"]


def test_reshaped_where_a_transpose_was_meant():
    numeric = np.random.default_rng(0).normal(size=(4, 3))
    assert "reshaped where" in plain(np.ascontiguousarray(numeric.T).reshape(4, 3), numeric)[0]


def test_two_gates_exchanged():
    wrong = TRUE["T"].copy()
    wrong[ROWS[0]], wrong[ROWS[2]] = TRUE["T"][ROWS[2]], TRUE["T"][ROWS[0]]
    assert hints("T", wrong) == ["it has gates i and o exchanged"]


def test_gates_shifted_by_one_block():
    said = hints("b", np.roll(TRUE["b"], H))
    assert said[0].startswith(
        "it is rolled by 1 of its 4 gates: gate i holds the gradient of h_hat")


def test_a_gate_copied():
    wrong = broken("T", ROWS[1], lambda g: TRUE["T"][ROWS[0]])
    assert hints("T", wrong) == [
        "it has its gates mixed up: gate f holds the gradient of i"]


def test_column_blocks_exchanged():
    labels = Labels(("unit", "column"), (Block("c", (ALL, slice(0, 3))),
                                         Block("h", (ALL, slice(3, 6)))))
    numeric = np.random.default_rng(0).normal(size=(3, 6))
    said = plain(np.roll(numeric, 3, axis=1), numeric, labels=labels)
    assert said == ["it has column blocks c and h exchanged"]


def test_time_reversed():
    numeric = np.random.default_rng(0).normal(size=(4, 2, 3))
    assert plain(numeric[::-1], numeric, labels=LABELS["x"]) == ["it is reversed in time"]


@pytest.mark.parametrize("by, said", [
    (1, "it is shifted by one in time: index k holds the gradient of index k - 1"),
    (-1, "it is shifted by one in time: index k holds the gradient of index k + 1"),
])
def test_off_by_one_step(by, said):
    numeric = np.random.default_rng(0).normal(size=(4, 2, 3))
    wrong = np.roll(numeric, by, axis=0)
    wrong[0 if by > 0 else -1] = 0
    assert plain(wrong, numeric, labels=LABELS["x"]) == [said]


def test_time_and_batch_exchanged():
    numeric = np.random.default_rng(0).normal(size=(3, 3, 2))
    assert plain(numeric.swapaxes(0, 1), numeric, labels=LABELS["x"]) == [
        "it has time and batch exchanged"]


# --- parts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, where, said", [
    ("T", ROWS[1], "gate f"), ("T", (ALL, RECURRENT), "column block h"),
    ("T", (ROWS[2], X), "block o, x"), ("b", ROWS[3], "gate h_hat"),
    ("x", 2, "time 2"), ("x", (ALL, 1), "batch item 1"), ("h_0", (ALL, 2), "unit 2"),
])
@pytest.mark.parametrize("change, how", [
    (lambda g: 0 * g, "in {} it is zero; elsewhere it is right"),
    (lambda g: -g, "in {} it has the reversed sign (ratio -1); elsewhere it is right"),
    (lambda g: 3 * g, "in {} it is off by the constant factor 3; elsewhere it is right"),
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


@pytest.mark.parametrize("columns", [False, True])
def test_a_weight_transposed_the_wrong_way(columns):
    """Square, so that no shape complains; as a matrix, and as a block of one."""
    rng = np.random.default_rng(3)
    dz, T = rng.normal(size=(5, 3)), rng.normal(size=(3, 7))
    W = T[:, 4:]
    wrong, right = (dz @ W.T, dz @ W)
    if columns:
        wrong, right = wrong.T, right.T
    labels = {"T": Labels(("unit", "column"), (Block("x", np.s_[:, :4]), Block("h", np.s_[:, 4:])))}
    for inputs, name in (({"W": W}, "W"),):
        evidence = Evidence("h", wrong, right, np.full(right.shape, 1e-13), inputs=inputs,
                            all_labels=labels)
        assert diagnose(evidence) == [f"it is multiplied with {name} transposed the wrong way"]
