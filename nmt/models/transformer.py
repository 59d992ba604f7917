"""The Transformer (Vaswani et al., 2017; Nguyen 1.2 and 3.3).

Parameters, l from 0; each sublayer has a norm, `{sublayer}.norm.g` and, of LayerNorm, `.norm.b`:

| names | what |
|---|---|
| `encoder.W_e` (V, d), `decoder.W_e` | embeddings, times sqrt(d), plus positions |
| `encoder.{l}.attention`, `decoder.{l}.attention` | `W_q`, `W_k`, `W_v`, `W_o`, `b_q` ... |
| `decoder.{l}.source` | attention to the encoder's output |
| `encoder.{l}.feed_forward`, `decoder.{l}.feed_forward` | `W_1`, `b_1`, `W_2`, `b_2` |
| `encoder.norm`, `decoder.norm` | PreNorm's last ones |
| `output.W_hy` (V, d), `output.b` | the prediction |
| `length.W` (L, d), `length.b` | with a countdown: the length of the target, 0 .. L - 1 |

If `target_positions` is `countdown` (Nguyen 4.1), the step that predicts the word y_t of m words
has position m - t. The last word has position 0, and </s> is not predicted. Then p(y | x) is
p_length(m | x) p(y_1 .. y_m | m, x), with m + 1 factors, as many as with </s>.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from attention.memory import padding_mask
from attention.multihead import causal_mask
from attention.norms import NORMS
from attention.positions import countdown
from attention.sublayer import Placement
from backend import Array
from backend.errors import check, check_among, check_least, check_share
from backend.rows import check_ids
from backend.workspace import Workspace
from lstm.parameters import SCHEMES, Scheme, Weight
from lstm.prediction import (
    OutputCache,
    output_backward,
    output_forward,
    output_step,
    output_weights,
    prediction_forward,
)
from lstm.smoothing import smoothed_prediction_forward
from lstm.stack import dropout_mask
from nmt.data.batches import Batch, Side
from nmt.models.contract import Architecture, Gradients, Losses, Model, Noise, Tables
from nmt.models.length_model import (
    LengthCache,
    length_backward,
    length_forward,
    length_logits,
    length_weights,
)
from nmt.models.transformer_layers import (
    Layers,
    StackCache,
    noise_shapes,
    stack_backward,
    stack_forward,
    stack_weights,
)
from nmt.models.transformer_steps import (
    StepState,
    counting_state,
    first_state,
    select_step,
    stack_step,
)
from nmt.models.variants import Variants

FORWARD, COUNTDOWN = TARGET_POSITIONS = ("forward", "countdown")


@dataclass(frozen=True)
class TransformerConfig:
    """The parts of a Transformer and their sizes; checked when made (ValueError)."""

    attends_before_reading: ClassVar[bool] = False  # a_i is computed after y_{i-1} is read
    attention: ClassVar[str] = "global"  # as in other models: there are alignments
    score: ClassVar[str] = "dot"  # scaled (Nguyen 1.8)

    encoder_layers: int = 3  # layers of self-attention and feed-forward network
    decoder_layers: int = 3  # the same, also attending to the encoder
    hidden_size: int = 256  # d, width of all vectors between layers
    inner_size: int = 1024  # F, hidden units of a feed-forward layer
    heads: int = 4  # n, heads of an attention, each d / n wide
    positions: int = 1024  # most words or pieces of a sentence; longer: an error
    target_positions: str = "forward"  # or countdown, from the length to 0: no </s>
    norm: str = "layer"  # layer, scale, fixed-scale or rms
    pre_norm: bool = True  # norms stand before the sublayers, not after them
    output_bias: bool = True  # a bias in the prediction layer
    dropout: float = 0.3  # in embeddings, sublayers' outputs, hidden layers, attention weights
    label_smoothing: float = 0.0  # share of a target's probability spread over all words
    initialisation: str = "small"  # uniform, xavier, orthogonal, normal or small
    scale: float = 0.1  # half-width of the uniform initialisation

    def __post_init__(self) -> None:
        check_least(self, 1, "encoder_layers", "decoder_layers", "hidden_size", "inner_size",
                    "heads", "positions")
        check(self, "heads", self.hidden_size % self.heads == 0,
              f"a divisor of hidden_size {self.hidden_size}")
        check_among("target_positions", self.target_positions, TARGET_POSITIONS)
        check_among("norm", self.norm, NORMS)
        check_among("initialisation", self.initialisation, SCHEMES)
        check_share(self, "dropout", "label_smoothing")

    @property
    def counts_down(self) -> bool:
        """Whether the decoder's positions count down to 0."""
        return self.target_positions == COUNTDOWN

    @property
    def scheme(self) -> Scheme:
        """The initialisation of the weights."""
        return Scheme(self.initialisation, self.scale)

    def layers_of(self, side: str) -> Layers:
        """The layers of `encoder` or `decoder`."""
        count = self.encoder_layers if side == "encoder" else self.decoder_layers
        return Layers(count, self.hidden_size, self.inner_size, self.heads,
                      Placement(self.norm, self.pre_norm), side == "decoder")


