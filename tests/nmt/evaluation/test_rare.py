"""Groups of sentences by the rarity of their words; perplexity by class."""

import math

import numpy as np
import pytest

from nmt.evaluation.rare import bleu_by_rarity, perplexities_by_class, rarities
from nmt.evaluation.scores import bleu
from nmt.translation import Translation

CORPUS = [["a"] * 8, ["b"] * 4, ["c", "c", "d", "d"]]  # ranks 1, 2, 3, 4


def test_mean_ranks() -> None:
    assert rarities([["a", "b"], ["d"], ["a", "new"], []], CORPUS) == [1.5, 4.0, 3.0, 0.0]


def test_two_orders() -> None:
    """The rarest words of a sentence dominate its mean of inverse frequencies: 1/2 for c and d is
    four times the 1/8 for a."""
    assert rarities([["a", "d"], ["b", "c"]], CORPUS, "rank") == [2.5, 2.5]
    assert rarities([["a", "d"], ["b", "c"]], CORPUS, "inverse") == [0.3125, 0.375]
    assert rarities([["b", "b", "d"], ["c", "b", "b"], ["new"]], CORPUS, "rank") == [8/3, 7/3, 5.0]
    assert rarities([["b", "b", "d"], ["c", "b", "b"], ["new"]], CORPUS, "inverse") \
        == [pytest.approx(1 / 3), pytest.approx(1 / 3), 1.0]


@pytest.mark.parametrize(("sentences", "ends"), [
    (3003, [100, 200, 500, 1000, 1500, 2000, 2500, 3000, 3003]), (1000, [100, 200, 500, 1000]),
    (500, [100, 200, 500]), (201, [100, 200, 201]), (40, [40])])
def test_groups_end_where_the_figure_s_do(sentences, ends) -> None:
    lines = [f"a b c d{n}" for n in range(sentences)]
    groups = bleu_by_rarity(range(sentences), lines, lines, "none")
    assert [int(group.label.split("-")[1]) for group in groups] == ends
    assert sum(group.sentences for group in groups) == sentences
    assert all(group.score == pytest.approx(100) for group in groups)


def test_sentences_are_sorted_by_rarity() -> None:
    rng = np.random.default_rng(1)
    references = [" ".join(rng.choice(list("abcdefgh"), 6)) for _ in range(150)]
    hypotheses = [" ".join(reversed(line.split())) if n % 3 else line
                  for n, line in enumerate(references)]
    rarity = [float(n % 3 == 0) * 7 - n % 2 for n in range(150)]
    common, rare = bleu_by_rarity(rarity, hypotheses, references, "none")
    assert common.score < 60 and rare.score == pytest.approx(100)
    chosen = [n for n in range(150) if n % 3]
    assert common.score == bleu([hypotheses[n] for n in sorted(chosen, key=rarity.__getitem__)],
                                [references[n] for n in sorted(chosen, key=rarity.__getitem__)],
                                "none").score


def test_perplexity_of_words_and_positions() -> None:
    steps = np.log([0.5, 0.1, 0.25, 0.2, 0.125])
    forced = [Translation(["a", "<p_0>", "b", "<p_null>"], 0.0, 0.0, None, steps=steps),
              Translation(["c"], 0.0, 0.0, None, steps=np.log([0.5, 0.25])),
              Translation([], 0.0, 0.0, None)]
    perplexities = perplexities_by_class(forced)
    nats = -math.log(0.5 * 0.25 * 0.125 * 0.5 * 0.25)
    assert perplexities == {"words": (pytest.approx(math.exp(nats / 5)), 5),
                            "positions": (pytest.approx(math.exp(-math.log(0.1 * 0.2) / 2)), 2)}
    assert list(perplexities_by_class(forced[1:])) == ["words"]
