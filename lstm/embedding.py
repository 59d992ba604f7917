"""Embedding look-up with sparse gradients (section 2.2; `Emb_LookUp` of Algorithms 3 and 4).

A row of `W_e` (V, E) here is a column of the thesis's W_e (d_e x |V|).
"""

from __future__ import annotations

import numpy as np

from backend import Array
from backend.rows import RowGradient, RowIndex, check_ids, gather_rows, row_index, sum_rows
from lstm.parameters import Scheme, Weight, axis

EmbeddingCache = tuple[RowIndex, int]  # the words' rows, and V


def embedding_weight(
    vocabulary_size: int, embedding_size: int, scheme: Scheme, of: str = "word"
) -> Weight:
    """W_e (V, E). of: the label of its first axis, such as "word"."""
    return Weight((axis(of, vocabulary_size), axis("input", embedding_size)), scheme.embedding())


def embedding_forward(W_e: Array, ids: np.ndarray) -> tuple[Array, EmbeddingCache]:
    """x_t = the embedding of word t (Algorithm 3, line 7).

    Arguments: W_e (V, E); ids (T, B) on the host. Returns x (T, B, E) and the data that
    `embedding_backward` reads. Raises ValueError for an id that is no row of W_e, without a
    synchronisation.
    """
    index, V = row_index(ids), W_e.shape[0]
    check_ids(index.distinct, V)
    return gather_rows(W_e, index.ids), (index, V)


def embedding_backward(dx: Array, cache: EmbeddingCache) -> RowGradient:
    """dW_e for the participating words only (Algorithm 4, line 18).

    Arguments: dx (T, B, E). Returns the rows of dW_e (V, E) that the batch used; the gradients
    of a word that occurs several times are summed.
    """
    index, V = cache
    return sum_rows(dx, index, V)
