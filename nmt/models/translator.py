"""Luong's translator (2016, chapters 2 and 4): encoder, bridge, attention, decoder, output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from attention.memory import Memory, by_words, memory_forward
from attention.scores import WINDOWS
from attention.several import AnyMemory, memories_select
from backend import Array, array_module, to_device
from backend.rows import check_ids, gather_rows
from backend.workspace import Workspace
from lstm.cells import CELLS, State
from lstm.parameters import Weight
from lstm.prediction import Bias, bias_backward, output_step, output_weights
from lstm.sampled import (
    SITE,
    predicted_backward,
    predicted_forward,
    sample_of,
)
from lstm.stack import Stack, dropout_mask, select_states
from nmt.data.batches import Batch, Side
from nmt.data.lexicon import Lexicon
from nmt.models.bridge import BridgeCache, bridge_backward, bridge_forward, bridge_weights
from nmt.models.contract import (
    NEVER,
    Architecture,
    Gradients,
    Model,
    Noise,
    Tables,
    Variants,
)
from nmt.models.decoder import (
    attention_weights,
    decoder_backward,
    decoder_forward,
    decoder_step,
    decoder_weights,
)
from nmt.models.encoder import encoder_backward, encoder_forward, encoder_weights
from nmt.models.feeding import input_feeding_backward, input_feeding_forward
from nmt.models.fixnorm import brought_backward, brought_forward
from nmt.models.lexical import SITE as LEXICAL_SITE
from nmt.models.lexical import (
    LexicalCache,
    lexical_backward,
    lexical_forward,
    lexical_step,
    lexical_weights,
)
from nmt.models.lexicon import (
    Entries,
    LexiconCache,
    batch_entries,
    lexicon_backward,
    lexicon_forward,
    lexicon_step,
)
from nmt.models.translator_config import CHOICES, SITES, ModelConfig


class TranslatorCache(NamedTuple):
    parameters: Mapping[str, Array]
    encoder: Any  # EncoderCache, of two encoders a tuple
    bridge: BridgeCache | None
    memory: AnyMemory | None
    decoder: Any
    output: Any = None  # OutputCache, once the words are predicted
    length: Any = None  # NormCache of h~, where it is brought to a length
    lexical: LexicalCache | None = None
    lexicon: LexiconCache | None = None


class SearchState(NamedTuple):
    """The search state of a batch of hypotheses: N rows, K consecutive ones for each of B
    sentences."""

    layers: list[State]  # per layer, rows (N, H)
    h_tilde: Array | None  # (N, H), what input feeding gives to the next step
    memory: AnyMemory | None  # of the B sentences
    t: int = 1  # the time step to come, of all hypotheses: where local-m is centred
    words: Array | None = None  # (B, S, E), what the lexical module averages
    entries: Entries | None = None  # the lexicon of the sentences


class Translator(Model):
    """A neural machine translation model put together from the parts that `config` names.

    The model holds no parameters and no state: they are passed in and returned. It owns a
    workspace, so that its passes reuse each other's memory.
    """

    def __init__(
        self, config: ModelConfig, source_size: int, target_size: int,
        reverse_source: bool = False, factor_sizes: Sequence[int] = (),
        lexicon: Lexicon | None = None,
    ) -> None:
        """`source_size` and `target_size` are the sizes of the two vocabularies.

        reverse_source, whether the batches' sources are reversed: attention by position depends on
        it (erratum 9). factor_sizes, the number of values of each of `config.factors`. lexicon,
        with `config.lexicon_epsilon`.
        """
        if (lexicon is None) != (config.lexicon_epsilon is None):
            raise ValueError("lexicon_epsilon: expected a number exactly where there is a lexicon "
                             f"(data.lexicon), got {config.lexicon_epsilon} with "
                             f"{'none' if lexicon is None else 'one'}")
        self.lexicon = lexicon
        if len(factor_sizes) != len(config.factors):
            raise ValueError(f"factor_sizes: expected those of {list(config.factors)}, got "
                             f"{list(factor_sizes)}")
        self.factors = {name: (size, width) for (name, width), size in zip(
            config.factors.items(), factor_sizes, strict=True)}
        self.config, self.source_size, self.target_size = config, source_size, target_size
        self.variant = config.variant(reverse_source)
        self.source = Stack(config.unit, config.layers, config.hidden_size, config.bidirectional,
                            config.biases)
        self.characters: tuple[str, Stack] | None = None  # a network of words without a row
        self.workspace = Workspace()

    def weights(self) -> dict[str, Weight]:
        """Names and shapes of all parameters, in the order in which they are initialised."""
        config, scheme = self.config, self.config.scheme
        E, H, source = config.embedding_size, config.hidden_size, self.source
        target = source._replace(bidirectional=False)
        inputs = {"x": E, "h~": H} if config.input_feeding else {"x": E}
        return {
            **encoder_weights("encoder", source, self.source_size, E, scheme, self.factors),
            **(bridge_weights("bridge", source, scheme) if config.bridge else {}),
            **decoder_weights("decoder", target, self.target_size, inputs, scheme),
            **({} if config.attention == "none"
               else attention_weights("attention", self.variant, H, source, scheme)),
            **output_weights("output", H, self.target_size, config.output_bias, scheme),
            **(lexical_weights("lexical", E, self.target_size, scheme) if config.lexical else {}),
        }

    # --- training -------------------------------------------------------------------------------

    def noise(self, batch: Batch, rng: np.random.Generator, dtype: Any) -> Noise | None:
        """Dropout masks, by site (Zaremba et al., 2014).

        Sites: each layer's input, `encoder.{l}` and `decoder.{l}`; on every vertical connection
        also what the attentional vector (without attention, the output layer) reads,
        `decoder.joined`; in the author's code what is fed, `decoder.fed`, and nothing after the
        top layer (erratum 29). `output.sample`: of `lstm.sampled`; `lexical.output`: of the lexical
        module's h^l.
        """
        config = self.config
        sample = sample_of(config, batch, self.target_size, rng, dtype)
        if config.dropout == 0.0:
            return sample or None
        return sample | {site: dropout_mask(rng, shape, config.dropout, dtype)
                         for site, shape in self._mask_shapes(batch).items()}

    def _mask_shapes(self, batch: Batch) -> dict[str, tuple[int, ...]]:
        """The dropout masks' shapes, by site."""
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
        if config.lexical:
            shapes[LEXICAL_SITE] = (T, B, E)
        return shapes

    def loss(
        self, parameters: Mapping[str, Array], batch: Batch, noise: Noise | None = None
    ) -> tuple[Array, TranslatorCache]:
        """J of Eqs. 2.51 and 2.52: Algorithm 3 for a batch, by lines 1-5 and 7-10 of Algorithm 3.

        Arguments: noise, from `noise`; None switches dropout off. Returns the loss, the sum over
        all target words (with the end marker) of -log p in nats, a 0-d array, and what `backward`
        reads.
        """
        noise = noise or {}
        h, cache = self._decode(parameters, batch, noise)
        h, length = brought_forward(h, self.config.output_norm)
        lexical, memory, own = None, cache.memory, parameters
        if self.config.lexical and isinstance(memory, Memory):
            h, own, lexical = lexical_forward(
                "lexical", parameters, h, cache.encoder.x, cache.decoder.alignment(memory), memory,
                self.config.output_norm, noise.get(LEXICAL_SITE))
        bias = lexicon = None
        if self.lexicon is not None and isinstance(memory, Memory):
            words, p = self._entries(batch.sources, h)
            values, lexicon = lexicon_forward(
                cache.decoder.alignment(memory), p, self.config.lexicon_epsilon or 0.0)
            bias = Bias(words, values)
        loss, output_cache = predicted_forward(
            "output", own, h, batch.target_out, batch.target.lengths, self.workspace,
            sample=noise.get(SITE), bias=bias,
        )
        return loss, cache._replace(output=output_cache, length=length, lexical=lexical,
                                    lexicon=lexicon)

    def _entries(self, sources: tuple[Side, ...], like: Array) -> Entries:
        """The lexicon of a batch's sources, in the real dtype of an array."""
        assert self.lexicon is not None
        return batch_entries(self.lexicon, sources[0], self.variant.reverse, like.real.dtype)

    def _decode(
        self, parameters: Mapping[str, Array], batch: Batch, noise: Noise
    ) -> tuple[Array, TranslatorCache]:
        """The output layer's input, h~ (T, B, H), and the cache of all below it."""
        config = self.config
        memory, initial, encoder_cache, bridge_cache = self._read(
            parameters, batch.sources, noise)
        forward: Any = input_feeding_forward if config.input_feeding else decoder_forward
        h, decoder_cache = forward(
            "decoder", parameters, batch.target_in, initial, memory, config.unit, noise,
            self.workspace
        )
        return h, TranslatorCache(parameters, encoder_cache, bridge_cache, memory, decoder_cache)

    def backward(self, cache: TranslatorCache) -> Gradients:
        """Gradient of the loss with respect to every parameter, by name: Algorithm 4 lines 1-3 and
        5 for the decoder, Algorithm 4 lines 4, 6 and 20 for the encoder."""
        dh, gradients = predicted_backward(cache.output, self.workspace)
        da = df = None
        if cache.lexical is not None:
            dh, da, df, gradients = lexical_backward(dh, gradients, cache.lexical)
        if cache.lexicon is not None:
            more = lexicon_backward(bias_backward(cache.output), cache.lexicon)
            da = more if cache.lexical is None else da + more
        return gradients | self._decode_backward(
            brought_backward(dh, cache.length), cache, da=da, df=df)

    def _decode_backward(
        self, dh: Array, cache: TranslatorCache, d_joined: Array | None = None,
        da: Array | None = None, df: Array | None = None,
    ) -> Gradients:
        """From the gradient of what `_decode` returned; and where more reads them, of [c_t; h_t],
        of the alignment da (B, T, S) and of the source's embeddings df (S, B, E)."""
        config, parameters, memory = self.config, cache.parameters, cache.memory
        if config.input_feeding:
            d_initial, dstates, gradients = input_feeding_backward(
                dh, cache.decoder, parameters, "decoder", config.clip_elements, self.workspace,
                d_joined, da,
            )
        else:
            d_initial, dstates, gradients = decoder_backward(
                dh, memory, cache.decoder, parameters, config.clip_elements, d_joined, da
            )
        return gradients | self._read_backward(dstates, d_initial, cache, df)

    def _read_backward(
        self, dstates: Any, d_initial: list[State], cache: TranslatorCache, df: Array | None
    ) -> Gradients:
        """From the gradients of the encoder's states, of the decoder's first ones, and where more
        reads them of the source's embeddings df (S, B, E)."""
        clip, d_last = self.config.clip_elements, [[state] for state in d_initial]
        if cache.bridge is None:
            return encoder_backward(dstates, d_last, cache.encoder, clip, df)
        d_last, gradients = bridge_backward(d_initial, cache.bridge)
        return gradients | encoder_backward(dstates, d_last, cache.encoder, clip, df)

    def _read(
        self, parameters: Mapping[str, Array], sources: tuple[Side, ...], noise: Noise
    ) -> tuple[AnyMemory | None, list[State], Any, BridgeCache | None]:
        """What the decoder attends to, where it starts, and the caches of encoder and bridge."""
        states, padding, last, encoder_cache = encoder_forward(
            "encoder", parameters, sources[0], self.source, noise, self.workspace,
            self.characters, tuple(self.factors)
        )
        memory = None if self.config.attention == "none" else memory_forward(
            states, padding, self.variant, parameters, "attention")
        if not self.config.bridge:
            return memory, [ends[0] for ends in last], encoder_cache, None
        initial, bridge_cache = bridge_forward("bridge", parameters, last)
        return memory, initial, encoder_cache, bridge_cache

    # --- search ---------------------------------------------------------------------------------

    def encode(
        self, parameters: Mapping[str, Array], sources: tuple[Side, ...], rows: int
    ) -> SearchState:
        """Algorithm 5, line 1, for a batch of `rows` sentences."""
        memory, layers, encoder, _ = self._read(parameters, sources, {})
        h_tilde = words = None
        if self.config.input_feeding:
            h_tilde = array_module(layers[0][0]).zeros_like(layers[0][0])
        if self.config.lexical and isinstance(memory, Memory):
            words = by_words(encoder.x, memory.rows)
        entries = None if self.lexicon is None else self._entries(sources, layers[0][0])
        return SearchState(layers, h_tilde, memory, words=words, entries=entries)

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
            "decoder", parameters, x, state.layers, state.h_tilde, state.memory, self.config.unit,
            state.t,
        )
        read, _ = brought_forward(h, self.config.output_norm)
        logits = output_step("output", parameters, read)                   # (N, V)  (2.4)
        if state.words is not None and alignment is not None:
            logits += lexical_step(
                "lexical", parameters, state.words, alignment, self.config.output_norm)
        if state.entries is not None and alignment is not None:
            lexicon_step(logits, alignment, state.entries, self.config.lexicon_epsilon or 0.0)
        fed = h if self.config.input_feeding else None
        return logits, state._replace(layers=layers, h_tilde=fed, t=state.t + 1), alignment

    def select(
        self, state: SearchState, rows: np.ndarray, sentences: np.ndarray
    ) -> SearchState:
        """Reorder, widen or drop hypotheses; drop finished sentences.

        Arguments: rows (N',) host, which hypotheses to keep, those of a sentence together;
        sentences (B',) host, ascending, which sentences they belong to.
        """
        on_device = to_device(rows)
        layers = select_states(state.layers, on_device)
        h_tilde = None if state.h_tilde is None else state.h_tilde[on_device]
        memory, words, entries = state.memory, state.words, state.entries
        if memory is not None and len(sentences) != memory.sentences:
            kept = to_device(sentences)
            memory, words = memories_select(memory, kept), None if words is None else words[kept]
            entries = None if entries is None else Entries(*(one[kept] for one in entries))
        return SearchState(layers, h_tilde, memory, state.t, words, entries)


def build(config: ModelConfig, tables: Tables) -> Translator:
    """The translator of a configuration."""
    return Translator(config, tables.sources[0], tables.target, tables.reverse_source,
                      tables.factors, tables.lexicon)


def variants() -> dict[str, Variants]:
    """The choices that the catalogue of gradient checks combines, where `ModelConfig` allows."""
    together = ("attention", "score", "input_feeding")  # each has an implementation of its own
    tiny = {
        "attention": (*WINDOWS, "none"), "score": sorted(CHOICES, key="general".__ne__),
        "unit": tuple(CELLS), "layers": (2, 1), "input_feeding": (True, False),
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
