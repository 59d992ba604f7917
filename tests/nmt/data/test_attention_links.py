"""The row of the weights that belongs to a word, and the source word that it is linked to."""

import numpy as np
import pytest

from nmt.data.attention_links import best_links, resolve, weights_of_words
from nmt.models.rnnsearch_config import RNNSearchConfig
from nmt.models.translator import ModelConfig

WEIGHTS = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])  # y_1, y_2, end marker


def test_the_word_predicted_or_the_word_read() -> None:
    predicted = weights_of_words(WEIGHTS, 2, "predicted")
    read = weights_of_words(WEIGHTS, 2, "read")
    assert best_links(predicted) == [(0, 0), (1, 1)]
    assert best_links(read) == [(1, 0), (2, 1)]  # a_t after y_{t-1} was read


def test_without_an_end_marker_the_last_word_was_never_read() -> None:
    assert best_links(weights_of_words(WEIGHTS, 3, "predicted")) == [(0, 0), (1, 1), (2, 2)]
    assert best_links(weights_of_words(WEIGHTS, 3, "read")) == [(1, 0), (2, 1), (2, 2)]


def test_of_equal_weights_the_first() -> None:
    assert best_links(np.array([[0.2, 0.4, 0.4]])) == [(1, 0)]
    assert best_links(np.ones((0, 3))) == []


def test_footnote_13() -> None:
    for score in ("dot", "general", "concat", "additive"):
        assert resolve("thesis", ModelConfig(score=score)) == "read"
    location = ModelConfig(score="location")
    assert resolve("thesis", location) == resolve("thesis", RNNSearchConfig()) == "predicted"
    assert resolve("read", location) == resolve("read", RNNSearchConfig()) == "read"
    with pytest.raises(ValueError, match="aligned_word: expected one of predicted, read, thesis"):
        resolve("both", location)
