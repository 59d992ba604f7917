"""A step of the search: the hypotheses that it extends, its candidates and their outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from backend import Array


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


class Active(NamedTuple):
    """The active hypotheses, K for each sentence, best first."""

    sentences: np.ndarray  # (B',) positions in the batch
    rows: np.ndarray  # (B', K) rows of the step that they extend
    tokens: np.ndarray  # (B', K) the last token of each
    log_probabilities: np.ndarray  # (B', K) nats; -inf fills up where there are fewer than K


class Candidates(NamedTuple):
    """The extensions by a token that a step compared, C for each sentence, best first."""

    log_probabilities: np.ndarray  # (B', C) of the whole hypothesis, nats
    rows: np.ndarray  # (B', C) rows of the step that they extend
    tokens: np.ndarray  # (B', C)
    finished: np.ndarray  # (B', min(K, C)) bool: an end marker that was accepted
    grown: np.ndarray  # (B', K) the candidates that become `Active`, in its order


class SearchStep(NamedTuple):
    """A step of the search. It must not be written to, and `ended` changes with the next step."""

    number: int  # from 1
    candidates: Candidates
    active: Active  # the new active hypotheses, of all sentences that took the step
    alignment: Array | None  # (B'*K, S) device array, a row for each hypothesis extended
    ended: Sequence[Sequence[Ended]]  # B lists, the n best that ended so far, finished ones first
    limits: np.ndarray  # (B,) the most steps of each sentence of the batch
    reachable: np.ndarray  # (B',) the best score that an active hypothesis can still reach
    done: np.ndarray  # (B',) bool: the search of this sentence ends here
    first: np.ndarray  # (B,) log p before the first word: 0, or log p of the length


class SearchObserver(Protocol):
    """An observer of a search; it does not change the results."""

    @property
    def candidates(self) -> int:
        """The least number of candidates to propose in a step, if more than the search needs."""

    def on_step(self, step: SearchStep) -> None:
        """Called after each step."""
