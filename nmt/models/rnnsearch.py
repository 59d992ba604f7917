"""RNNsearch and RNNencdec: encoder, alignment, decoder and deep output of Bahdanau et al. (2015).

Source: their Appendix A.2; letters as there, shapes and names in `RNNSearch.weights`. The parts are
the encoder, `attention.attention` (score `additive` with the query s_{i-1}),
`nmt.models.contextual`
and `nmt.models.deep_output`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from attention.attention import alignment_of, attention_forward
from attention.memory import Memory, memory_forward, memory_select
from attention.scores import Variant, score_weights
from backend import Array, array_module, to_device
from backend.rows import check_ids, gather_rows
from backend.workspace import Workspace
from lstm.cells import CELLS, State
from lstm.embedding import embedding_weight
from lstm.parameters import SCHEMES, Parameters, Scheme, Weight, axis
from lstm.prediction import output_step
from lstm.sampled import (
    SITE,
    check_sample,
    predicted_backward,
    predicted_forward,
    sample_of,
)
from lstm.stack import Stack, check_among, check_clip, stack_weights
from nmt.data.batches import Batch, Side
from nmt.models.contextual import (
    Run,
    contextual_step,
    fixed_backward,
    fixed_forward,
    query,
    searching_backward,
    searching_forward,
)
from nmt.models.contract import (
    NEVER,
    Architecture,
    Gradients,
    Model,
    Noise,
    Tables,
    Variants,
)
from nmt.models.deep_output import LAYERS, deep_backward, deep_forward, deep_weights
from nmt.models.encoder import EncoderCache, encoder_backward, encoder_forward, encoder_weights

CONTEXTS = ("search", "last")
QUERIES = ("state", "state-word")
DEEP_STATES = ("before", "now")
ADDITIVE = Variant("additive")
UNITS = tuple(name for name, cell in CELLS.items() if cell.states == 1)  # s_0 has one part


@dataclass(frozen=True)
class RNNSearchConfig:
    """The parts of the model and their sizes; checked when made (ValueError).

    The defaults are RNNsearch's at paper size (A.2.3). `context: last` is RNNencdec: an encoder
    that reads forward only, and its last state as c_i at every step. Sennrich's simplified model
    (2016) has `unit: rnn` and `layer: tanh`; Nair and Shah's (2016) has these and `context: last`,
    or `query: state-word` (their f_score(z_{t-1}, y_{t-1}, h_i), 7.2).
    """

    attends_before_reading: ClassVar[bool] = True  # a_i is made from s_{i-1}: y_{i-1} comes after

    context: str = "search"  # c_i: search (by alignment) or last (the encoder's last state)
    query: str = "state"  # the score reads state (s_{i-1}) or state-word ([s_{i-1}; E y_{i-1}])
    unit: str = "gru"  # recurrent unit: gru or rnn
    hidden_size: int = 1000  # n, units of a state, and of the alignment model
    embedding_size: int = 620  # m
    layer: str = "maxout"  # hidden layer of the output: maxout or tanh
    layer_size: int = 500  # l, its units
    deep_state: str = "before"  # what it reads: before (s_{i-1}, as printed) or now (erratum 18)
    biases: bool = True  # of units, initial state and hidden layer
    output_bias: bool = True  # of the prediction layer
    clip_elements: float | None = None  # tau of element-wise clipping of dh and dc (2.2.2)
    target_sample: int | None = None  # words drawn beside the batch's, for training's softmax
    sample_weights: str = "inverse"  # of these: 1 / their chance, or equal (Jean et al., 2015)
    initialisation: str = "orthogonal"  # orthogonal (B.1), uniform, xavier, normal or small
    scale: float = 0.1  # half-width of the uniform initialisation

    def __post_init__(self) -> None:
        check_among("context", self.context, CONTEXTS)
        check_among("query", self.query, QUERIES)
        check_among("unit", self.unit, UNITS)
        check_among("layer", self.layer, LAYERS)
        check_among("deep_state", self.deep_state, DEEP_STATES)
        check_among("initialisation", self.initialisation, SCHEMES)
        for name in ("hidden_size", "embedding_size", "layer_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}")
        check_clip(self.clip_elements)
        check_sample(self)

    @property
    def searches(self) -> bool:
        """Whether c_i is computed by alignment, over the states of a bidirectional encoder."""
        return self.context == "search"

    @property
    def asks_with_word(self) -> bool:
        """Whether the score reads the previous word beside the state."""
        return self.searches and self.query == "state-word"

    @property
    def attention(self) -> str:
        """`global` or `none`, as of other models: whether there are alignments."""
        return "global" if self.searches else "none"

    @property
    def score(self) -> str:
        """The score, under the name that other configurations use."""
        return ADDITIVE.score

    @property
    def scheme(self) -> Scheme:
        """How the weights start."""
        return Scheme(self.initialisation, self.scale)

    @property
    def encoder(self) -> Stack:
        """The encoder's stack."""
        return Stack(self.unit, 1, self.hidden_size, self.searches, self.biases)


