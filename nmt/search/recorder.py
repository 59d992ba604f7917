"""Recording the steps of a search, for the page that shows it.

A hypothesis is identified by the candidate that ended it: [step, candidate], both from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from backend import to_host
from nmt.data.vocabulary import END
from nmt.search.interface import SearchOptions
from nmt.search.steps import Ended, SearchStep

GROWS, FINISHED, SURPASSED, OUTSIDE, END_OUTSIDE, CUT, STOPPED, LAST = (
    "grows", "finished", "surpassed", "outside", "end outside", "cut", "stopped", "last")
FATES = {  # the outcome of a candidate, in words
    GROWS: "in the beam", FINISHED: "finished",
    SURPASSED: "finished, below the best finished",  # of which n are kept
    OUTSIDE: "outside the beam",
    END_OUTSIDE: "end marker outside the beam",      # not among the K best of its step
    CUT: "cut at the limit on length",
    STOPPED: "cannot pass the best finished",        # the search ends here
    LAST: "finished at position 0",                  # of a countdown
}
DIGITS = 5               # decimals of an attention weight


class Recorder:
    """Observes the search of a single sentence.

    options: the options of the search. words: the target's words by id. columns: the number of
    columns of an alignment. beyond: how many candidates after the last accepted one are kept.
    counts: whether positions count down; the search is then of one length.
    """

    def __init__(self, options: SearchOptions, words: Sequence[str], columns: int,
                 beyond: int, counts: bool = False) -> None:
        self.options, self.words, self.columns, self.beyond = options, words, columns, beyond
        self.counts, self.first = counts, 0.0  # log p before the first word
        self.candidates = options.beam + beyond
        self.steps: list[dict[str, Any]] = []
        self.limit = 0
        self.best: list[tuple[int, int]] = []  # the hypotheses returned, best first
        self._rows: list[tuple[int, float]] = [(-1, 0.0)]  # candidate and log p of each row
        self._places: list[dict[tuple[int, int], int]] = []  # by row and token, a candidate

    def on_step(self, step: SearchStep) -> None:
        """Keep a step as data for the page."""
        self.limit = int(step.limits[0])
        if not self.steps:
            self.first = float(step.first[0])
            self._rows = [(-1, self.first)]
        log_p, rows, tokens = (array[0].tolist() for array in step.candidates[:3])
        grown = step.candidates.grown[0][step.active.log_probabilities[0] > -np.inf].tolist()
        finished = np.flatnonzero(step.candidates.finished[0]).tolist()
        shown = [j for j in range(max(grown + finished, default=-1) + 1 + self.beyond)
                 if j < len(log_p) and log_p[j] > -np.inf]
        self._places.append({(rows[j], tokens[j]): j for j in shown})
        ended = [self._ended(hypothesis) for hypothesis in step.ended[0]]
        fates = self._fates(step, grown, finished, ended)
        penalty = self.penalty(step.number)
        self.steps.append({
            "candidates": [self._candidate(log_p[j], rows[j], tokens[j], penalty, fates.get(j))
                           for j in shown],
            "length_penalty": penalty, "ended": ended, "done": bool(step.done[0]),
            "reachable": finite(step.reachable[0]), "weights": self._weights(step.alignment)})
        self._rows = [(j, log_p[j]) for j in grown]
        best_first = sorted(ended, key=lambda hypothesis: -hypothesis["score"])
        self.best = [tuple(hypothesis["at"]) for hypothesis in best_first]

    def penalty(self, steps: int) -> float:
        """lp(e) after this number of steps. With a countdown, the length counts as a factor too."""
        return float(self.options.length_penalty(steps + self.counts))

    def _fates(self, step: SearchStep, grown: list[int], finished: list[int],
               ended: list[dict[str, Any]]) -> dict[int, str]:
        """The outcomes of the accepted candidates, by index."""
        places = [hypothesis["at"] for hypothesis in ended]
        at_limit = LAST if self.counts else CUT
        goes_on = GROWS if not step.done[0] else at_limit if step.number == self.limit else STOPPED
        return dict.fromkeys(grown, goes_on) | {
            j: FINISHED if [step.number - 1, j] in places else SURPASSED for j in finished}

    def _candidate(self, log_p: float, row: int, token: int, penalty: float,
                   fate: str | None) -> dict[str, Any]:
        """A candidate as data: its parent, its word, its scores and its outcome."""
        parent, before = self._rows[row]
        fate = fate or (END_OUTSIDE if token == END else OUTSIDE)
        return {"parent": parent, "word": self.words[token], "end": token == END,
                "word_log_p": log_p - before, "log_p": log_p, "score": log_p / penalty,
                "fate": fate}

    def _ended(self, hypothesis: Ended) -> dict[str, Any]:
        """An ended hypothesis: its identity, its score, and whether the end marker ended it."""
        step, last = hypothesis.step, hypothesis.last
        candidate = self._places[step][hypothesis.row, END if last is None else last]
        return {"at": [step, candidate], "score": hypothesis.score,
                "log_p": hypothesis.log_probability, "finished": self.counts or last is None}

    def _weights(self, alignment: Any) -> dict[int, list[float]] | None:
        """The attention of the step: extended candidate, or -1 in the first step -> weights (S,) in
        the order of the source's words."""
        if alignment is None:
            return None
        weights = np.round(to_host(alignment)[:, : self.columns].astype(np.float64), DIGITS)
        return {candidate: weights[row].tolist() for row, (candidate, _) in enumerate(self._rows)}


def finite(value: float) -> float | None:
    """A number for JSON; None for an infinity."""
    return float(value) if np.isfinite(value) else None


def path_of(steps: Sequence[dict[str, Any]], place: Sequence[int]) -> list[dict[str, Any]]:
    """The candidates of a hypothesis, one for each step, from the first step on."""
    path, (number, candidate) = [], place
    while candidate >= 0:
        path.append(steps[number]["candidates"][candidate])
        number, candidate = number - 1, path[-1]["parent"]
    return path[::-1]


def words_of(steps: Sequence[dict[str, Any]], place: Sequence[int]) -> list[str]:
    """The words of a hypothesis, without the end marker."""
    return [candidate["word"] for candidate in path_of(steps, place) if not candidate["end"]]