class TransformerCache(NamedTuple):
    encoder: StackCache
    decoder: StackCache
    output: OutputCache
    losses: Losses  # the words' loss is without label smoothing
    length: LengthCache | None = None  # with a countdown
    state: None = None


class Predicted(NamedTuple):
    """The words that a decoder reads and predicts, (T, B) host ids each."""

    read: np.ndarray
    words: np.ndarray
    lengths: np.ndarray  # (B,), number of predicted words of each target
    places: np.ndarray | None  # (T, B), positions; None: 0, 1 ..


class Transformer(Model):
    """p(y | x) by layers of attention, without recurrence."""

    def __init__(self, config: TransformerConfig, source_size: int, target_size: int) -> None:
        self.config, self.source_size, self.target_size = config, source_size, target_size
        self.workspace = Workspace()
        self.counts_down = config.counts_down

    def weights(self) -> dict[str, Weight]:
        """All parameters by name, in the order in which they are initialised."""
        config, scheme = self.config, self.config.scheme
        return {
            **stack_weights("encoder", config.layers_of("encoder"), self.source_size, scheme),
            **stack_weights("decoder", config.layers_of("decoder"), self.target_size, scheme),
            **output_weights("output", config.hidden_size, self.target_size, config.output_bias,
                             scheme),
            **(length_weights(config.hidden_size, config.positions, scheme)
               if config.counts_down else {}),
        }

    def predicted(self, batch: Batch) -> Predicted:
        """The words of a batch that the decoder reads and predicts. With a countdown, y_1 .. y_m
        without the end marker, and at least one step."""
        target = batch.target
        if not self.counts_down:
            return Predicted(batch.target_in, batch.target_out, target.lengths, None)
        T, lengths = max(len(batch.target_out) - 1, 1), target.lengths - 1
        return Predicted(batch.target_in[:T], batch.target_out[:T], lengths, countdown(lengths, T))

    def noise(self, batch: Batch, rng: np.random.Generator, dtype: DTypeLike) -> Noise | None:
        """Dropout masks by site: `encoder` and `decoder` for the embeddings, and the sublayers'
        sites."""
        rate, (T, B) = self.config.dropout, self.predicted(batch).read.shape
        if rate == 0.0:
            return None
        S = len(batch.sources[0].ids)
        shapes = {**noise_shapes("encoder", self.config.layers_of("encoder"), S, S, B),
                  **noise_shapes("decoder", self.config.layers_of("decoder"), T, S, B)}
        return {site: dropout_mask(rng, shape, rate, dtype) for site, shape in shapes.items()}

    def loss(
        self, parameters: Mapping[str, Array], batch: Batch, noise: Noise | None = None
    ) -> tuple[Array, TransformerCache]:
        """Eq. 2.52 over a batch, in nats, summed over target tokens, with label smoothing.

        With a countdown -log of Eq. 4.1 of Nguyen: the length's loss, which is not smoothed, is
        added.

        Arguments: noise, from `noise`, or None. Returns the loss, a 0-d array, and the cache of
        `backward`. A padded target word follows all real words, so only the future is masked there.
        """
        config, noise, source = self.config, noise or {}, batch.sources[0]
        target, length = self.predicted(batch), None
        padding = padding_mask(source.lengths, len(source.ids))
        memory, encoder = stack_forward("encoder", config.layers_of("encoder"), parameters,
                                        source.ids, noise, padding)
        h, decoder = stack_forward("decoder", config.layers_of("decoder"), parameters,
                                   target.read, noise, causal_mask(len(target.read)),
                                   (memory, padding), target.places)
        predict = prediction_forward if not config.label_smoothing else partial(
            smoothed_prediction_forward, smoothing=config.label_smoothing)
        loss, output = output_forward("output", parameters, h, target.words, target.lengths,
                                      self.workspace, predict=predict)
        words = output.prediction.nll
        if self.counts_down:
            of_length, length = length_forward(parameters, memory, source.lengths, target.lengths,
                                               self.workspace)
            together = loss + of_length                                    # (Nguyen 4.1)
            loss, words = together, together if words is loss else words + of_length
        losses = Losses(words, lengths=None if length is None else length.loss)
        return loss, TransformerCache(encoder, decoder, output, losses, length)

    def backward(self, cache: TransformerCache) -> Gradients:
        """The gradient of the loss with respect to every parameter, by name."""
        dh, gradients = output_backward(cache.output, self.workspace)
        dmemory, of_decoder = stack_backward(dh, cache.decoder)
        if cache.length is not None:
            d, of_length = length_backward(cache.length, self.workspace)
            dmemory, gradients = dmemory + d, gradients | of_length
        _, of_encoder = stack_backward(dmemory, cache.encoder)
        return {**of_encoder, **of_decoder, **gradients}

    # --- search ---------------------------------------------------------------------------------

    def encode(
        self, parameters: Mapping[str, Array], sources: tuple[Side, ...], rows: int
    ) -> StepState:
        """The state of `rows` sentences before the first word."""
        source, config = sources[0], self.config
        padding = padding_mask(source.lengths, len(source.ids))
        memory, _ = stack_forward("encoder", config.layers_of("encoder"), parameters,
                                  source.ids, {}, padding)
        lengths = length_logits(parameters, memory, source.lengths) if self.counts_down else None
        return first_state("decoder", config.layers_of("decoder"), parameters, memory, padding,
                           lengths)

    def lengths(self, state: StepState) -> Array:
        """The logits (B, L) of the target's length, of a state that `encode` returned."""
        assert state.lengths is not None
        return state.lengths

    def counting(self, state: StepState, sentences: np.ndarray, lengths: np.ndarray) -> StepState:
        """The state of sentences (N,) before their first word. Arguments: sentences, ascending, in
        which a sentence may occur several times; lengths (N,), their numbers of words, at least
        1."""
        return counting_state(state, sentences, lengths)

    def step(
        self, parameters: Mapping[str, Array], state: StepState, tokens: np.ndarray
    ) -> tuple[Array, StepState, Array]:
        """Feed one token per row: tokens (N,) host ids. Returns logits (N, V), the new state, and
        the alignment (N, S), the mean over the top layer's heads."""
        check_ids(tokens, self.target_size, "tokens")
        h, after, alignment = stack_step("decoder", self.config.layers_of("decoder"), parameters,
                                         tokens, state)
        return output_step("output", parameters, h), after, alignment

    def select(self, state: StepState, rows: np.ndarray, sentences: np.ndarray) -> StepState:
        """Reorder, repeat or drop hypotheses, and drop finished sentences."""
        return select_step(state, rows, sentences)