class RNNSearchCache(NamedTuple):
    parameters: Mapping[str, Array]
    encoder: EncoderCache
    last: Array  # (B, H), the state from which s_0 is computed
    s_0: Array  # (B, H)
    memory: Memory | None
    decoder: Any
    deep: Any  # of the output layer
    output: Any


class SearchState(NamedTuple):
    """The search state of a batch of hypotheses: N rows, K consecutive ones for each of B
    sentences."""

    s: Array  # (N, H)
    memory: Memory | None  # of the B sentences
    c: Array | None  # (N, H), the fixed context


class RNNSearch(Model):
    """p(y | x) of A.2; used as `nmt.models.translator.Translator` is."""

    def __init__(
        self, config: RNNSearchConfig, source_size: int, target_size: int,
        reverse_source: bool = False,
    ) -> None:
        """`source_size` and `target_size` are the sizes of the two vocabularies.

        reverse_source, whether the batches' sources are reversed: alignments are in written order.
        """
        self.config, self.source_size, self.target_size = config, source_size, target_size
        self._variant = ADDITIVE._replace(reverse=reverse_source)
        self.workspace = Workspace()

    def weights(self) -> dict[str, Weight]:
        """Names and shapes of all parameters, in the order in which they are initialised.

        `encoder.*` and `decoder.W_e` (V, E) as everywhere; `bridge.W_s` (H, H), `bridge.b`;
        `decoder.0.W` (G, E + He + H), columns word, context, state; `attention.W_a` (H, H), or (H,
        H + E) where the score reads the word too, `U_a` (H, He), `v_a` (H,); `output.*` of
        `deep_weights`.
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
            **stack_weights("decoder", Stack(config.unit, 1, H, biases=config.biases),
                            {"x": E, "c": He}, scheme),
            **score,
            **deep_weights("output", config.layer, config.layer_size, (H, E, He), V, config.biases,
                           config.output_bias, scheme),
        }

    # --- training -------------------------------------------------------------------------------

    def noise(self, batch: Batch, rng: np.random.Generator, dtype: Any) -> Noise | None:
        """This model has no dropout; `output.sample`: of `lstm.sampled`."""
        return sample_of(self.config, batch, self.target_size, rng, dtype) or None

    def loss(
        self, parameters: Mapping[str, Array], batch: Batch, noise: Noise | None = None
    ) -> tuple[Array, RNNSearchCache]:
        """-log p(y | x), summed over a batch, in nats, 0-d; and what `backward` reads."""
        config, workspace = self.config, self.workspace
        last, memory, encoder_cache = self._read(parameters, batch.sources[0])
        s_0 = _first_state_forward(last, parameters)
        decoder_cache: Any
        if memory is not None:
            run, decoder_cache = searching_forward(
                "decoder", parameters, batch.target_in, s_0, memory, config.unit,
                config.asks_with_word, workspace
            )
        else:
            run, decoder_cache = fixed_forward(
                "decoder", parameters, batch.target_in, s_0, last, config.unit, workspace
            )
        steps, B, _ = run.y.shape
        t, deep_cache = self._predicted(parameters, run, batch)
        loss, output_cache = predicted_forward(
            "output", parameters, t.reshape(steps, B, -1), batch.target_out, batch.target.lengths,
            workspace, "W_o", (noise or {}).get(SITE),
        )
        return loss, RNNSearchCache(parameters, encoder_cache, last, s_0, memory, decoder_cache,
                                    deep_cache, output_cache)

    def backward(self, cache: RNNSearchCache) -> Gradients:
        """Gradient of the loss with respect to every parameter, by name."""
        config, parameters, memory = self.config, cache.parameters, cache.memory
        dt, gradients = predicted_backward(cache.output, self.workspace)
        xp, (steps, B, M) = array_module(dt), dt.shape
        (ds, dy, dc), more = self._predicted_backward(dt.reshape(steps * B, M), cache.deep)
        gradients |= more
        d_states: Any = xp.zeros((steps + 1, *cache.s_0.shape), dtype=dt.dtype)
        d_states[self._states(steps)] = ds.reshape(steps, *cache.s_0.shape)
        d = Run(d_states, dy.reshape(steps, B, -1), dc.reshape(steps, B, -1))
        dstates = d_last = None
        if memory is not None:
            ds_0, dstates, more = searching_backward(
                d, cache.decoder, parameters, "decoder", config.clip_elements)
        else:
            ds_0, d_last, more = fixed_backward(
                d, cache.decoder, parameters, "decoder", config.clip_elements)
        d_start, started = _first_state_backward(ds_0, cache.s_0, cache.last, parameters)
        end: State = (d_start if d_last is None else d_start + d_last,)
        ends: list[State] = [end] if memory is None else [(None,), end]
        return gradients | more | started | encoder_backward(
            dstates, [ends], cache.encoder, config.clip_elements
        )

    def _read(
        self, parameters: Mapping[str, Array], source: Side
    ) -> tuple[Array, Memory | None, EncoderCache]:
        """<-h_1, or ->h_Tx where the encoder only reads forward (Nair 6.2 step 2); the annotations;
        the cache."""
        states, padding, last, cache = encoder_forward(
            "encoder", parameters, source, self.config.encoder, {}, self.workspace
        )
        memory = None
        if self.config.searches:                           # U_a h_j, once a sentence
            memory = memory_forward(states, padding, self._variant, parameters,
                                    "attention")
        return last[0][-1][0], memory, cache

    def _parts(self, run: Run) -> tuple[Array, ...]:
        """The output layer's inputs of all steps, as rows: s (N, H), y (N, E), c (N, He)."""
        steps, B, _ = run.y.shape
        return tuple(part.reshape(steps * B, -1)
                     for part in (run.s[self._states(steps)], run.y, run.c))

    def _predicted(
        self, parameters: Mapping[str, Array], run: Run, batch: Batch
    ) -> tuple[Array, Any]:
        """t (N, M), the rows of all steps, and the cache."""
        return deep_forward("output", parameters, self._parts(run), self.config.layer)

    def _predicted_backward(self, dt: Array, cache: Any) -> tuple[tuple[Array, ...], Gradients]:
        """Gradients of s, y, c, as rows, and of the parameters, from dt (N, M)."""
        return deep_backward(dt, cache)

    def _states(self, steps: int) -> slice:
        """Which of s_0 .. s_T the output layer reads (erratum 18)."""
        return slice(0, steps) if self.config.deep_state == "before" else slice(1, steps + 1)

    # --- search ---------------------------------------------------------------------------------

    def encode(
        self, parameters: Mapping[str, Array], sources: tuple[Side, ...], rows: int
    ) -> SearchState:
        """Read a batch of `rows` sentences."""
        last, memory, _ = self._read(parameters, sources[0])
        c = None if memory is not None else last * 1.0
        return SearchState(_first_state_forward(last, parameters), memory, c)

    def step(
        self, parameters: Mapping[str, Array], state: SearchState, tokens: np.ndarray
    ) -> tuple[Array, SearchState, Array | None]:
        """Feed one word to each hypothesis.

        Arguments: tokens (N,) host ids. Returns logits (N, V), unnormalised log-probabilities of
        the next word; the new state; the alignment (N, S) or None.
        """
        parts, after, alignment = self._advance(parameters, state, tokens)
        return self._logits(parameters, parts), after, alignment

    def _advance(
        self, parameters: Mapping[str, Array], state: SearchState, tokens: np.ndarray
    ) -> tuple[tuple[Array, ...], SearchState, Array | None]:
        """A step as far as the output layer's inputs: rows of s, y and c."""
        config, (s, memory, c) = self.config, state
        W_e, N = parameters["decoder.W_e"], len(s)
        check_ids(tokens, W_e.shape[0], "tokens")
        y, alignment = gather_rows(W_e, to_device(tokens)), None           # (N, E)
        if memory is not None:
            B, S, He = memory.hbar.shape
            asked = query(s, y if config.asks_with_word else None)
            found, cached = attention_forward(asked.reshape(B, N // B, -1), memory, together=True)
            c, alignment = found.reshape(N, He), alignment_of(cached, memory).reshape(N, S)
        context: Array = c
        after = contextual_step("decoder", parameters, y, s, context, config.unit)
        deep = s if config.deep_state == "before" else after
        stays = SearchState(after, memory, None if memory is not None else c)
        return (deep, y, context), stays, alignment

    def _logits(self, parameters: Mapping[str, Array], parts: tuple[Array, ...]) -> Array:
        """Logits (N, V) from the output layer's inputs."""
        t, _ = deep_forward("output", parameters, parts, self.config.layer)
        return output_step("output", parameters, t, "W_o")                 # (Bahdanau A.2.2 output)

    def select(
        self, state: SearchState, rows: np.ndarray, sentences: np.ndarray
    ) -> SearchState:
        """Reorder, widen or drop hypotheses; drop finished sentences; as the translator's."""
        on_device, memory = to_device(rows), state.memory
        if memory is not None and len(sentences) != memory.hbar.shape[0]:
            memory = memory_select(memory, to_device(sentences))
        c = None if state.c is None else state.c[on_device]
        return SearchState(state.s[on_device], memory, c)


def _first_state_forward(last: Array, parameters: Mapping[str, Array]) -> Array:
    """s_0 = tanh(W_s <-h_1): (B, H) (erratum 19)."""
    z = last @ parameters["bridge.W_s"].T
    if "bridge.b" in parameters:
        z += parameters["bridge.b"]
    return array_module(z).tanh(z, out=z)        # (Bahdanau A.2.2 initial; Nair 6.2 step 3)


def _first_state_backward(
    ds_0: Array, s_0: Array, last: Array, parameters: Mapping[str, Array]
) -> tuple[Array, Parameters]:
    """Gradients of the encoder's state (B, H) and of W_s and b."""
    dz = ds_0 - ds_0 * s_0 * s_0
    gradients = {"bridge.W_s": dz.T @ last}                # (2.14)
    if "bridge.b" in parameters:
        gradients["bridge.b"] = dz.sum(axis=0)
    return dz @ parameters["bridge.W_s"], gradients        # (2.13)


def build(config: RNNSearchConfig, tables: Tables) -> RNNSearch:
    """The model of a configuration."""
    return RNNSearch(config, tables.sources[0], tables.target, tables.reverse_source)


def variants() -> dict[str, Variants]:
    """The choices that the catalogue of gradient checks combines."""
    tiny = {
        "context": CONTEXTS, "query": QUERIES, "unit": sorted(UNITS), "layer": tuple(LAYERS),
        "deep_state": DEEP_STATES, "biases": (True, False), "output_bias": (True, False),
        "clip_elements": (None, NEVER), "hidden_size": (2,), "embedding_size": (3,),
        "layer_size": (5,),
    }
    return {"tiny": Variants(tiny), "real": Variants(tiny | {
        "hidden_size": (24,), "embedding_size": (20,), "layer_size": (28,)})}


ARCHITECTURE = Architecture(RNNSearchConfig, build, variants)
