"""The back-pointers of a search, and the hypotheses reconstructed from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import backend
from backend import Array
from nmt.search.interface import Hypothesis


class Ended(NamedTuple):
    """An ended hypothesis: its last step and row, and its scores."""

    score: float
    log_probability: float  # nats
    step: int  # the step that ended it, from 0
    row: int  # its row in that step
    last: int | None  # the token emitted there, None for the end marker


class Fed(NamedTuple):
    """What the model was fed at a step, N rows, and what it attended to."""

    tokens: np.ndarray  # (N,)
    parents: np.ndarray  # (N,), the row of the step before that each extends
    alignment: Array | None  # (N, S), on the device until the hypotheses are reconstructed


def hypotheses(
    history: Sequence[Fed], ended: Sequence[Sequence[Ended]], columns: np.ndarray
) -> list[list[Hypothesis]]:
    """Turn each sentence's ended hypotheses into `Hypothesis`, in the same order.

    history: the steps. columns: (B,) the number of columns that each alignment is cut to.
    """
    alignments = [backend.to_host(fed.alignment) for fed in history if fed.alignment is not None]
    return [[_hypothesis(hypothesis, history, alignments, int(width)) for hypothesis in sentence]
            for sentence, width in zip(ended, columns, strict=True)]


def _hypothesis(
    ended: Ended, history: Sequence[Fed], alignments: Sequence[np.ndarray], width: int
) -> Hypothesis:
    """Follow the back-pointers of one hypothesis, from its last step to the first."""
    row, tokens, alignment = ended.row, [] if ended.last is None else [ended.last], []
    for step in range(ended.step, -1, -1):
        if alignments:
            alignment.append(alignments[step][row, :width])
        if step:  # the first step was fed the end marker
            tokens.append(int(history[step].tokens[row]))
            row = int(history[step].parents[row])
    return Hypothesis(tokens[::-1], ended.log_probability, ended.score,
                      np.stack(alignment[::-1]) if alignment else None, finished=ended.last is None)
