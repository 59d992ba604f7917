"""The peers' code: the course's LSTM has right gradients, thinc's forward is ours."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from benchmarks import peer_cs231n, peer_thinc, scaling
from benchmarks.implementations import (
    TOLERANCE,
    Implementation,
    fetch,
    furthest,
    our_implementation,
)
from benchmarks.kernel_list import recurrent
from benchmarks.naive.run import FORMS, check_forms, draw_inputs
from grads.check import check_pair


def test_the_courses_gradients_are_those_of_its_forward():
    rng = np.random.default_rng(1)
    x, h0, Wx, Wh, b = (rng.normal(size=shape) for shape in
                        ((2, 3, 4), (2, 3), (4, 12), (3, 12), (12,)))
    found = check_pair(peer_cs231n.lstm_forward, peer_cs231n.lstm_backward,
                       [x, h0, Wx, Wh, b], method="ridders")
    found.raise_if_wrong()


def test_the_courses_lstm_is_ours():
    kernel = recurrent.layer("lstm", 5, 3, 4)
    ours = our_implementation(kernel, "numpy", lambda: None)
    theirs = Implementation(peer_cs231n.passes(kernel.inputs), lambda: None, False)
    for pass_ in ("forward", "both"):
        assert furthest(fetch(theirs, pass_), fetch(ours, pass_)).size < 1e-6


@pytest.mark.skipif(find_spec("thinc") is None, reason="thinc, an optional peer, is not installed")
def test_thincs_forward_is_ours():
    kernel = recurrent.layer("lstm", 5, 3, 4)
    ours = our_implementation(kernel, "numpy", lambda: None)
    theirs = Implementation(peer_thinc.passes(kernel.inputs), lambda: None, False)
    assert furthest(fetch(theirs, "forward"), fetch(ours, "forward")).size < TOLERANCE


def test_thincs_layout_is_read_back():
    rng = np.random.default_rng(1)
    T, b = rng.normal(size=(12, 6)), rng.normal(size=12)
    read = peer_thinc.in_our_layout({"flat": peer_thinc.flat_weights(T, b)}, 3)
    assert np.array_equal(read["rnn.0.W"], T) and np.array_equal(read["rnn.0.b"], b)


def test_every_form_of_the_naive_benchmark_is_equal():
    assert 0 < check_forms(4, 3, 5) < 1e-13


def test_a_form_that_is_wrong_is_named(monkeypatch):
    right = FORMS["3 weights' products after the loop"]

    def wrong(*arrays):
        h, dx, dW, db = right(*arrays)
        return h, dx, dW * (1 + 1e-9), db

    monkeypatch.setitem(FORMS, "3 weights' products after the loop", wrong)
    with pytest.raises(AssertionError, match=r"form 3 .* dW differs by 1\.0e-09"):
        check_forms(4, 3, 5)


def test_forms_leave_their_arguments_alone():
    arrays = draw_inputs(3, 2, 4, "float64")
    for array in arrays:
        array.flags.writeable = False
    for form in FORMS.values():
        form(*arrays)


def test_a_fitted_exponent_is_the_slope_of_the_upper_part():
    sizes = [1, 2, 4, 8, 16, 32]
    exponent, r2 = scaling.fit(sizes, [100.0, 50.0, 7.0] + [3.0 * n**1.5 for n in (8, 16, 32)])
    assert exponent == pytest.approx(1.5) and r2 == pytest.approx(1.0)
    assert scaling.fit([1, 2, 4], [5.0, 5.0, 5.0]) == (pytest.approx(0.0), 1.0)
    _, r2 = scaling.fit([1, 2, 4], [1.0, 8.0, 1.0])
    assert r2 < 0.1


def test_operations_double_with_the_sizes():
    expected = {"T": 1.0, "B": 1.0, "V": 1.0}
    for sweep in scaling.sweeps(quick=True):
        if sweep.letter in expected and sweep.name != "translator, S = T":
            counts = [sweep.make(value).work["both"] for value in sweep.values]
            assert scaling.fit(sweep.values, counts)[0] == pytest.approx(expected[sweep.letter])
        if sweep.letter == "H":
            counts = [sweep.make(value).work["both"] for value in sweep.values]
            assert scaling.fit(sweep.values, counts)[0] == pytest.approx(2.0)
