"""Deep fusion: a language model whose state the output layer of RNNsearch reads through a gate.

Source: Gulcehre et al. (2015), section 4.2; Sennrich's slides, "extra, LM-specific hidden layer":

    g_i = sigm(v_g' s_LM + b_g)                                             (Gulcehre gate)
    t~_i = U_o s_{i-1} + V_o E y_{i-1} + C_o c_i + L_o (g_i s_LM)           (Gulcehre deep)

s_LM is the top state of a recurrent language model that has read y_0 .. y_{i-1}; its own prediction
layer is not used. In the paper translator and language model are trained separately and then
frozen, and only the output layer is trained: that is the recipe's `parametrize.frozen` (`nmt lm
fuse` writes it); here every parameter has its gradient.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from backend import Array, array_module, to_device
from backend.rows import RowIndex, gather_rows, row_index
from lstm.cells import CELLS, State
from lstm.embedding import embedding_backward, embedding_forward, embedding_weight
from lstm.parameters import Parameters, Weight, axis, constant
from lstm.stack import (
    Stack,
    StackCache,
    check_among,
    select_states,
    stack_backward,
    stack_forward,
    stack_step,
    stack_weights,
    zero_state,
)
from nmt.data.batches import Batch, Side
from nmt.models.contract import Architecture, Gradients, Tables, Variants
from nmt.models.deep_output import DeepCache, deep_backward, deep_forward
from nmt.models.rnnsearch import RNNSearch, RNNSearchConfig, Run, SearchState
from nmt.models.rnnsearch import variants as translator_variants

LANGUAGE = "lm"  # prefix of the language model's parameters
CLOSED = -1.0  # b_g starts at "a small, negative number" (Gulcehre et al., 4.2.1)


@dataclass(frozen=True)
class DeepFusionConfig(RNNSearchConfig):
    """RNNsearch and a language model; checked when made (ValueError)."""

    lm_unit: str = "lstm"  # recurrent unit of the language model: lstm, rnn or gru
    lm_layers: int = 1  # its depth
    lm_hidden_size: int = 256  # its units per layer
    lm_embedding_size: int = 256  # its embeddings' width
    lm_biases: bool = True  # of its recurrent units

    def __post_init__(self) -> None:
        super().__post_init__()
        check_among("lm_unit", self.lm_unit, tuple(CELLS))
        for name in ("lm_layers", "lm_hidden_size", "lm_embedding_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}")

    @property
    def language(self) -> Stack:
        """The language model's stack."""
        return Stack(self.lm_unit, self.lm_layers, self.lm_hidden_size, biases=self.lm_biases)


class GateCache(NamedTuple):
    s: Array  # (N, H_LM)
    g: Array  # (N, 1)
    v_g: Array  # (H_LM,)


def gate_forward(
    prefix: str, parameters: Mapping[str, Array], s: Array
) -> tuple[Array, GateCache]:
    """g s (N, H_LM) from the language model's states s (N, H_LM)."""
    xp, v_g = array_module(s), parameters[f"{prefix}.v_g"]
    z = s @ v_g + parameters[f"{prefix}.b_g"]                              # (N,)
    g = (0.5 + 0.5 * xp.tanh(0.5 * z))[:, None]                            # (Sennrich fusion)
    return g * s, GateCache(s, g, v_g)


def gate_backward(prefix: str, d: Array, cache: GateCache) -> tuple[Array, Parameters]:
    """ds (N, H_LM) and the gradients of v_g and b_g, from the gradient d of g s."""
    s, g, v_g = cache
    dg = (d * s).sum(axis=1, keepdims=True)                                # (N, 1)
    dz = dg * g * (1.0 - g)                                                # sigm' = g (1 - g)
    ds = g * d + dz * v_g
    return ds, {f"{prefix}.v_g": (dz * s).sum(axis=0), f"{prefix}.b_g": dz.sum(axis=0)}


class FusedCache(NamedTuple):
    deep: DeepCache
    gate: GateCache
    embedding: tuple[RowIndex, int]
    stack: StackCache


class FusedState(NamedTuple):
    """The search state of a batch of hypotheses."""

    translator: SearchState
    language: list[State]  # per layer, rows (N, H_LM)


