"""Scores of translations and of language models."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from backend.errors import UserError
from nmt.console.progress import busy

if TYPE_CHECKING:  # imported where it is used: it is slow to import
    from sacrebleu.metrics import BLEU
    from sacrebleu.metrics.base import Metric

TOKENISATIONS = ("13a", "none", "intl", "char", "zh")  # sacrebleu's that need no other package
METRICS = ("bleu", "chrf", "ter")
TESTS = {"bootstrap": "bs", "randomisation": "ar"}  # sacrebleu's names


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
    return _score(_metric(tokenize), hypotheses, [references])


def length_ratio(
    hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a"
) -> float:
    """Words of the hypotheses / words of the references, as sacrebleu counts them for BLEU's
    brevity penalty. Arguments and errors as `bleu`."""
    _check_lines(hypotheses, references)
    score = _metric(tokenize).corpus_score(list(hypotheses), [list(references)])
    return float(score.sys_len / max(score.ref_len, 1))


def metrics_of(
    names: Sequence[str], tokenize: str = "13a", lowercase: bool = False
) -> list[Metric]:
    """sacrebleu's metrics of these names in METRICS, with its defaults. TER always ignores case.

    tokenize: any of sacrebleu's tokenisations. Raises UserError for another one, and for one whose
    package or model is not installed.
    """
    from sacrebleu.metrics import BLEU, CHRF, TER

    makers: dict[str, Callable[[], Metric]] = {
        "bleu": lambda: _metric(tokenize, lowercase, BLEU.TOKENIZERS),
        "chrf": lambda: CHRF(lowercase=lowercase), "ter": TER}
    return [makers[name]() for name in names]


def _metric(tokenize: str, lowercase: bool = False, known: Collection[str] = TOKENISATIONS) -> BLEU:
    """sacrebleu's BLEU with a tokenisation. Raises UserError for one that is not in `known`."""
    from sacrebleu.metrics import BLEU

    if tokenize not in known:
        raise UserError(f"tokenize: expected one of {', '.join(known)}, got {tokenize!r}")
    try:  # without a warning about tokens for each test set
        return BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    except (ImportError, RuntimeError, OSError) as error:
        raise UserError(f"tokenize: expected what sacrebleu needs for {tokenize}: "
                        + " ".join(str(error).split())) from None


def score_against(
    metric: Metric, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> Score:
    """The corpus score by a metric of `metrics_of`. references: the lines of each reference. Errors
    as `bleu`."""
    for lines in references:
        _check_lines(hypotheses, lines)
    return _score(metric, hypotheses, references)


class Compared(NamedTuple):
    """A system's score, compared with a baseline's."""

    score: float  # on the test set
    mean: float | None  # over resampled test sets; None if there are none
    interval: float | None  # half the width of the 95 % interval over these
    p: float | None  # chance of a difference as large, in either direction; None for the baseline


class Comparison(NamedTuple):
    """The scores of systems by a metric, the baseline first."""

    metric: str
    signature: str
    systems: list[Compared]


def compare(
    systems: Sequence[Sequence[str]], references: Sequence[Sequence[str]],
    metrics: Sequence[Metric], test: str = "bootstrap", samples: int | None = None,
) -> list[Comparison]:
    """Scores of systems on one test set, and tests whether they differ from the first system's.

    The tests are sacrebleu's paired bootstrap (Koehn, 2004) and approximate randomisation (Riezler
    and Maxwell, 2005), with its seed. systems: their lines, the baseline first. references: the
    lines of each reference. test: a name in TESTS. samples: the number of test sets or trials; None
    for sacrebleu's 1,000 or 10,000. Raises UserError as `bleu`.
    """
    from sacrebleu.significance import PairedTest

    for lines in (*systems, *references[1:]):
        _check_lines(lines, references[0])
    named: list[tuple[str, Sequence[str]]] = [(str(i), list(lines))
                                              for i, lines in enumerate(systems)]
    with busy(f"paired {test}"):
        signatures, scores = PairedTest(
            named, {str(i): metric for i, metric in enumerate(metrics)},
            list(map(list, references)), test_type=TESTS[test], n_samples=samples or 0)()
    rows: Any = scores
    comparisons = []
    for name, signature in signatures.items():
        results = [Compared(float(row.score), _number(row.mean), _number(row.ci), row.p_value)
                   for row in rows[name]]
        same = results[0].score  # for equal scores the bootstrap returns p = 0.001
        comparisons.append(Comparison(name, str(signature), [
            row._replace(p=1.0) if i and row.score == same else row
            for i, row in enumerate(results)]))
    return comparisons


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def bleu_statistics(
    hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a"
) -> list[list[int]]:
    """The statistics that BLEU sums over lines. For each line these are the lengths of hypothesis
    and reference, the matched n-grams of orders 1 to 4, and the n-grams of the hypothesis.
    Arguments as `bleu`."""
    from sacrebleu.metrics import BLEU

    metric, known = BLEU(tokenize=tokenize, force=True), dict[tuple[str, str], list[int]]()
    for pair in zip(hypotheses, references, strict=True):
        if pair not in known:
            score = metric.corpus_score([pair[0]], [[pair[1]]])
            known[pair] = [score.sys_len, score.ref_len, *score.counts, *score.totals]
    return [known[pair] for pair in zip(hypotheses, references, strict=True)]


def chrf(hypotheses: Sequence[str], references: Sequence[str], beta: int = 2) -> Score:
    """Corpus chrF, the F-score of character 6-grams, against one reference (Popovic 2015).

    hypotheses, references: lines of plain text in the same order; spaces do not count. beta: how
    much more recall counts than precision; it is 3 for chrF3, in Table 5.2 of the thesis. Raises
    UserError if the numbers of lines differ or are zero.
    """
    from sacrebleu.metrics import CHRF

    _check_lines(hypotheses, references)
    return _score(CHRF(beta=beta), hypotheses, [references])


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
    """The value; None if it is infinite or NaN, which JSON does not have."""
    return value if value is not None and math.isfinite(value) else None


def _check_lines(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references):
        sizes = f"{len(hypotheses)} hypotheses and {len(references)} references"
        raise UserError(f"expected one reference for each hypothesis, got {sizes}")
    if not hypotheses:
        raise UserError("expected at least one line to score, got none")


def _score(metric: Metric, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Score:
    with busy(type(metric).__name__):
        result = metric.corpus_score(list(hypotheses), list(map(list, references)))
    return Score(float(result.score), str(metric.get_signature()))
