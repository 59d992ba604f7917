"""Constraints of a search, which say which words may follow: a forced prefix; linear trees.

`Constrained` makes a model whose search is constrained, so that greedy search, beam search and
sampling need no change.
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
    """A restriction of the searches of a `System`, for each batch."""

    def limited(self, find: Find, sentences: Sequence[Sequence[str]]) -> Find:
        """The search function `find`, restricted for these sentences."""


class Constraint(Protocol):
    """Says which words may follow a hypothesis, by a prefix, which summarises its words so far.

    A prefix that `after` returned for an allowed word allows some word, so that no search gets
    stuck.
    """

    def first(self, sentence: int) -> Any:
        """The prefix before the first word of a sentence of the batch."""

    def allowed(self, prefix: Any) -> np.ndarray:
        """(V,) bool host array: which words, including the end marker, may follow."""

    def after(self, prefix: Any, token: int) -> Any:
        """The prefix with one more word, which is allowed and not the end marker."""


class ConstrainedState(NamedTuple):
    model: Any  # the model's state
    prefixes: list[Any]  # of each row; None for rows with a word that was not allowed
    has_started: bool  # whether the first word was fed


class Constrained(Searchable):
    """A model that gives probability 0 to words that a constraint does not allow.

    The probabilities of the other words are not renormalised, so that a hypothesis has log p under
    the model, as when `<unk>` is forbidden.
    """

    scores = True  # `step` returns log p, which needs no log softmax

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

        A search may fill its beam with words of probability 0. All words may follow these.
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
        """Keep these rows and sentences."""
        return state._replace(model=self.model.select(state.model, rows, sentences),
                              prefixes=[state.prefixes[row] for row in rows])

    def _after(self, prefix: Any, token: int) -> Any:
        """The prefix of a row that was fed a word; None where the word was not allowed."""
        if prefix is None or token == END or not self.constraint.allowed(prefix)[token]:
            return None
        return self.constraint.after(prefix, token)


# --- a forced prefix ------------------------------------------------------------------------------


class Prefix(Constraint):
    """Hypotheses that begin with these words. The prefix is the number of words so far."""

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
        """The search function `find`, restricted to translations that begin with the words."""
        return lambda model, parameters, sources: find(
            Constrained(model, Prefix(self.ids, self.size)), parameters, sources)


# --- linear trees ---------------------------------------------------------------------------------


class PartialTree(NamedTuple):
    """The beginning of a linear tree."""

    open: tuple[int, ...]  # the symbols that close its open constituents, the outermost one first
    words: int  # words that are still to come
    steps: int  # steps that the search has left, including the end marker's
    empty: bool  # whether the innermost open constituent is empty


class ValidTrees(Constraint):
    """Linear trees (`nmt.data.trees`) with an XX for each word of the sentence.

    Constituents close in the reverse of the order in which they opened. None is empty, and the end
    marker comes when all are closed. A constituent opens only if enough steps are left to close it.
    """

    def __init__(self, symbols: Sequence[str], words: Sequence[int], limits: Iterable[int]) -> None:
        """symbols: the target vocabulary. words: the number of words of each sentence. limits: the
        most steps of each sentence's search.

        Raises ValueError for a limit below a sentence's words and the end marker.
        """
        self._starts = [PartialTree((), n, int(limit), False)
                        for n, limit in zip(words, limits, strict=True)]
        for start in self._starts:
            if start.steps <= start.words:
                raise ValueError(f"limits: expected at least {start.words + 1} steps for "
                                 f"{start.words} words, got {start.steps}")
        place = {symbol: number for number, symbol in enumerate(symbols)}
        self._closing = {number: place[f"){symbol[1:]}"] for symbol, number in place.items()
                         if symbol[0] == "(" and f"){symbol[1:]}" in place}
        self._word, self._size = place[WORD], len(symbols)

    def first(self, sentence: int) -> PartialTree:
        return self._starts[sentence]

    def allowed(self, prefix: PartialTree) -> np.ndarray:
        allowed = np.zeros(self._size, bool)
        allowed[self._word] = prefix.words > 0
        # The symbols that are still needed are those that close open constituents, the words, and
        # the end marker. An opening symbol takes a step, and adds a closing symbol.
        if prefix.words and prefix.steps >= len(prefix.open) + prefix.words + 1 + 2:
            allowed[[*self._closing]] = True
        if prefix.open and not prefix.empty:
            allowed[prefix.open[-1]] = True
        allowed[END] = not prefix.open and not prefix.words
        return allowed

    def after(self, prefix: PartialTree, token: int) -> PartialTree:
        opened, words, steps = prefix.open, prefix.words, prefix.steps - 1
        if token == self._word:
            return PartialTree(opened, words - 1, steps, False)
        if token in self._closing:
            return PartialTree((*opened, self._closing[token]), words, steps, True)
        return PartialTree(opened[:-1], words, steps, False)


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
