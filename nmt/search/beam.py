"""Beam search and greedy search over a batch of sentences.

Both share a loop. Each step feeds the last token of every active hypothesis to the model, proposes
the best extensions, removes those that emit the end marker from the beam, and continues with the
best of the others. Large arrays (logits, states, alignments) stay on the device. Each step
transfers two arrays of candidates to the host for bookkeeping.

Letters in addition to the legend: B' sentences that are not done (`B` in the code of a step), C
candidates for each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from backend import Array, array_module, to_device, to_host
from backend.topk import block_maxima, log_sum_exp, top_candidates
from nmt.data.batches import Side
from nmt.data.vocabulary import END, UNKNOWN
from nmt.models.contract import Searchable
from nmt.search.interface import Hypothesis, SearchOptions, alignment_lengths
from nmt.search.lengths import (
    Choose,
    Lengths,
    best_lengths,
    best_products,
    chosen_lengths,
    log_p_length,
    most_probable,
)
from nmt.search.steps import Active, Candidates, Ended, Fed, SearchObserver, SearchStep

# propose(logits (B'*K, V), log_probabilities (B', K)) -> log_probabilities (B', C), flat (B', C);
# flat = row within the sentence * V + token
Propose = Callable[[Array, np.ndarray], tuple[np.ndarray, np.ndarray]]


def beam_search(model: Searchable, parameters: Mapping[str, Array], sources: tuple[Side, ...],
                options: SearchOptions, limits: np.ndarray | None = None,
                observer: SearchObserver | None = None, propose: Propose | None = None,
                choose: Choose | None = None) -> list[list[Hypothesis]]:
    """Find the best translations of each sentence, keeping K hypotheses per step.

    Source: steps (a) to (c) (2.3.2 beam; Sennrich beam); scores from Nguyen 2019 (`SearchOptions`).

    Arguments:
        model: the model to search.
        parameters: the model's parameters.
        sources: the sources that the model reads; a translator has one, ids (S, B), or two.
        options: beam size, limits, normalisation, whether `<unk>` may be produced.
        limits: (B,) the most steps of each sentence; None: those of `options.step_limits`.
        observer: called after each step; may ask for more candidates.
        propose: as in `search`; None: the best candidates.
        choose: chooses the lengths that are searched with a model that counts down, which predicts
            lengths instead of the end marker; None: the most probable ones.

    Returns:
        For each sentence up to `options.nbest` hypotheses, best score first. Hypotheses cut at the
        step limit (`finished` False, with all their tokens) are only used if there are fewer than n
        finished ones. They are sorted among these by score, so that with n > 1 a cut hypothesis may
        be first.

    Raises:
        ValueError: shapes do not fit.
        FloatingPointError: a logit of the model is NaN or plus infinity.

    The thesis leaves two choices open. An end marker is accepted only among the K best candidates
    of its step, so that K = 1 is greedy search; K other hypotheses stay active at all times. A
    sentence is done when no active hypothesis can enter its n best any more: log-probabilities only
    fall, so that log p / lp(limit) is the best score that an active hypothesis can reach.

    A model that counts down is searched to the end for each of `options.lengths` lengths; all its
    hypotheses are finished (`nmt.search.lengths`). With an observer, only the best translation's
    length is observed, and only its hypotheses are returned.
    """
    columns = alignment_lengths(sources)
    B = len(columns)
    if limits is None:  # the longest source limits the steps
        limits = options.step_limits(np.max([side.lengths for side in sources], axis=0))
    if propose is None:
        count = max(2 * options.beam, 0 if observer is None else observer.candidates)
        propose = partial(best_candidates, count=count, scores=model.scores)
    state = model.encode(parameters, sources, B) if B else None
    if B and model.counts_down:
        return _counting_down(model, parameters, state, limits, options, propose, columns, observer,
                              choose or most_probable(options.lengths))
    return search(model, parameters, state, limits, options, propose, columns, observer)


def greedy(model: Searchable, parameters: Mapping[str, Array], sources: tuple[Side, ...],
           options: SearchOptions, limits: np.ndarray | None = None) -> list[Hypothesis]:
    """Translate by taking the most probable token at each step.

    Source: thesis Algorithm 5 lines 2-4, 7-9, 11 and 13, batched: y_{t+1} = argmax_i p_t(i)
    (Sennrich greedy).

    Arguments:
        model, parameters, sources, limits: as in `beam_search`.
        options: only the limit on steps and `unknown` are used.

    Returns:
        One hypothesis per sentence; its score is its log-probability. At the step limit all tokens
        so far are returned, as by the printed algorithm.

    Raises:
        ValueError, FloatingPointError: as in `beam_search`.
    """
    options = replace(options, beam=1, nbest=1, length_normalisation=0.0)
    propose = partial(best_words, scores=model.scores)
    nbests = beam_search(model, parameters, sources, options, limits, propose=propose)
    return [hypotheses[0] for hypotheses in nbests]


def _counting_down(model: Any, parameters: Mapping[str, Array], state: Any, limits: np.ndarray,
                   options: SearchOptions, propose: Propose, columns: np.ndarray,
                   observer: SearchObserver | None, choose: Choose) -> list[list[Hypothesis]]:
    """The best hypotheses of a model that counts down, over the lengths that are chosen."""
    of_length = chosen_lengths(log_p_length(model.lengths(state)), limits, choose)
    nbests = _of_lengths(model, parameters, state, of_length, options, propose, columns)
    if observer is None:
        return nbests
    length_of_best = best_lengths(of_length, nbests)
    return _of_lengths(model, parameters, state, length_of_best, options, propose, columns,
                       observer)


def _of_lengths(model: Any, parameters: Mapping[str, Array], state: Any, of_length: Lengths,
                options: SearchOptions, propose: Propose, columns: np.ndarray,
                observer: SearchObserver | None = None) -> list[list[Hypothesis]]:
    """The best hypotheses of a model that counts down, from a search for each length."""
    nonempty, nbests = of_length.of(of_length.words > 0), list[list[Hypothesis]]()
    if len(nonempty.words):
        state = model.counting(state, nonempty.sentences, nonempty.words)
        nbests = search(model, parameters, state, nonempty.words, options, propose,
                        columns[nonempty.sentences], observer, nonempty.log_p)
    return best_products(of_length, nbests, len(columns), options)


def search(model: Searchable, parameters: Mapping[str, Array], state: Any, limits: np.ndarray,
           options: SearchOptions, propose: Propose,
           columns: np.ndarray | None = None,
           observer: SearchObserver | None = None,
           first: np.ndarray | None = None) -> list[list[Hypothesis]]:
    """Run the loop that beam search, greedy search and sampling share, from any state.

    Arguments:
        model, parameters, options: as in `beam_search`.
        state: of B sentences with a row each, as `Searchable.encode` returns it.
        limits: (B,) the most steps of each sentence.
        propose: returns the candidates of a step, best first, from the device logits and the
            log-probabilities of the active hypotheses.
        columns: (B,) the number of columns that each sentence's alignment is cut to; None: no
            alignment.
        observer: called after each step.
        first: (B,) for a model that counts down, log p of the length of each sentence, which is its
            limit; it replaces log p of the end marker.

    Returns, raises:
        As `beam_search`; ValueError also for limits that are not B, or below 1.
    """
    B = len(limits if columns is None else columns)
    if limits.shape != (B,) or (B and limits.min() < 1):
        raise ValueError(f"limits: expected {B} numbers of at least 1, got {limits}")
    ended: list[list[Ended]] = [[] for _ in range(B)]
    history: list[Fed] = []
    start = np.arange(B)
    start_scores = np.zeros(B) if first is None else first                 # (B,) (Nguyen 4.1)
    active = Active(start, start[:, None], np.full((B, 1), END), start_scores[:, None])
    while len(active.sentences):
        tokens, rows = active.tokens.reshape(-1), active.rows.reshape(-1)
        logits, state, alignment = model.step(parameters, state, tokens)
        history.append(Fed(tokens, rows, None if columns is None else alignment))
        steps = len(history)
        if forbidden := _forbidden(model, options, steps):
            logits, log_p = without(logits, forbidden)
            active = _corrected(active, log_p, model.scores)
        active, candidates = _extend(active, logits, options, propose, steps, ended)
        done, reachable = _done(active, options, limits, steps, ended, int(first is not None))
        if observer is not None:
            observer.on_step(SearchStep(steps, candidates, active, alignment, ended, limits,
                                        reachable, done, start_scores))
        keep = ~done
        active = Active(*(array[keep] for array in active))
        rows = active.rows.reshape(-1)
        if len(rows) and not np.array_equal(rows, np.arange(len(tokens))):
            state = model.select(state, rows, np.flatnonzero(keep))
    for best in ended:
        best.sort(key=lambda hypothesis: -hypothesis.score)
    alignments = [to_host(fed.alignment) for fed in history if fed.alignment is not None]
    widths = limits if columns is None else columns
    return [[_hypothesis(hypothesis, history, alignments, int(width)) for hypothesis in best]
            for best, width in zip(ended, widths, strict=True)]


def _forbidden(model: Searchable, options: SearchOptions, steps: int) -> list[int]:
    """The words that a step may not produce."""
    no_end = model.counts_down or steps <= options.minimum_length
    return [*[UNKNOWN] * (not options.unknown), *[END] * no_end]


def _corrected(active: Active, log_p: np.ndarray, scores: bool) -> Active:
    """The hypotheses with log_p (N,), the log-probability of all allowed words together, added.

    A softmax over the allowed words plus this is the model's own log-probability. Scores are no
    softmax and need no correction.
    """
    before = active.log_probabilities
    return active if scores else active._replace(
        log_probabilities=before + log_p.reshape(before.shape))


def _extend(active: Active, logits: Array, options: SearchOptions, propose: Propose, steps: int,
            ended: list[list[Ended]]) -> tuple[Active, Candidates]:
    """Grow the active hypotheses by one token; move those that emit the end marker to `ended`."""
    B, K = active.tokens.shape
    V = logits.shape[1]
    scores, flat = propose(logits, active.log_probabilities)  # (B, C)
    if np.isnan(scores).any():
        raise FloatingPointError(f"model: a logit is not finite at step {steps} of the search")
    tokens = flat % V
    rows = flat // V + K * np.arange(B)[:, None]
    is_end = tokens == END
    finished = is_end[:, : options.beam] & (scores[:, : options.beam] > -np.inf)
    for i, j in np.argwhere(finished):
        _end(ended[active.sentences[i]], scores[i, j], steps, rows[i, j], None, options)
    width = min(options.beam, K * (V - 1))
    order = np.argsort(is_end, axis=1, kind="stable")[:, :width]  # ends last, best first
    growing = np.where(is_end, -np.inf, scores)
    kept = (np.arange(B)[:, None], order)
    return (Active(active.sentences, rows[kept], tokens[kept], growing[kept]),
            Candidates(scores, rows, tokens, finished, order))


def _end(ended: list[Ended], log_probability: float, steps: int, row: int, last: int | None,
         options: SearchOptions, factors: int = 0) -> None:
    """Record an ended hypothesis of a sentence, and keep the n best, finished ones first.

    factors: how many factors its probability has in addition to those of the steps.
    """
    score = float(log_probability / options.length_penalty(steps + factors))
    ended.append(Ended(score, float(log_probability), steps - 1, int(row), last))
    ended.sort(key=lambda hypothesis: (hypothesis.last is not None, -hypothesis.score))
    del ended[options.nbest :]


def _done(active: Active, options: SearchOptions, limits: np.ndarray, steps: int,
          ended: list[list[Ended]], factors: int) -> tuple[np.ndarray, np.ndarray]:
    """Which sentences (B',) are done, and the best score that an active hypothesis of each can
    reach. At the step limit, the active hypotheses are added to `ended`."""
    limits = limits[active.sentences]
    for i in np.flatnonzero(steps == limits):
        for row, token, score in zip(active.rows[i], active.tokens[i], active.log_probabilities[i],
                                     strict=True):
            if score > -np.inf:
                _end(ended[active.sentences[i]], score, steps, row, int(token), options, factors)
    reachable = active.log_probabilities[:, 0] / options.length_penalty(limits + factors)  # (B',)
    worst = np.array([ended[i][-1].score if len(ended[i]) == options.nbest else -np.inf
                      for i in active.sentences])
    return (steps == limits) | (worst >= reachable), reachable


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


# --- proposals ------------------------------------------------------------------------------------


def without(logits: Array, forbidden: Sequence[int]) -> tuple[Array, np.ndarray]:
    """Return logits that forbid some words, and the log-probability of all other words together.

    Source: Bahdanau et al. (2015), Table 1: "We disallowed the models to generate [UNK] tokens".
    The probability of a forbidden word is not redistributed to other words, so that a hypothesis
    still has log p under the model.

    Arguments:
        logits: (N, V) real, nats; not written to.
        forbidden: ids, such as that of `<unk>`.

    Returns:
        logits: (N, V), a copy with -inf for these.
        allowed: (N,) float64 host array, log(1 - p(forbidden)) <= 0, nats: the log-probabilities of
            the copy's softmax plus this are the model's own.
    """
    allowed_logits = logits.copy()
    for word in forbidden:  # a list of ids would have to be copied to the device
        allowed_logits[:, word] = -float("inf")
    allowed = total = log_sum_exp(allowed_logits, allowed_logits.max(axis=1))
    for word in forbidden:
        total = array_module(logits).logaddexp(total, logits[:, word])
    return allowed_logits, to_host(allowed - total).astype(np.float64)


def best_candidates(logits: Array, log_probabilities: np.ndarray, count: int,
                    scores: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return the most probable one-token extensions of each sentence's hypotheses.

    Source: thesis section 2.3.2, step (c): log p(y_1..y_t) = log p(y_1..y_{t-1}) + log p_t(y_t).

    Arguments:
        logits: (B*K, V) real device array, unnormalised, nats; rows grouped by sentence.
        log_probabilities: (B, K) float64 host array, nats; the first of each row is finite.
        count: candidates per sentence wanted; fewer if there are fewer.
        scores: whether the logits are added as they are, log p_t or a score in place of it.

    Returns:
        log_probabilities: (B, C) float64 host array, best first; NaN throughout a sentence that
            has a logit that is NaN or plus infinity.
        flat: (B, C) int64 host array, row within the sentence * V + token.
    """
    B, K = log_probabilities.shape
    count = min(count, K * logits.shape[1])
    # Relative to the sentence's best, so that float32 logits are not added to ever larger sums.
    best = log_probabilities[:, :1]
    relative = to_device((log_probabilities - best).astype(logits.dtype))  # (B, K)
    maxima = block_maxima(logits)
    largest = maxima.max(axis=1)
    normaliser = (0.0 * largest if scores else log_sum_exp(logits, largest)).reshape(B, K)
    values, flat = top_candidates(logits, maxima, relative - normaliser, count)
    values = values + 0.0 * normaliser.sum(axis=1, keepdims=True)  # adds 0, or NaN, which is found
    return best + to_host(values), to_host(flat)


def best_words(logits: Array, log_probabilities: np.ndarray,
               scores: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """As `best_candidates`, the most probable word of sentences of one hypothesis each, which needs
    no blocks: logits (B, V), log_probabilities and results (B, 1)."""
    largest = logits.max(axis=1)
    log_p = largest - (0.0 * largest if scores else log_sum_exp(logits, largest))  # 0.0 keeps NaN
    return (log_probabilities + to_host(log_p)[:, None],
            to_host(logits.argmax(axis=1))[:, None])
