"""Language models on text: streams, the carried state, exact resume, run directories."""

import math
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_run import TEXT_RECIPE, Crash, CrashAt, write_recipe

from backend.errors import UserError
from nmt.data.corpus import LONGEST, read_lines
from nmt.data.vocabulary import END
from nmt.language_models import (
    LanguageSystem,
    Streams,
    read_text,
    text_of,
    tokens_of,
    train,
)
from nmt.recipe import LanguageModelRecipe, TextConfig
from nmt.recipe.file import load_recipe
from nmt.training import checkpoint
from nmt.training.batch_source import Training
from nmt.training.options import TrainOptions
from nmt.training.progress import Observer
from nmt.training.run import BEST, LAST, Run
from nmt.training.trainer import Trainer

LINES = st.lists(st.text(st.characters(exclude_characters="\n\u2581", codec="utf-8")), min_size=1)


def recipe_of(directory, **sections):
    return load_recipe(LanguageModelRecipe, write_recipe(directory / "lm.yaml", TEXT_RECIPE,
                                                         **sections))


@given(LINES)
def test_characters_are_a_text_and_back(lines) -> None:
    tokens = tokens_of(lines, "characters")
    assert text_of(tokens, "characters") == "".join(line + "\n" for line in lines)
    assert not any(space in token for token in tokens for space in " \t\n")  # a vocabulary's rule


def test_a_backslash_and_an_n_are_not_a_line_end() -> None:
    assert text_of(tokens_of([r"a\nb\tc"], "characters"), "characters") == "a\\nb\\tc\n"


def test_words_are_a_text_and_back_empty_lines_included() -> None:
    lines = ["", "a b", "", "", "c", ""]
    tokens = tokens_of(lines, "words")
    assert tokens == ["</s>", "a", "b", "</s>", "</s>", "</s>", "c", "</s>", "</s>"]
    assert text_of(tokens, "words") == "".join(line + "\n" for line in lines)
    assert text_of(["a", "b"], "words") == "a b"


def test_streams_come_in_order_and_say_where_they_begin() -> None:
    streams = Streams(range(25), TextConfig(train="t", streams=2, length=5))
    keys = streams.epoch(np.random.default_rng(1))
    pieces = [streams.batch(key) for key in keys]
    assert [piece.begins for piece in pieces] == [True, False, False]
    row = np.concatenate([piece.target_in[:, 1] for piece in pieces])
    np.testing.assert_array_equal(row, range(12, 24))
    assert [streams.tokens(batch) for batch in pieces] == [10, 10, 4]
    assert {streams.weight(batch) for batch in pieces} == {2}


@pytest.mark.parametrize("unit", ["lstm", "rnn"])
def test_the_state_goes_on_from_piece_to_piece_and_is_zero_at_the_beginning(corpus, unit) -> None:
    recipe = recipe_of(corpus, model={"dropout": 0.0, "unit": unit})
    system = train(recipe, corpus / unit, Observer())
    ids = [END, *system.vocabulary.ids(tokens_of(read_lines(corpus / "dev.de"), "words"))]
    expected, _ = system.nats(ids)
    for length in (3, 1000):
        source = Streams(ids, TextConfig(train="t", streams=1, length=length))
        model = Recording(system.model)
        options = TrainOptions(epochs=2, learning_rate=1e-30)  # the parameters stay
        Trainer(model, system.parameters, Training(source), options,
                Run(corpus / f"{unit}-{length}")).train()
        pieces = len(source.epoch(np.random.default_rng(1)))
        assert len(model.passes) == 2 * pieces  # the second epoch begins anew
        for epoch in model.passes[:pieces], model.passes[pieces:]:
            np.testing.assert_allclose(sum(a_pass.loss for a_pass in epoch), expected, rtol=1e-5)
            assert epoch[0].came is None
            assert all(after.came is before.went for before, after in pairwise(epoch))


class Pass(NamedTuple):
    loss: float
    came: list | None  # the state that the batch had
    went: list  # the state that the cache has


class Recording:
    """A language model whose passes are written down."""

    def __init__(self, model):
        self.noise, self.backward, self._model = model.noise, model.backward, model
        self.passes = []

    def loss(self, parameters, batch, noise=None):
        loss, cache = self._model.loss(parameters, batch, noise)
        self.passes.append(Pass(float(loss), batch.state, cache.state))
        return loss, cache


def test_nats_are_those_of_feeding_word_by_word(trained) -> None:
    system = LanguageSystem.open(trained / "lm")
    ids = system.ids(["eins zwei unbekannt", "", "sechs"], "text")
    states, total = system.model.encode(system.parameters, (), 1), 0.0
    for before, after in pairwise(ids):
        logits, states, _ = system.model.step(system.parameters, states, np.array([before]))
        row = logits[0].astype(float)
        total += math.log(np.exp(row).sum()) - row[after]
    nats, predictions = system.nats(ids)
    assert predictions == 7 and ids.count(END) == 4
    np.testing.assert_allclose(nats, total, rtol=1e-5)


