"""Real text, where it lies beside the repository: read, counted, one pass forward and back."""

from pathlib import Path

import numpy as np
import pytest

from nmt.data import load_corpus
from nmt.language_models import Streams, tokens_of
from nmt.models.config import ModelConfig
from nmt.recipe import DataConfig, Recipe, TextConfig
from nmt.system import System
from nmt.text.corpus import read_lines
from nmt.text.vocabulary import Vocabulary
from nmt.train import build_vocabularies

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
MULTI30K, TEXT = DATA / "multi30k" / "tok", DATA / "text"


def need(folder):
    reason = f"no {folder.relative_to(DATA)} in ../shared/data"
    return pytest.mark.skipif(not folder.is_dir(), reason=reason)


@need(MULTI30K)
def test_multi30k_goes_through_a_model_forward_and_back() -> None:
    names = {f"{part}_{side}": f"{file}.lc.norm.tok.{language}"
             for part, file in (("train", "train"), ("dev", "val"), ("test", "test_2016_flickr"))
             for side, language in (("source", "de"), ("target", "en"))}
    data = DataConfig(folder=str(MULTI30K), **names, tokenise="none", min_frequency=2,
                      max_length=30, reverse_source=True)
    corpus = load_corpus(data)
    assert corpus.test is not None
    assert len(corpus.train) + corpus.empty + corpus.too_long == 29000 and corpus.too_long > 0
    assert (len(corpus.dev.references), len(corpus.test.references)) == (1014, 1000)
    recipe = Recipe(data, ModelConfig(layers=2, hidden_size=8, embedding_size=8, dropout=0.2))
    source, target = build_vocabularies(corpus, recipe)
    assert 7000 < len(source) < 9000 and 5000 < len(target) < 7000
    system = System.create(recipe, source, target)
    batches = system.batches(corpus.train, 16)
    rng = np.random.default_rng(1)
    batch = batches.batch(batches.epoch(rng)[0])
    loss, cache = system.model.loss(system.parameters, batch, rng)
    # Fresh parameters are small: every word is about equally likely.
    assert abs(float(loss) / batches.tokens(batch) - np.log(len(target))) < 0.1
    gradients = system.model.backward(cache)
    assert gradients.keys() == system.parameters.keys()
    for name, gradient in gradients.items():
        values = getattr(gradient, "values", gradient)
        assert np.isfinite(values).all() and np.any(values), name


@need(TEXT)
def test_characters_of_shakespeare_make_streams() -> None:
    tokens = tokens_of(read_lines(TEXT / "tinyshakespeare.txt"), "characters")
    vocabulary = Vocabulary.build([tokens])
    assert (len(tokens), len(vocabulary)) == (1115394, 65 + 2)
    streams = Streams(vocabulary.ids(tokens), TextConfig(train="t", streams=32, length=64))
    total = sum(streams.tokens(streams.batch(key)) for key in streams.epoch(
        np.random.default_rng(1)))
    assert len(tokens) - 32 <= total < len(tokens)


@need(TEXT)
def test_words_of_war_and_peace() -> None:
    sizes = [len(read_lines(TEXT / f"wap.{part}.txt")) for part in ("train", "valid", "test")]
    assert sizes == [36243, 7870, 8052]  # the last line of each has no line end
