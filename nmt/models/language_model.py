"""The recurrent language model: embeddings, a stack, a prediction layer (section 2.2).

It reads parallel streams of text, a piece of (T, B) ids at a time, and starts each piece from the
last state of the previous piece: truncated backpropagation through time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from backend import Array, array_module, to_device
from backend.rows import check_ids, gather_rows
from backend.workspace import Workspace
from lstm.cells import State
from lstm.embedding import (
    EmbeddingCache,
    embedding_backward,
    embedding_forward,
    embedding_weight,
)
from lstm.parameters import Scheme, Weight
from lstm.prediction import (
    OutputCache,
    output_backward,
    output_forward,
    output_step,
    output_weights,
)
from lstm.stack import (
    Stack,
    StackCache,
    check_stack_config,
    dropout_mask,
    select_states,
    stack_backward,
    stack_forward,
    stack_step,
    stack_weights,
    zero_state,
)
from nmt.data.batches import Batch, Side
from nmt.models.contract import Architecture, Gradients, Losses, Model, Noise
from nmt.models.variants import NEVER, PLAIN, Variants


@dataclass(frozen=True)
class LanguageModelConfig:
    """The parts of a language model and their sizes; checked when made (ValueError)."""

    unit: str = "lstm"  # recurrent unit: one of CELLS
    layers: int = 2  # depth
    residual: bool = False  # layers from the second on add their input (Wu et al., 2016)
    hidden_size: int = 256  # H, units per layer
    embedding_size: int = 256  # E, width of an embedding
    biases: bool = True  # biases in the recurrent units
    output_bias: bool = True  # a bias in the prediction layer
    dropout: float = 0.0  # dropout probability on the vertical connections
    clip_elements: float | None = None  # tau of element-wise clipping of dh and dc (2.2.2)
    initialisation: str = "uniform"  # uniform, xavier, orthogonal, normal or small
    scale: float = 0.1  # half-width of the uniform initialisation
    forget_bias: float = 0.0  # initial bias of the forget gates
    uniform_biases: bool = False  # initialise biases like matrices, not to 0 (Zaremba et al., 2014)

    def __post_init__(self) -> None:
        check_stack_config(self)

    @property
    def scheme(self) -> Scheme:
        """The initialisation of the weights."""
        return Scheme(self.initialisation, self.scale, self.forget_bias, self.uniform_biases)


class LanguageModelCache(NamedTuple):
    embedding: EmbeddingCache
    stack: StackCache
    out_mask: Array | None  # (T, B, H)
    output: OutputCache
    losses: Losses
    state: list[State]  # per layer (B, H): the initial state of the next piece


class LanguageModel(Model):
    """p(y) = prod p(y_i | y_<i), Eq. 2.1, by a recurrent stack.

    Parameters (a flat mapping, not held here): `W_e` (V, E), `rnn.{l}.W`, `rnn.{l}.b`,
    `output.W_hy` (V, H), `output.b` (V,).
    """

    def __init__(self, config: LanguageModelConfig, vocabulary_size: int) -> None:
        self.config, self.vocabulary_size = config, vocabulary_size
        self.stack = Stack(config.unit, config.layers, config.hidden_size, False, config.biases,
                           config.residual, config.clip_elements)
        self.workspace = Workspace()

    def weights(self) -> dict[str, Weight]:
        """All parameters by name, in the order in which they are initialised."""
        config, V = self.config, self.vocabulary_size
        E, H, scheme = config.embedding_size, config.hidden_size, config.scheme
        return {
            "W_e": embedding_weight(V, E, scheme),
            **stack_weights("rnn", self.stack, {"x": E}, scheme),
            **output_weights("output", H, V, config.output_bias, scheme),
        }

    # --- training -------------------------------------------------------------------------------

    def noise(self, batch: Batch, rng: np.random.Generator, dtype: DTypeLike) -> Noise | None:
        """Dropout masks of each layer's input, `rnn.{l}`, and of the top states, `output`."""
        config, (T, B) = self.config, batch.target_in.shape
        if config.dropout == 0.0:
            return None
        widths = {f"rnn.{layer}": config.hidden_size for layer in range(config.layers)}
        widths |= {"rnn.0": config.embedding_size, "output": config.hidden_size}
        return {site: dropout_mask(rng, (T, B, width), config.dropout, dtype)
                for site, width in widths.items()}

    def loss(
        self, parameters: Mapping[str, Array], batch: Batch, noise: Noise | None = None
    ) -> tuple[Array, LanguageModelCache]:
        """Eq. 2.8 over a piece of B streams, summed, in nats.

        Arguments: batch, without sources, whose `state` is the `state` of the previous cache, or
        None at the beginning of a text; noise, from `noise`, or None. Returns the loss, a 0-d
        array, and the cache of `backward`.
        """
        noise = noise or {}
        states = batch.state or self.encode(parameters, (), batch.target.ids.shape[1])
        x, embedding_cache = embedding_forward(parameters["W_e"], batch.target_in)
        h, last, stack_cache = stack_forward(
            x, parameters, "rnn", self.stack, [[state] for state in states],
            masks=[noise.get(f"rnn.{layer}") for layer in range(self.stack.layers)],
            workspace=self.workspace,
        )
        out_mask = noise.get("output")
        if out_mask is not None:
            h = h * out_mask
        loss, output_cache = output_forward(
            "output", parameters, h, batch.target_out, batch.target.lengths, self.workspace
        )
        # The states are views of whole sequences' buffers, which copies do not keep alive.
        state = [tuple(array.copy() for array in ends[0]) for ends in last]
        return loss, LanguageModelCache(embedding_cache, stack_cache, out_mask, output_cache,
                                        Losses(loss), state)

    def backward(self, cache: LanguageModelCache) -> Gradients:
        """Algorithms 1 and 2 through all layers: the gradient of every parameter, by name."""
        dh, gradients = output_backward(cache.output, self.workspace)
        if cache.out_mask is not None:
            dh = dh * cache.out_mask
        dx, _, of_stack = stack_backward(dh, None, cache.stack)
        return {"W_e": embedding_backward(dx, cache.embedding), **of_stack, **gradients}

    # --- search ---------------------------------------------------------------------------------

    def encode(
        self, parameters: Mapping[str, Array], sources: tuple[Side, ...], rows: int
    ) -> list[State]:
        """The initial states of `rows` texts, one per layer: h_0 = 0 (section 2.2)."""
        W_e, config = parameters["W_e"], self.config
        xp = array_module(W_e)
        return [zero_state(xp, config.unit, rows, config.hidden_size, W_e.dtype)
                for _ in range(config.layers)]

    def step(
        self, parameters: Mapping[str, Array], state: list[State], tokens: np.ndarray
    ) -> tuple[Array, list[State], None]:
        """Feed one token per row: tokens (N,) host ids. Returns logits (N, V), the new states."""
        check_ids(tokens, self.vocabulary_size, "tokens")
        rows = gather_rows(parameters["W_e"], to_device(tokens))           # (N, E)
        h, after = stack_step(rows, state, parameters, "rnn", self.stack)
        return output_step("output", parameters, h), after, None           # (N, V)

    def select(self, state: list[State], rows: np.ndarray, sentences: np.ndarray) -> list[State]:
        """Reorder, repeat or drop hypotheses."""
        return select_states(state, to_device(rows))


def variants() -> dict[str, Variants]:
    """The choices that the catalogue of gradient checks combines."""
    tiny = {
        "unit": PLAIN, "layers": (2, 1), "biases": (True, False),
        "output_bias": (True, False), "dropout": (0.0, 0.3), "clip_elements": (None, NEVER),
        "hidden_size": (2,), "embedding_size": (3,),
    }
    return {"tiny": Variants(tiny), "real": Variants(tiny | {
        "layers": (2, 1, 4), "dropout": (0.3,), "hidden_size": (24,), "embedding_size": (20,)})}


ARCHITECTURE = Architecture(
    LanguageModelConfig, lambda config, tables: LanguageModel(config, tables.target), variants, 0
)
