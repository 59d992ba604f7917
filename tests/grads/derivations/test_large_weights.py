"""Every derivation with weights times 10,000 and -10,000: saturated, and finite, as the kernels
are."""

from __future__ import annotations

import numpy as np
import pytest

from grads.derivations.calculus import log_sum_exp, sigm, sigm_prime
from grads.derivations.rnn import predict
from grads.stepper.tracing.derivations import DERIVATIONS
from grads.verification.derivations import Entry, Sizes, make_case

FACTOR = 1e4


@pytest.mark.parametrize("window", ["global", "local-p"])
@pytest.mark.parametrize("name", DERIVATIONS)
def test_forward_and_backward_are_finite(name, window):
    case = make_case(Entry(name, "", Sizes(window=window)))
    losses = []
    for factor in (FACTOR, -FACTOR):
        inputs = {key: factor * array for key, array in case.inputs.items()}
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            out, cache = case.forward(inputs)
            gradients = case.vjp({"loss": 1.0}, cache)
        assert all(np.isfinite(gradient).all() for gradient in gradients.values())
        losses.append(out["loss"])
    assert np.isfinite(losses).all() and any(losses)  # of a word with all probability, exactly zero


def test_a_word_without_probability_has_a_finite_loss():
    """p_t(y_t) underflows to zero; -log of it would be infinite."""
    l, p = predict(1, np.ones((1, 1)), np.array([[FACTOR], [0.0]]))
    assert p[1, 0] == 0 and l == FACTOR


def test_log_sum_exp():
    s = np.array([[0.3], [-1.0], [2.0]])
    np.testing.assert_allclose(log_sum_exp(s), np.log(np.exp(s).sum()), rtol=1e-15)


@pytest.mark.parametrize("x", [-3.0, 0.0, 3.0])
def test_sigm_is_the_printed_one_and_has_its_derivative(x):
    x = np.array([[x]])
    np.testing.assert_allclose(sigm(x), 1 / (1 + np.exp(-x)), rtol=1e-15)
    np.testing.assert_allclose(sigm(x + 1e-30j).imag / 1e-30, sigm_prime(x), rtol=1e-14)
