"""The summands of a logit: |W_e| |h~| cos(W_e, h~) + b_e (Nguyen, 2019, 3.2.2, 3.2.6).

The stepper's pages show them, too, without a translator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Part(NamedTuple):
    """A product W_e h of a logit: |W_e| |h| cos."""

    norm: float  # |W_e|
    length: float  # |h|
    cosine: float

    @property
    def value(self) -> float:
        """The product, which is a summand of the logit."""
        return self.norm * self.length * self.cosine


class Logit(NamedTuple):
    """A word's logit at a step: the sum of its parts and the bias."""

    word: str
    chosen: bool  # whether it is the target's word
    probability: float
    output: Part  # W_o h~
    lexical: Part | None  # W_l h^l
    bias: float

    @property
    def value(self) -> float:
        """The logit."""
        return self.output.value + self.bias + (0.0 if self.lexical is None else self.lexical.value)


def taken_apart(
    products: Sequence[tuple[np.ndarray, np.ndarray]], b: np.ndarray, target: int,
    words: Sequence[str], rivals: int,
) -> list[Logit]:
    """The logits of a step: that of the target's word, then those of its best rivals.

    products: W_o (V, H) and h~ (H,), and with a lexical module W_l (V, E) and h^l (E,). b: (V,).
    target: the id of the target's word. words: the V words. rivals: the number of rivals.
    """
    logits = sum((W @ h for W, h in products), start=b)                    # (V,)
    shifted = np.exp(logits - logits.max())
    p = shifted / shifted.sum()
    others = [i for i in np.argsort(-logits, kind="stable")[: rivals + 1].tolist() if i != target]
    logits_apart = []
    for i in [target, *others[:rivals]]:
        output, *lexical = (_summand(W[i], h) for W, h in products)
        logits_apart.append(Logit(words[i], i == target, float(p[i]), output,
                                  lexical[0] if lexical else None, float(b[i])))
    return logits_apart


def _summand(w: np.ndarray, h: np.ndarray) -> Part:
    """The product of two vectors as norms and cosine."""
    norm, length = float(np.linalg.norm(w)), float(np.linalg.norm(h))
    return Part(norm, length, float(w @ h) / max(norm * length, 1e-300))
