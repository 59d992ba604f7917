"""The deep output that also reads a language model's state, through a gate (deep fusion).

Source: Gulcehre et al. (2015), section 4.2; Sennrich's slides, "extra, LM-specific hidden layer":

    g_i = sigm(v_g' s_LM + b_g)                                             (Gulcehre gate)
    t~_i = U_o s_{i-1} + V_o E y_{i-1} + C_o c_i + L_o (g_i s_LM)           (Gulcehre deep)

s_LM is the top state of a recurrent language model that has read y_0 .. y_{i-1}. Its prediction
layer is not used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from backend import Array, array_module, to_device
from backend.rows import gather_rows
from lstm.cells import State
from lstm.embedding import (
    EmbeddingCache,
    embedding_backward,
    embedding_forward,
    embedding_weight,
)
from lstm.parameters import Parameters, Weight, axis, constant
from lstm.stack import (
    StackCache,
    select_states,
    stack_backward,
    stack_forward,
    stack_step,
    stack_weights,
    zero_state,
)
from nmt.data.batches import Batch, Side
from nmt.models.contract import Gradients
from nmt.models.deep_fusion_config import DeepFusionConfig
from nmt.models.heads.deep_output import DeepOutput
from nmt.models.heads.head import Decoded, HeadState

LANGUAGE = "lm"  # prefix of the language model's parameters
CLOSED = -1.0  # b_g starts at "a small, negative number" (Gulcehre et al., 4.2.1)


class GateCache(NamedTuple):
    s: Array  # (N, H_LM)
    g: Array  # (N, 1)
    v_g: Array  # (H_LM,)


def gate_forward(prefix: str, parameters: Mapping[str, Array], s: Array) -> tuple[Array, GateCache]:
    """g s (N, H_LM) from the language model's states s (N, H_LM)."""
    xp, v_g = array_module(s), parameters[f"{prefix}.v_g"]
    a = s @ v_g + parameters[f"{prefix}.b_g"]                              # (N,)
    g = (0.5 + 0.5 * xp.tanh(0.5 * a))[:, None]                            # (Sennrich fusion)
    return g * s, GateCache(s, g, v_g)


def gate_backward(prefix: str, d: Array, cache: GateCache) -> tuple[Array, Parameters]:
    """ds (N, H_LM) and the gradients of v_g and b_g, from the gradient d of g s."""
    s, g, v_g = cache
    dg = (d * s).sum(axis=1, keepdims=True)                                # (N, 1)
    da = dg * g * (1.0 - g)                                                # sigm' = g (1 - g)
    ds = g * d + da * v_g
    return ds, {f"{prefix}.v_g": (da * s).sum(axis=0), f"{prefix}.b_g": da.sum(axis=0)}


class FusionCache(NamedTuple):
    gate: GateCache
    embedding: EmbeddingCache
    stack: StackCache


class Fusion(DeepOutput):
    """The head of RNNsearch with a fourth part: the language model's gated state."""

    config: DeepFusionConfig

    def weights(self) -> dict[str, Weight]:
        """The weights of the deep output, `lm.W_e` and the stack `lm`, and for the hidden layer
        `L_o` (rows of U_o, H_LM), `v_g` (H_LM,) and `b_g` (1,)."""
        config, scheme, weights = self.config, self.config.scheme, super().weights()
        unit = axis("language unit", config.lm_hidden_size)
        rows = weights["output.U_o"].axes[0]
        return {
            **weights,
            f"{LANGUAGE}.W_e": embedding_weight(self.target_size, config.lm_embedding_size, scheme),
            **stack_weights(LANGUAGE, config.language, {"x": config.lm_embedding_size}, scheme),
            "output.L_o": Weight((rows, unit), scheme.matrix()),
            "output.v_g": Weight((unit,), scheme.vector()),
            "output.b_g": Weight((axis("gate", 1),), constant(CLOSED)),
        }

    def _further(
        self, parameters: Mapping[str, Array], batch: Batch
    ) -> tuple[tuple[Array, ...], FusionCache]:
        """g s_LM (N, H_LM) of all steps, from a run of the language model."""
        config, B = self.config, batch.target_in.shape[1]
        x, embedding = embedding_forward(parameters[f"{LANGUAGE}.W_e"], batch.target_in)
        h, _, stack = stack_forward(
            x, parameters, LANGUAGE, config.language,
            [[state] for state in self._first_states(parameters, B)], workspace=self.workspace)
        gated, gate = gate_forward("output", parameters, h.reshape(-1, h.shape[2]))
        return (gated,), FusionCache(gate, embedding, stack)

    def _further_backward(self, d: list[Array], cache: FusionCache) -> Gradients:
        """Gradients of gate and language model."""
        T, B, H = d[0].shape
        dh, of_gate = gate_backward("output", d[0].reshape(T * B, H), cache.gate)
        dx, _, of_stack = stack_backward(dh.reshape(T, B, H), None, cache.stack)
        table = {f"{LANGUAGE}.W_e": embedding_backward(dx, cache.embedding)}
        return {**of_gate, **table, **of_stack}

    def _first_states(self, parameters: Mapping[str, Array], rows: int) -> list[State]:
        """The language model's states before the first word."""
        config, W_e = self.config, parameters[f"{LANGUAGE}.W_e"]
        zero = zero_state(array_module(W_e), config.lm_unit, rows, config.lm_hidden_size, W_e.dtype)
        return [zero] * config.lm_layers

    # --- search ---------------------------------------------------------------------------------

    def start(
        self, parameters: Mapping[str, Array], sources: tuple[Side, ...], read: Decoded
    ) -> HeadState:
        """The language model's states."""
        return HeadState(layers=self._first_states(parameters, sources[0].ids.shape[1]))

    def step(
        self, parameters: Mapping[str, Array], state: HeadState, decoded: Decoded,
        tokens: np.ndarray,
    ) -> tuple[Array, HeadState]:
        """As the deep output's. The language model reads the tokens, too."""
        x = gather_rows(parameters[f"{LANGUAGE}.W_e"], to_device(tokens))
        h, layers = stack_step(x, state.layers, parameters, LANGUAGE, self.config.language)
        gated, _ = gate_forward("output", parameters, h)
        return self._logits(parameters, (*self._parts(decoded), gated)), HeadState(layers=layers)

    def select(self, state: HeadState, rows: Array, sentences: Array) -> HeadState:
        """Keep some rows."""
        return HeadState(layers=select_states(state.layers, rows))
