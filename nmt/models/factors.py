"""Factors of source words: further tables, whose vectors are joined to those of the words.

Source: Sennrich's slides (2016), on input features. The encoder reads a word's vector and beside it
the vectors of its factors, such as its part of speech. Each table has its own columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from backend import Array, array_module
from lstm.embedding import (
    EmbeddingCache,
    embedding_backward,
    embedding_forward,
    embedding_weight,
)
from lstm.parameters import Parameters, Scheme, Weight

FactorCaches = list[tuple[str, int, EmbeddingCache]]  # of each factor: table's name, width, cache


def factor_weights(
    prefix: str, factors: Mapping[str, tuple[int, int]], scheme: Scheme
) -> dict[str, Weight]:
    """`{prefix}.W_{name}` of each factor. factors: name -> (number of values, width)."""
    return {f"{prefix}.W_{name}": embedding_weight(size, width, scheme, "factor")
            for name, (size, width) in factors.items()}


def factors_forward(
    prefix: str, parameters: Mapping[str, Array], x: Array, factors: Sequence[str],
    ids: np.ndarray | None,
) -> tuple[Array, FactorCaches]:
    """The encoder's input (S, B, E): x (S, B, E minus all widths), the words' vectors, with those
    of the factors beside them. ids (number of factors, S, B), host."""
    vectors, caches = [x], []
    for factor, ids_of_factor in zip(factors, () if ids is None else ids, strict=True):
        name = f"{prefix}.W_{factor}"
        of_factor, cache = embedding_forward(parameters[name], ids_of_factor)
        vectors.append(of_factor)
        caches.append((name, of_factor.shape[2], cache))
    return array_module(x).concatenate(vectors, axis=2), caches            # (Sennrich features)


def factors_backward(dx: Array, caches: FactorCaches) -> tuple[Array, Parameters]:
    """The gradient of the words' vectors, and those of the tables, from dx (S, B, E)."""
    gradients: Parameters = {}
    for name, width, cache in reversed(caches):
        gradients[name] = embedding_backward(dx[:, :, -width:], cache)
        dx = dx[:, :, :-width]
    return dx, gradients
