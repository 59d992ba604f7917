"""The attentional vector, and the join before it."""

from __future__ import annotations

import numpy as np
import pytest
from literal import DTYPES, draw

from attention.attention import attentional_backward, attentional_forward, join
from grads.check import check_pair

H, He, N = 3, 4, 5


def test_gradients():
    """Of [c; h] and W_c, by complex step."""
    rng = np.random.default_rng(1)

    def forward(joined, W_c):
        h_tilde = attentional_forward(joined, W_c)
        return h_tilde, (joined, h_tilde, W_c)

    def backward(d, cache):
        joined, h_tilde, W_c = cache
        d_joined, da = attentional_backward(d, h_tilde, W_c)
        return d_joined, da.T @ joined

    inputs = [draw(rng, (N, He + H)), draw(rng, (H, He + H))]
    check_pair(forward, backward, inputs, method="complex", vanish=False).raise_if_wrong()


def test_the_result_is_written_to_out():
    rng = np.random.default_rng(3)
    joined, W_c, d = draw(rng, (4, 7)), draw(rng, (H, 7)), draw(rng, (4, H))
    out, da = np.empty((2, 4, H))
    assert attentional_forward(joined, W_c, out=out) is out
    np.testing.assert_array_equal(out, attentional_forward(joined, W_c))
    djoined, where = attentional_backward(d, out, W_c, da)
    assert where is da
    for actual, expected in zip((djoined, da), attentional_backward(d, out, W_c), strict=True):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_join(dtype):
    """[c; h], dropped out in the same pass."""
    rng = np.random.default_rng(4)
    c, h, out = draw(rng, (N, He), dtype), draw(rng, (N, H), dtype), np.empty((N, He + H), dtype)
    mask = (rng.random((N, He + H)) < 0.5) / 0.5
    join(c, h, None, out)
    np.testing.assert_array_equal(out, np.hstack([c, h]))
    join(c, h, mask.astype(dtype), out)
    np.testing.assert_array_equal(out, np.hstack([c, h]) * mask)
