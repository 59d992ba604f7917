"""The configuration of the hybrid word-character translator."""

from __future__ import annotations

from dataclasses import dataclass

from backend.errors import check, check_among, check_least, check_share
from lstm.stack import Stack
from nmt.models.translator_config import ModelConfig

PATHS = ("same", "separate")


@dataclass(frozen=True)
class HybridConfig(ModelConfig):
    """A translator of words and its character networks; checked when made (ValueError)."""

    source_characters: bool = True  # vectors of rare source words come from characters (5.3.2)
    target_characters: bool = True  # target <unk> are spelled (5.3.3)
    path: str = "separate"  # spelling starts from h~_t (same) or from Eq. 5.6 (separate)
    character_layers: int = 1  # depth of both character networks
    character_embedding_size: int = 256  # width of a character's embedding
    character_dropout: float = 0.0  # dropout probability in both character networks
    character_sample: float = 0.0  # share of known target words that training also spells
    alpha: float = 1.0  # weight of the characters' loss (5.5)

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self, "output_norm", self.output_norm is None,
              "null in a hybrid model, whose spelling starts from h~ as it is")
        check(self, "lexicon_epsilon", self.lexicon_epsilon is None, "null in a hybrid model")
        if self.lexical:
            raise ValueError("lexical: expected false in a hybrid model, got true")
        check_among("path", self.path, PATHS)
        check(self, "factors", not self.factors, "none beside characters")
        check(self, "target_sample", self.target_sample is None, "null where words are spelled")
        if not (self.source_characters or self.target_characters):
            raise ValueError("source_characters: expected true, or target_characters, got neither; "
                             "a model of words only is the architecture luong")
        check_least(self, 1, "character_layers", "character_embedding_size")
        check_share(self, "character_dropout")
        check(self, "character_sample", 0.0 <= self.character_sample <= 1.0,
              "0 <= character_sample <= 1")
        check(self, "character_sample", not self.character_sample or self.target_characters,
              "0 without target_characters")
        check(self, "alpha", 0.0 < self.alpha < float("inf"), "a positive number")
        if self.seed_matrix and self.attention == "none":
            raise ValueError("path: expected 'same' where attention is 'none': there is no c_t for "
                             "Eq. 5.6, got 'separate'")

    @property
    def seed_matrix(self) -> bool:
        """Whether the model has the W' of Eq. 5.6."""
        return self.target_characters and self.path == "separate"

    def character_stack(self, width: int) -> Stack:
        """The stack of a character network, with the same cells as the words' networks."""
        return Stack(self.unit, self.character_layers, width, biases=self.biases,
                     clip=self.clip_elements)
