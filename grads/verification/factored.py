"""A translator of words with factors, as an architecture of the catalogue's own.

Its options are checked without factors; here factors are combined with what reads the source's
vectors.
"""

from __future__ import annotations

from dataclasses import dataclass

from nmt.models.contract import Architecture, Tables, Variants
from nmt.models.translator import Translator
from nmt.models.translator_config import ModelConfig


@dataclass(frozen=True)
class FactoredConfig:
    """Widths and numbers of values of the factors, and the translator's options."""

    factors: int  # how many factors
    bidirectional: bool
    dropout: float
    hidden_size: int

    @property
    def factor_sizes(self) -> tuple[int, ...]:
        """The number of values of each factor."""
        return (3, 5)[: self.factors]


def build(config: FactoredConfig, tables: Tables) -> Translator:
    """The translator; each factor has a few columns of its embeddings."""
    widths = dict(list({"case": 1, "place": 2}.items())[: config.factors])
    own = ModelConfig(layers=1, hidden_size=config.hidden_size, factors=widths,
                      embedding_size=config.hidden_size + 4, dropout=config.dropout,
                      bidirectional=config.bidirectional, bridge=config.bidirectional)
    return Translator(own, tables.sources[0], tables.target, tables.reverse_source, tables.factors)


def variants() -> dict[str, Variants]:
    """All options at tiny sizes, the default ones at real sizes."""
    tiny = {"hidden_size": (2,), "factors": (2, 1), "bidirectional": (False, True),
            "dropout": (0.0, 0.3)}
    return {"tiny": Variants(tiny), "real": Variants({
        "hidden_size": (24,), "factors": (2,), "bidirectional": (True,), "dropout": (0.3,)})}


ARCHITECTURE = Architecture(FactoredConfig, build, variants)
