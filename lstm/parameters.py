"""Parameters: a flat mapping from dotted name to array, how it is begun, and dropout masks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from backend import Array, to_device

Parameters = dict[str, Array]


class Weight(NamedTuple):
    """What is known of a parameter before it has values."""

    shape: tuple[int, ...]
    blocks: int = 1  # matrices stacked along the rows: an LSTM's T holds 4
    embedding: bool = False  # a look-up table, not a matrix product


def initialise(
    weights: Mapping[str, Weight], rng: np.random.Generator, *, scheme: str = "uniform",
    scale: float = 0.1, forget_bias: float = 0.0, dtype: str = "float32",
) -> Parameters:
    """Draw every matrix; set every bias to zero.

    Arguments: weights by name, in the order in which they are drawn; scheme "uniform" draws from
    [-scale, scale] (Luong, 4.3.1: 0.1), "xavier" from [-a, a] with a = sqrt(6 / (rows + columns))
    of each stacked matrix (Glorot and Bengio, 2010) and embeddings from [-scale, scale];
    forget_bias is what the forget gates of LSTM biases start from (Jozefowicz et al., 2015,
    recommend 1). Returns name -> array on the backend in use.
    Raises ValueError on an unknown scheme.
    """
    if scheme not in ("uniform", "xavier"):
        raise ValueError(f"scheme: expected 'uniform' or 'xavier', got {scheme!r}")
    parameters: Parameters = {}
    for name, weight in weights.items():
        if len(weight.shape) == 1:
            value = np.zeros(weight.shape)
            if weight.blocks == 4:
                value.reshape(4, -1)[1] = forget_bias
        else:
            limit = scale
            if scheme == "xavier" and not weight.embedding:
                rows, columns = weight.shape
                limit = float(np.sqrt(6.0 / (rows / weight.blocks + columns)))
            value = rng.uniform(-limit, limit, weight.shape)
        parameters[name] = to_device(value.astype(dtype))
    return parameters


def dropout_mask(
    rng: np.random.Generator, shape: tuple[int, ...], rate: float, dtype: str = "float32"
) -> Array:
    """Inverted dropout: zero with probability `rate`, else 1 / (1 - rate), so the mean is one.

    Arguments: shape of the mask; rate in [0, 1), kept to a 65536th. Drawn on the host, outside
    the kernels, so that a check can freeze it and a resumed run replays it.
    """
    dropped = min(round(rate * 65536), 65535)
    size = int(np.prod(shape))
    kept = np.frombuffer(rng.bytes(2 * size), dtype=np.uint16) >= dropped
    mask = kept.astype(dtype)
    mask *= 65536.0 / (65536 - dropped)
    return to_device(mask.reshape(shape))
