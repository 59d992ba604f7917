"""The helpers of 2.2.1 against complex step through the functions they differentiate."""

from __future__ import annotations

import numpy as np
import pytest

from grads.check import check_gradients
from grads.derivations.calculus import (
    corollary_1,
    lemma_1,
    one_hot,
    remark_1,
    remark_2,
    remark_3,
    sigm,
    sigm_prime,
    softmax,
    softmax_grad,
    tanh_prime,
)

RNG = np.random.default_rng(1)
W, H, DV = RNG.normal(size=(3, 4)), RNG.normal(size=(4, 1)), RNG.normal(size=(3, 1))
U, V, DS = (RNG.normal(size=(5, 1)) for _ in range(3))


def agree(loss, parameters, gradients):
    check_gradients(lambda *a: loss(a), parameters, gradients).raise_if_wrong()
    assert all(np.abs(d).max() > 1e-3 for d in gradients)


@pytest.mark.parametrize("f, f_prime", [(np.tanh, tanh_prime), (sigm, sigm_prime)])
def test_lemma_1_and_remark_2(f, f_prime):
    agree(lambda a: (DV * f(a[0] @ a[1])).sum(), [W, H], lemma_1(W, H, DV, f_prime)[::-1])
    agree(lambda a: (DS * a[0] * f(a[1])).sum(), [U, V], remark_2(U, V, DS, f, f_prime))


def test_special_cases():
    agree(lambda a: (DV * (a[0] @ a[1])).sum(), [W, H], corollary_1(W, H, DV)[::-1])
    agree(lambda a: (DS * a[0] * a[1]).sum(), [U, V], remark_3(U, V, DS))
    np.testing.assert_array_equal(remark_1(U, V), np.diag(U[:, 0]) @ V)


def test_softmax_and_its_jacobian():
    np.testing.assert_allclose(softmax(U), np.exp(U) / np.exp(U).sum(), rtol=1e-15)
    assert np.isfinite(softmax(np.array([[1e4], [0.0]]))).all()
    agree(lambda a: (DS * softmax(a[0])).sum(), [U], [softmax_grad(softmax(U), DS)])


def test_one_hot():
    np.testing.assert_array_equal(one_hot(2, 4), [[0], [0], [1], [0]])
