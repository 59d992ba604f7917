"""Word alignment of a parallel corpus without a translation model, by EM in both directions.

`align` runs IBM Model 1 (`model1`) and then an HMM (`hmm`), in both directions, which are trained
to agree (`agreement`). `symmetrise` joins the two results. `eflomal` runs that program instead. All
are deterministic except eflomal, which samples. Peak memory is about 130 bytes for each pair of a
source word and a target word in the same sentence pair.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

import numpy as np

from nmt.data.align import Link
from nmt.data.aligner import hmm, model1
from nmt.data.aligner.agreement import Agreement
from nmt.data.aligner.symmetrise import swapped
from nmt.data.aligner.word_pairs import Floats, Words, word_pairs

METHODS = ("model1", "hmm")
# Half of NULL or UNIFORM, or twice the iterations, changes error rates by a point or two.
ITERATIONS = 5  # of EM, of each model
NULL = 0.2  # p_0 of the HMM, the probability that a target word has no source word
UNIFORM = 0.2  # the weight u of 1 / I in the HMM's jumps
Links = list[list[Link]]  # the links of each sentence pair
Entry = tuple[str, str, float]  # source word, target word, p(target word | source word)
Tell = Callable[[int, int], None]  # receives the iterations of EM that are done, and the total


class _Direction:
    """The model of one direction: targets generated from sources."""

    def __init__(self, sources: Words, targets: Words) -> None:
        self.corpus = word_pairs(sources, targets)
        self._table = model1.uniform(self.corpus)
        self._jumps = hmm.even_jumps(self.corpus, NULL, UNIFORM)

    def expect(self, by_hmm: bool) -> Floats:
        """The posteriors of an E-step, which also updates the HMM's jumps."""
        if not by_hmm:
            return model1.expectation(self.corpus, self._table)
        posteriors, self._jumps = hmm.expectation(self.corpus, self._table, self._jumps)
        return posteriors

    def maximise(self, posteriors: Floats) -> None:
        """The M-step of t(f | e)."""
        self._table = model1.maximisation(self.corpus, posteriors)

    def entries(self, sources: Words, targets: Words) -> list[Entry]:
        """t(target | source) for all source words except NULL; for each, the most probable first.
        """
        x, y = (list(dict.fromkeys(chain.from_iterable(side))) for side in (sources, targets))
        corpus, t = self.corpus, self._table
        order = np.lexsort((-t, corpus.source_of_type))
        return [(x[f - 1], y[e], p) for f, e, p in zip(
            corpus.source_of_type[order].tolist(), corpus.target_of_type[order].tolist(),
            t[order].tolist(), strict=True) if f]


def align(
    sources: Words, targets: Words, method: str = "hmm", tell: Tell | None = None,
    iterations: int = ITERATIONS,
) -> tuple[Links, Links, list[Entry]]:
    """Align a corpus in both directions; also p(target word | source word), from expected counts.

    sources, targets: words of each sentence; a pair with an empty side has no links. method:
    "model1", or "hmm", which starts from Model 1. tell: called after each iteration of EM.
    iterations: of each model. Returns the links (source word, target word) of every pair in one
    direction and in the other, by the highest posterior (`symmetrise` joins them), and entries
    (source word, target word, probability) for all words that occur together in a pair (Arthur et
    al., 2016, section 4.1). Raises ValueError if the numbers of sentences differ.
    """
    by_hmm = method == "hmm"
    forward, backward = _Direction(sources, targets), _Direction(targets, sources)
    agreement = Agreement(forward.corpus, backward.corpus)
    rounds = iterations * (1 + by_hmm)
    for done in range(rounds):
        posteriors = [direction.expect(done >= iterations) for direction in (forward, backward)]
        agreement.multiply(*posteriors)
        forward.maximise(posteriors[0])
        backward.maximise(posteriors[1])
        if tell is not None:
            tell(done + 1, rounds)
    links, swapped_links = (model1.best_links(direction.corpus, direction.expect(by_hmm))
                            for direction in (forward, backward))
    return (links, [swapped(sentence) for sentence in swapped_links],
            forward.entries(sources, targets))
