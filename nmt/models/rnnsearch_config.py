"""The configurations of RNNsearch and RNNencdec, alone and fused with a language model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from attention.scores import Variant
from backend.errors import check_among, check_least
from lstm.cells import CELLS
from lstm.parameters import SCHEMES, Scheme
from lstm.sampled import check_sample
from lstm.stack import Stack, check_clip
from nmt.models.heads.hidden_layer import LAYERS

NO_LAYER = "none"
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
    (2016) has `unit: rnn` and `layer: tanh`; that of Nair and Shah (2016), section 6.2, has
    `unit: rnn`, `layer: none` and `context: last`, and where it searches `query: state-word`,
    their f_score(z_{t-1}, y_{t-1}, h_i).
    """

    attends_before_reading: ClassVar[bool] = True  # a_i is made from s_{i-1}: y_{i-1} comes after

    context: str = "search"  # c_i: search (by alignment) or last (the encoder's last state)
    query: str = "state"  # the score reads state (s_{i-1}) or state-word ([s_{i-1}; E y_{i-1}])
    unit: str = "gru"  # recurrent unit: one of UNITS
    hidden_size: int = 1000  # n, units of a state and of the alignment model
    embedding_size: int = 620  # m, width of an embedding
    layer: str = "maxout"  # hidden layer of the output: maxout, tanh, or none: the state alone
    layer_size: int = 500  # l, units of this layer
    deep_state: str = "before"  # it reads before (s_{i-1}, as printed) or now (erratum 18)
    biases: bool = True  # biases in units, initial state and hidden layer
    output_bias: bool = True  # a bias in the prediction layer
    clip_elements: float | None = None  # tau of element-wise clipping of dh and dc (2.2.2)
    target_sample: int | None = None  # in training, softmax over batch and sampled words
    sample_weights: str = "inverse"  # of sampled words: inverse probability, or equal (Jean et al.)
    initialisation: str = "orthogonal"  # orthogonal (B.1), uniform, xavier, normal or small
    scale: float = 0.1  # half-width of the uniform initialisation

    def __post_init__(self) -> None:
        check_among("context", self.context, CONTEXTS)
        check_among("query", self.query, QUERIES)
        check_among("unit", self.unit, UNITS)
        check_among("layer", self.layer, (*LAYERS, NO_LAYER))
        check_among("deep_state", self.deep_state, DEEP_STATES)
        check_among("initialisation", self.initialisation, SCHEMES)
        check_least(self, 1, "hidden_size", "embedding_size", "layer_size")
        if self.layer == NO_LAYER and self.deep_state != "now":
            raise ValueError("deep_state: expected now with layer none, which predicts y_i from a "
                             f"state that has read the word before it, got {self.deep_state}")
        check_clip(self.clip_elements)
        check_sample(self)

    @property
    def searches(self) -> bool:
        """Whether c_i is computed by alignment, over the states of a bidirectional encoder."""
        return self.context == "search"

    @property
    def asks_with_word(self) -> bool:
        """Whether the score reads the previous word in addition to the state."""
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
        """The initialisation of the weights."""
        return Scheme(self.initialisation, self.scale)

    @property
    def encoder(self) -> Stack:
        """The encoder's stack, of a layer."""
        return Stack(self.unit, 1, self.hidden_size, self.searches, self.biases,
                     clip=self.clip_elements)

    @property
    def language(self) -> Stack | None:
        """The stack of a language model that the output reads too: none."""
        return None
