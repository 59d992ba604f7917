"""Count-down positions with a length model, of one sentence and its translation: Nguyen, 4.1.

The step that predicts y_t of m words has position m - t in place of t - 1 (`Shape.down`), so that
the decoder knows how many words are left; there is no end marker to predict. A network predicts the
number of words from the source: here a softmax over 0, 1 .. from the mean of the encoder's states
(docs/errata.md, on what the proposal leaves open).

| here | shape | Nguyen |
|---|---|---|
| `m` | | the number of words y |
| `c` | (d, 1) | the input of the length model, not specified |
| `W_l`, `b_l` | (L, d), (L, 1) | "some neural network" |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from grads.derivations.calculus import Array, Number
from grads.derivations.rnn import predict, predict_grad
from grads.derivations.transformer_model import (
    Parameters,
    Shape,
    decode,
    decode_grad,
    encode,
    encode_grad,
)


class CountdownTrace(NamedTuple):
    """What the forward pass computed."""

    of_x: Any
    memory: Array  # (S, d)
    of_length: Any
    of_y: Any
    shape: Shape


def countdown_forward(
    parameters: Parameters, x: Sequence[int], y: Sequence[int], *, shape: Shape
) -> tuple[Number, CountdownTrace]:
    """J = -log p_length(m | x) - log p(y | m, x) for one pair, in nats.

    Arguments: parameters, by the kernels' names; x and y, token ids without end markers; shape,
    whose decoder counts down.
    """
    memory, of_x = encode(parameters, x, shape)
    l_length, of_length = predict_length(parameters, len(y), memory)
    J_words, of_y = decode(parameters, y, memory, shape)
    J = l_length + J_words                                       # -log of (Nguyen 4.1)
    return J, CountdownTrace(of_x, memory, of_length, of_y, shape)


def countdown_backward(
    parameters: Parameters, x: Sequence[int], y: Sequence[int], trace: CountdownTrace
) -> dict[str, Array]:
    """The gradient of J for every parameter, by name."""
    of_x, memory, of_length, of_y, shape = trace
    d_memory_words, of_decoder = decode_grad(parameters, y, memory, shape, of_y)
    d_memory_length, of_lengths = predict_length_grad(parameters, len(y), memory, of_length)
    d_memory = d_memory_words + d_memory_length                  # both terms of J read the source
    of_encoder = encode_grad(d_memory, parameters, x, shape, of_x)
    by_name = {**of_encoder, **of_decoder, **of_lengths}
    gradients = {name: by_name[name] for name in parameters}
    return gradients


def predict_length(
    parameters: Parameters, m: int, memory: Array
) -> tuple[Any, tuple[Array, Array]]:
    """-log p_length(m | x), in nats, of memory (S, d); and what the backward reads."""
    W_l, b_l = parameters["length.W"], parameters["length.b"][:, None]
    S = len(memory)
    c = (memory.sum(axis=0) / S)[:, None]                        # the mean of the states
    l, p = predict(m, c, W_l, b_l)                               # (Nguyen 4.1.2 length)
    return l, (c, p)


def predict_length_grad(
    parameters: Parameters, m: int, memory: Array, kept: tuple[Array, Array]
) -> tuple[Array, dict[str, Array]]:
    """d_memory (S, d), and gradients by name."""
    c, p = kept
    S = len(memory)
    dc, dW_l, db_l = predict_grad(m, p, c, parameters["length.W"])
    d_memory = np.ones((S, 1)) @ dc.T / S                        # each state is 1/S of the mean
    return d_memory, {"length.W": dW_l, "length.b": db_l[:, 0]}
