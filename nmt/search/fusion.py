"""Shallow fusion: a translator and a language model that are searched as one.

Source: Gulcehre et al. (2015), section 4.1; Sennrich's slides, "rescore beam with language model":

    score(y_t) = log p_TM(y_t | y_<t, x) + beta log p_LM(y_t | y_<t)        (Gulcehre shallow)

at each step, including the end marker's. The scores of a step are not normalised over the words,
because that would cancel the language model's preference between hypotheses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from backend import Array
from backend.topk import log_sum_exp
from nmt.data.batches import Batch, Side
from nmt.models.contract import Searchable
from nmt.search.combine import Ensemble


class FusedState(NamedTuple):
    translator: Any
    language: Any


class ShallowFusion(Searchable):
    """A translator, or an ensemble, with the scores of a language model of the same words added.

    The parameters are those of both in one mapping (`Ensemble.joined`). The language model begins
    each sentence as it begins a text, by reading `</s>`.
    """

    scores = True  # `step` returns scores, which need no log softmax

    def __init__(self, translator: Searchable, language: Searchable, beta: float) -> None:
        """beta: weight of the language model, at least 0."""
        self.translator, self.language, self.beta = translator, language, beta

    def encode(self, parameters: Mapping[str, Array], sources: tuple[Side, ...],
               rows: int) -> FusedState:
        """The states of both before the first word."""
        of_translator, language = Ensemble.divided(parameters, 2)
        return FusedState(self.translator.encode(of_translator, sources, rows),
                          self.language.encode(language, (), rows))

    def step(self, parameters: Mapping[str, Array], state: FusedState,
             tokens: np.ndarray) -> tuple[Array, FusedState, Array | None]:
        """Scores (N, V) in nats, the new states of both, and the translator's alignment."""
        of_translator, language = Ensemble.divided(parameters, 2)
        logits, translator, alignment = self.translator.step(
            of_translator, state.translator, tokens)
        language_logits, spoken, _ = self.language.step(language, state.language, tokens)
        scores = log_p(logits) + self.beta * log_p(language_logits)       # (Sennrich fusion)
        return scores, FusedState(translator, spoken), alignment

    def select(self, state: FusedState, rows: np.ndarray, sentences: np.ndarray) -> FusedState:
        """Keep these rows and sentences in both states."""
        return FusedState(self.translator.select(state.translator, rows, sentences),
                          self.language.select(state.language, rows, sentences))

    def loss(self, parameters: Mapping[str, Array], batch: Batch) -> tuple[Any, Any]:
        """The loss of the translator alone."""
        translator: Any = self.translator
        return translator.loss(Ensemble.divided(parameters, 2)[0], batch)


def log_p(logits: Array) -> Array:
    """The log softmax of each row of logits (N, V)."""
    return logits - log_sum_exp(logits, logits.max(axis=1))[:, None]
