"""A corpus on disk gives the same results as one in memory, and takes little memory."""

from __future__ import annotations

import errno
import os
import tracemalloc
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory.measure import epochs_of_batches, recipe_of
from tiny_run import complaint, nmt, write_corpus, write_recipe

from nmt.data import corpus, stored
from nmt.data.batches import TextBatches, stream_batches
from nmt.data.corpora import load_corpus
from nmt.data.corpus import read_lines
from nmt.data.stored import StoredPairs, StoredSentences, StoredText
from nmt.data.vocabulary import END, Vocabulary
from nmt.language_models import StreamIds, Streams, read_text, tokens_of
from nmt.models.hybrid_config import HybridConfig
from nmt.recipe import TextConfig
from nmt.system import System
from nmt.translator_training import build_vocabularies

WORD = st.text(st.characters(exclude_characters=" ", exclude_categories=["Cs"]), min_size=1)
PAIRS = 2000


@pytest.fixture(params=[1 << 25, 200], ids=["memory", "disk"])
def block(request, monkeypatch):
    """The bytes kept in memory: more than the corpus has, and few."""
    monkeypatch.setattr(stored, "BLOCK", request.param)
    return request.param


@settings(max_examples=40)
@given(st.lists(st.lists(WORD)), st.integers(1, 50))
def test_sentences_are_read_back(sentences, block):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored, "BLOCK", block)
        kept = StoredSentences(sentences)
    assert list(kept) == sentences == kept == kept[:] and kept[::-2] == sentences[::-2]
    assert kept.lengths.tolist() == [len(words) for words in sentences]
    assert [kept[-1 - place] for place in range(len(sentences))] == sentences[::-1]
    assert kept != [*sentences, []]
    with pytest.raises(IndexError):
        kept[len(sentences)]


@settings(max_examples=30)
@given(st.lists(st.lists(WORD, max_size=4), max_size=9), st.integers(0, 9), st.data())
def test_a_text_is_its_sentences_words(sentences, count, data):
    count = min(count, len(sentences))
    words = [word for sentence in sentences[:count] for word in sentence]
    text = StoredText(StoredSentences(sentences), count)
    start, end = (data.draw(st.integers(-len(words) - 1, len(words) + 1)) for _ in range(2))
    assert list(text) == words == text and text[start:end] == words[start:end]
    assert text[::-2] == words[::-2] and [text[i] for i in range(len(words))] == words
    with pytest.raises(IndexError):
        text[len(words)]


@pytest.mark.parametrize("level, dev", [("words", ""), ("characters", "dev.de")])
def test_streams_are_those_of_a_text_in_memory(tmp_path, block, level, dev):
    write_corpus(tmp_path)
    text = TextConfig(train=str(tmp_path / "train.de"), dev=dev and str(tmp_path / dev),
                      level=level, streams=4, length=7)
    lines = read_lines(text.train)
    tokens, held_out = read_text(text)
    assert tokens == tokens_of(lines if dev else lines[:72], level)
    assert held_out == tokens_of(read_lines(tmp_path / dev) if dev else lines[72:], level)
    vocabulary = Vocabulary.build([[*tokens, "</s>"]])
    ids = [END, *(END if token == "</s>" else vocabulary.ids([token])[0] for token in tokens)]
    batches = stream_batches(np.array(ids), 4, 7), Streams(StreamIds(vocabulary, tokens), text)
    for key, theirs in enumerate(batches[0]):
        assert all(map(np.array_equal, arrays(batches[1].batch(key)), arrays(theirs)))
    assert StreamIds(vocabulary, tokens)[:9:2] == ids[:9:2]


@pytest.mark.parametrize("hybrid", [False, True], ids=["words", "hybrid"])
def test_batches_are_those_of_pairs_in_memory(tmp_path, block, hybrid):
    """Bit for bit, over two epochs; lines that are left out are counted."""
    recipe = recipe_of(tmp_path, 300)
    data = replace(recipe.data, max_vocabulary=500, reverse_source=True, max_length=8)
    recipe = replace(recipe, data=data, train=replace(recipe.train, batch_size=9))
    if hybrid:
        recipe = replace(recipe, model=HybridConfig(layers=1, hidden_size=8, embedding_size=8))
    corpus = load_corpus(recipe.data)
    assert isinstance(corpus.train, StoredPairs)
    assert corpus.empty and corpus.too_long
    assert len(corpus.train) + corpus.empty + corpus.too_long == 300
    system = System.create(recipe, build_vocabularies(corpus, recipe))
    pairs = list(corpus.train)
    rare = [spelling and [spelling.rare(pair[side]) for pair in pairs]
            for side, spelling in enumerate(map(system.spellings.get, System.names))]
    ids = [(system.source_ids(x), system.target.ids(y)) for x, y in pairs]
    sources = system.batches(corpus.train, 9), TextBatches(ids, 9, True, rare=tuple(rare))
    made = [[batches.batch(key) for rng in [np.random.default_rng(1)] for _ in range(2)
             for key in batches.epoch(rng)] for batches in sources]
    for ours, theirs in zip(*made, strict=True):
        assert all(map(np.array_equal, arrays(ours), arrays(theirs)))
    assert any(batch.target.characters for batch in made[0]) == hybrid


def arrays(batch):
    """All arrays of a batch."""
    return [batch.indices, *chain.from_iterable(
        (side.ids, side.lengths, *chain.from_iterable(side.characters))
        for side in (*batch.sources, batch.target))]


def test_memory_is_flat_over_epochs(tmp_path, monkeypatch):
    """Reading takes an index and one block; the second epoch takes as much as the first."""
    monkeypatch.setattr(stored, "BLOCK", 1 << 12)
    monkeypatch.setattr(stored, "AT_ONCE", 16)
    monkeypatch.setattr(corpus, "READ", 1 << 12)
    recipe, held = recipe_of(tmp_path, PAIRS), []
    tracemalloc.start()
    try:
        for _ in epochs_of_batches(recipe, 2):
            held.append(tracemalloc.get_traced_memory())
            tracemalloc.reset_peak()
    finally:
        tracemalloc.stop()
    read, _, first, second = held
    assert read[1] < 100 * PAIRS  # bytes; as lists of words a pair takes 600 and more
    assert second[0] < first[0] + 10_000 and second[1] < first[1] + 20_000


def test_a_full_disk_is_reported(tmp_path, monkeypatch, capsys):
    write_corpus(tmp_path)
    recipe = write_recipe(tmp_path / "r.yaml")

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)  # of which a line would warn
    monkeypatch.setattr(stored, "BLOCK", 100)
    monkeypatch.setattr(stored.tempfile, "TemporaryFile", full)
    said = complaint(capsys, "train", recipe, "--output", tmp_path / "run")
    assert "cannot store the sentences here: No space left on device; set TMPDIR" in said
    assert not (tmp_path / "run").exists()


def test_a_run_whose_corpus_is_on_the_disk_is_the_same(tmp_path, monkeypatch):
    """Its parameters are the same, and so are the facts on the data in its checkpoint."""
    write_corpus(tmp_path, 24)
    recipe = write_recipe(tmp_path / "r.yaml", train={"epochs": 1})
    for name, block in (("memory", 1 << 25), ("disk", 100)):
        monkeypatch.setattr(stored, "BLOCK", block)
        assert nmt("train", recipe, "--output", tmp_path / name) == 0
    best = [(tmp_path / name / "best.safetensors").read_bytes() for name in ("memory", "disk")]
    assert best[0] == best[1]
