"""RNNsearch and RNNencdec: encoder, alignment, decoder and deep output of Bahdanau et al. (2015).

Source: their Appendix A.2, with the same letters; shapes and names are in `RNNSearch.weights`. The
parts are the encoder, `attention.attention` (score `additive` with the query s_{i-1}), the decoder
`nmt.models.contextual` and the head `nmt.models.heads.deep_output`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from attention.attention import memory_forward
from attention.memory import Memory
from attention.scores import score_weights
from backend import Array, array_module, to_device
from backend.rows import check_ids, gather_rows
from backend.workspace import Workspace
from lstm.cells import State
from lstm.embedding import embedding_weight
from lstm.parameters import Parameters, Weight, axis
from lstm.prediction import OutputCache
from lstm.sampled import SampledCache
from lstm.stack import stack_weights
from nmt.data.batches import Batch, Side
from nmt.models.contextual import (
    FixedCache,
    SearchingCache,
    contextual_step,
    fixed_backward,
    fixed_forward,
    query,
    searching_backward,
    searching_forward,
)
from nmt.models.contract import Architecture, Gradients, Losses, Model, Noise, Tables
from nmt.models.encoder import EncoderCache, encoder_backward, encoder_forward, encoder_weights
from nmt.models.heads.deep_output import DeepOutput
from nmt.models.heads.head import Decoded, Head, HeadCache, HeadState
from nmt.models.heads.hidden_layer import LAYERS
from nmt.models.heads.state_output import StateOutput
from nmt.models.rnnsearch_config import (
    ADDITIVE,
    CONTEXTS,
    DEEP_STATES,
    NO_LAYER,
    QUERIES,
    UNITS,
    RNNSearchConfig,
)
from nmt.models.variants import NEVER, Variants


class RNNSearchCache(NamedTuple):
    parameters: Mapping[str, Array]
    encoder: EncoderCache
    last: Array  # (B, H), the state from which s_0 is computed
    s_0: Array  # (B, H)
    decoder: SearchingCache | FixedCache
    head: HeadCache
    losses: Losses
    state: None = None

    @property
    def output(self) -> OutputCache | SampledCache:
        """The cache of the prediction layer."""
        return self.head.output


class SearchState(NamedTuple):
    """The search state of a batch of hypotheses: N rows, K consecutive rows for each of B
    sentences."""

    s: Array  # (N, H)
    memory: Memory | None  # of the B sentences
    c: Array | None  # (N, H), the fixed context
    head: HeadState  # the output head's state


class RNNSearch(Model):
    """p(y | x) of A.2. Its use is that of `nmt.models.translator.Translator`."""

    def __init__(
        self, config: RNNSearchConfig, source_size: int, target_size: int,
        reverse_source: bool = False, head: type[DeepOutput] = DeepOutput,
    ) -> None:
        """`source_size` and `target_size` are the sizes of the two vocabularies.

        reverse_source, whether the batches' sources are reversed: alignments are in written order.
        head, the class of the output head.
        """
        self.config, self.source_size, self.target_size = config, source_size, target_size
        self._variant = ADDITIVE._replace(reverse=reverse_source)
        self._decoder = config.encoder._replace(bidirectional=False)
        self.workspace = Workspace()
        self.head: Head = head(config, target_size, self.workspace)

    def weights(self) -> dict[str, Weight]:
        """Names and shapes of all parameters, in the order in which they are initialised.

        `encoder.*` and `decoder.W_e` (V, E) as in other models; `bridge.W_s` (H, H), `bridge.b`;
        `decoder.0.W` (G, E + He + H), columns word, context, state; `attention.W_a` (H, H), or (H,
        H + E) if the score also reads the word, `U_a` (H, He), `v_a` (H,); the head's weights.
        """
        config, V = self.config, self.target_size
        E, H, He = config.embedding_size, config.hidden_size, config.encoder.width
        scheme, unit = config.scheme, axis("unit", config.hidden_size)
        asked = axis("input", {"s": H, "y": E}) if config.asks_with_word else None
        score = {} if not config.searches else score_weights(  # std: (Bahdanau B.1 initialisation)
            ADDITIVE, "attention", H, He, scheme, bidirectional=True, std=0.001, query=asked)
        return {
            **encoder_weights("encoder", config.encoder, self.source_size, E, scheme),
            "bridge.W_s": Weight((unit, axis("input", H)), scheme.matrix()),
            **({"bridge.b": Weight((unit,), scheme.bias())} if config.biases else {}),
            "decoder.W_e": embedding_weight(V, E, scheme),
            **stack_weights("decoder", self._decoder, {"x": E, "c": He}, scheme),
            **score,
            **self.head.weights(),
        }

    # --- training -------------------------------------------------------------------------------

    def noise(self, batch: Batch, rng: np.random.Generator, dtype: DTypeLike) -> Noise | None:
        """The random numbers of the head. The model has no dropout."""
        return self.head.noise(batch, rng, dtype) or None

    def loss(
        self, parameters: Mapping[str, Array], batch: Batch, noise: Noise | None = None
    ) -> tuple[Array, RNNSearchCache]:
        """-log p(y | x), summed over a batch, in nats, 0-d; and the cache of `backward`."""
        config = self.config
        last, memory, encoder = self._read(parameters, batch.sources[0])
        s_0 = _first_state_forward(last, parameters)
        decoder: SearchingCache | FixedCache
        if memory is not None:
            decoded, decoder = searching_forward(
                "decoder", parameters, batch.target_in, s_0, memory, self._decoder,
                config.asks_with_word, self.workspace)
        else:
            decoded, decoder = fixed_forward(
                "decoder", parameters, batch.target_in, s_0, last, self._decoder, self.workspace)
        loss, head = self.head.forward(parameters, decoded, batch, noise or {})
        return loss, RNNSearchCache(parameters, encoder, last, s_0, decoder, head, head.losses)

    def backward(self, cache: RNNSearchCache) -> Gradients:
        """Gradient of the loss with respect to every parameter, by name."""
        parameters, decoder = cache.parameters, cache.decoder
        d, gradients = self.head.backward(cache.head)
        dstates = d_last = None
        if isinstance(decoder, SearchingCache):
            ds_0, dstates, of_decoder = searching_backward(d, decoder, parameters, "decoder")
        else:
            ds_0, d_last, of_decoder = fixed_backward(d, decoder, parameters, "decoder")
        d_start, of_bridge = _first_state_backward(ds_0, cache.s_0, cache.last, parameters)
        end: State = (d_start if d_last is None else d_start + d_last,)
        ends: list[State] = [end] if dstates is None else [(None,), end]
        return gradients | of_decoder | of_bridge | encoder_backward(dstates, [ends], cache.encoder)

    def _read(
        self, parameters: Mapping[str, Array], source: Side
    ) -> tuple[Array, Memory | None, EncoderCache]:
        """<-h_1, or ->h_Tx if the encoder reads only forward (Nair 6.2 step 2); the annotations;
        the cache."""
        states, last, cache = encoder_forward(
            "encoder", parameters, source, self.config.encoder, {}, self.workspace
        )
        memory = None
        if self.config.searches:                           # U_a h_j, once a sentence
            memory = memory_forward(states, source.lengths, self._variant, parameters, "attention")
        return last[0][-1][0], memory, cache

    # --- search ---------------------------------------------------------------------------------

    def encode(
        self, parameters: Mapping[str, Array], sources: tuple[Side, ...], rows: int
    ) -> SearchState:
        """Read a batch of `rows` sentences."""
        last, memory, _ = self._read(parameters, sources[0])
        c = None if memory is not None else last * 1.0
        head = self.head.start(parameters, sources, Decoded())
        return SearchState(_first_state_forward(last, parameters), memory, c, head)

    def step(
        self, parameters: Mapping[str, Array], state: SearchState, tokens: np.ndarray
    ) -> tuple[Array, SearchState, Array | None]:
        """Feed one word to each hypothesis.

        Arguments: tokens (N,) host ids. Returns logits (N, V), unnormalised log-probabilities of
        the next word; the new state; the alignment (N, S) or None.
        """
        config, (s, memory, fixed, head) = self.config, state
        W_e, N = parameters["decoder.W_e"], len(s)
        check_ids(tokens, W_e.shape[0], "tokens")
        y, c, alignment = gather_rows(W_e, to_device(tokens)), fixed, None  # (N, E)
        if memory is not None:
            B, asked = memory.sentences, query(s, y if config.asks_with_word else None)
            c, cache = memory.attend(asked.reshape(B, N // B, -1), together=True)
            c, alignment = c.reshape(N, -1), memory.alignment(cache).reshape(N, -1)
        s_now = contextual_step("decoder", parameters, y, s, c, config.unit)
        states = array_module(s).stack([s, s_now])
        logits, head = self.head.step(
            parameters, head, Decoded(states=states, words=y, contexts=c), tokens)
        return logits, SearchState(s_now, memory, fixed, head), alignment

    def select(self, state: SearchState, rows: np.ndarray, sentences: np.ndarray) -> SearchState:
        """Reorder, repeat or drop hypotheses, and drop finished sentences, as in the translator."""
        on_device, kept, memory = to_device(rows), to_device(sentences), state.memory
        if memory is not None and len(sentences) != memory.sentences:
            memory = memory.select(kept)
        c = None if state.c is None else state.c[on_device]
        return SearchState(state.s[on_device], memory, c,
                           self.head.select(state.head, on_device, kept))


def _first_state_forward(last: Array, parameters: Mapping[str, Array]) -> Array:
    """s_0 = tanh(W_s <-h_1): (B, H) (erratum 19)."""
    a = last @ parameters["bridge.W_s"].T
    if "bridge.b" in parameters:
        a += parameters["bridge.b"]
    return array_module(a).tanh(a, out=a)        # (Bahdanau A.2.2 initial; Nair 6.2 step 3)


def _first_state_backward(
    ds_0: Array, s_0: Array, last: Array, parameters: Mapping[str, Array]
) -> tuple[Array, Parameters]:
    """Gradients of the encoder's state (B, H) and of W_s and b."""
    da = ds_0 - ds_0 * s_0 * s_0
    gradients = {"bridge.W_s": da.T @ last}                # (2.14)
    if "bridge.b" in parameters:
        gradients["bridge.b"] = da.sum(axis=0)
    return da @ parameters["bridge.W_s"], gradients        # (2.13)


def build(config: RNNSearchConfig, tables: Tables) -> RNNSearch:
    """The model of a configuration."""
    head = StateOutput if config.layer == NO_LAYER else DeepOutput
    return RNNSearch(config, tables.sources[0], tables.target, tables.reverse_source, head)


def variants() -> dict[str, Variants]:
    """The choices that the catalogue of gradient checks combines."""
    tiny = {
        "context": CONTEXTS, "query": QUERIES, "unit": sorted(UNITS), "layer": (*LAYERS, NO_LAYER),
        "deep_state": DEEP_STATES, "biases": (True, False), "output_bias": (True, False),
        "clip_elements": (None, NEVER), "hidden_size": (2,), "embedding_size": (3,),
        "layer_size": (5,),
    }
    return {"tiny": Variants(tiny), "real": Variants(tiny | {
        "hidden_size": (24,), "embedding_size": (20,), "layer_size": (28,)})}


ARCHITECTURE = Architecture(RNNSearchConfig, build, variants)
