"""Translations drawn at random from the model's distribution."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

import numpy as np

import backend
from backend import Array
from backend.topk import log_sum_exp, row_chunks
from nmt.data.batches import Side
from nmt.models.contract import Searchable
from nmt.search.beam import beam_search
from nmt.search.interface import Hypothesis, SearchOptions
from nmt.search.lengths import drawn


def sample(model: Searchable, parameters: Mapping[str, Array], sources: tuple[Side, ...],
           options: SearchOptions, temperature: float, rng: np.random.Generator,
           limits: np.ndarray | None = None) -> list[Hypothesis]:
    """Draw one translation per sentence, token by token.

    Source: y_t ~ softmax(logits_t / temperature) (Sennrich sampling; Nair 6.2 step 4b).

    Arguments:
        model, parameters, sources, limits: as in `beam.beam_search`.
        options: only the limits on steps and `unknown` are used; without `<unk>`, the other words
            are drawn in their own proportions.
        temperature: positive; 1 samples the model's distribution, towards 0 it becomes greedy.
        rng: host generator; a uniform number is drawn for each active sentence and step, so that a
            draw depends on the other sentences of the batch. With a model that counts down, the
            lengths are drawn first.

    Returns:
        One hypothesis per sentence. Its log-probability and its score are the model's own, at
        temperature 1. For several draws, repeat the sentence in the batch.

    Raises:
        ValueError: the temperature is not positive, or as in `beam.beam_search`.
    """
    if not (math.isfinite(temperature) and temperature > 0):
        raise ValueError(f"temperature: expected a positive number, got {temperature}")
    options = SearchOptions(length_factor=options.length_factor,
                            minimum_steps=options.minimum_steps,
                            minimum_length=options.minimum_length, unknown=options.unknown)
    propose = partial(_draw_candidate, temperature=float(temperature), rng=rng, scores=model.scores)
    nbests = beam_search(model, parameters, sources, options, limits, propose=propose,
                         choose=drawn(float(temperature), rng))
    return [hypotheses[0] for hypotheses in nbests]


def best_of_draws(model: Searchable, parameters: Mapping[str, Array], sources: tuple[Side, ...],
                  options: SearchOptions, temperature: float, rng: np.random.Generator,
                  draws: int) -> list[Hypothesis]:
    """Draw several translations per sentence and keep the most probable.

    Source: "repeat this process multiple times, obtaining many translations each with a conditional
    probability, and pick the one with the highest probability" (Nair 6.4 draws).

    Arguments, raises: as `sample`; draws: at least 1.
    Returns: as `sample`. A draw that was cut at the limit lacks the end marker's probability, and
    is used only if no draw ended.
    """
    drawn_batches = [sample(model, parameters, sources, options, temperature, rng)
                     for _ in range(draws)]
    return [max(hypotheses, key=lambda drawn: (drawn.finished, drawn.log_probability))
            for hypotheses in zip(*drawn_batches, strict=True)]


def draw(logits: Array, maxima: Array, uniform: Array, temperature: float) -> Array:
    """Draw one column per row from softmax(logits / temperature), by inverse transform sampling.

    Arguments:
        logits: (N, V) real, nats; not written to.
        maxima: (N,) the largest logit of each row.
        uniform: (N,) float64 in [0, 1).
        temperature: positive; if it underflows, the largest logit is drawn.

    Returns:
        (N,) int64: the number of columns whose running sum is at most uniform * total.
    """
    xp = backend.array_module(logits, maxima, uniform)
    N, limits = logits.shape[0], np.finfo(logits.dtype)
    # In the dtype of the logits it must be neither 0, which would give 0 / 0, nor infinity.
    temperature = min(max(temperature, float(limits.tiny)), float(limits.max))
    columns = xp.empty((N,), xp.int64)
    for rows in row_chunks(logits):
        with np.errstate(over="ignore"):  # towards 0 all but the largest logits become -infinity
            shifted = (logits[rows] - maxima[rows, None]) / temperature  # (rows of the chunk, V)
        running = xp.cumsum(xp.exp(shifted), axis=1, dtype=xp.float64)
        columns[rows] = (running <= uniform[rows, None] * running[:, -1:]).sum(axis=1)
    return columns  # below V: a float64 total times at most 1 - 2**-53 rounds to less than itself


def _draw_candidate(logits: Array, log_probabilities: np.ndarray, temperature: float,
                    rng: np.random.Generator, scores: bool) -> tuple[np.ndarray, np.ndarray]:
    """Propose one drawn token per sentence, with its log-probability under the model. scores:
    whether the logits are log-probabilities already."""
    xp = backend.array_module(logits)
    N = len(logits)
    maxima = logits.max(axis=1)  # (N,)
    tokens = draw(logits, maxima, backend.to_device(rng.random(N)), temperature)
    drawn = logits[xp.arange(N), tokens] - (0.0 if scores else log_sum_exp(logits, maxima))
    return (log_probabilities + backend.to_host(drawn)[:, None], backend.to_host(tokens)[:, None])
