"""Luong's translator (2016, chapters 2 and 4): encoder, bridge, attention, decoder, output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from attention.attention import attentional_forward, memory_forward
from attention.memory import Memory, SourceMemory, by_steps, by_words
from attention.scores import WINDOWS
from backend import Array, array_module, to_device
from backend.rows import check_ids, gather_rows
from backend.workspace import Workspace
from lstm.cells import State
from lstm.parameters import Weight
from lstm.prediction import OutputCache
from lstm.sampled import SampledCache
from lstm.stack import Stack, dropout_mask, select_states, stack_step
from nmt.data.batches import Batch, Side
from nmt.data.lexicon import Lexicon
from nmt.models.bridge import BridgeCache, bridge_backward, bridge_forward, bridge_weights
from nmt.models.contract import Architecture, Gradients, Losses, Model, Noise, Tables
from nmt.models.decoder import (
    DecoderCache,
    attention_weights,
    decoder_backward,
    decoder_forward,
    decoder_weights,
)
from nmt.models.encoder import EncoderCache, encoder_backward, encoder_forward, encoder_weights
from nmt.models.heads.head import Decoded, Head, HeadCache, HeadState
from nmt.models.heads.softmax import Softmax
from nmt.models.heads.softmax_terms import SoftmaxWithTerms, has_terms
from nmt.models.input_feeding import (
    InputFeedingCache,
    input_feeding_backward,
    input_feeding_forward,
)
from nmt.models.state_feeding import (
    StateFeedingCache,
    state_feeding_backward,
    state_feeding_forward,
)
from nmt.models.translator_config import CHOICES, SITES, ModelConfig
from nmt.models.variants import NEVER, PLAIN, Variants


@dataclass(frozen=True)
class Read:
    """The result of reading the source, for the decoder and for `_read_backward`."""

    memory: Memory | None  # to which the decoder attends
    initial: list[State]  # the initial states of the decoder, one per layer
    encoders: tuple[EncoderCache, ...] = ()  # one for each source
    bridge: BridgeCache | None = None
    source: Array | None = None  # (B, S, E), embeddings in written order, if a head reads them


DecodingCache = DecoderCache | InputFeedingCache | StateFeedingCache


@dataclass
class Decoder:
    """A decoder's two passes."""

    forward: Callable[..., tuple[Decoded, DecodingCache]]
    backward: Callable[[Decoded, Any], tuple[list[State], Array | None, Gradients]]


FEEDING = Decoder(input_feeding_forward, input_feeding_backward)
STATE_FEEDING = Decoder(state_feeding_forward, state_feeding_backward)
WITHOUT_FEEDING = Decoder(decoder_forward, decoder_backward)
DECODERS = {  # by whether there are input feeding and attention
    (True, True): FEEDING, (True, False): STATE_FEEDING,
    (False, True): WITHOUT_FEEDING, (False, False): WITHOUT_FEEDING,
}


class TranslatorCache(NamedTuple):
    read: Read
    decoder: DecodingCache
    head: HeadCache
    losses: Losses
    state: None = None  # as in `Cache`: a translator's batch does not continue the previous batch

    @property
    def output(self) -> OutputCache | SampledCache:
        """The cache of the prediction layer."""
        return self.head.output


class SearchState(NamedTuple):
    """The state of a search: N rows. The hypotheses of each of B sentences are K consecutive
    rows."""

    layers: list[State]  # per layer, rows (N, H)
    h_tilde: Array | None  # (N, H), which input feeding gives to the next step
    memory: Memory | None  # of the B sentences
    head: HeadState
    t: int = 1  # the number of the next time step, at which local-m is centred


