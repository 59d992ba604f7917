"""The configuration of the hybrid word-character translator."""

from __future__ import annotations

from dataclasses import dataclass

from lstm.stack import Stack, check_among
from nmt.models.translator_config import ModelConfig

PATHS = ("same", "separate")


@dataclass(frozen=True)
class HybridConfig(ModelConfig):
    """A translator of words and its character networks; checked when made (ValueError)."""

    source_characters: bool = True  # vectors of rare source words come from characters (5.3.2)
    target_characters: bool = True  # target <unk> are spelled (5.3.3)
    path: str = "separate"  # a speller starts from h~_t (same) or from Eq. 5.6 (separate)
    character_layers: int = 1  # depth of both character networks
    character_embedding_size: int = 256  # width of a character's embedding
    character_dropout: float = 0.0  # dropout probability in both character networks
    character_sample: float = 0.0  # share of the other target words also spelled in training
    alpha: float = 1.0  # weight of the characters' loss (5.5)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.output_norm is not None:
            raise ValueError("output_norm: expected null in a hybrid model, whose spelling starts "
                             f"from h~ as it is, got {self.output_norm}")
        if self.lexicon_epsilon is not None:
            raise ValueError("lexicon_epsilon: expected null in a hybrid model, got "
                             f"{self.lexicon_epsilon}")
        if self.lexical:
            raise ValueError("lexical: expected false in a hybrid model, got true")
        check_among("path", self.path, PATHS)
        if self.factors:
            raise ValueError(f"factors: expected none beside characters, got {self.factors}")
        if self.target_sample is not None:
            raise ValueError(f"target_sample: expected null where words are spelled, got "
                             f"{self.target_sample}")
        if not (self.source_characters or self.target_characters):
            raise ValueError("source_characters: expected true, or target_characters, got neither; "
                             "a model of words only is the architecture luong")
        for name in ("character_layers", "character_embedding_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}")
        if not 0.0 <= self.character_dropout < 1.0:
            raise ValueError(f"character_dropout: expected 0 <= character_dropout < 1, got "
                             f"{self.character_dropout}")
        if not 0.0 <= self.character_sample <= 1.0:
            raise ValueError("character_sample: expected 0 <= character_sample <= 1, got "
                             f"{self.character_sample}")
        if self.character_sample and not self.target_characters:
            raise ValueError("character_sample: expected 0 without target_characters, got "
                             f"{self.character_sample}")
        if not 0.0 < self.alpha < float("inf"):
            raise ValueError(f"alpha: expected a positive number, got {self.alpha}")
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
