"""Attention inside a decoder's step: [c_t; h_t] as soon as h_t is there, and back to dh_t.

`Attending` reads the new state of the top layer, `AttendingGradient` gives it its gradient. With an
LSTM, global attention and a score that compares h_t itself (dot, general, scaled-dot), each is one
launch on a GPU, the LSTM's step with it (`step.cu`). Letters as in `attention.attention`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from attention import step_kernels as kernels
from attention.several import AnyMemory, contexts_backward, contexts_forward
from backend import Array
from backend.fused import cells, fused
from backend.fused.cells import LstmStep


@fused(cells.join)
def join(left: Array, right: Array, mask: Array | None, out: Array) -> None:
    """out (B, n + m) = [left; right], (B, n) and (B, m), times the dropout mask if there is one."""
    n = left.shape[1]
    out[:, :n], out[:, n:] = left, right
    if mask is not None:
        out *= mask


@fused(cells.join_backward)
def join_backward(d_out: Array, mask: Array | None, d_left: Array) -> None:
    """Backward of `join`: d_out (B, n + m) becomes [d_left; d_right], and d_left (B, n) a copy."""
    if mask is not None:
        d_out *= mask
    d_left[...] = d_out[:, : d_left.shape[1]]


class Attending(NamedTuple):
    """A `lstm.cells.Reader`: attention of one step."""

    memory: AnyMemory
    t: int  # the time step, from 1
    mask: Array | None  # (B, He + H), dropout of [c_t; h_t]
    joined: Array  # (B, He + H): [c_t; h_t], written
    caches: list[Any]  # of all steps: this one's is appended

    def read(self, h: Array) -> None:
        """a_t, c_t (4.7; 4.2.1 context) and [c_t; h_t] from h_t (B, H)."""
        c, cache = contexts_forward(h[:, None], self.memory, self.t)
        join(c[:, 0], h, self.mask, self.joined)
        self.caches.append(cache)

    def with_lstm(self, launch: Any, step: LstmStep) -> None:
        """In one launch."""
        self.caches.append(kernels.lstm_attend(launch, step, self.memory, self.mask, self.joined))


class AttendingGradient(NamedTuple):
    """A `lstm.cells.ReaderGradient`: that of an `Attending`."""

    memory: AnyMemory
    cache: Any  # that the step appended
    mask: Array | None  # as there
    d_joined: Array  # (B, He + H), overwritten
    da: Array | None  # (B, 1, S): what else reaches a_t
    dc: Array  # (B, He), written
    sums: Any  # of `attention.several.all_accumulators`
    steps: list[Any]  # of all steps, the last one first: this one's `ScoreGradients` are appended

    def add_to(self, dh: Array) -> None:
        """dh_t (B, H) += what comes from h_t in [c_t; h_t] and from the scores."""
        join_backward(self.d_joined, self.mask, self.dc)
        d_query, step = contexts_backward(self.dc[:, None], self.cache, self.memory, self.sums,
                                          self.da)
        d_h = self.d_joined[:, self.dc.shape[1] :]
        d_h += d_query[:, 0]
        dh += d_h
        self.steps.append(step)

    def with_lstm(self, launch: Any, step: LstmStep) -> None:
        """In one launch."""
        self.steps.append(kernels.attend_lstm_backward(
            launch, step, self.memory, self.cache, self.mask, self.d_joined, self.da, self.dc))
