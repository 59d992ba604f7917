"""The options of a search, and its results."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from backend.errors import UserError
from nmt.data.batches import Side

RANGES = {"beam": (1, 10_000), "minimum_steps": (1, 10**6), "minimum_length": (0, 10**6),
          "nbest": (1, 10_000), "longest_word": (1, 10**6), "lengths": (1, 1000),
          "length_factor": (1e-9, 1000.0),
          "length_normalisation": (0.0, 20.0)}  # lp of a million steps does not overflow


@dataclass(frozen=True)
class SearchOptions:
    """Options of a search.

    Source: thesis section 2.3.2 and Algorithm 5; length normalisation from Nguyen 2019 and Wu et
    al. 2016: s(e | f) = log p(e | f) / lp(e), lp(e) = (5 + |e|)^alpha / (5 + 1)^alpha.

    Raises ValueError for a value out of range.

    Departures: Algorithm 5 loops while t <= alpha * m_x, which is floor(alpha * m_x) steps and
    leaves a one-word source no step for its end marker; we round up and add `minimum_steps`.
    """

    beam: int = 1  # K, hypotheses kept per sentence
    length_factor: float = 1.5  # alpha: at most ceil(alpha * source words) steps, </s> included
    minimum_steps: int = 10  # the limit is at least this, for short sources
    minimum_length: int = 0  # fewest words or pieces of a translation; not with a countdown
    length_normalisation: float = 0.0  # alpha of the length penalty; 0 ranks by log-probability
    nbest: int = 1  # hypotheses returned per sentence, at most beam
    unknown: bool = True  # allow <unk> in translations (Bahdanau et al., Table 1)
    longest_word: int = 40  # hybrid: a spelled word is cut after this many characters
    every_beam: bool = False  # take the best of all beams up to beam (Nair and Shah, 6.5)
    lengths: int = 1  # with a countdown: number of most probable lengths to search (Nguyen 4.1)

    def __post_init__(self) -> None:
        for name, (least, most) in RANGES.items():
            value, kind = getattr(self, name), "an integer" if type(most) is int else "a number"
            is_number = isinstance(value, (int, type(most))) and not isinstance(value, bool)
            if not (is_number and least <= value <= most):
                raise ValueError(f"{name}: expected {kind} of at least {least} and at most "
                                 f"{most:,}, got {value!r}")
        if self.nbest > self.beam:
            raise ValueError(f"nbest: expected at most beam = {self.beam}, got {self.nbest}")

    def step_limits(self, source_lengths: np.ndarray) -> np.ndarray:
        """Return the most decoder steps (B,) int64 that sources of these lengths (B,) may take."""
        steps = np.ceil(self.length_factor * source_lengths).astype(np.int64)
        return np.maximum(steps, max(self.minimum_steps, self.minimum_length + 1))

    def length_penalty(self, steps: int | np.ndarray) -> float | np.ndarray:
        """Return lp(e) for |e| = steps, the number of factors in p(e | f): the end marker counts.

        Counting it makes lp of the shortest translation, the end marker alone, 1.
        """
        return ((5.0 + steps) / (5.0 + 1.0)) ** self.length_normalisation  # (Nguyen 3.1.3 lp)


def chosen(search: SearchOptions, beam: int | None = None, nbest: int | None = None,
           length_factor: float | None = None, length_normalisation: float | None = None,
           **others: Any) -> SearchOptions:
    """A recipe's search options, changed by those of a command line; None: the recipe's value.

    nbest: 1 by default. A default beam below nbest is raised to nbest. Raises UserError for a value
    out of range.
    """
    if nbest is not None and beam is None:
        beam = max(search.beam, nbest)
    given = {"beam": beam, "nbest": 1 if nbest is None else nbest, "length_factor": length_factor,
             "length_normalisation": length_normalisation, **others}
    try:
        return replace(search, **{name: value for name, value in given.items()
                                  if value is not None})
    except ValueError as error:  # the message of SearchOptions
        raise UserError(str(error)) from None


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """One translation.

    tokens: target ids without the end marker.
    log_probability: log p(tokens, end marker | source) under the model, nats; without the end
        marker's factor where `finished` is False. With a countdown, log p_length(|tokens| | source)
        takes the place of that of the end marker, here and in `steps`.
    score: log_probability / lp, what hypotheses are ranked by.
    alignment: (len(tokens) + 1, S_i), one row per step, the last one that of the end marker
        (absent where `finished` is False, and with a countdown); columns in the order of the
        source's words as they are written, also where the model reads them from the end; of
        several sources one after another (`alignment_lengths`). None if it has no attention.
    finished: True if the end marker was produced, False if the step limit came first.
    steps: (len(tokens) + 1,) log p of each token and of the end marker, of force-decoding only.
    beam: the largest beam that found it, of a search with every beam only.
    """

    tokens: list[int]
    log_probability: float
    score: float
    alignment: np.ndarray | None
    finished: bool
    steps: np.ndarray | None = None
    beam: int | None = None


def alignment_lengths(sources: tuple[Side, ...]) -> np.ndarray:
    """(B,) the columns of each sentence's alignment: the words of all sources, and a column between
    two sources. Raises ValueError if there is no source."""
    if not sources:
        raise ValueError("sources: expected at least one, got none; without any, "
                         "`nmt.search.beam.search` starts from a state")
    return np.sum([side.lengths for side in sources], axis=0) + (len(sources) - 1)
