"""Passes over rows change NumPy's buffer size for their own duration, and nothing else."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from backend.buffering import ELEMENTS, row_by_row


@row_by_row
def pass_over(gates, bias):
    """What a cell does, and the buffer size meanwhile."""
    gates[:, : gates.shape[1] // 2] *= 0.5
    gates += bias
    return np.getbufsize()


@pytest.mark.parametrize("width", [2, ELEMENTS - 2, ELEMENTS, 4 * ELEMENTS + 2])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_the_same_bits(width, dtype):
    rng = np.random.default_rng(0)
    gates, bias = rng.normal(size=(5, width)).astype(dtype), rng.normal(size=width).astype(dtype)
    expected = gates.copy()
    expected[:, : width // 2] *= 0.5
    expected += bias
    assert pass_over(gates, bias) == ELEMENTS
    np.testing.assert_array_equal(gates, expected)


def test_the_size_is_put_back_after_an_error_too():
    before = np.getbufsize()
    assert before != ELEMENTS
    with pytest.raises(ValueError, match="broadcast"):
        pass_over(np.zeros((2, 4)), np.zeros(3))
    assert np.getbufsize() == before


def test_nested_and_in_another_thread():
    sizes = []

    @row_by_row
    def outer():
        sizes.append(pass_over(np.ones((2, 4)), np.ones(4)))
        sizes.append(np.getbufsize())
        other = threading.Thread(target=lambda: sizes.append(np.getbufsize()))
        other.start()
        other.join()

    before = np.getbufsize()
    outer()
    assert sizes == [ELEMENTS, ELEMENTS, before]


def test_the_function_keeps_its_name():
    assert pass_over.__name__ == "pass_over" and "cell" in pass_over.__doc__
