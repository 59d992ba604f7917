"""Scores of translations and of language models."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from backend.errors import UserError
from nmt.console.progress import busy

TOKENISATIONS = ("13a", "none", "intl", "char", "zh")  # sacrebleu's that need no other package


class Score(NamedTuple):
    """A score and the settings that it was computed with."""

    score: float  # 0 to 100
    signature: str  # sacrebleu's signature, to be reported with the score

    def as_text(self, name: str) -> str:
        """The score of this name, with its signature."""
        return f"{name} {self.score:.2f} ({self.signature})"


def bleu(hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a") -> Score:
    """Corpus BLEU against one reference (Papineni et al. 2002; Post 2018 for the signature).

    hypotheses, references: lines in the same order. tokenize: sacrebleu's tokenisation, 13a for
    plain text, none for text that is already tokenised (as the thesis reports its BLEU).
    Raises UserError for another tokenisation, or if the numbers of lines differ or are zero.
    """
    _check_lines(hypotheses, references)
    return _score(_metric(tokenize), hypotheses, references)


def length_ratio(
    hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a"
) -> float:
    """Words of the hypotheses by words of the references, which BLEU's brevity penalty is of; as
    sacrebleu counts them. Arguments, raises: as `bleu`."""
    _check_lines(hypotheses, references)
    score = _metric(tokenize).corpus_score(list(hypotheses), [list(references)])
    return float(score.sys_len / max(score.ref_len, 1))


def _metric(tokenize: str) -> BLEU:
    """BLEU with a tokenisation that is known."""
    if tokenize not in TOKENISATIONS:
        known = ", ".join(TOKENISATIONS)
        raise UserError(f"tokenize: expected one of {known}, got {tokenize!r}")
    return BLEU(tokenize=tokenize, force=True)  # no warning about tokens for each test set


class Compared(NamedTuple):
    """A system's BLEU beside a baseline's."""

    score: float  # on the test set
    mean: float  # over the resampled test sets
    interval: float  # half the width of 95 % of these
    p: float | None  # of so large a difference by chance, either way; None for the baseline


def paired_bootstrap(
    systems: Sequence[Sequence[str]], references: Sequence[str], tokenize: str = "13a",
    samples: int = 1000,
) -> tuple[list[Compared], str]:
    """BLEU of systems on one test set, and whether they differ from the first (Koehn, 2004).

    sacrebleu's paired bootstrap: test sets of the same size are drawn with replacement, the same
    for all systems. Arguments: systems, lines in the order of the references, the baseline first;
    samples, how many test sets. Returns the systems in order, and the signature with the seed.
    Raises UserError as `bleu`.
    """
    for lines in systems:
        _check_lines(lines, references)
    named: list[tuple[str, Sequence[str]]] = [(str(i), list(lines))
                                              for i, lines in enumerate(systems)]
    with busy("paired bootstrap"):
        signatures, scores = PairedTest(named, {"BLEU": _metric(tokenize)}, [list(references)],
                                        test_type="bs", n_samples=samples)()
    rows: Any = scores["BLEU"]
    results = [Compared(float(score.score), float(score.mean), float(score.ci), score.p_value)
               for score in rows]
    same = results[0].score  # sacrebleu counts larger differences only: of none it says p = 0.001
    return [score._replace(p=1.0) if i and score.score == same else score
            for i, score in enumerate(results)], str(signatures["BLEU"])


def bleu_statistics(
    hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a"
) -> list[list[int]]:
    """The statistics that BLEU sums over lines: for each line the lengths of hypothesis and
    reference, the matched n-grams of orders 1 to 4, and the n-grams of the hypothesis. Arguments as
    `bleu`."""
    metric, known = BLEU(tokenize=tokenize, force=True), dict[tuple[str, str], list[int]]()
    for pair in zip(hypotheses, references, strict=True):
        if pair not in known:
            score = metric.corpus_score([pair[0]], [[pair[1]]])
            known[pair] = [score.sys_len, score.ref_len, *score.counts, *score.totals]
    return [known[pair] for pair in zip(hypotheses, references, strict=True)]


def chrf(hypotheses: Sequence[str], references: Sequence[str], beta: int = 2) -> Score:
    """Corpus chrF, the F-score of character 6-grams, against one reference (Popovic 2015).

    hypotheses, references: lines in the same order, plain text; spaces do not count. beta: how much
    more recall counts than precision; chrF3 of Table 5.2 of the thesis takes 3.
    Raises UserError if the numbers of lines differ or are zero.
    """
    _check_lines(hypotheses, references)
    return _score(CHRF(beta=beta), hypotheses, references)


def perplexity(total_nats: float, tokens: int) -> float:
    """exp(total_nats / tokens): the negative log-likelihood per token, as a branching factor.

    total_nats: summed over tokens, `</s>` included. Infinite if it overflows.
    Raises ValueError if tokens < 1.
    """
    if tokens < 1:
        raise ValueError(f"tokens: expected at least 1, got {tokens}")
    try:
        return math.exp(total_nats / tokens)
    except OverflowError:
        return math.inf


def finite(value: float | None) -> float | None:
    """The value; None if it is not finite, since JSON has no infinity."""
    return value if value is not None and math.isfinite(value) else None


def _check_lines(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references):
        sizes = f"{len(hypotheses)} hypotheses and {len(references)} references"
        raise UserError(f"expected one reference for each hypothesis, got {sizes}")
    if not hypotheses:
        raise UserError("expected at least one line to score, got none")


def _score(metric: BLEU | CHRF, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    with busy(type(metric).__name__):
        result = metric.corpus_score(list(hypotheses), [list(references)])
    return Score(float(result.score), str(metric.get_signature()))
