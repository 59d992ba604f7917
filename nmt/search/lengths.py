"""Search by length: the choice of the lengths to search, and the best translation over them.

Source: Nguyen (2019), 4.1.2: "we will first select some top k lengths produced by the length model.
Then NMT can start decoding accordingly each possible length. The best hypothesis is chosen
according to the score in equation 4.1", p_length(|y| | x) p(y | x).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

import backend
from backend import Array
from backend.topk import log_sum_exp
from nmt.search.interface import Hypothesis, SearchOptions

Choose = Callable[[np.ndarray], np.ndarray]  # log p_length (B, L), -inf: not allowed -> (B, k)


class Lengths(NamedTuple):
    """The lengths to search for each sentence, the most probable first."""

    sentences: np.ndarray  # (N,) ascending
    words: np.ndarray  # (N,) from 0
    log_p: np.ndarray  # (N,) float64, log p_length, nats

    def of(self, selection: np.ndarray) -> Lengths:
        """The lengths at positions (N',), or where a mask (N,) is True."""
        return Lengths(*(array[selection] for array in self))


def log_p_length(logits: Array) -> np.ndarray:
    """The log softmax (B, L) of a length model's logits (B, L), float64 on the host."""
    normalised = logits - log_sum_exp(logits, logits.max(axis=1))[:, None]
    return backend.to_host(normalised).astype(np.float64)


def most_probable(k: int) -> Choose:
    """The choice of the k most probable lengths; of equal ones the shorter (Nguyen 4.1.2 k)."""
    return lambda log_p: np.argsort(-log_p, axis=1, kind="stable")[:, :k]


def drawn(temperature: float, rng: np.random.Generator) -> Choose:
    """The choice of a length drawn from p_length^(1 / temperature), by inverse transform sampling.
    """
    def choose(log_p: np.ndarray) -> np.ndarray:
        shifted = (log_p - log_p.max(axis=1, keepdims=True)) / temperature
        running = np.cumsum(np.exp(shifted), axis=1)
        uniform = rng.random(len(log_p))[:, None] * running[:, -1:]
        return np.asarray((running <= uniform).sum(axis=1, keepdims=True))

    return choose


def chosen_lengths(log_p: np.ndarray, limits: np.ndarray, choose: Choose) -> Lengths:
    """The lengths to search, of at most limits (B,) - 1 words: one step of the limit is for the end
    marker, as in other models.

    log_p: (B, L), nats. choose: chooses lengths by log_p.
    """
    log_p = np.where(np.arange(log_p.shape[1]) < limits[:, None], log_p, -np.inf)
    words = choose(log_p)                                                  # (B, k)
    sentences = np.repeat(np.arange(len(log_p)), words.shape[1])
    lengths = Lengths(sentences, words.reshape(-1), log_p[sentences, words.reshape(-1)])
    return lengths.of(lengths.log_p > -np.inf)


def best_lengths(lengths: Lengths, nbests: Sequence[Sequence[Hypothesis]]) -> Lengths:
    """The length of each sentence's best translation, from the result of `best_products`."""
    best = np.array([len(nbest[0].tokens) for nbest in nbests])
    return lengths.of(lengths.words == best[lengths.sentences])


def best_products(
    lengths: Lengths, nbests: Sequence[Sequence[Hypothesis]], sentences: int, options: SearchOptions
) -> list[list[Hypothesis]]:
    """The n best hypotheses of each sentence by p_length(|y| | x) p(y | x) (Nguyen 4.1).

    The best score comes first. nbests: for each length except 0, the hypotheses of this length,
    whose scores are products. An empty translation has the probability of its length.
    """
    results: list[list[Hypothesis]] = [[] for _ in range(sentences)]
    following = iter(nbests)
    for sentence, words, log_p in zip(*lengths, strict=True):
        empty = Hypothesis([], float(log_p), float(log_p), None, True)     # lp of one factor is 1
        results[sentence] += next(following) if words else [empty]
    results = [[replace(hypothesis, finished=True) for hypothesis in nbest] for nbest in results]
    return [sorted(nbest, key=lambda hypothesis: -hypothesis.score)[: options.nbest]
            for nbest in results]
