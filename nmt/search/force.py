"""Force-decoding: log-probabilities and alignments of a given translation under a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import backend
from backend import Array
from backend.topk import log_sum_exp
from nmt.data.batches import Batch
from nmt.models.contract import Searchable
from nmt.search.interface import Hypothesis, alignment_lengths
from nmt.search.lengths import log_p_length


def force_decode(
    model: Searchable, parameters: Mapping[str, Array], batch: Batch
) -> list[Hypothesis]:
    """Feed the words of the targets to the model, whatever it predicts.

    Source: thesis section 4.4.4: "I force decode my attentional models to produce translations
    that match the references".

    model: a model or an ensemble. batch: padded pairs. Returns for each pair, in the batch's order,
    a finished hypothesis: the target's ids, their log-probability together with the end marker's,
    and the alignment of every step, (m + 1, S_i), whose columns are in the order of the source ids
    in the batch; several sources have a joint alignment. With a model that counts down, the length
    takes the place of the end marker and has no alignment.
    """
    T, B = batch.target_in.shape
    state = model.encode(parameters, batch.sources, B)
    rows, of_length = np.arange(B), None
    if model.counts_down:
        counting: Any = model
        words = batch.target.lengths - 1
        of_length = log_p_length(counting.lengths(state))[rows, words]     # (B,) (Nguyen 4.1)
        state, T = counting.counting(state, rows, np.maximum(words, 1)), int(words.max())
    log_p, alignments = [], []
    for t in range(T):
        logits, state, alignment = model.step(parameters, state, batch.target_in[t])
        on_device = backend.to_device(rows), backend.to_device(batch.target_out[t])
        log_p.append(logits[on_device] - log_sum_exp(logits, logits.max(axis=1)))  # (B,)
        if alignment is not None:
            alignments.append(alignment)
    nats = np.zeros((len(batch.target_out), B))                            # (T, B)
    if log_p:
        nats[:T] = backend.to_host(backend.array_module(log_p[0]).stack(log_p))
    if of_length is not None:
        nats[batch.target.lengths - 1, rows] = of_length
    xp = backend.array_module(*alignments) if alignments else np
    aligned = backend.to_host(xp.stack(alignments)) if alignments else None  # (T, B, S)
    return [_hypothesis(batch, nats, aligned, b, of_length is None) for b in range(B)]


def _hypothesis(
    batch: Batch, nats: np.ndarray, alignment: np.ndarray | None, b: int, has_end: bool
) -> Hypothesis:
    """The hypothesis of pair b, without padding. has_end: whether the end marker has a step."""
    steps, S = int(batch.target.lengths[b]), int(alignment_lengths(batch.sources)[b])
    total = float(nats[:steps, b].sum())
    aligned = None if alignment is None else alignment[: steps if has_end else steps - 1, b, :S]
    return Hypothesis(batch.target_out[: steps - 1, b].tolist(), total, total, aligned, True,
                      nats[:steps, b])
