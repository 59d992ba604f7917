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
    """Words of the hypotheses by words of the references, which BLEU's brevity penalty is of; as
    sacrebleu counts them. Arguments, raises: as `bleu`."""
    _check_lines(hypotheses, references)
    score = _metric(tokenize).corpus_score(list(hypotheses), [list(references)])
    return float(score.sys_len / max(score.ref_len, 1))


def metrics_of(
    names: Sequence[str], tokenize: str = "13a", lowercase: bool = False
) -> list[Metric]:
    """sacrebleu's metrics of names in METRICS, with its own defaults; TER is of lower case always.

    tokenize: any of sacrebleu's tokenisations. Raises UserError for another, and for one whose
    package or model is not there.
    """
    from sacrebleu.metrics import BLEU, CHRF, TER

    makers: dict[str, Callable[[], Metric]] = {
        "bleu": lambda: _metric(tokenize, lowercase, BLEU.TOKENIZERS),
        "chrf": lambda: CHRF(lowercase=lowercase), "ter": TER}
    return [makers[name]() for name in names]


def _metric(
    tokenize: str, lowercase: bool = False, known: Collection[str] = TOKENISATIONS
) -> BLEU:
    """BLEU with a tokenisation that is known."""
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
    """The corpus score by one of `metrics_of`; references: for each their lines. Errors as `bleu`.
    """
    for lines in references:
        _check_lines(hypotheses, lines)
    return _score(metric, hypotheses, references)


class Compared(NamedTuple):
    """A system's score beside a baseline's."""

    score: float  # on the test set
    mean: float | None  # over the resampled test sets; None without these
    interval: float | None  # half the width of 95 % of these
    p: float | None  # of so large a difference by chance, either way; None for the baseline


class Comparison(NamedTuple):
    """Systems by one metric, the baseline first."""

    metric: str
    signature: str
    systems: list[Compared]


def compare(
    systems: Sequence[Sequence[str]], references: Sequence[Sequence[str]],
    metrics: Sequence[Metric], test: str = "bootstrap", samples: int | None = None,
) -> list[Comparison]:
    """Scores of systems on one test set, and whether they differ from the first.

    sacrebleu's paired bootstrap (Koehn, 2004) or approximate randomisation (Riezler and Maxwell,
    2005), with its seed. Arguments: systems, lines in the order of the references, the baseline
    first; references, for each their lines; test, a name in TESTS; samples, how many test sets or
    trials, None for sacrebleu's 1,000 or 10,000. Raises UserError as `bleu`.
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
        same = results[0].score  # of no difference the bootstrap says p = 0.001
        comparisons.append(Comparison(name, str(signature), [
            row._replace(p=1.0) if i and row.score == same else row
            for i, row in enumerate(results)]))
    return comparisons


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def bleu_statistics(
    hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a"
) -> list[list[int]]:
    """The statistics that BLEU sums over lines: for each line the lengths of hypothesis and
    reference, the matched n-grams of orders 1 to 4, and the n-grams of the hypothesis. Arguments as
    `bleu`."""
    from sacrebleu.metrics import BLEU

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
    """The value; None if it is not finite, since JSON has no infinity."""
    return value if value is not None and math.isfinite(value) else None


def _check_lines(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references):
        sizes = f"{len(hypotheses)} hypotheses and {len(references)} references"
        raise UserError(f"expected one reference for each hypothesis, got {sizes}")
    if not hypotheses:
        raise UserError("expected at least one line to score, got none")


def _score(
    metric: Metric, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> Score:
    with busy(type(metric).__name__):
        result = metric.corpus_score(list(hypotheses), list(map(list, references)))
    return Score(float(result.score), str(metric.get_signature()))