def build(config: TransformerConfig, tables: Tables) -> Transformer:
    """The model of a configuration, over tables of these sizes."""
    return Transformer(config, tables.sources[0], tables.target)


def variants() -> dict[str, Variants]:
    """The choices that the catalogue of gradient checks combines."""
    tiny = {
        "norm": tuple(NORMS), "pre_norm": (True, False), "heads": (2, 1), "dropout": (0.3, 0.0),
        "encoder_layers": (2, 1), "decoder_layers": (2, 1), "output_bias": (True, False),
        "hidden_size": (4,), "inner_size": (5,), "label_smoothing": (0.0, 0.1),
        "target_positions": TARGET_POSITIONS, "positions": (8,),
    }
    return {"tiny": Variants(tiny, ("norm", "pre_norm")),
            "every": Variants(tiny | {"label_smoothing": (0.0,), "target_positions": (FORWARD,)}),
            "real": Variants({
        "norm": ("layer", "scale"), "pre_norm": (True, False), "heads": (3,), "dropout": (0.3,),
        "encoder_layers": (1,), "decoder_layers": (1,), "hidden_size": (24,), "inner_size": (40,),
        "label_smoothing": (0.1,), "target_positions": TARGET_POSITIONS, "positions": (30,)})}


ARCHITECTURE = Architecture(TransformerConfig, build, variants)
