"""Local attention: to the words in a window around p_t (Luong, 2016, section 4.2.2).

Only the words in a window are gathered and used, so that a step's cost does not grow with the
source. The gathered states, (B, Q, P, He), are the largest arrays of attention: they are made for a
block of target states at a time, used and discarded. If a window holds the whole source, nothing is
gathered. Letters as in `attention.attention`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

from attention.blocks import block_size, pieces
from attention.memory import SourceMemory, over_time
from attention.scores import (
    SCORES,
    Energy,
    Score,
    Sums,
    Variant,
    map_backward,
    map_forward,
    softmax_backward,
    softmax_forward,
)
from attention.window import (
    GaussianCache,
    PositionCache,
    gather_window,
    gaussian_backward,
    gaussian_forward,
    make_window,
    pick_window,
    position_backward,
    position_forward,
    position_weights,
    scatter_window,
    spread_window,
)
from backend import Array, array_module
from lstm.parameters import Parameters


def in_window(score: str) -> Score:
    """The row of `SCORES` by which words in a window are compared: in `general`, W_a maps the one
    query instead of the keys of all words."""
    if score != "general":
        return SCORES[score]
    return SCORES[score]._replace(matrices=lambda W, He: (W["W_a"].T, None),
                                  gradients=lambda dW_query, dW_keys: {"W_a": dW_query.T})


class BlockCache(NamedTuple):
    """The data of a block of Q' target states that the backward passes read."""

    states: slice  # of the Q target states
    rows: Array | None  # (B, Q', P), as in `Window`
    q: Array  # (B, Q', A)
    softmax: Array  # (B, Q', P), before the Gaussian
    align: Array  # (B, Q', P)
    gaussian: GaussianCache | None  # of local-p


class LocalCache(NamedTuple):
    """The data of a call of `attend` that the backward passes read."""

    q: Array  # (B, Q, A)
    align: Array  # (B, Q, P)
    rows: Array | None  # (B, Q, P)
    blocks: list[BlockCache]
    position: PositionCache | None  # of local-p


class LocalGradients(NamedTuple):
    """Gradients inside the attention, from which the gradients of memory and weights follow."""

    de: Array  # (B, Q, P), of the energies
    dq: Array  # (B, Q, A), of the queries
    d_score: Array | None = None  # (B, Q), local-p: of v_p' tanh(W_p h)
    da: Array | None = None  # (B, Q, H), local-p: of W_p h


