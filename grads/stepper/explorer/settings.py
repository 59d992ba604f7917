"""The settings of a walk or a page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SEED = 1


@dataclass(frozen=True)
class Settings:
    """The arguments of `grads walk` and `grads explore`. None means that an argument was not
    given."""

    sentence: str | None = None
    target: str | None = None
    hidden: int | None = None
    embedding: int | None = None
    layers: int | None = None
    score: str | None = None
    window: str | None = None
    feeding: bool | None = None
    seed: int | None = None
    model: str | Path | None = None
    checkpoint: str | None = None
