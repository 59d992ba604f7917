"""The translator: encoder, bridge, attention memory, decoder, output, joined by their gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from attention.attention import Memory, memory_forward, memory_select
from backend import Array, array_module, matmul, to_device
from backend.rows import check_ids, gather_rows
from backend.workspace import Workspace
from lstm.cells import State
from lstm.parameters import Weight, dropout_mask
from nmt.models.bridge import BridgeCache, bridge_backward, bridge_forward, bridge_weights
from nmt.models.config import ModelConfig
from nmt.models.contract import Architecture, Gradients, Model, Noise, Tables
from nmt.models.decoder import (
    decoder_backward,
    decoder_forward,
    decoder_step,
    decoder_weights,
)
from nmt.models.encoder import EncoderCache, encoder_backward, encoder_forward, encoder_weights
from nmt.models.input_feeding import input_feeding_backward, input_feeding_forward
from nmt.models.output import OutputCache, output_backward, output_forward, output_weights
from nmt.text.batches import Batch, Side


class TranslatorCache(NamedTuple):
    parameters: Mapping[str, Array]
    encoder: EncoderCache
    bridge: BridgeCache
    memory: Memory | None
    decoder: Any
    output: OutputCache


class SearchState(NamedTuple):
    """Where a batch of hypotheses stands: N rows, K for each of B sentences, kept together."""

    layers: list[State]  # per layer, rows (N, H)
    h_tilde: Array | None  # (N, H), what input feeding gives to the next step
    memory: Memory | None  # of the B sentences
    t: int = 1  # the time step to come, of all hypotheses: local-m looks there


class Translator(Model):
    """A neural machine translation model put together from the parts that `config` names.

    The model holds no parameters and no state: they are passed in and returned. It owns a
    workspace, so that its passes reuse each other's memory.
    """

    def __init__(
        self, config: ModelConfig, source_size: int, target_size: int,
        reverse_source: bool = False,
    ) -> None:
        """`source_size` and `target_size` are the sizes of the two vocabularies.

        reverse_source, whether the batches' sources are reversed: local attention has to know at
        which end a sentence begins (erratum 9).
        """
        self.config, self.source_size, self.target_size = config, source_size, target_size
        self.variant = config.variant(reverse_source)
        self.workspace = Workspace()

    def weights(self) -> dict[str, Weight]:
        """Names and shapes of all parameters, in the order in which they are initialised."""
        config = self.config
        return {
            **encoder_weights(config, self.source_size),
            **bridge_weights(config),
            **decoder_weights(config, self.target_size),
            **output_weights(config.hidden_size, self.target_size, config.output_bias,
                             config.scheme),
        }

    # --- training -------------------------------------------------------------------------------

    def noise(self, batch: Batch, rng: np.random.Generator, dtype: Any) -> Noise | None:
        """Dropout masks on every vertical connection (Zaremba et al., 2014).

        Sites: each layer's input, `encoder.{l}` and `decoder.{l}`, and what the attentional vector
        (without attention, the output layer) reads, `joined`.
        """
        config, B = self.config, len(batch.indices)
        if config.dropout == 0.0:
            return None
        E, H, He = config.embedding_size, config.hidden_size, config.source_width
        S, T = len(batch.sources[0].ids), len(batch.target_in)
        shapes = {f"encoder.{layer}": (S, B, He if layer else E) for layer in range(config.layers)}
        shapes |= {f"decoder.{layer}": (T, B, H if layer else E) for layer in range(config.layers)}
        shapes["joined"] = (T, B, H if config.attention == "none" else He + H)
        return {site: dropout_mask(rng, shape, config.dropout, dtype)
                for site, shape in shapes.items()}

    def loss(
        self, parameters: Mapping[str, Array], batch: Batch, noise: Noise | None = None
    ) -> tuple[Array, TranslatorCache]:
        """J of Eqs. 2.51 and 2.52 for one batch: Algorithm 3.

        Arguments: noise, from `noise`; None switches dropout off. Returns the loss, the sum over
        all target words (with the end marker) of -log p in nats, a 0-d array, and what `backward`
        reads.
        """
        config, noise = self.config, noise or {}
        states, padding, last, encoder_cache = encoder_forward(
            batch.sources[0], parameters, config, noise, self.workspace
        )
        initial, bridge_cache = bridge_forward(last, parameters, config)
        memory = None
        if config.attention != "none":
            memory = memory_forward(states, padding, self.variant, parameters, "attention")
        forward: Any = input_feeding_forward if config.input_feeding else decoder_forward
        h, decoder_cache = forward(
            batch.target_in, initial, memory, parameters, config, noise, self.workspace
        )
        loss, output_cache = output_forward(
            h, batch.target_out, batch.target.lengths, parameters, self.workspace
        )
        return loss, TranslatorCache(
            parameters, encoder_cache, bridge_cache, memory, decoder_cache, output_cache
        )

    def backward(self, cache: TranslatorCache) -> Gradients:
        """Gradient of the loss with respect to every parameter, by name: Algorithm 4."""
        config, parameters, memory = self.config, cache.parameters, cache.memory
        dh, gradients = output_backward(cache.output, self.workspace)
        if config.input_feeding:
            d_initial, dstates, more = input_feeding_backward(
                dh, cache.decoder, parameters, config, self.workspace
            )
        else:
            d_initial, dstates, more = decoder_backward(
                dh, memory, cache.decoder, parameters, config
            )
        gradients |= more
        d_last, more = bridge_backward(d_initial, cache.bridge, parameters, config)
        gradients |= more
        return gradients | encoder_backward(dstates, d_last, cache.encoder, config.clip_dh)

    # --- search ---------------------------------------------------------------------------------

    def encode(
        self, parameters: Mapping[str, Array], sources: tuple[Side, ...], rows: int
    ) -> SearchState:
        """Algorithm 5, line 1, for a batch of `rows` sentences."""
        config = self.config
        states, padding, last, _ = encoder_forward(
            sources[0], parameters, config, {}, self.workspace
        )
        layers, _ = bridge_forward(last, parameters, config)
        memory = h_tilde = None
        if config.attention != "none":
            memory = memory_forward(states, padding, self.variant, parameters, "attention")
        if config.input_feeding:
            h_tilde = array_module(states).zeros_like(layers[0][0])
        return SearchState(layers, h_tilde, memory)

    def step(
        self, parameters: Mapping[str, Array], state: SearchState, tokens: np.ndarray
    ) -> tuple[Array, SearchState, Array | None]:
        """Algorithm 5, lines 5-6: feed one word to each hypothesis.

        Arguments: tokens (N,) host ids. Returns logits (N, V), unnormalised log-probabilities of
        the next word; the new state; the alignment (N, S) or None.
        """
        W_e = parameters["decoder.W_e"]
        check_ids(tokens, W_e.shape[0], "tokens")
        x = gather_rows(W_e, to_device(tokens))                            # (N, E)
        layers, h, alignment = decoder_step(
            x, state.layers, state.h_tilde, state.memory, parameters, self.config, state.t
        )
        logits = matmul(h, parameters["output.W_hy"].T)                    # (N, V)  (2.4)
        if self.config.output_bias:
            logits += parameters["output.b"]
        fed = h if self.config.input_feeding else None
        return logits, SearchState(layers, fed, state.memory, state.t + 1), alignment

    def select(
        self, state: SearchState, rows: np.ndarray, sentences: np.ndarray
    ) -> SearchState:
        """Reorder, widen or drop hypotheses; drop finished sentences.

        Arguments: rows (N',) host, which hypotheses to keep, those of a sentence together;
        sentences (B',) host, ascending, which sentences they belong to.
        """
        on_device = to_device(rows)
        layers: list[State] = [tuple(a[on_device] for a in state_l) for state_l in state.layers]
        h_tilde = None if state.h_tilde is None else state.h_tilde[on_device]
        memory = state.memory
        if memory is not None and len(sentences) != memory.hbar.shape[0]:
            memory = memory_select(memory, to_device(sentences))
        return SearchState(layers, h_tilde, memory, state.t)


def build(config: ModelConfig, tables: Tables) -> Translator:
    """The translator of a configuration."""
    return Translator(config, tables.sources[0], tables.target, tables.reverse_source)


def variants() -> dict[str, dict[str, Any]]:
    """The configurations that the catalogue checks."""
    return {}


ARCHITECTURE = Architecture(ModelConfig, build, variants)
