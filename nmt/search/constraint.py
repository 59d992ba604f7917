"""Constraints of a search: which words may follow a hypothesis. A forced prefix; linear trees.

`Constrained` makes a model whose search is constrained, so that greedy search, beam search and
sampling need not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

import backend
from backend import Array
from backend.errors import UserError
from nmt.data.batches import Side
from nmt.data.trees import WORD
from nmt.data.vocabulary import END
from nmt.models.contract import Searchable
from nmt.search.fusion import log_p
from nmt.search.interface import Hypothesis, SearchOptions
from nmt.search.shortlist import Find


class Restriction(Protocol):
    """What restricts the searches of a `System`, batch by batch."""

    def limited(self, find: Find, sentences: Sequence[Sequence[str]]) -> Find:
        """The search function `find`, restricted for these sentences."""


class Constraint(Protocol):
    """Which words may follow a hypothesis, told by a prefix: what matters of its words so far.

    A prefix that `after` returned for an allowed word allows a word, so that no search gets stuck.
    """

    def first(self, sentence: int) -> Any:
        """The prefix before the first word of a sentence of the batch."""

    def allowed(self, prefix: Any) -> np.ndarray:
        """(V,) bool host array, the words that may follow; the end marker is one of them."""

    def after(self, prefix: Any, token: int) -> Any:
        """The prefix with one more word, which is allowed and not the end marker."""


class ConstrainedState(NamedTuple):
    model: Any
    prefixes: list[Any]  # of each row; None of rows that no search goes on with
    has_started: bool  # whether the first word was fed


class Constrained(Searchable):
    """A model that gives no probability to words that a constraint does not allow.

    The probabilities of the others stay the model's: a hypothesis has log p under the model, as
    where `<unk>` is not allowed.
    """

    scores = True  # `step` returns log p: no log softmax

    def __init__(self, model: Searchable, constraint: Constraint) -> None:
        self.model, self.constraint = model, constraint

    def encode(self, parameters: Mapping[str, Array], sources: tuple[Side, ...],
               rows: int) -> ConstrainedState:
        """The model's state and the prefixes before the first word."""
        return ConstrainedState(self.model.encode(parameters, sources, rows),
                                [self.constraint.first(i) for i in range(rows)], False)

    def step(self, parameters: Mapping[str, Array], state: ConstrainedState,
             tokens: np.ndarray) -> tuple[Array, ConstrainedState, Array | None]:
        """log p (N, V), nats, -inf for words that are not allowed; the new state; the alignment.

        A search fills its beam up with words of probability 0. What follows these does not matter.
        """
        prefixes = state.prefixes
        if state.has_started:
            prefixes = [self._after(prefix, int(token))
                        for prefix, token in zip(prefixes, tokens, strict=True)]
        logits, inner, alignment = self.model.step(parameters, state.model, tokens)
        scores = logits if self.model.scores else log_p(logits)
        all_words = np.ones(logits.shape[1], bool)
        allowed = np.stack([all_words if prefix is None else self.constraint.allowed(prefix)
                            for prefix in prefixes])                       # (N, V)
        scores = backend.array_module(scores).where(backend.to_device(allowed), scores, -np.inf)
        return scores, ConstrainedState(inner, prefixes, True), alignment

    def select(self, state: ConstrainedState, rows: np.ndarray,
               sentences: np.ndarray) -> ConstrainedState:
        """Both keep the same rows."""
        return state._replace(model=self.model.select(state.model, rows, sentences),
                              prefixes=[state.prefixes[row] for row in rows])

    def _after(self, prefix: Any, token: int) -> Any:
        """The prefix of a row that was fed a word; None where the word was not allowed."""
        if prefix is None or token == END or not self.constraint.allowed(prefix)[token]:
            return None
        return self.constraint.after(prefix, token)


# --- a forced prefix ------------------------------------------------------------------------------


class Prefix(Constraint):
    """Hypotheses begin with these words. What is told of one is how many words it has."""

    def __init__(self, ids: Sequence[int], size: int) -> None:
        self._ids, self._every = ids, np.ones(size, bool)

    def first(self, sentence: int) -> int:
        return 0

    def allowed(self, prefix: int) -> np.ndarray:
        if prefix >= len(self._ids):
            return self._every
        return np.arange(len(self._every)) == self._ids[prefix]

    def after(self, prefix: int, token: int) -> int:
        return prefix + 1


