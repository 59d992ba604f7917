"""The configuration of Luong's translator: its parts and sizes, and which of them go together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from attention.scores import AS_THEY_ARE, CONTENT, SCORES, WINDOWS, Variant
from backend.errors import check, check_among, check_least
from lstm.parameters import Scheme
from lstm.sampled import check_sample
from lstm.stack import check_stack_config
from nmt.models.heads.lexicon import check_lexicon

SITES = ("vertical", "author")
CHOICES = tuple(score for score in SCORES if score != "concat-identity")  # that has its own field


@dataclass(frozen=True)
class ModelConfig:
    """The parts of a translator and their sizes; checked when made (ValueError)."""

    attends_before_reading: ClassVar[bool] = False  # a_t is made from h_t, which has read y_{t-1}

    unit: str = "lstm"  # recurrent unit: one of CELLS
    layers: int = 2  # depth of the encoder and of the decoder
    residual: bool = False  # layers from the second on add their input (Wu et al., 2016)
    hidden_size: int = 256  # H, units per layer and direction
    embedding_size: int = 256  # E, width of an embedding
    bidirectional: bool = False  # the encoder reads in both directions; needs the bridge
    bridge: bool = False  # the decoder starts from tanh(W [h; c]), not from the last states
    biases: bool = True  # biases in the recurrent units (the thesis has none: erratum 5)
    output_bias: bool = False  # a bias in the prediction layer
    output_norm: float | None = None  # scale h~ to this length before the logits (3.2.3)
    lexical: bool = False  # also predict words from the attended source words (3.2.4)
    lexicon_epsilon: float | None = None  # with data.lexicon: log(x + epsilon) is added to logits
    attention: str = "global"  # global, local-m, local-p (section 4.2.2) or none
    score: str = "general"  # the name of a row of the table in attention/scores.py
    concat_identity: bool = False  # concat: hbar_s enters unchanged (footnote 14, erratum 11)
    window: int = 10  # local attention: D, words on either side of p_t (4.3.1)
    renormalise: bool = False  # local-p: divide a_t by its sum (not in the thesis: erratum 8)
    location_length: int = 50  # location: L_max, source words that can be attended to
    input_feeding: bool = True  # feed h~_{t-1}, without attention h_{t-1}, to layer 1 (4.2.3)
    factors: dict[str, int] = field(default_factory=dict)  # factor of source words: its width
    dropout: float = 0.0  # dropout probability
    dropout_sites: str = "vertical"  # vertical: all upward connections; author: erratum 29
    clip_elements: float | None = None  # tau of element-wise clipping of dh and dc (2.2.2)
    target_sample: int | None = None  # in training, softmax over batch and sampled words
    sample_weights: str = "inverse"  # of sampled words: inverse probability, or equal (Jean et al.)
    initialisation: str = "uniform"  # uniform, xavier, orthogonal, normal or small
    scale: float = 0.1  # half-width of the uniform initialisation
    forget_bias: float = 0.0  # initial bias of the forget gates
    uniform_biases: bool = False  # initialise biases like matrices, not to 0 (Zaremba et al., 2014)

    def __post_init__(self) -> None:
        check_stack_config(self)
        check_sample(self)
        check_among("attention", self.attention, (*WINDOWS, "none"))
        check_among("score", self.score, CHOICES)
        check_least(self, 1, "window", "location_length")
        widths = self.factors.values()
        if self.factors and not (min(widths) > 0 and sum(widths) < self.embedding_size):
            raise ValueError(f"factors: expected widths above 0 and below embedding_size = "
                             f"{self.embedding_size} together, got {self.factors}")
        if self.bidirectional and not self.bridge:
            raise ValueError("bridge: a bidirectional encoder needs it, got false")
        norm = self.output_norm
        check(self, "output_norm", norm is None or 0.0 < norm < float("inf"), "a positive number")
        if self.lexical and self.attention == "none":
            raise ValueError("lexical: expected false where attention is 'none', got true")
        check_lexicon(self)
        check_among("dropout_sites", self.dropout_sites, SITES)
        if self.attention != "none" and self.score in AS_THEY_ARE and self.bidirectional:
            raise ValueError(f"score: {self.score!r} needs states of one width, not a "
                             "bidirectional encoder")
        if self.attention.startswith("local") and self.score not in CONTENT:
            raise ValueError(f"score: expected one that reads the words of the window where "
                             f"attention is {self.attention!r}, got {self.score!r}")
        if self.renormalise and self.attention != "local-p":
            raise ValueError(f"renormalise: expected false unless attention is 'local-p', got true "
                             f"with {self.attention!r}")
        if self.concat_identity and self.score != "concat":
            raise ValueError(f"concat_identity: expected false unless score is 'concat', got true "
                             f"with {self.score!r}")

    def variant(self, reverse: bool = False) -> Variant:
        """The attention variant; reverse, whether the encoder reads the source in reverse."""
        score = "concat-identity" if self.concat_identity else self.score
        return Variant(score, self.attention, self.window, self.location_length,
                       self.renormalise, reverse)

    @property
    def scheme(self) -> Scheme:
        """The initialisation of the weights."""
        return Scheme(self.initialisation, self.scale, self.forget_bias, self.uniform_biases)
