"""The recurrent language model: embeddings, a stack, a prediction layer (section 2.2).

It reads parallel streams of text, (T, B) ids at a time, and hands its last state on to the next
piece: truncated backpropagation through time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from backend import Array, array_module, matmul, to_device
from backend.rows import RowIndex, check_ids, gather_rows, row_index
from backend.workspace import Workspace
from lstm.embedding import embedding_backward, embedding_forward
from lstm.parameters import Parameters, Weight, dropout_mask, initialise
from lstm.prediction import PredictionCache, prediction_backward, prediction_forward
from lstm.stack import (
    UNITS,
    StackCache,
    State,
    check_stack_config,
    stack_backward,
    stack_forward,
    stack_weights,
    zero_state,
)


@dataclass(frozen=True)
class LanguageModelConfig:
    """The parts of a language model and their sizes; checked when made (ValueError)."""

    unit: str = "lstm"  # recurrent unit: lstm, rnn or gru
    layers: int = 2  # depth
    hidden_size: int = 256  # H, units per layer
    embedding_size: int = 256  # E
    biases: bool = True  # of the recurrent units
    output_bias: bool = True  # of the prediction layer
    dropout: float = 0.0  # probability on the vertical connections
    clip_dh: float | None = None  # element-wise clipping of dh during backpropagation (2.2.2)
    initialisation: str = "uniform"  # uniform, xavier or orthogonal
    scale: float = 0.1  # half-width of the uniform initialisation
    forget_bias: float = 0.0  # where the forget gates' biases start

    def __post_init__(self) -> None:
        check_stack_config(self)


class LanguageModelCache(NamedTuple):
    embedding: tuple[RowIndex, int]
    stack: StackCache
    out_mask: Array | None  # (T, B, H)
    prediction: PredictionCache
    last: list[State]  # per layer, where the next piece of the streams starts


class LanguageModel:
    """p(y) = prod p(y_i | y_<i), Eq. 2.1, by a recurrent stack.

    Parameters (a flat mapping, not held here): `W_e` (V, E), `rnn.{l}.T`, `rnn.{l}.b`,
    `output.W_hy` (V, H), `output.b` (V,).
    """

    def __init__(self, config: LanguageModelConfig, vocabulary_size: int) -> None:
        self.config, self.vocabulary_size = config, vocabulary_size
        self.workspace = Workspace()

    def weights(self) -> dict[str, Weight]:
        """Names and shapes of all parameters, in the order in which they are initialised."""
        config, V = self.config, self.vocabulary_size
        E, H = config.embedding_size, config.hidden_size
        weights = {
            "W_e": Weight((V, E), embedding=True),
            **stack_weights("rnn", config.unit, config.layers, E, H, biases=config.biases),
            "output.W_hy": Weight((V, H)),
        }
        if config.output_bias:
            weights["output.b"] = Weight((V,))
        return weights

    def initial_parameters(self, rng: np.random.Generator, dtype: str = "float32") -> Parameters:
        """Fresh parameters on the backend in use, drawn from `rng`."""
        config = self.config
        return initialise(self.weights(), rng, scheme=config.initialisation, scale=config.scale,
                          forget_bias=config.forget_bias, dtype=dtype)

    def zero_states(self, parameters: Mapping[str, Array], batch: int) -> list[State]:
        """The states, one per layer, with which a text begins: h_0 = 0 (section 2.2)."""
        W_e, config = parameters["W_e"], self.config
        xp = array_module(W_e)
        return [zero_state(xp, config.unit, batch, config.hidden_size, W_e.dtype)
                for _ in range(config.layers)]

    def loss(
        self, parameters: Mapping[str, Array], inputs: np.ndarray, targets: np.ndarray,
        states: Sequence[State], rng: np.random.Generator | None = None,
    ) -> tuple[Array, LanguageModelCache]:
        """Eq. 2.8 over (T, B) predictions, summed, in nats.

        Arguments: inputs, targets (T, B) host ids; states, one per layer, (B, H) each: those of
        `zero_states` or the `last` of the cache before; rng draws dropout masks, None switches
        dropout off. Returns the loss, a 0-d array, and what `backward` reads.
        """
        config, (T, B) = self.config, inputs.shape
        check_ids(targets, self.vocabulary_size, "targets")
        masks, out_mask = self._masks(parameters, T, B, rng)
        x, embedding_cache = embedding_forward(parameters["W_e"], row_index(inputs))
        h, last, stack_cache = stack_forward(
            x, parameters, "rnn", config.unit, [[state] for state in states], masks=masks,
            workspace=self.workspace,
        )
        if out_mask is not None:
            h = h * out_mask
        loss, prediction_cache = prediction_forward(
            h.reshape(T * B, -1), to_device(targets.reshape(-1)), parameters["output.W_hy"],
            parameters.get("output.b"), self.workspace,
        )
        return loss, LanguageModelCache(
            embedding_cache, stack_cache, out_mask, prediction_cache, [ends[0] for ends in last]
        )

    def backward(self, cache: LanguageModelCache) -> Parameters:
        """Algorithms 1 and 2 through all layers: the gradient of every parameter, by name."""
        dh, dW_hy, db = prediction_backward(cache.prediction, workspace=self.workspace)
        T, B = cache.embedding[0].ids.shape
        dh = dh.reshape(T, B, -1)
        if cache.out_mask is not None:
            dh = dh * cache.out_mask
        dx, _, gradients = stack_backward(dh, None, cache.stack, clip=self.config.clip_dh)
        gradients |= {"W_e": embedding_backward(dx, cache.embedding), "output.W_hy": dW_hy}
        if db is not None:
            gradients["output.b"] = db
        return gradients

    def step(
        self, parameters: Mapping[str, Array], states: Sequence[State], tokens: np.ndarray
    ) -> tuple[Array, list[State]]:
        """Feed one token per row: tokens (B,) host ids. Returns logits (B, V), the new states."""
        check_ids(tokens, self.vocabulary_size, "tokens")
        rows = gather_rows(parameters["W_e"], to_device(tokens))           # (B, E)
        after: list[State] = []
        for layer, state in enumerate(states):
            state = UNITS[self.config.unit].step(
                rows, state, parameters[f"rnn.{layer}.T"], parameters.get(f"rnn.{layer}.b")
            )
            after.append(state)
            rows = state[0]
        logits = matmul(rows, parameters["output.W_hy"].T)                 # (B, V)
        if self.config.output_bias:
            logits += parameters["output.b"]
        return logits, after

    def _masks(
        self, parameters: Mapping[str, Array], T: int, B: int, rng: np.random.Generator | None
    ) -> tuple[list[Array | None], Array | None]:
        """Dropout masks of each layer's input and of the top states, or none."""
        config = self.config
        if rng is None or config.dropout == 0.0:
            return [None] * config.layers, None
        dtype = parameters["W_e"].real.dtype
        widths = [config.embedding_size] + [config.hidden_size] * config.layers
        masks: list[Array | None] = [
            dropout_mask(rng, (T, B, width), config.dropout, dtype) for width in widths
        ]
        return masks[:-1], masks[-1]
