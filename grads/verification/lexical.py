"""A translator with the lexical module, as an architecture of the catalogue's own.

The choices of the translator are checked without it; here it meets what it touches: how a_t is
made and in which loop, dropout, fixnorm, the bias, a sampled vocabulary, factors.
"""

from __future__ import annotations

from dataclasses import dataclass

from lstm.sampled import SAMPLE_WEIGHTS
from nmt.models.contract import Architecture, Tables, Variants
from nmt.models.translator import Translator
from nmt.models.translator_config import ModelConfig


@dataclass(frozen=True)
class LexicalConfig:
    """The translator's options that the module meets."""

    input_feeding: bool
    attention: str
    score: str
    dropout: float
    output_norm: float | None
    output_bias: bool
    target_sample: int | None
    factors: int  # how many
    hidden_size: int

    def __post_init__(self) -> None:
        if self.attention != "global" and self.score == "location":
            raise ValueError("score: expected 'general' in a window, got 'location'")

    @property
    def factor_sizes(self) -> tuple[int, ...]:
        """Values of each."""
        return (3,) * self.factors


def build(config: LexicalConfig, tables: Tables) -> Translator:
    """The translator; its embeddings have another width than its states."""
    own = ModelConfig(
        lexical=True, layers=1, hidden_size=config.hidden_size,
        embedding_size=config.hidden_size + 2, input_feeding=config.input_feeding,
        attention=config.attention, score=config.score, dropout=config.dropout, window=1,
        location_length=3, output_norm=config.output_norm, output_bias=config.output_bias,
        target_sample=config.target_sample, sample_weights=SAMPLE_WEIGHTS[0],
        factors={"case": 1} if config.factors else {})
    return Translator(own, tables.sources[0], tables.target, tables.reverse_source, tables.factors)


def variants() -> dict[str, Variants]:
    """All pairs at tiny sizes; at real ones with feeding and without, and nothing more."""
    tiny = {"hidden_size": (2,), "input_feeding": (True, False),
            "attention": ("global", "local-m", "local-p"), "score": ("general", "location"),
            "dropout": (0.3, 0.0), "output_norm": (2.0, None), "output_bias": (True, False),
            "target_sample": (None, 2), "factors": (0, 1)}
    usual = {name: values[:1] for name, values in tiny.items()}
    return {"tiny": Variants(tiny), "every": Variants(usual), "real": Variants(
        usual | {"hidden_size": (24,), "input_feeding": (True, False)})}


ARCHITECTURE = Architecture(LexicalConfig, build, variants)
