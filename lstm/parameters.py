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
    drawn: bool = False  # a vector that is drawn like a matrix of one row; others are biases, zero
    recurrent: bool = False  # a unit's T: its last columns are a square matrix of the state a block
    deviation: float = 0.01  # standard deviation under scheme "orthogonal"


SCHEMES = ("uniform", "xavier", "orthogonal")


def initialise(
    weights: Mapping[str, Weight], rng: np.random.Generator, *, scheme: str = "uniform",
    scale: float = 0.1, forget_bias: float = 0.0, dtype: str = "float32",
) -> Parameters:
    """Draw every matrix, and vectors of scores; set every bias to zero.

    Arguments: weights by name, in the order in which they are drawn; scheme "uniform" draws from
    [-scale, scale] (Luong, 4.3.1: 0.1), "xavier" from [-a, a] with a = sqrt(6 / (rows + columns))
    of each stacked matrix (Glorot and Bengio, 2010) and embeddings from [-scale, scale],
    "orthogonal" draws as Bahdanau et al. (2015), B.1: random orthogonal matrices of the state,
    one a block, zeros for vectors of scores, everything else normal with mean 0 and the weight's
    own deviation;
    forget_bias is what the forget gates of LSTM biases start from (Jozefowicz et al., 2015,
    recommend 1). Returns name -> array on the backend in use.
    Raises ValueError on an unknown scheme.
    """
    if scheme not in SCHEMES:
        raise ValueError(f"scheme: expected one of {', '.join(SCHEMES)}, got {scheme!r}")
    parameters: Parameters = {}
    for name, weight in weights.items():
        if len(weight.shape) == 1 and not (weight.drawn and scheme != "orthogonal"):
            value = np.zeros(weight.shape)
            if weight.blocks == 4:
                value.reshape(4, -1)[1] = forget_bias
        elif scheme == "orthogonal":
            value = rng.normal(0.0, weight.deviation, weight.shape)  # (Bahdanau B.1 initialisation)
            if weight.recurrent:
                H = weight.shape[0] // weight.blocks
                value[:, -H:] = np.vstack([orthogonal(rng, H) for _ in range(weight.blocks)])
        else:
            limit = scale
            if scheme == "xavier" and not weight.embedding:
                rows, columns = weight.shape if len(weight.shape) == 2 else (1, *weight.shape)
                limit = float(np.sqrt(6.0 / (rows / weight.blocks + columns)))
            value = rng.uniform(-limit, limit, weight.shape)
        parameters[name] = to_device(value.astype(dtype))
    return parameters


def orthogonal(rng: np.random.Generator, size: int) -> np.ndarray:
    """A random orthogonal matrix (size, size), every one as likely as every other.

    Q of the QR decomposition of a normal matrix, with the signs that make R's diagonal positive:
    without them the outcome leans towards what the decomposition prefers (Mezzadri, 2007).
    """
    q, r = np.linalg.qr(rng.normal(size=(size, size)))
    return np.asarray(q * np.where(np.diag(r) < 0, -1.0, 1.0))


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
    mask = to_device(kept.reshape(shape)).astype(dtype)  # a byte of each element is moved
    mask *= 65536.0 / (65536 - dropped)
    return mask
