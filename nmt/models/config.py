"""What a translator is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from attention.scores import CONTENT, SCORES
from attention.variant import WINDOWS, Variant
from lstm.parameters import Scheme
from lstm.stack import check_among, check_stack_config

CHOICES = tuple(score for score in SCORES if score != "concat-identity")  # that has its own field


@dataclass(frozen=True)
class ModelConfig:
    """The parts of a translator and their sizes; checked when made (ValueError)."""

    attends_before_reading: ClassVar[bool] = False  # a_t is made from h_t, which has read y_{t-1}

    unit: str = "lstm"  # recurrent unit: lstm, rnn or gru
    layers: int = 2  # depth of the encoder and of the decoder
    hidden_size: int = 256  # H, units per layer (and per direction)
    embedding_size: int = 256  # E
    bidirectional: bool = False  # encoder reads from both ends; needs the bridge
    bridge: bool = False  # decoder starts from tanh(W [h; c]) instead of the bare last states
    biases: bool = True  # of the recurrent units (the thesis has none: erratum 5)
    output_bias: bool = False  # of the prediction layer
    attention: str = "global"  # global, local-m, local-p (section 4.2.2) or none
    score: str = "general"  # dot, general, concat, location (4.2.1) or additive (Bahdanau et al.)
    concat_identity: bool = False  # concat: hbar_s enters as it is (footnote 14, erratum 11)
    window: int = 10  # local attention: D, words on either side of p_t (4.3.1)
    renormalise: bool = False  # local-p: a_t is made to sum to one (the thesis's is not: erratum 8)
    location_length: int = 50  # location: L_max, source words behind it are not attended to
    input_feeding: bool = True  # h~_{t-1} joins the decoder's input (section 4.2.3)
    dropout: float = 0.0  # probability on the vertical connections
    clip_dh: float | None = None  # element-wise clipping of dh during backpropagation (2.2.2)
    initialisation: str = "uniform"  # uniform, xavier or orthogonal
    scale: float = 0.1  # half-width of the uniform initialisation
    forget_bias: float = 0.0  # where the forget gates' biases start

    def __post_init__(self) -> None:
        check_stack_config(self)
        check_among("attention", self.attention, (*WINDOWS, "none"))
        check_among("score", self.score, CHOICES)
        for name in ("window", "location_length"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}")
        if self.bidirectional and not self.bridge:
            raise ValueError("bridge: a bidirectional encoder needs it, got false")
        if self.input_feeding and self.attention == "none":
            raise ValueError("input_feeding: expected false where attention is 'none', got true")
        if self.attention != "none" and self.score == "dot" and self.bidirectional:
            raise ValueError("score: 'dot' needs states of one width, not a bidirectional encoder")
        if self.attention.startswith("local") and self.score not in CONTENT:
            raise ValueError(f"score: expected one that looks at the words in the window where "
                             f"attention is {self.attention!r}, got {self.score!r}")
        if self.renormalise and self.attention != "local-p":
            raise ValueError(f"renormalise: expected false unless attention is 'local-p', got true "
                             f"with {self.attention!r}")
        if self.concat_identity and self.score != "concat":
            raise ValueError(f"concat_identity: expected false unless score is 'concat', got true "
                             f"with {self.score!r}")

    def variant(self, reverse: bool = False) -> Variant:
        """How the decoder attends; reverse, whether the encoder reads the source from its end."""
        score = "concat-identity" if self.concat_identity else self.score
        return Variant(score, self.attention, self.window, self.location_length,
                       self.renormalise, reverse)

    @property
    def scheme(self) -> Scheme:
        """How the weights start."""
        return Scheme(self.initialisation, self.scale, self.forget_bias)

    @property
    def source_width(self) -> int:
        """He, the width of the encoder's states."""
        return self.hidden_size * (2 if self.bidirectional else 1)
