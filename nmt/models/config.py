"""What a translator is made of."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from attention.scores import SCORES
from lstm.stack import UNITS


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
        _among("unit", self.unit, UNITS)
        _among("attention", self.attention, ("global", "none"))
        _among("score", self.score, SCORES)
        _among("initialisation", self.initialisation, ("uniform", "xavier"))
        for name in ("layers", "hidden_size", "embedding_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}")
        if not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"dropout: expected 0 <= dropout < 1, got {self.dropout}")
        if self.clip_dh is not None and self.clip_dh <= 0:
            raise ValueError(f"clip_dh: expected a positive number or none, got {self.clip_dh}")
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


def _among(name: str, value: str, known: Collection[str]) -> None:
    """Raise ValueError unless `value` is one of `known`."""
    if value not in known:
        raise ValueError(f"{name}: expected one of {', '.join(known)}, got {value!r}")
