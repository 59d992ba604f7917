"""A lexicon's bias: its file, the rows of a batch, and its effect. The catalogue checks its
gradients."""

from __future__ import annotations

import numpy as np
import pytest
from literal import draw

from backend.errors import UserError
from grads.verification.cases import draw_lexicon
from nmt.data.batches import make_batch, make_sources
from nmt.data.lexicon import Lexicon, entries_of, lexicon_lines, read_lexicon
from nmt.data.vocabulary import END, Vocabulary
from nmt.models.heads.lexicon import batch_entries, lexicon_forward, lexicon_step
from nmt.models.hybrid_config import HybridConfig
from nmt.models.translator import ModelConfig, Translator
from nmt.models.two_sources import TwoSourcesConfig
from nmt.search.beam import beam_search
from nmt.search.force import force_decode
from nmt.search.interface import SearchOptions

SOURCE, TARGET = Vocabulary(["hund", "mann", "der"]), Vocabulary(["dog", "man", "the", "guy"])
LINES = "hund\tdog\t1\nmann\tman\t0.75\nmann\tguy\t0.125\nder\tthe\t0.5\n"


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "low.lex"
        path.write_text(text, encoding="utf-8")
        return path
    return write


def test_a_file_is_read_and_written_again(file):
    unknown = "katze\tcat\t1\nmann\tmen\t0.125\n"
    lexicon = read_lexicon(file(LINES + unknown), SOURCE, TARGET)
    lines = lexicon_lines(lexicon, SOURCE, TARGET)
    assert lines == ["hund\tdog\t1.0", "mann\tman\t0.75", "mann\tguy\t0.125", "der\tthe\t0.5"]
    again = read_lexicon(file("\n".join(lines)), SOURCE, TARGET)
    assert lexicon_lines(again, SOURCE, TARGET) == lines


@pytest.mark.parametrize("text, message", [
    (LINES + "hund\tdog\n", ":5: expected a source word, a target word and a probability above 0"),
    (LINES + "hund\tman\t0\n", ":5: expected a source word"),
    (LINES + "hund\tman\tnan\n", ":5: expected a source word"),
    (LINES + "der mann\tman\t0.5\n", ":5: expected a source word"),
    (LINES + "der\tthe\t0.25\n", ":5: expected a new pair .* 'der' and 'the', .* line 4"),
    (LINES + "mann\thusband\t0.25\n", ":5: expected probabilities of 'mann' of at most 1 together"),
    ("katze\tcat\t1\n", ": expected an entry with words of both vocabularies, got none among 1")])
def test_what_is_no_lexicon_is_named(file, text, message):
    with pytest.raises(UserError, match=message):
        read_lexicon(file(text), SOURCE, TARGET)


@pytest.mark.parametrize("reverse", [False, True])
def test_rows_of_a_batch_are_those_of_a_dense_table(reverse):
    rng, V = np.random.default_rng(2), 9
    lexicon, dense = draw_lexicon(rng, V), np.zeros((V, V))
    for f in range(V):
        for k in range(lexicon.starts[f], lexicon.starts[f + 1]):
            dense[f, lexicon.words[k]] = lexicon.p[k]
    sentences = [[3, 4, 3], [8], [5, 6, 7, 2], [4, 4]]
    (side,) = make_sources(sentences, reverse)
    words, p = batch_entries(lexicon, side, reverse, np.dtype("float64"))
    for b, sentence in enumerate(sentences):
        assert len(set(words[b].tolist())) == len(words[b])
        table = np.zeros((p.shape[1], V))
        table[:, words[b]] = p[b]
        np.testing.assert_array_equal(table[: len(sentence)], dense[sentence])
        assert not table[len(sentence):].any()


def test_a_batch_without_any_entry_has_no_bias():
    lexicon = Lexicon.of({(3, 1): 0.5}, 5)
    words, p = entries_of(lexicon, np.array([[2, 4]]), np.array([2]))
    values, _ = lexicon_forward(np.array([[[0.5, 0.5]]]), p, 0.1)
    assert words.shape == (1, 1) and not values.any()


def test_the_bias_is_the_logarithm_up_to_one_number():
    rng = np.random.default_rng(3)
    lexicon, a, logits = draw_lexicon(rng, 6), rng.dirichlet(np.ones(2), 2), draw(rng, (2, 6))
    (side,) = make_sources([[2, 5]], False)
    entries, biased = batch_entries(lexicon, side, False, np.dtype("float64")), logits.copy()
    lexicon_step(biased, a, entries, 1e-3)
    dense = np.zeros((2, 6))
    np.add.at(dense, (slice(None), entries.words[0]), entries.p[0])
    shift = biased - logits - np.log(a @ dense + 1e-3)
    np.testing.assert_allclose(shift, -np.log(1e-3), rtol=1e-12)


def test_search_says_what_the_loss_says():
    """In a ragged batch, the log-probabilities of the targets, step by step, are those of the
    loss."""
    rng = np.random.default_rng(4)
    config = ModelConfig(lexicon_epsilon=1e-3, layers=1, hidden_size=4, embedding_size=3)
    model = Translator(config, 9, 9, True, lexicon=draw_lexicon(rng, 9))
    parameters = {name: draw(rng, weight.shape) for name, weight in model.weights().items()}
    pairs = [([2, 3, 4], [5, 6]), ([5], [7, 7, 2]), ([6, 7, 8, 2], [3])]
    forced = force_decode(model, parameters, make_batch(pairs, range(3), True))
    for pair, translation in zip(pairs, forced, strict=True):
        loss, _ = model.loss(parameters, make_batch([pair], [0], True))
        assert -float(loss) == pytest.approx(translation.log_probability, rel=1e-12)


@pytest.mark.parametrize("beam", [1, 3])
def test_hypotheses_keep_their_sentence_s_words(beam):
    """A batch gives the translations of its single sentences, since rows and sentences are
    reordered together."""
    rng = np.random.default_rng(5)
    config = ModelConfig(lexicon_epsilon=1e-3, layers=1, hidden_size=4, embedding_size=3,
                         output_bias=True)
    model = Translator(config, 9, 9, True, lexicon=draw_lexicon(rng, 9))
    parameters = {name: draw(rng, weight.shape) for name, weight in model.weights().items()}
    parameters["output.b"][END] = 1.5
    words, how = [[2, 3, 4], [5], [6, 7, 8, 2]], SearchOptions(beam=beam)
    together = beam_search(model, parameters, make_sources(words, True), how)
    for source, (best, *_) in zip(words, together, strict=True):
        (alone, *_), = beam_search(model, parameters, make_sources([source], True), how)
        assert best.tokens == alone.tokens
        assert best.log_probability == pytest.approx(alone.log_probability, rel=1e-12)
    assert any(best.finished for best, *_ in together)


@pytest.mark.parametrize("config, options, message", [
    (ModelConfig, {"attention": "none"}, "expected null where attention is 'none', got 0.1"),
    (ModelConfig, {"lexicon_epsilon": 0.0},
     "lexicon_epsilon: expected a number above 0 and at most 1, got 0.0"),
    (ModelConfig, {"target_sample": 5}, "lexicon_epsilon: expected null with target_sample"),
    (TwoSourcesConfig, {"bridge": True}, "lexicon_epsilon: expected null with two sources"),
    (HybridConfig, {}, "lexicon_epsilon: expected null in a hybrid model, got 0.1")])
def test_what_it_does_not_go_with(config, options, message):
    with pytest.raises(ValueError, match=message):
        config(**{"lexicon_epsilon": 0.1} | options)


