"""The back-pointers of a search, and the hypotheses reconstructed from them."""

from __future__ import annotations

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


class History:
    """The tokens, back-pointers and alignments of each step.

    The alignments stay on the device until the hypotheses are reconstructed.
    """

    def __init__(self) -> None:
        self._tokens: list[np.ndarray] = []  # per step (N,), the tokens read
        self._parents: list[np.ndarray] = []  # per step (N,), rows of the step before
        self._alignments: list[Array] = []  # per step (N, S)

    def __len__(self) -> int:
        return len(self._tokens)

    def add(self, tokens: np.ndarray, parents: np.ndarray, alignment: Array | None) -> None:
        """Append one step: tokens read (N,), parents (N,), alignment (N, S) or None."""
        self._tokens.append(tokens)
        self._parents.append(parents)
        if alignment is not None:
            self._alignments.append(alignment)

    def hypotheses(self, ended: list[list[Ended]],
                   source_lengths: np.ndarray) -> list[list[Hypothesis]]:
        """Turn each sentence's ended hypotheses into `Hypothesis`, in the same order."""
        alignments = [backend.to_host(alignment) for alignment in self._alignments]
        return [[self._hypothesis(one, alignments, int(length)) for one in sentence]
                for sentence, length in zip(ended, source_lengths, strict=True)]

    def _path(self, ended: Ended) -> list[int]:
        """Return the hypothesis's row in each step, first step first."""
        rows = [ended.row]
        for step in range(ended.step, 0, -1):
            rows.append(int(self._parents[step][rows[-1]]))
        return rows[::-1]

    def _hypothesis(self, ended: Ended, alignments: list[np.ndarray], length: int) -> Hypothesis:
        """Follow the back-pointers of one hypothesis."""
        path = self._path(ended)
        read = [int(self._tokens[step][row]) for step, row in enumerate(path)]
        alignment = None
        if alignments:
            alignment = np.stack([alignments[step][row, :length] for step, row in enumerate(path)])
        tokens = read[1:] if ended.last is None else [*read[1:], ended.last]
        return Hypothesis(tokens, ended.log_probability, ended.score, alignment,
                          finished=ended.last is None)
