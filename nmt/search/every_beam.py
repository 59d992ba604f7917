"""Beam search with every beam size up to a given one, and the best of all hypotheses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from backend import Array
from nmt.data.batches import Side
from nmt.models.contract import Searchable
from nmt.search.beam import beam_search
from nmt.search.interface import Hypothesis, SearchOptions


def every_beam_search(
    model: Searchable, parameters: Mapping[str, Array], sources: tuple[Side, ...],
    options: SearchOptions, limits: np.ndarray | None = None,
) -> list[list[Hypothesis]]:
    """Search with each beam size B' = 1 .. `options.beam`; return the n best of all, best first.

    Source: "a beam search for each B' in {1, 2, ..., B} [...] and pick the translation with the
    highest probability out of all of the searches" (Nair 6.5 beam). A larger beam need not find the
    result of a smaller one, since the beginning of a better translation may be pruned early. The
    search takes about (B + 1) / 2 times as long as `beam_search`.

    Arguments, raises: as `beam_search`.
    Returns: as `beam_search`; `Hypothesis.beam` is the largest B' that found it. Cut hypotheses,
    whose probability lacks a factor, are only used if there are too few finished ones.
    """
    hypotheses: list[dict[tuple[int, ...], Hypothesis]] = [{} for _ in sources[0].lengths]
    for beam in range(1, options.beam + 1):
        narrow = replace(options, beam=beam, nbest=min(options.nbest, beam))
        nbests = beam_search(model, parameters, sources, narrow, limits)
        for known, nbest in zip(hypotheses, nbests, strict=True):
            for hypothesis in nbest:
                key = (*hypothesis.tokens, -1 if hypothesis.finished else -2)
                known[key] = replace(hypothesis, beam=beam)
    return [_best(known.values(), options.nbest) for known in hypotheses]


def _best(hypotheses: Iterable[Hypothesis], n: int) -> list[Hypothesis]:
    """The n best hypotheses, sorted by score. Finished ones are taken before all others."""
    best = sorted(hypotheses,
                  key=lambda hypothesis: (not hypothesis.finished, -hypothesis.score))[:n]
    return sorted(best, key=lambda hypothesis: -hypothesis.score)
