"""What a translator is made of."""

from __future__ import annotations

from dataclasses import dataclass

from attention.scores import SCORES
from lstm.stack import check_among, check_stack_config


@dataclass(frozen=True)
class ModelConfig:
    """The parts of a translator and their sizes; checked when made (ValueError)."""

    unit: str = "lstm"  # recurrent unit: lstm or rnn
    layers: int = 2  # depth of the encoder and of the decoder
    hidden_size: int = 256  # H, units per layer (and per direction)
    embedding_size: int = 256  # E
    bidirectional: bool = False  # encoder reads from both ends; needs the bridge
    bridge: bool = False  # decoder starts from tanh(W [h; c]) instead of the bare last states
    biases: bool = True  # of the recurrent units (the thesis has none: erratum 5)
    output_bias: bool = False  # of the prediction layer
    attention: str = "global"  # global or none
    score: str = "general"  # general or dot (section 4.2.1)
    input_feeding: bool = True  # h~_{t-1} joins the decoder's input (section 4.2.3)
    dropout: float = 0.0  # probability on the vertical connections
    clip_dh: float | None = None  # element-wise clipping of dh during backpropagation (2.2.2)
    initialisation: str = "uniform"  # uniform or xavier
    scale: float = 0.1  # half-width of the uniform initialisation
    forget_bias: float = 0.0  # where the forget gates' biases start

    def __post_init__(self) -> None:
        check_stack_config(self)
        check_among("attention", self.attention, ("global", "none"))
        check_among("score", self.score, SCORES)
        if self.bidirectional and not self.bridge:
            raise ValueError("bridge: a bidirectional encoder needs it, got false")
        if self.input_feeding and self.attention == "none":
            raise ValueError("input_feeding: expected false where attention is 'none', got true")
        if self.attention != "none" and self.score == "dot" and self.bidirectional:
            raise ValueError("score: 'dot' needs states of one width, not a bidirectional encoder")

    @property
    def source_width(self) -> int:
        """He, the width of the encoder's states."""
        return self.hidden_size * (2 if self.bidirectional else 1)
