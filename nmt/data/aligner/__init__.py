"""Word alignment of a parallel corpus without a translation model, by EM in both directions.

`align` runs IBM Model 1 (`model1`), then an HMM (`hmm`), once for each direction, and joins the two
(`symmetrise`); `eflomal` hands the corpus to that program instead. All are deterministic but
eflomal, which samples. Memory: about 40 bytes for each source word beside each target word of the
same pair, at the peak.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nmt.data.align import Link
from nmt.data.aligner import hmm, model1, translation
from nmt.data.aligner.symmetrise import swapped
from nmt.data.aligner.word_pairs import Floats, WordPairs, Words, word_pairs

METHODS = ("model1", "hmm")
Links = list[list[Link]]  # of each sentence pair
Tell = Callable[[int, int], None]  # rounds of EM done, and in all


@dataclass(frozen=True)
class AlignerOptions:
    """How the corpus is aligned.

    method: "model1", or "hmm", which Model 1 starts. model1_rounds, hmm_rounds: of EM in each
    direction. prior: of the Dirichlet distribution over translations, 0 for maximum likelihood.
    null: p_0 of the HMM, the probability that a target word has no source word; 0.2 as Och and Ney
    (2003, section 2.3). uniform: share of 1 / I in the HMM's jumps, GIZA++'s 0.2.
    The defaults of rounds and prior had the lowest error rates of those tried (docs/rare-words.md).
    """

    method: str = "hmm"
    model1_rounds: int = 5
    hmm_rounds: int = 10
    prior: float = 0.01
    null: float = 0.2
    uniform: float = 0.2

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method: expected {' or '.join(METHODS)}, got {self.method!r}")
        for name in ("model1_rounds", "hmm_rounds"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}")
        if not self.prior >= 0.0:
            raise ValueError(f"prior: expected at least 0, got {self.prior}")
        for name in ("null", "uniform"):  # at 0 a word could be without any origin
            if not 0.0 < getattr(self, name) < 1.0:
                raise ValueError(f"{name}: expected 0 < {name} < 1, got {getattr(self, name)}")

    @property
    def rounds(self) -> int:
        """Of one direction."""
        return self.model1_rounds + (self.hmm_rounds if self.method == "hmm" else 0)


def align(
    sources: Words, targets: Words, options: AlignerOptions | None = None, tell: Tell | None = None
) -> tuple[Links, Links]:
    """Links of both directions: each target word's source word, each source word's target word.

    sources, targets: words of each sentence; a pair with an empty side has no links. tell: called
    after each round of EM. Returns for each pair (source word, target word), in both results, in
    the order of the words that have one each; `symmetrise` joins them.
    Raises ValueError if the numbers of sentences differ.
    """
    if len(sources) != len(targets):
        raise ValueError(f"sources, targets: expected equal numbers of sentences, got "
                         f"{len(sources)} and {len(targets)}")
    options = options or AlignerOptions()

    def told(before: int) -> Callable[[int], None]:
        return lambda done: tell(before + done, 2 * options.rounds) if tell else None

    forward = align_one_way(sources, targets, options, told(0))
    backward = align_one_way(targets, sources, options, told(options.rounds))
    return forward, [swapped(links) for links in backward]


def align_one_way(
    sources: Words, targets: Words, options: AlignerOptions, tell: Callable[[int], None]
) -> Links:
    """The source word of each target word, by the model's posteriors after EM."""
    corpus = word_pairs(sources, targets)
    table = translation.uniform(corpus)
    for done in range(options.model1_rounds):
        posteriors = model1.expectation(corpus, table)
        table = translation.maximise(corpus, corpus.sums(posteriors), options.prior)
        tell(done + 1)
    if options.method == "hmm":
        posteriors = _by_hmm(corpus, table, options, tell)
    else:
        posteriors = model1.expectation(corpus, table)
    return model1.best_links(corpus, posteriors)


def _by_hmm(
    corpus: WordPairs, table: Floats, options: AlignerOptions, tell: Callable[[int], None]
) -> Floats:
    """EM of the HMM from Model 1's table; the last posteriors."""
    jumps = hmm.even_jumps(corpus, options.null, options.uniform)
    for done in range(options.hmm_rounds):
        posteriors, jumps = hmm.expectation(corpus, table, jumps)
        table = translation.maximise(corpus, corpus.sums(posteriors), options.prior)
        tell(options.model1_rounds + done + 1)
    return hmm.expectation(corpus, table, jumps)[0]
