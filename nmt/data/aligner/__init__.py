"""Word alignment of a parallel corpus without a translation model, by EM in both directions.

`align` runs IBM Model 1 (`model1`) and then an HMM (`hmm`), in both directions, which are trained
to agree (`agreement`). `symmetrise` joins the two results. `eflomal` runs that program instead. All
are deterministic except eflomal, which samples. Peak memory is about 130 bytes for each pair of a
source word and a target word in the same sentence pair.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

import numpy as np

from backend.errors import check, check_least
from nmt.data.align import Link
from nmt.data.aligner import hmm, model1
from nmt.data.aligner.agreement import Agreement
from nmt.data.aligner.symmetrise import swapped
from nmt.data.aligner.word_pairs import Floats, Words, word_pairs

METHODS = ("model1", "hmm")
Links = list[list[Link]]  # the links of each sentence pair
Entry = tuple[str, str, float]  # source word, target word, p(target word | source word)
Tell = Callable[[int, int], None]  # receives the iterations of EM that are done, and the total


@dataclass(frozen=True)
class AlignerOptions:
    """Options of the aligner.

    method: "model1", or "hmm", which starts from Model 1. model1_iterations, hmm_iterations: how
    many iterations of EM each model has. null: p_0 of the HMM, the probability that a target word
    has no source word. uniform: the weight u of 1 / I in the HMM's jumps. Halving null or uniform,
    or doubling hmm_iterations, changes error rates by a point or two.
    """

    method: str = "hmm"
    model1_iterations: int = 5
    hmm_iterations: int = 5
    null: float = 0.2
    uniform: float = 0.2

    def __post_init__(self) -> None:
        check(self, "method", self.method in METHODS, " or ".join(METHODS))
        check_least(self, 1, "model1_iterations", "hmm_iterations")
        for name in ("null", "uniform"):  # at 0 a target word could have probability 0
            check(self, name, 0.0 < getattr(self, name) < 1.0, f"0 < {name} < 1")

    @property
    def iterations(self) -> int:
        """The number of iterations of EM of both models."""
        return self.model1_iterations + (self.hmm_iterations if self.method == "hmm" else 0)


class _Direction:
    """The model of one direction: targets generated from sources."""

    def __init__(self, sources: Words, targets: Words, options: AlignerOptions) -> None:
        self.corpus = word_pairs(sources, targets)
        self._table = model1.uniform(self.corpus)
        self._jumps = hmm.even_jumps(self.corpus, options.null, options.uniform)

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
    sources: Words, targets: Words, options: AlignerOptions | None = None, tell: Tell | None = None
) -> tuple[Links, Links]:
    """The links of both directions. Arguments and errors as `align_with_entries`."""
    return align_with_entries(sources, targets, options, tell)[:2]


def align_with_entries(
    sources: Words, targets: Words, options: AlignerOptions | None = None, tell: Tell | None = None
) -> tuple[Links, Links, list[Entry]]:
    """Align a corpus in both directions; also p(target word | source word), from expected counts.

    sources, targets: words of each sentence; a pair with an empty side has no links. tell: called
    after each iteration of EM. Returns the links (source word, target word) of every pair in one
    direction and in the other, by the highest posterior (`symmetrise` joins them), and entries
    (source word, target word, probability) for all words that occur together in a pair (Arthur et
    al., 2016, section 4.1). Raises ValueError if the numbers of sentences differ.
    """
    if len(sources) != len(targets):
        raise ValueError(f"sources, targets: expected equal numbers of sentences, got "
                         f"{len(sources)} and {len(targets)}")
    options = options or AlignerOptions()
    forward, backward = _Direction(sources, targets, options), _Direction(targets, sources, options)
    agreement = Agreement(forward.corpus, backward.corpus)
    for done in range(options.iterations):
        by_hmm = done >= options.model1_iterations
        forward_posteriors, backward_posteriors = forward.expect(by_hmm), backward.expect(by_hmm)
        agreement.multiply(forward_posteriors, backward_posteriors)
        forward.maximise(forward_posteriors)
        backward.maximise(backward_posteriors)
        if tell is not None:
            tell(done + 1, options.iterations)
    by_hmm = options.method == "hmm"
    links, swapped_links = (model1.best_links(direction.corpus, direction.expect(by_hmm))
                            for direction in (forward, backward))
    return (links, [swapped(sentence) for sentence in swapped_links],
            forward.entries(sources, targets))
