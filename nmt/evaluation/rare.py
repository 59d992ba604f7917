"""What the analyses of thesis section 3.4 ask of translations with rare words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nmt.data.annotation import symbol_of
from nmt.evaluation.scores import perplexity
from nmt.system import Translation


def is_position(word: str) -> bool:
    """Whether a word is a positional symbol of posall."""
    symbol = symbol_of(word)
    return symbol is not None and symbol.method == "posall"


def perplexities_by_class(forced: Sequence[Translation]) -> dict[str, tuple[float, int]]:
    """Perplexity of words and of positions, the two numbers of PosAll in Figure 3.6.

    forced: force-decoded references. Returns for "words", end markers among them, and "positions"
    the perplexity and the number of steps; a class without any is left out.
    """
    nats, steps = {"words": 0.0, "positions": 0.0}, {"words": 0, "positions": 0}
    for one in forced:
        if one.steps is None:
            continue
        positions = np.array([*map(is_position, one.words), False])
        for name, chosen in (("words", ~positions), ("positions", positions)):
            nats[name] -= float(one.steps[chosen].sum())
            steps[name] += int(chosen.sum())
    return {name: (perplexity(nats[name], count), count) for name, count in steps.items() if count}
