"""Attention by position, the score `location`: e_t = W_a h_t, a row for each of L_max words (4.8).

The softmax runs over all L_max words, and weights after the sentence's end are dropped (footnote 5,
erratum 7). So the weights of a short sentence sum to less than one, and words of a long sentence
after position L_max are ignored. Letters as in `attention.attention`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from attention.memory import ScoreGradients, SourceMemory, over_time
from attention.scores import map_backward, map_forward, softmax_backward, softmax_forward
from backend import Array, array_module
from lstm.parameters import Parameters


class LocationCache(NamedTuple):
    """The data of a call of `attend` that the backward passes read; n = min(S, L_max)."""

    softmax: Array  # (B, Q, L_max)
    align: Array  # (B, Q, n), the first n of them, zero on padding


@dataclass(frozen=True)
class LocationMemory(SourceMemory):
    """The memory of a source. Target states attend to its words by their positions."""

    def attend(self, h: Array, t: int = 1, together: bool = False) -> tuple[Array, LocationCache]:
        """As `Memory.attend`."""
        e = map_forward(h, self.W_query)                                   # (B, Q, L_max)
        softmax = softmax_forward(e, None)                                 # of L_max  (4.8)
        align = self._cut(softmax)
        c = array_module(h).matmul(align, self.hbar[:, : align.shape[2]])  # (4.2.1 context)
        return c, LocationCache(softmax, align)

    def attend_backward(
        self, dc: Array, cache: LocationCache, sums: None, d_align: Array | None = None
    ) -> tuple[Array, ScoreGradients]:
        """As `Memory.attend_backward`."""
        xp, n = array_module(dc), cache.align.shape[2]
        d = xp.matmul(dc, self.hbar[:, :n].transpose(0, 2, 1))             # dc_t' hbar_s (2.13)
        if d_align is not None:
            d += d_align[:, :, :n]
        d_softmax = xp.zeros_like(cache.softmax)
        d_softmax[:, :, :n] = self._cut(d)
        de = softmax_backward(d_softmax, cache.softmax)
        return map_backward(de, self.W_query), ScoreGradients(de, de)      # (2.13)

    def gradients(
        self, dc: Array, h: Array, caches: Sequence[LocationCache],
        steps: Sequence[ScoreGradients], sums: None,
    ) -> tuple[Array, Parameters]:
        """As `Memory.gradients`. Only contexts read the states."""
        xp, align = array_module(dc), over_time([cache.align for cache in caches])
        dhbar = xp.zeros(self.hbar.shape, dtype=self.hbar.dtype)
        dhbar[:, : align.shape[2]] = xp.matmul(align.transpose(0, 2, 1), dc)  # (2.14)
        return self.maps_backward(dhbar, None, [step.dq for step in steps], h, None)

    def alignment(self, cache: LocationCache) -> Array:
        """As `Memory.alignment`."""
        (B, Q, n), S = cache.align.shape, self.hbar.shape[1]
        align = array_module(cache.align).zeros((B, Q, S), dtype=cache.align.dtype)
        align[:, :, :n] = cache.align
        return align

    def _cut(self, weights: Array) -> Array:
        """The first n of weights (B, Q, L_max), or their gradients, zero on padding."""
        n = min(weights.shape[2], self.hbar.shape[1])
        first = weights[:, :, :n]
        return first if self.mask is None else first * ~self.mask[:, :, :n]
