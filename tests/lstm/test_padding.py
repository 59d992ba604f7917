"""Which steps of a ragged batch are padding."""

from __future__ import annotations

import numpy as np
import pytest

from lstm.recurrent import make_padding


def test_make_padding():
    padding = make_padding(np.array([3, 1, 0]), 3)
    assert padding.full == 0
    np.testing.assert_array_equal(padding.mask[:, :, 0], [[0, 0, 1], [0, 1, 1], [0, 1, 1]])
    np.testing.assert_array_equal(padding.lengths, [3, 1, 0])
    assert make_padding(np.array([3, 2]), 3).full == 2
    assert make_padding(np.array([3, 3]), 3) is None
    for lengths in ([4, 1], [-1, 2]):
        with pytest.raises(ValueError, match="lengths: expected 0 to 3, got"):
            make_padding(np.array(lengths), 3)


def test_a_step_has_a_mask_from_the_first_padded_one_on():
    padding = make_padding(np.array([4, 2]), 4)
    assert padding.at(0) is None and padding.at(1) is None
    np.testing.assert_array_equal(padding.at(2), [[False], [True]])
    np.testing.assert_array_equal(padding.at(3), [[False], [True]])
