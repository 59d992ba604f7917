"""A translator with a lexicon's bias, as an architecture of the catalogue's own.

It meets how a_t is made and in which loop, dropout, the prediction layer's bias, and the lexical
module, which reads a_t too.
"""

from __future__ import annotations

from dataclasses import dataclass

from nmt.models.contract import Architecture, Tables, Variants
from nmt.models.translator import Translator
from nmt.models.translator_config import ModelConfig


@dataclass(frozen=True)
class LexiconConfig:
    """The translator's options that the bias meets."""

    lexicon_epsilon: float
    input_feeding: bool
    attention: str
    score: str
    lexical: bool
    dropout: float
    output_bias: bool
    hidden_size: int

    def __post_init__(self) -> None:
        if self.attention != "global" and self.score == "location":
            raise ValueError("score: expected 'general' in a window, got 'location'")


def build(config: LexiconConfig, tables: Tables) -> Translator:
    """The translator; its embeddings have another width than its states."""
    own = ModelConfig(
        lexicon_epsilon=config.lexicon_epsilon, lexical=config.lexical, layers=1,
        hidden_size=config.hidden_size, embedding_size=config.hidden_size + 2,
        input_feeding=config.input_feeding, attention=config.attention, score=config.score,
        dropout=config.dropout, window=1, location_length=3, output_bias=config.output_bias)
    return Translator(own, tables.sources[0], tables.target, tables.reverse_source,
                      lexicon=tables.lexicon)


def variants() -> dict[str, Variants]:
    """All pairs at tiny sizes; at real ones with feeding and without, and nothing more."""
    tiny = {"lexicon_epsilon": (0.1, 1e-3), "hidden_size": (2,), "input_feeding": (True, False),
            "attention": ("global", "local-m", "local-p"), "score": ("general", "location"),
            "lexical": (False, True), "dropout": (0.3, 0.0), "output_bias": (True, False)}
    usual = {name: values[:1] for name, values in tiny.items()}
    return {"tiny": Variants(tiny), "every": Variants(usual), "real": Variants(
        usual | {"lexicon_epsilon": (1e-3,), "hidden_size": (24,), "input_feeding": (True, False)})}


ARCHITECTURE = Architecture(LexiconConfig, build, variants)
