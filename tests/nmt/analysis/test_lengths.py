"""BLEU by length."""

import pytest

from nmt.analysis.lengths import bleu_by_length
from nmt.evaluation.scores import bleu

REFERENCES = ["a b c d", "e f g h i", "k l m n o p", "", "q r s t"]
HYPOTHESES = ["a b c d", "e f g x i", "k l m n p o", "", "q r s t"]
LENGTHS = [4, 5, 6, 0, 4]


def test_every_sentence_is_in_its_bucket() -> None:
    buckets = bleu_by_length(LENGTHS, HYPOTHESES, REFERENCES, [3, 4, 5], "none")
    assert [(bucket.label, bucket.sentences, bucket.words) for bucket in buckets] == [
        ("1-3", 0, 0), ("4-4", 2, 8), ("5-5", 1, 5), ("6+", 1, 6)]
    assert buckets[0].score is None and buckets[1].score == pytest.approx(100)
    for bucket, place in ((buckets[2], 1), (buckets[3], 2)):
        alone = bleu([HYPOTHESES[place]], [REFERENCES[place]], "none").score
        assert 0 < bucket.score < 100 and bucket.score == alone


def test_one_bucket_is_the_corpus() -> None:
    (low, high) = bleu_by_length([9] * 5, HYPOTHESES, REFERENCES, [8], "none")
    assert low.score is None and high.score == bleu(HYPOTHESES, REFERENCES, "none").score