class Translator(Model):
    """A neural machine translation model, made of the parts that `config` names.

    The model holds no parameters and no state: they are passed in and returned. It owns a
    workspace, so that its passes reuse each other's memory.
    """

    def __init__(
        self, config: ModelConfig, source_size: int, target_size: int,
        reverse_source: bool = False, factor_sizes: Sequence[int] = (),
        lexicon: Lexicon | None = None,
    ) -> None:
        """`source_size` and `target_size` are the sizes of the two vocabularies.

        reverse_source: whether the batches' sources are reversed, on which attention by position
        depends (erratum 9). factor_sizes: the number of values of each of `config.factors`.
        lexicon: with `config.lexicon_epsilon`.
        """
        self.lexicon = lexicon
        self.factors = {name: (size, width) for (name, width), size in zip(
            config.factors.items(), factor_sizes, strict=True)}
        self.config, self.source_size, self.target_size = config, source_size, target_size
        self.variant = config.variant(reverse_source)
        self.source = Stack(config.unit, config.layers, config.hidden_size, config.bidirectional,
                            config.biases, config.residual, config.clip_elements)
        self.target = self.source._replace(bidirectional=False)
        self.characters: tuple[str, Stack] | None = None  # the network for words without a row
        self.workspace = Workspace()
        self._decoder = DECODERS[config.input_feeding, config.attention != "none"]
        self.head: Head = Softmax(config, target_size, self.workspace)
        if has_terms(config):
            self.head = SoftmaxWithTerms(config, target_size, self.workspace, lexicon,
                                         reverse_source)

    def weights(self) -> dict[str, Weight]:
        """Names and shapes of all parameters, in the order in which they are initialised."""
        config, scheme = self.config, self.config.scheme
        E, H, source = config.embedding_size, config.hidden_size, self.source
        inputs = {"x": E, "h~": H} if config.input_feeding else {"x": E}
        return {
            **encoder_weights("encoder", source, self.source_size, E, scheme, self.factors),
            **(bridge_weights("bridge", source, scheme) if config.bridge else {}),
            **decoder_weights("decoder", self.target, self.target_size, inputs, scheme),
            **({} if config.attention == "none"
               else attention_weights("attention", self.variant, H, source, scheme)),
            **self.head.weights(),
        }

    # --- training -------------------------------------------------------------------------------

    def noise(self, batch: Batch, rng: np.random.Generator, dtype: DTypeLike) -> Noise | None:
        """Dropout masks, by site (Zaremba et al., 2014).

        Sites: the input of each layer, `encoder.{l}` and `decoder.{l}`. With `dropout_sites`
        "vertical", also `decoder.joined`, the input of the attentional vector (without attention,
        of the output layer). With the sites of the author's code, instead `decoder.fed`, the fed
        vector, and nothing above the top layer (erratum 29). The output head adds its own sites.
        """
        drawn = self.head.noise(batch, rng, dtype)
        if self.config.dropout == 0.0:
            return drawn or None
        shapes = self._mask_shapes(batch) | {site: (*batch.target_in.shape, width)
                                             for site, width in self.head.mask_widths.items()}
        return {**drawn, **{site: dropout_mask(rng, shape, self.config.dropout, dtype)
                            for site, shape in shapes.items()}}

    def _mask_shapes(self, batch: Batch) -> dict[str, tuple[int, ...]]:
        """The shapes of the dropout masks, by site."""
        config, B = self.config, len(batch.indices)
        E, H, He = config.embedding_size, config.hidden_size, self.source.width
        S, T = len(batch.sources[0].ids), len(batch.target_in)
        shapes: dict[str, tuple[int, ...]]
        shapes = {f"encoder.{layer}": (S, B, He if layer else E) for layer in range(config.layers)}
        shapes |= {f"decoder.{layer}": (T, B, H if layer else E) for layer in range(config.layers)}
        if config.dropout_sites == "vertical":
            shapes["decoder.joined"] = (T, B, H if config.attention == "none" else He + H)
        elif config.input_feeding:
            shapes["decoder.fed"] = (T, B, H)
        return shapes

    def loss(
        self, parameters: Mapping[str, Array], batch: Batch, noise: Noise | None = None
    ) -> tuple[Array, TranslatorCache]:
        """J of Eqs. 2.51 and 2.52, for a batch, by Algorithm 3, lines 1-5 and 7-10.

        Arguments: noise, from `self.noise`; None switches dropout off. Returns the loss, a 0-d
        array, the sum over all target words (with the end marker) of -log p in nats; and the cache
        of `backward`.
        """
        noise = noise or {}
        read = self._read(parameters, batch.sources, noise)
        decoded, decoder = self._decoder.forward(
            "decoder", parameters, batch.target_in, read.initial, read.memory, self.target, noise,
            self.workspace, self.head.reads)
        decoded = decoded._replace(source=read.source)
        loss, head = self.head.forward(parameters, decoded, batch, noise)
        return loss, TranslatorCache(read, decoder, head, head.losses)

    def backward(self, cache: TranslatorCache) -> Gradients:
        """Gradient of the loss with respect to every parameter, by name: Algorithm 4 lines 1-3 and
        5 for the decoder, Algorithm 4 lines 4, 6 and 20 for the encoder."""
        d_decoded, of_head = self.head.backward(cache.head)
        d_initial, dstates, of_decoder = self._decoder.backward(d_decoded, cache.decoder)
        return of_head | of_decoder | self._read_backward(
            dstates, d_initial, cache.read, d_decoded.source)

    def _read(
        self, parameters: Mapping[str, Array], sources: tuple[Side, ...], noise: Noise
    ) -> Read:
        """Run the encoder and the bridge, and make the memory to which the decoder attends."""
        states, last, encoder = encoder_forward(
            "encoder", parameters, sources[0], self.source, noise, self.workspace,
            self.characters, tuple(self.factors))
        memory = None if self.config.attention == "none" else memory_forward(
            states, sources[0].lengths, self.variant, parameters, "attention")
        x = by_words(encoder.x, memory.order) if memory and "source" in self.head.reads else None
        initial, bridge = [state[0] for state in last], None               # of the forward cells
        if self.config.bridge:
            initial, bridge = bridge_forward("bridge", parameters, last)
        return Read(memory, initial, (encoder,), bridge, x)

    def _read_backward(
        self, dstates: Array | None, d_initial: list[State], read: Read, d_source: Array | None
    ) -> Gradients:
        """The gradients of the encoder's and the bridge's parameters.

        Arguments: gradients of the encoder's states, of the decoder's initial states, and of the
        source's embeddings (B, S, E) in written order, or None if no head reads them.
        """
        d_last, gradients = [[state] for state in d_initial], Gradients()
        if read.bridge is not None:
            d_last, gradients = bridge_backward(d_initial, read.bridge)
        if d_source is not None:
            assert isinstance(read.memory, SourceMemory)
            d_source = by_steps(d_source, read.memory.order)               # (S, B, E)
        return gradients | encoder_backward(dstates, d_last, read.encoders[0], d_source)

    # --- search ---------------------------------------------------------------------------------

    def encode(
        self, parameters: Mapping[str, Array], sources: tuple[Side, ...], rows: int
    ) -> SearchState:
        """Algorithm 5, line 1, for a batch of sentences. `rows`, their number, is not needed."""
        read, h_tilde = self._read(parameters, sources, {}), None
        if self.config.input_feeding:
            h_tilde = array_module(read.initial[0][0]).zeros_like(read.initial[0][0])
        head = self.head.start(parameters, sources, Decoded(source=read.source))
        return SearchState(read.initial, h_tilde, read.memory, head)

    def step(
        self, parameters: Mapping[str, Array], state: SearchState, tokens: np.ndarray
    ) -> tuple[Array, SearchState, Array | None]:
        """Algorithm 5, lines 5-6: feed one word to each hypothesis.

        Arguments: tokens (N,) host ids; N = B K with the K hypotheses of a sentence together.
        Returns logits (N, V), unnormalised log-probabilities of the next word; the new state; the
        alignment (N, S) or None.
        """
        W_e, memory, align = parameters["decoder.W_e"], state.memory, None
        check_ids(tokens, W_e.shape[0], "tokens")
        xp, x = array_module(W_e), gather_rows(W_e, to_device(tokens))     # (N, E)
        if state.h_tilde is not None:
            x = xp.concatenate([x, state.h_tilde], axis=1)                 # (4.2.3 feeding)
        h, layers = stack_step(x, state.layers, parameters, "decoder", self.target)
        if memory is not None:
            B, (N, H) = memory.sentences, h.shape
            c, attended = memory.attend(h.reshape(B, N // B, H), state.t, together=True)
            joined = xp.concatenate([c.reshape(N, -1), h], axis=1)
            align = memory.alignment(attended).reshape(N, -1)
            h = attentional_forward(joined, parameters[f"{memory.prefix}.W_c"])
        logits, head = self.head.step(parameters, state.head, Decoded(h, alignment=align), tokens)
        fed = h if self.config.input_feeding else None
        return logits, SearchState(layers, fed, memory, head, state.t + 1), align

    def select(self, state: SearchState, rows: np.ndarray, sentences: np.ndarray) -> SearchState:
        """Reorder, repeat or drop hypotheses, and drop finished sentences.

        Arguments: rows (N',) host, the hypotheses to keep, those of a sentence together; sentences
        (B',) host, ascending, the sentences to which they belong.
        """
        rows_on_device, sentences_on_device = to_device(rows), to_device(sentences)
        layers = select_states(state.layers, rows_on_device)
        h_tilde = None if state.h_tilde is None else state.h_tilde[rows_on_device]
        head = self.head.select(state.head, rows_on_device, sentences_on_device)
        memory = state.memory
        if memory is not None and len(sentences) != memory.sentences:
            memory = memory.select(sentences_on_device)
        return SearchState(layers, h_tilde, memory, head, state.t)


def build(config: ModelConfig, tables: Tables) -> Translator:
    """The translator of a configuration."""
    return Translator(config, tables.sources[0], tables.target, tables.reverse_source,
                      tables.factors, tables.lexicon)


def variants() -> dict[str, Variants]:
    """The choices that the catalogue of gradient checks combines, where `ModelConfig` allows."""
    together = ("attention", "score", "input_feeding")  # each has its own implementation
    tiny = {
        "attention": (*WINDOWS, "none"), "score": sorted(CHOICES, key="general".__ne__),
        "unit": PLAIN, "layers": (2, 1), "input_feeding": (True, False),
        "bidirectional": (False, True), "bridge": (False, True), "concat_identity": (False, True),
        "renormalise": (False, True), "biases": (True, False), "output_bias": (False, True),
        "dropout": (0.0, 0.3), "dropout_sites": SITES, "clip_elements": (None, NEVER),
        "window": (1,), "location_length": (3,), "hidden_size": (2,), "embedding_size": (3,),
    }
    real = tiny | {
        "layers": (2, 1, 4), "dropout": (0.3,), "window": (9,), "location_length": (16,),
        "hidden_size": (24,), "embedding_size": (20,),
    }
    return {"tiny": Variants(tiny, together), "real": Variants(real, together)}


ARCHITECTURE = Architecture(ModelConfig, build, variants)
