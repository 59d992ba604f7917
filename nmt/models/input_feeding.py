"""The decoder with input feeding: h~_{t-1} joins the input of step t (Luong, 2016, section 4.2.3).

Each step needs the attentional vector of the one before, so attention runs inside the loop of
`nmt.models.feeding`, whose feedback it is; the gradients of memory and W_c wait for its end.
Nothing is concatenated on the way: [c_t; h_t] is written into one buffer of all steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from attention.attention import (
    AttentionCache,
    Memory,
    ScoreGradients,
    accumulators,
    attention_backward,
    attention_forward,
    memory_backward,
)
from attention.attentional import attentional_backward, attentional_forward, join
from attention.scores import Sums
from backend import Array, array_module
from backend.rows import RowIndex, row_index
from backend.workspace import Workspace
from lstm.cells import State
from lstm.embedding import embedding_backward, embedding_forward
from lstm.parameters import Parameters
from nmt.models.config import ModelConfig
from nmt.models.contract import Noise
from nmt.models.feeding import FeedingCache, feeding_backward, feeding_forward


class AttentionalFeedback:
    """fed_0 = 0 and fed_t = h~_t = tanh(W_c [c_t; h_t]), of one pass and its way back."""

    def __init__(
        self, T: int, memory: Memory, W_c: Array, mask: Array | None, workspace: Workspace
    ) -> None:
        """mask (T, B, He + H), dropout of [c_t; h_t], or None."""
        xp, B = array_module(W_c), len(memory.hbar)
        self.width, self.first = W_c.shape[0], False  # H; h~_0 = 0      (4.2.3 feeding)
        self._memory, self._W_c, self._mask, self._workspace = memory, W_c, mask, workspace
        self._joined = workspace.empty(xp, (T, B, W_c.shape[1]), W_c.dtype)  # [c_t; h_t]
        self._h_tilde: list[Array] = []  # a step's each, (B, H)
        self._caches: list[AttentionCache] = []
        self._dz = self._dc = self._joined
        self._sums: Sums | None = None
        self._steps: list[ScoreGradients] = []  # of the way back, the last time step first

    def forward(self, t: int, h: Array, out: Array) -> None:
        """Write h~_t (B, H) from h_t (B, H)."""
        c, cache = attention_forward(h[:, None], self._memory, t)
        joined = self._joined[t - 1]
        join(c[:, 0], h, None if self._mask is None else self._mask[t - 1], joined)
        attentional_forward(joined, self._W_c, out=out)    # h~_t            (4.5)
        self._h_tilde.append(out)
        self._caches.append(cache)

    def backward(self, t: int, d_fed: Array) -> Array:
        """dh_t (B, H) from dh~_t (B, H)."""
        if not self._steps:
            self._begin_backward(d_fed)
        He = self._memory.hbar.shape[2]
        d_joined, _ = attentional_backward(d_fed, self._h_tilde[t - 1], self._W_c, self._dz[t - 1])
        if self._mask is not None:
            d_joined *= self._mask[t - 1]
        dc = self._dc[t - 1]
        dc[...] = d_joined[:, :He]
        dh, step = attention_backward(dc[:, None], self._caches[t - 1], self._memory, self._sums)
        self._steps.append(step)
        d_joined[:, He:] += dh[:, 0]
        return d_joined[:, He:]

    def _begin_backward(self, d_fed: Array) -> None:
        """Room for dz (T, B, H) and dc (T, B, He) of all steps, and zeros to add to."""
        xp, (T, B, n), H = array_module(d_fed), self._joined.shape, self.width
        self._dz = self._workspace.empty(xp, (T, B, H), d_fed.dtype)
        self._dc = self._workspace.empty(xp, (T, B, n - H), d_fed.dtype)
        self._sums = accumulators(self._memory)

    def gradients(self, h: Array) -> tuple[Array, Parameters]:
        """Of the encoder's states (S, B, He), and of W_c and the score's weights, by name.

        Arguments: h (T, B, H), the top states.
        """
        joined, dz = (one.reshape(-1, one.shape[2]) for one in (self._joined, self._dz))
        dW_c = self._workspace.product(dz.T, joined)       # (2.12)
        steps, self._steps = self._steps[::-1], []
        dstates, gradients = memory_backward(
            self._dc.transpose(1, 0, 2), h.transpose(1, 0, 2), self._caches, steps, self._memory,
            self._sums,
        )
        return dstates, {f"{self._memory.prefix}.W_c": dW_c, **gradients}


class InputFeedingCache(NamedTuple):
    embedding: tuple[RowIndex, int]
    x_mask: Array | None  # (T, B, E)
    feedback: AttentionalFeedback
    feeding: FeedingCache


def input_feeding_forward(
    target_in: np.ndarray, initial: Sequence[State], memory: Memory,
    parameters: Mapping[str, Array], config: ModelConfig, noise: Noise, workspace: Workspace,
) -> tuple[Array, InputFeedingCache]:
    """As `nmt.models.decoder.decoder_forward`, with input feeding: h~ (T, B, H) and the cache."""
    x, embedding_cache = embedding_forward(parameters["decoder.W_e"], row_index(target_in))
    masks = [noise.get(f"decoder.{layer}") for layer in range(config.layers)]
    if masks[0] is not None:
        x *= masks[0]
    feedback = AttentionalFeedback(len(x), memory, parameters["attention.W_c"],
                                   noise.get("joined"), workspace)
    _, fed, cache = feeding_forward(
        x, initial, feedback, "decoder", config.unit, parameters, masks, True, workspace)
    return fed[1:], InputFeedingCache(embedding_cache, masks[0], feedback, cache)


def input_feeding_backward(
    d_out: Array, cache: InputFeedingCache, parameters: Mapping[str, Array], config: ModelConfig,
    workspace: Workspace,
) -> tuple[list[State], Array, Parameters]:
    """Algorithm 4 with attention and input feeding inside the loop.

    Arguments: d_out (T, B, H), gradient of the returned h~. Returns the gradients of the initial
    states, of the encoder's states (S, B, He), and of the parameters.
    """
    xp, (T, B, H), feeding = array_module(d_out), d_out.shape, cache.feeding
    d_fed = workspace.empty(xp, (T + 1, B, H), d_out.dtype)
    d_fed[1:] = d_out
    dx, d_initial, gradients = feeding_backward(
        None, d_fed, cache.feedback, feeding, parameters, clip=config.clip_dh)
    if cache.x_mask is not None:
        dx *= cache.x_mask
    dstates, more = cache.feedback.gradients(feeding.steps[-1].states[0][1:])
    gradients["decoder.W_e"] = embedding_backward(dx, cache.embedding)
    return d_initial, dstates, gradients | more
