"""How a_t is made: which score, over which source states (Luong, 2016, sections 4.2.1, 4.2.2)."""

from __future__ import annotations

from typing import NamedTuple

WINDOWS = ("global", "local-m", "local-p")


class Variant(NamedTuple):
    """One variant of attention; what it means is said where its parts are computed."""

    score: str = "general"  # one of `attention.scores.SCORES`
    window: str = "global"  # global, local-m (p_t = t), or local-p (p_t is predicted)
    D: int = 10  # words on either side of p_t that a local window holds
    length: int = 50  # L_max, the source positions that the score `location` knows
    renormalise: bool = False  # local-p: whether a_t is made to sum to one (erratum 8)
    reverse: bool = False  # whether the encoder read the source from its end (erratum 9)

    @property
    def local(self) -> bool:
        """Whether a window of the source is attended to, and not all of it."""
        return self.window != "global"