@dataclass(frozen=True)
class BeginsWith:
    """Searches for translations that begin with given words, whatever the sentences."""

    ids: Sequence[int]  # of the words, without the end marker
    size: int  # of the target vocabulary

    def limited(self, find: Find, sentences: Sequence[Sequence[str]]) -> Find:
        """The search function `find`, restricted to translations that begin so."""
        return lambda model, parameters, sources: find(
            Constrained(model, Prefix(self.ids, self.size)), parameters, sources)


# --- linear trees ---------------------------------------------------------------------------------


class TreeBegun(NamedTuple):
    """The beginning of a linear tree."""

    open: tuple[int, ...]  # the symbols that close its constituents, the outermost one first
    words: int  # still to come
    steps: int  # that the search has left, with that of the end marker
    empty: bool  # whether the innermost constituent has nothing in it


class ValidTrees(Constraint):
    """Linear trees (`nmt.data.trees`) with an XX for each word of the sentence.

    Constituents close in the reverse of the order in which they opened, none is empty, and the end
    marker comes when all are closed. None opens that the steps left would not suffice to close.
    """

    def __init__(self, symbols: Sequence[str], words: Sequence[int], limits: Iterable[int]) -> None:
        """symbols, the target vocabulary; words and limits, of each sentence its words and the most
        steps of the search.

        Raises ValueError for a limit that leaves no step for each word and the end marker.
        """
        self._starts = [TreeBegun((), n, int(limit), False)
                        for n, limit in zip(words, limits, strict=True)]
        for start in self._starts:
            if start.steps <= start.words:
                raise ValueError(f"limits: expected at least {start.words + 1} steps for "
                                 f"{start.words} words, got {start.steps}")
        place = {symbol: number for number, symbol in enumerate(symbols)}
        self._closing = {number: place[f"){symbol[1:]}"] for symbol, number in place.items()
                         if symbol[0] == "(" and f"){symbol[1:]}" in place}
        self._word, self._size = place[WORD], len(symbols)

    def first(self, sentence: int) -> TreeBegun:
        return self._starts[sentence]

    def allowed(self, prefix: TreeBegun) -> np.ndarray:
        allowed = np.zeros(self._size, bool)
        allowed[self._word] = prefix.words > 0
        # The symbols still needed are the open constituents' closing ones, the words, the end
        # marker. An opening symbol takes a step and adds its closing one.
        if prefix.words and prefix.steps >= len(prefix.open) + prefix.words + 1 + 2:
            allowed[[*self._closing]] = True
        if prefix.open and not prefix.empty:
            allowed[prefix.open[-1]] = True
        allowed[END] = not prefix.open and not prefix.words
        return allowed

    def after(self, prefix: TreeBegun, token: int) -> TreeBegun:
        opened, words, steps = prefix.open, prefix.words, prefix.steps - 1
        if token == self._word:
            return TreeBegun(opened, words - 1, steps, False)
        if token in self._closing:
            return TreeBegun((*opened, self._closing[token]), words, steps, True)
        return TreeBegun(opened[:-1], words, steps, False)


@dataclass(frozen=True)
class TreesOnly:
    """Searches for valid trees over the words of the sources."""

    symbols: Sequence[str]  # the target vocabulary
    options: SearchOptions  # of the search

    def limited(self, find: Find, sentences: Sequence[Sequence[str]]) -> Find:
        """The search function `find`, restricted to trees over these sentences."""

        def find_trees(model: Searchable, parameters: Mapping[str, Array],
                       sources: tuple[Side, ...]) -> list[list[Hypothesis]]:
            limits = self.options.step_limits(sources[0].lengths)
            try:
                trees = ValidTrees(self.symbols, [len(words) for words in sentences], limits)
            except ValueError as error:
                raise UserError(f"length_factor: {error}") from None
            return find(Constrained(model, trees), parameters, sources)

        return find_trees