class DeepFusion(RNNSearch):
    """RNNsearch whose output layer reads a language model's state too."""

    config: DeepFusionConfig

    def weights(self) -> dict[str, Weight]:
        """The translator's; `lm.W_e` and the stack `lm`; of the output layer `L_o` (rows of U_o,
        H_LM), `v_g` (H_LM,) and `b_g` (1,)."""
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

    def _predicted(
        self, parameters: Mapping[str, Array], run: Run, batch: Batch
    ) -> tuple[Array, FusedCache]:
        """t (N, M), the rows of all steps, with the language model run along."""
        config, B = self.config, batch.target_in.shape[1]
        W_e = parameters[f"{LANGUAGE}.W_e"]
        x, embedding_cache = embedding_forward(W_e, row_index(batch.target_in))
        zero = zero_state(array_module(W_e), config.lm_unit, B, config.lm_hidden_size, W_e.dtype)
        h, _, stack_cache = stack_forward(x, parameters, LANGUAGE, config.lm_unit,
                                          [[zero]] * config.lm_layers, workspace=self.workspace)
        gated, gate_cache = gate_forward("output", parameters, h.reshape(-1, h.shape[2]))
        t, deep_cache = deep_forward("output", parameters, (*self._parts(run), gated), config.layer)
        return t, FusedCache(deep_cache, gate_cache, embedding_cache, stack_cache)

    def _predicted_backward(
        self, dt: Array, cache: Any
    ) -> tuple[tuple[Array, ...], Gradients]:
        """Gradients of s, y, c, of the output layer and of the language model."""
        (*parts, d_gated), gradients = deep_backward(dt, cache.deep)
        dh, gated = gate_backward("output", d_gated, cache.gate)
        shape = (*cache.embedding[0].ids.shape, dh.shape[1])               # (T, B, H_LM)
        dx, _, more = stack_backward(dh.reshape(shape), None, cache.stack,
                                     clip=self.config.clip_elements)
        table = {f"{LANGUAGE}.W_e": embedding_backward(dx, cache.embedding)}
        return tuple(parts), {**gradients, **gated, **table, **more}

    # --- search ---------------------------------------------------------------------------------

    def encode(self, parameters: Mapping[str, Array], sources: tuple[Side, ...],
               rows: int) -> Any:
        """Both before the first word."""
        config, W_e = self.config, parameters[f"{LANGUAGE}.W_e"]
        zero = zero_state(array_module(W_e), config.lm_unit, rows, config.lm_hidden_size, W_e.dtype)
        return FusedState(super().encode(parameters, sources, rows), [zero] * config.lm_layers)

    def step(self, parameters: Mapping[str, Array], state: Any,
             tokens: np.ndarray) -> tuple[Array, Any, Array | None]:
        """As the translator's; tokens (N,) host ids are read by both."""
        parts, after, alignment = self._advance(parameters, state.translator, tokens)
        x = gather_rows(parameters[f"{LANGUAGE}.W_e"], to_device(tokens))
        h, language = stack_step(x, state.language, parameters, LANGUAGE, self.config.lm_unit)
        gated, _ = gate_forward("output", parameters, h)
        return self._logits(parameters, (*parts, gated)), FusedState(after, language), alignment

    def select(self, state: Any, rows: np.ndarray, sentences: np.ndarray) -> Any:
        """Both keep the same rows and sentences."""
        return FusedState(super().select(state.translator, rows, sentences),
                          select_states(state.language, to_device(rows)))


def build(config: DeepFusionConfig, tables: Tables) -> DeepFusion:
    """The model of a configuration."""
    return DeepFusion(config, tables.sources[0], tables.target, tables.reverse_source)


def variants() -> dict[str, Variants]:
    """The language model's options with those of the translator that this code combines; fewer at
    real sizes."""
    made = {}
    for tier, one in translator_variants().items():
        few = tier == "real"
        made[tier] = Variants({
            **{name: one.choices[name] for name in ("hidden_size", "embedding_size", "layer_size")},
            "lm_unit": tuple(CELLS), "lm_layers": (2, 1), "lm_biases": (True, False)[: 2 - few],
            **{name: one.choices[name][: 2 - few] for name in (
                "context", "layer", "deep_state", "biases", "clip_elements")},
            "lm_hidden_size": (28 if few else 4,), "lm_embedding_size": (20 if few else 3,)})
    return made | {"every": made["tiny"]._replace(choices={
        name: values[:1] for name, values in made["tiny"].choices.items()})}


ARCHITECTURE = Architecture(DeepFusionConfig, build, variants)
