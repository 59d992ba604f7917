"""The table t(f | e) that all models here share, and its M-step."""

from __future__ import annotations

import numpy as np

from nmt.data.aligner.word_pairs import Floats, WordPairs


def uniform(corpus: WordPairs) -> Floats:
    """t(f | e) alike for all words f that stand beside e somewhere; (types,)."""
    return (1.0 / corpus.targets_of_source)[corpus.source_of_type]


def maximise(corpus: WordPairs, counts: Floats, prior: float = 0.0) -> Floats:
    """The M-step: t(f | e) from expected counts c(f, e).

    Source: Brown et al. (1993), equation 17, t = c(f, e) / sum_f c(f, e), for prior 0; with a
    Dirichlet prior a > 0 the variational form of Riley and Gildea (2012), equation 7,
    t = exp(digamma(c(f, e) + a)) / exp(digamma(sum_f (c(f, e) + a))). It discounts small counts,
    so that rare source words do not attract whatever stands beside them.

    counts: (types,); a source word without counts keeps a row of zeros, or with a prior its share.
    """
    totals = corpus.per_source(counts)
    if prior:
        counts = _exp_digamma(counts + prior)
        totals = _exp_digamma(totals + prior * corpus.targets_of_source)
    totals[totals == 0.0] = 1.0
    return counts / totals[corpus.source_of_type]


def _exp_digamma(x: Floats) -> Floats:
    """exp(digamma(x)) for x > 0: six steps of digamma(x) = digamma(x + 1) - 1 / x, then the
    asymptotic series, off by less than 1e-9 from x = 6 on."""
    shift = np.zeros_like(x)
    for step in range(6):
        shift -= 1.0 / (x + step)
    y = x + 6.0
    z = 1.0 / (y * y)
    series = z * (1 / 12 - z * (1 / 120 - z * (1 / 252 - z / 240)))
    return y * np.exp(shift - 0.5 / y - series)