@dataclass(frozen=True)
class LocalMemory(SourceMemory):
    """The memory of a source. Every target state attends to a window of its words."""

    energy: Energy
    lengths: Array  # (B,) real, words of each sentence
    variant: Variant
    W: Mapping[str, Array]  # the weights of score and position, by short name

    # --- forward ----------------------------------------------------------------------------------

    def attend(self, h: Array, t: int = 1, together: bool = False) -> tuple[Array, LocalCache]:
        """As `Memory.attend`."""
        xp, position = array_module(h), None
        q = map_forward(h, self.W_query)                                   # (B, Q, A)
        if self.variant.predicts:
            p, position = position_forward(h, self.lengths, self.W["W_p"], self.W["v_p"])
        else:
            steps = xp.arange(t, t + (1 if together else h.shape[1])).astype(self.lengths.dtype)
            p = xp.zeros(h.shape[:2], dtype=self.lengths.dtype) + steps - 1.0  # (4.2.2 local-m)
        attended = [self._attend(q[:, states], p[:, states], states)
                    for states in self._blocks(h.shape[1])]
        blocks = [block for _, block in attended]
        rows = None if blocks[0].rows is None else over_time([block.rows for block in blocks])
        align = over_time([block.align for block in blocks])
        return over_time([c for c, _ in attended]), LocalCache(q, align, rows, blocks, position)

    def _blocks(self, Q: int) -> Iterator[slice]:
        """Slices of Q target states, so small that the gathered states of a slice fit the CPU's
        cache."""
        (B, S, He), P = self.hbar.shape, 2 * self.variant.D + 1
        return pieces(Q, Q if P >= S else block_size(array_module(self.hbar), B * P * He))

    def _gather(self, rows: Array | None) -> tuple[Array, Array]:
        """States and keys in the window of each target state, (B Q, P, ..). Without rows, all of
        them: (B, S, ..), which the target states of a sentence share."""
        hbar = gather_window(self.hbar, rows)
        return hbar, hbar if self.keys is self.hbar else gather_window(self.keys, rows)

    def _attend(self, q: Array, p: Array, states: slice) -> tuple[Array, BlockCache]:
        """c_t (B, Q, He) of a block, and its cache."""
        (B, Q, A), gaussian = q.shape, None
        window = make_window(p, self.lengths, self.hbar.shape[1], self.variant.D)
        hbar, keys = self._gather(window.rows)
        e = self.energy.forward(q.reshape(len(hbar), -1, A), keys, self.v)
        softmax = align = softmax_forward(e.reshape(B, Q, -1), window.mask)  # (4.7)
        if self.variant.predicts:
            align, gaussian = gaussian_forward(softmax, window.offset, self.variant.D,
                                               self.variant.renormalise)   # (4.10)
        weights = align.reshape(len(hbar), -1, hbar.shape[1])
        c = array_module(q).matmul(weights, hbar).reshape(B, Q, -1)        # (4.2.1 context)
        return c, BlockCache(states, window.rows, q, softmax, align, gaussian)

    # --- backward ---------------------------------------------------------------------------------

    def attend_backward(
        self, dc: Array, cache: LocalCache, sums: Sums | None, d_align: Array | None = None
    ) -> tuple[Array, LocalGradients]:
        """As `Memory.attend_backward`."""
        blocks = [self._attend_backward(dc[:, block.states], block, sums,
                                        None if d_align is None else d_align[:, block.states])
                  for block in cache.blocks]
        de, dq = (over_time([block[k] for block in blocks]) for k in (0, 1))
        dh = map_backward(dq, self.W_query)                                # (2.13)
        if cache.position is None:
            return dh, LocalGradients(de, dq)
        dh_position, d_score, da = position_backward(
            over_time([dp for _, _, dp in blocks]), cache.position, self.lengths, self.W["W_p"],
            self.W["v_p"])
        return dh_position + dh, LocalGradients(de, dq, d_score, da)

    def _attend_backward(
        self, dc: Array, block: BlockCache, sums: Sums | None, d_align: Array | None
    ) -> tuple[Array, Array, Array | None]:
        """Gradients at energies (B, Q, P), queries (B, Q, A) and, in local-p, positions (B, Q)."""
        (B, Q, A), xp, dp = block.q.shape, array_module(dc), None
        hbar, keys = self._gather(block.rows)
        d = xp.matmul(dc.reshape(len(hbar), -1, dc.shape[2]), hbar.transpose(0, 2, 1))  # (2.13)
        d = d.reshape(B, Q, -1)
        if d_align is not None:
            d += pick_window(d_align, block.rows)
        if block.gaussian is not None:
            d, dp = gaussian_backward(d, block.align, block.softmax, block.gaussian, self.variant.D)
        de = softmax_backward(d, block.softmax)
        d_local = de.reshape(len(hbar), -1, hbar.shape[1]), block.q.reshape(len(hbar), -1, A)
        if sums is None or block.rows is None:
            dq = self.energy.backward(*d_local, keys, self.v, sums)
        else:                                              # the keys were gathered
            gathered = Sums(xp.zeros_like(keys), sums.v)
            dq = self.energy.backward(*d_local, keys, self.v, gathered)
            scatter_window(sums.keys, gathered.keys, block.rows)
        return de, dq.reshape(B, Q, A), dp

    def gradients(
        self, dc: Array, h: Array, caches: Sequence[LocalCache], steps: Sequence[LocalGradients],
        sums: Sums | None,
    ) -> tuple[Array, Parameters]:
        """As `Memory.gradients`."""
        rows = None if caches[0].rows is None else over_time([cache.rows for cache in caches])
        reads, dkeys = [(over_time([cache.align for cache in caches]), dc)], None
        if sums is not None:                               # c_t reads hbar_s,
            dkeys = sums.keys
        else:                                              # and e_t the keys, which are hbar_s too
            q = over_time([cache.q for cache in caches])
            reads.append(self.energy.factors(over_time([step.de for step in steps]), q))
        dstates, gradients = self.maps_backward(sum_of_reads(reads, rows, self.hbar), dkeys,
                                                [step.dq for step in steps], h, sums)
        positions = [cache.position for cache in caches if cache.position is not None]
        if positions:
            gradients[f"{self.prefix}.W_p"], gradients[f"{self.prefix}.v_p"] = position_weights(
                over_time([step.d_score for step in steps]),
                over_time([step.da for step in steps]),
                over_time([position.hidden for position in positions]), h)
        return dstates, gradients

    def alignment(self, cache: LocalCache) -> Array:
        """As `Memory.alignment`."""
        return spread_window(cache.align, cache.rows, self.hbar.shape[1])

    def select(self, sentences: Array) -> Self:
        """As `Memory.select`."""
        return replace(super().select(sentences), lengths=self.lengths[sentences])


def sum_of_reads(reads: Sequence[tuple[Array, Array]], rows: Array | None, hbar: Array) -> Array:
    """The gradient (B, S, He) of the states hbar: the sum, over target states and over all pairs
    `reads`, of weights (B, T, P) times vectors (B, T, He) (2.14).

    With windows, only their rows are added to, for a few sentences and one target state at a time.
    The zeros elsewhere are written once per batch, and not once per step.
    """
    xp, (_, T, P), He = array_module(hbar), reads[0][0].shape, hbar.shape[2]
    if rows is None:
        return sum((xp.matmul(weights.transpose(0, 2, 1), x) for weights, x in reads[1:]),
                   start=xp.matmul(reads[0][0].transpose(0, 2, 1), reads[0][1]))  # (2.14)
    total = xp.zeros(hbar.shape, dtype=hbar.dtype)
    weights = xp.stack([weights for weights, _ in reads], axis=3)          # (B, T, P, n)
    vectors = xp.stack([x for _, x in reads], axis=2)                      # (B, T, n, He)
    for b in pieces(len(hbar), block_size(xp, P * He)):
        for t in range(T):
            scatter_window(total, xp.matmul(weights[b, t], vectors[b, t]), rows[b, t, None])
    return total
