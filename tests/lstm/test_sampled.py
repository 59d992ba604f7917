"""The sampled vocabulary: a loss by hand, the mean over all draws, a sample of all words, and
errors."""

from itertools import combinations

import numpy as np
import pytest

from backend.rows import RowGradient
from backend.workspace import Workspace
from lstm.prediction import output_backward, output_forward
from lstm.sampled import check_sample, draw_sample, sampled_backward, sampled_forward
from nmt.models.hybrid_config import HybridConfig
from nmt.models.translator import ModelConfig

V, H, T, B = 6, 3, 4, 2
LENGTHS = np.array([4, 2])
TARGETS = np.array([[2, 3], [2, 1], [0, 5], [1, 5]])  # 5 on padding only


def parts(bias=True):
    rng = np.random.default_rng(3)
    weights = {"output.W_hy": rng.normal(size=(V, H)), "output.b": rng.normal(size=V)}
    return rng.normal(size=(T, B, H)), weights if bias else {"output.W_hy": weights["output.W_hy"]}


def run(sample, bias=True):
    h, weights = parts(bias)
    loss, cache = sampled_forward("output", weights, h, TARGETS, LENGTHS, Workspace(),
                                    sample=sample)
    return loss, *sampled_backward(cache, Workspace())


@pytest.mark.parametrize("bias", [True, False])
def test_the_loss_by_hand(bias) -> None:
    """The loss is -log of (e^s_y / Q) over the sum of e^s_k / Q, word by word."""
    sample, expected = np.array([1.0, 1.0, 1.0, 1.0, 2.0, 0.0]), 0.0
    h, weights = parts(bias)
    for t, b in [(0, 0), (1, 0), (2, 0), (3, 0), (0, 1), (1, 1)]:
        s = weights["output.W_hy"] @ h[t, b] + weights.get("output.b", 0.0)
        expected -= np.log(np.exp(s[TARGETS[t, b]]) / (np.exp(s) @ sample))
    loss, dh, gradients = run(sample, bias)
    assert loss == pytest.approx(expected, rel=1e-14)
    assert not dh[2:, 1].any() and isinstance(gradients["output.W_hy"], RowGradient)
    assert gradients["output.W_hy"].ids.tolist() == [0, 1, 2, 3, 4]
    assert gradients.keys() == weights.keys()


def test_the_mean_over_all_draws_is_the_sum_over_all_words() -> None:
    """Of the denominator's sum: every pair of the other words is equally likely."""
    targets, others = [0, 1, 2, 3], [4, 5, 6, 7, 8]
    e = np.random.default_rng(1).random(9)
    sums = [e[targets].sum() + e[list(drawn)].sum() * len(others) / 2
            for drawn in combinations(others, 2)]
    assert np.mean(sums) == pytest.approx(e.sum(), rel=1e-14)
    samples = [draw_sample(TARGETS, LENGTHS, 9, 2, "inverse", np.random.default_rng(seed),
                           "float64")
               for seed in range(40)]
    for sample in samples:
        assert sorted(set(sample)) == [0.0, 1.0, 2.5] and (sample[targets] == 1.0).all()
    assert len({tuple(sample) for sample in samples}) == 10  # all sets of two
    equal = draw_sample(TARGETS, LENGTHS, 9, 2, "equal", np.random.default_rng(0), "float32")
    assert sorted(equal) == [0] * 3 + [1] * 6 and equal.dtype == np.float32


def test_all_words_are_the_whole_softmax() -> None:
    sample = draw_sample(TARGETS, LENGTHS, V, 100, "inverse", np.random.default_rng(0), "float64")
    loss, dh, gradients = run(sample)
    h, weights = parts()
    softmax_loss, cache = output_forward("output", weights, h, TARGETS, LENGTHS, Workspace())
    d, expected = output_backward(cache, Workspace())
    assert loss == pytest.approx(softmax_loss, rel=1e-15)
    np.testing.assert_allclose(dh, d, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(gradients["output.W_hy"].dense(), expected["output.W_hy"],
                               rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(gradients["output.b"], expected["output.b"], atol=1e-15)


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="sample: expected one that holds every word of the batch"):
        run(np.array([1.0, 1.0, 0.0, 1.0, 1.0, 1.0]))
    for options, message in (
            ({"target_sample": 0}, "target_sample: expected at least 1, got 0"),
            ({"sample_weights": "equal"}, "sample_weights: needs target_sample"),
            ({"target_sample": 5, "sample_weights": "x"}, "expected inverse or equal, got 'x'")):
        with pytest.raises(ValueError, match=message):
            ModelConfig(**options)
    with pytest.raises(ValueError, match="target_sample: expected null where words are spelled"):
        HybridConfig(target_sample=5)
    check_sample(ModelConfig(target_sample=5))