def test_a_run_that_crashed_within_an_epoch_resumes_exactly(corpus) -> None:
    recipe = recipe_of(corpus, train={"checkpoint_every": 2})
    train(recipe, corpus / "whole", Observer())
    with pytest.raises(Crash):
        train(recipe, corpus / "cut", CrashAt(15))  # of about ten updates an epoch
    train(recipe, corpus / "cut", Observer(), resume=True)
    ours, theirs = (checkpoint.load(corpus / name / LAST) for name in ("cut", "whole"))
    carried = ours.select(checkpoint.CARRIED)
    assert {name: array.shape for name, array in carried.items()} == {
        f"{layer}.{place}": (4, 8) for layer in (0, 1) for place in (0, 1)}
    assert ours.metadata["training"]["counters"] == theirs.metadata["training"]["counters"]
    assert ours.arrays.keys() == theirs.arrays.keys()
    for name, array in ours.arrays.items():
        np.testing.assert_array_equal(array, theirs.arrays[name], err_msg=name)


def test_a_resumed_run_must_be_the_same_run(corpus) -> None:
    train(recipe_of(corpus), corpus / "m", Observer())
    for sections, message in (
        ({"model": {"dropout": 0.4}}, "model.dropout: was 0.1, now 0.4"),
        ({"text": {"streams": 2}}, "text.streams: was 4, now 2"),
        ({"text": {"train": "train.en"}}, "its 'data' is"),
    ):
        with pytest.raises(UserError, match=f"cannot resume.*{message}"):
            train(recipe_of(corpus, **sections), corpus / "m", Observer(), resume=True)


def test_the_end_of_the_text_is_kept_for_validation(corpus) -> None:
    lines = [f"w{i}" for i in range(100)]
    (corpus / "train.de").write_text("\n".join(lines) + "\n")
    system = train(recipe_of(corpus), corpus / "m", Observer())
    assert "w89" in system.vocabulary.words and "w90" not in system.vocabulary.words


def test_samples(trained) -> None:
    system = LanguageSystem.open(trained / "lm")

    def draw(seed, temperature=1.0, prompt="eins zwei"):
        return system.sample(prompt, 30, temperature, np.random.default_rng(seed))

    assert draw(1) == draw(1) != draw(2)
    assert draw(1).startswith("eins zwei")
    assert draw(1, 1e-3) == draw(2, 1e-3)
    assert len(tokens_of(draw(1, prompt="").split("\n"), "words")) in (30, 31)


def test_character_models_read_tabs(corpus) -> None:
    (corpus / "train.de").write_text("if a:\n\tb = c\n" * 60)
    system = train(recipe_of(corpus, text={"level": "characters"}), corpus / "m", Observer())
    text = system.sample("\tb ", 40, 1.0, np.random.default_rng(1))
    assert text.startswith("\tb ") and len(text) >= 43
    assert system.ids(["\t"], "x") == [END, *system.vocabulary.ids(["\\t", "\\n"])]


def test_a_text_may_be_one_long_line(corpus) -> None:
    """Unlike a sentence."""
    path = corpus / "long"
    path.write_text("ab" * LONGEST)
    train_text, dev = read_text(TextConfig(train=str(path), dev=str(path), level="characters"))
    assert len(train_text) == len(dev) == 2 * LONGEST + 1


@pytest.mark.filterwarnings("error")
def test_a_parameter_that_overflows_is_named(trained) -> None:
    """In place of NumPy's warnings; 1 does not."""
    system = LanguageSystem.open(trained / "lm")
    for value in (1.0, 1e30):
        huge = replace(system, parameters={
            name: np.full_like(array, value) for name, array in system.parameters.items()})
        if value == 1:
            assert np.isfinite(huge.perplexity(["eins"]))
            continue
        with pytest.raises(UserError, match=r"parameter '.*': expected numbers that do not overfl"):
            huge.perplexity(["eins"])


@pytest.mark.parametrize(("content", "message"), [
    ("a b\n", r"train\.de: expected more than 4 tokens to train on .*, got 0 and 3"),
    ("", r"train\.de: expected more than 4 tokens to train on"),
    (None, r"train\.de: cannot be read"),
])
def test_texts_that_are_too_short_or_missing(corpus, content, message) -> None:
    (corpus / "train.de").unlink()
    if content is not None:
        (corpus / "train.de").write_text(content)
    with pytest.raises(UserError, match=message):
        train(recipe_of(corpus), corpus / "m", Observer())
    assert not (corpus / "m").exists()


def test_an_empty_text_has_no_perplexity(trained) -> None:
    with pytest.raises(UserError, match="here: expected text, found none"):
        LanguageSystem.open(trained / "lm").ids([], "here")


def test_what_does_not_belong_together_is_refused(trained) -> None:
    with pytest.raises(UserError, match="expected a language model, found a translator"):
        LanguageSystem.open(trained / "model")
    vocabulary = trained / "lm" / "text.vocab"
    lines = vocabulary.read_text("utf-8").splitlines()
    for wrong in ([*lines[:-2], lines[-1], lines[-2]], lines[:-1]):
        vocabulary.write_text("\n".join(wrong) + "\n", "utf-8")
        with pytest.raises(UserError, match=r"text\.vocab: this is not the vocabulary that the"):
            LanguageSystem.open(trained / "lm")
    vocabulary.write_text("\n".join(lines) + "\n", "utf-8")
    (trained / "lm" / BEST).write_bytes(b"junk")
    with pytest.raises(UserError, match=r"best\.safetensors: .*damaged"):
        LanguageSystem.open(trained / "lm")
