"""Look-up and its gradient against products with one-hot columns."""

from __future__ import annotations

import numpy as np
import pytest
from literal import DTYPES, assert_close, draw

from lstm.embedding import embedding_backward, embedding_forward


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape, V", [((4, 5), 6), ((3, 2), 40), ((1, 1), 3), ((30, 20), 4)])
def test_embedding_is_a_product_with_one_hot_rows(shape, V, dtype):
    """Ids that repeat, up to some hundred times each; only words that occur have a row."""
    rng = np.random.default_rng(6)
    W_e, dx = draw(rng, (V, 3), dtype), draw(rng, (*shape, 3), dtype)
    ids = rng.integers(0, V, shape)
    x, cache = embedding_forward(W_e, ids)
    rows = embedding_backward(dx, cache)
    one_hot = (ids[..., None] == np.arange(V)).astype(float)  # (T, B, V)
    np.testing.assert_array_equal(x, one_hot @ W_e)
    assert_close(rows, np.einsum("tbv,tbe->ve", one_hot, dx))
    assert sorted(rows.ids.tolist()) == sorted(set(ids.ravel().tolist()))
