"""The peers: CS231n's LSTM has right gradients, and all peers give our results."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
from timed import cases

from benchmarks import kernels, peer_lstm, records
from benchmarks.case import furthest
from benchmarks.devices import CPU
from benchmarks.kernel import fetch, our_passes
from benchmarks.kernel_list import recurrent
from benchmarks.naive import FORMS, check_forms, draw_inputs
from grads.check import check_pair


def test_the_courses_gradients_are_those_of_its_forward():
    rng = np.random.default_rng(1)
    x, h0, Wx, Wh, b = (rng.normal(size=shape) for shape in
                        ((2, 3, 4), (2, 3), (4, 12), (3, 12), (12,)))
    actual = check_pair(peer_lstm.lstm_forward, peer_lstm.lstm_backward,
                        [x, h0, Wx, Wh, b], method="ridders")
    actual.raise_if_wrong()


def test_the_courses_lstm_is_ours():
    kernel = recurrent.layer("lstm", 5, 3, 4)
    ours, theirs = our_passes(kernel, kernel.draw(), CPU), peer_lstm.cs231n(kernel.draw())
    for pass_ in ("forward", "both"):
        assert furthest(fetch(theirs, pass_), fetch(ours, pass_)).size < 1e-6


@pytest.mark.skipif(find_spec("jax") is None, reason="JAX, an optional peer, is not installed")
def test_a_scan_of_jax_is_ours():
    kernel = recurrent.layer("lstm", 5, 3, 4)
    ours, theirs = our_passes(kernel, kernel.draw(), CPU), peer_lstm.jax_scan(kernel.draw())
    for pass_ in ("forward", "both"):
        assert furthest(fetch(theirs, pass_), fetch(ours, pass_)).size < 1e-6


@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch (extra `oracle`) is not installed")
def test_a_compiled_loop_of_pytorch_is_ours():
    import torch

    kernel = recurrent.layer("lstm", 2, 3, 4)
    tensors = {name: torch.tensor(value) for name, value in kernel.draw().items()}
    ours, theirs = our_passes(kernel, kernel.draw(), CPU), recurrent.compiled_loop(
        tensors, "aot_eager")  # like inductor, but without its code generation, which takes minutes
    for pass_ in ("forward", "both"):
        assert furthest(fetch(theirs, pass_), fetch(ours, pass_)).size < 1e-6


def test_every_form_of_the_naive_benchmark_is_equal():
    assert 0 < check_forms(4, 3, 5) < 1e-13


def test_a_form_that_is_wrong_is_named(monkeypatch):
    right = FORMS["1 products of all gates and steps outside the loop"]

    def wrong(*arrays):
        h, dx, dW, db = right(*arrays)
        return h, dx, dW * (1 + 1e-9), db

    monkeypatch.setitem(FORMS, "1 products of all gates and steps outside the loop", wrong)
    with pytest.raises(AssertionError, match=r"form 1 .* dW differs by 1\.0e-09"):
        check_forms(4, 3, 5)


def test_forms_leave_their_arguments_alone():
    arrays = draw_inputs(3, 2, 4, "float64")
    for array in arrays:
        array.flags.writeable = False
    for form in FORMS.values():
        form(*arrays)


def test_a_fitted_exponent_is_the_slope_of_the_upper_part():
    def fit(sizes, amounts):
        swept = kernels.sweep_case("a sweep", "T", sizes,
                                   lambda T: recurrent.layer("lstm", T, 2, 4))
        row = swept.prepare(CPU).fields({})
        return records.exponent(row, dict(zip(map(str, sizes), amounts, strict=True)))

    amounts = [100.0, 50.0, 7.0] + [3.0 * n**1.5 for n in (8, 16, 32)]
    assert fit([1, 2, 4, 8, 16, 32], amounts) == pytest.approx(1.5)
    assert fit([1, 2, 4], [5.0, 5.0, 5.0]) == pytest.approx(0.0)


def test_operations_double_with_the_sizes():
    expected = {"T": 1.0, "B": 1.0, "V": 1.0, "H": 2.0}
    actual = [case.prepare(CPU).fields({}) for case in
              cases("scaling", ["--quick", "--output", "x"])]
    assert {row["letter"] for row in actual} == expected.keys()
    for row in actual:
        assert records.exponent(row, row["operations"]) == pytest.approx(expected[row["letter"]])
