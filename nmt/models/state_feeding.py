"""Input feeding without attention: the top state h_{t-1} is fed in place of h~_{t-1}.

`nmt.models.feeding` runs the loop; the decoder with attention is in `nmt.models.input_feeding`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from backend import Array, array_module
from backend.workspace import Workspace
from lstm.cells import State
from lstm.embedding import EmbeddingCache, embedding_backward, embedding_forward
from lstm.parameters import Parameters
from lstm.stack import Stack
from nmt.models.contract import Noise
from nmt.models.feeding import FeedingCache, feeding_backward, feeding_forward
from nmt.models.heads.head import Decoded


def feed_state(t: int, h: Array, fed: Array) -> None:
    """fed_t = h_t."""
    fed[...] = h


def feed_state_backward(t: int, d_fed: Array, cache: None) -> tuple[Array, None]:
    """dh_t = the gradient of fed_t."""
    return d_fed, None


class StateFeedingCache(NamedTuple):
    prefix: str
    parameters: Mapping[str, Array]
    embedding: EmbeddingCache
    x_mask: Array | None  # (T, B, E)
    out_mask: Array | None  # (T, B, H)
    feeding: FeedingCache


def state_feeding_forward(
    prefix: str, parameters: Mapping[str, Array], target_in: np.ndarray,
    initial: Sequence[State], memory: None, stack: Stack, noise: Noise, workspace: Workspace,
    reads: Collection[str],
) -> tuple[Decoded, StateFeedingCache]:
    """As `nmt.models.input_feeding.input_feeding_forward`, without a memory. The mask
    `{prefix}.joined` is that of the output layer's input."""
    x, embedding = embedding_forward(parameters[f"{prefix}.W_e"], target_in)
    x_mask, *masks = (noise.get(f"{prefix}.{layer}") for layer in range(stack.layers))
    if x_mask is not None:
        x *= x_mask
    (T, B, _), out_mask = x.shape, noise.get(f"{prefix}.joined")
    fed = workspace.empty(array_module(x), (T + 1, B, stack.hidden_size), x.dtype)
    _, feeding = feeding_forward(
        x, initial, feed_state, fed, prefix, stack, parameters,
        [noise.get(f"{prefix}.fed"), *masks], workspace)
    out = fed[1:] if out_mask is None else fed[1:] * out_mask
    return Decoded(out), StateFeedingCache(prefix, parameters, embedding, x_mask, out_mask, feeding)


def state_feeding_backward(
    d: Decoded, cache: StateFeedingCache
) -> tuple[list[State], None, Parameters]:
    """The gradients of the initial states and of the parameters. No encoder's states were read."""
    prefix, parameters, embedding, x_mask, out_mask, feeding = cache
    T, B, H = d.h_tilde.shape
    d_fed = feeding.workspace.empty(array_module(d.h_tilde), (T + 1, B, H), d.h_tilde.dtype)
    d_fed[0] = 0.0
    d_fed[1:] = d.h_tilde if out_mask is None else d.h_tilde * out_mask
    dx, d_initial, _, gradients = feeding_backward(
        None, d_fed, feed_state_backward, feeding, parameters)
    if x_mask is not None:
        dx *= x_mask
    gradients[f"{prefix}.W_e"] = embedding_backward(dx, embedding)
    return d_initial, None, gradients
