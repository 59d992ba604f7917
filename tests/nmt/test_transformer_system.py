"""The Transformer as a user runs it: training, resuming, every command, errors."""

from __future__ import annotations

import numpy as np
import pytest
from tiny_run import RECIPE, complaint, nmt, write_recipe

import nmt as library
from backend.errors import UserError
from nmt.data.corpora import load_corpus
from nmt.evaluation.curves import read_curve
from nmt.models.transformer import Transformer, TransformerConfig
from nmt.recipe import Recipe
from nmt.recipe.file import load_recipe
from nmt.search.interface import SearchOptions
from nmt.system import System
from nmt.training.log import read_log
from nmt.training.progress import Observer
from nmt.translator_training import train

MODEL = {"encoder_layers": 1, "decoder_layers": 2, "hidden_size": 8, "inner_size": 10, "heads": 2,
         "dropout": 0.1}
TRANSFORMER = {**RECIPE, "model": {"architecture": "transformer", **MODEL},
               "train": {**RECIPE["train"], "sorted_within": 4, "log_every": 1, "max_norm": 1.0,
                         "checkpoint_every": 2, "keep": 2}}


def recipe_file(directory, **sections):
    return write_recipe(directory / "transformer.yaml", TRANSFORMER, **sections)


def recipe_of(directory, **sections):
    return load_recipe(Recipe, recipe_file(directory, **sections))


def test_a_run_that_crashed_resumes_exactly_and_is_opened_again(corpus, resumed) -> None:
    """With warm-up, label smoothing and batches by tokens, 19 updates of which 13 were saved."""
    recipe = recipe_of(corpus, model={"label_smoothing": 0.1},
                       train={"schedule": "inverse-sqrt", "warmup": 8, "batch_tokens": 40})
    _, opened = resumed(recipe, 13)
    records = read_log(corpus / "cut" / "log.jsonl")
    assert all(record["objective"] > record["loss"] for record in records if "loss" in record)
    rates = {record["step"]: record["learning_rate"] for record in records
             if record["event"] == "update"}
    assert rates[8] == 0.02 and rates[4] == 0.01 and rates[16] == pytest.approx(0.02 / 2**0.5)
    assert any("lambda = 0.16 at d = 8" in record.get("text", "") for record in records)
    assert isinstance(opened.model, Transformer)
    assert opened.recipe.model == TransformerConfig(**MODEL, label_smoothing=0.1)


SHARED = {"data": {"shared_vocabulary": True, "word_dropout": 0.2,
                   "subwords": {"merges": 6, "dropout": 0.1}},
          "model": {"dropout": 0.0}, "train": {"evaluate_every": 3, "stop_after": 2},
          "parametrize": {"tied": dict.fromkeys(("decoder.W_e", "output.W_hy"), "encoder.W_e"),
                          "normalized": {"encoder.W_e": 1.0}, "learned_radius": True}}


def test_word_dropout_and_one_vocabulary_resume_exactly(corpus, resumed) -> None:
    """Three tables that are one; words dropped, and cut, anew in each epoch; evaluations within."""
    pytest.importorskip("subword_nmt")
    recipe = recipe_of(corpus, **SHARED)
    system, _ = resumed(recipe, 5)
    resumed(recipe, 14, system, "cut14")
    source, target = system.source.words, system.target.words
    assert source[:len(target)] == target and len(source) > len(target)
    table = system.parameters["encoder.W_e"]
    for name in ("decoder.W_e", "output.W_hy"):
        np.testing.assert_array_equal(system.parameters[name], table[:len(target)])
    assert len({*np.round(np.linalg.norm(table, axis=1), 5)}) == 1
    assert set(system.stored) - set(system.parameters) == {"encoder.W_e.radius"}
    bleu = read_curve(corpus / "whole", "run").scores["bleu"]
    assert [step for step, _ in bleu] == [3 * n for n in range(1, len(bleu) + 1)] and len(bleu) > 2


def test_it_learns_and_every_command_reads_it(corpus, capsys) -> None:
    """Perplexity falls; greedy, beam and n-best search, draws, averages, ensembles, alignments."""
    recipe = recipe_file(corpus, model={"hidden_size": 16, "dropout": 0.0},
                         train={"epochs": 8, "learning_rate": 0.02, "schedule": "constant"},
                         evaluate={"bleu": False})
    run, test = corpus / "run", [corpus / "test.en", corpus / "test.de"]
    assert nmt("train", recipe, "--output", run) == 0
    assert nmt("average", run, "--last", 2, "--output", corpus / "mean") == 0
    capsys.readouterr()
    for options in ((), ("--beam", 1), ("--nbest", 2, "--beam", 3),
                    ("--sample", 1.0, "--seed", 3)):
        assert nmt("translate", test[0], "--model", run, *options) == 0
        assert capsys.readouterr().out.count("\n") == 6 * (2 if "--nbest" in options else 1)
    for directories in ((run,), (corpus / "mean",), (run, corpus / "mean", "--ensemble")):
        assert nmt("evaluate", *test, "--model", *directories) == 0
    assert nmt("perplexity", *test, "--model", run) == 0
    said = capsys.readouterr().out.splitlines()[-2].split()
    assert said[0] == "perplexity" and float(said[1]) < 6.0  # of 9 words
    assert nmt("attention", test[0], "--model", run) == 0
    loaded = library.load(run)
    attention = loaded.attention("one two", "eins zwei")
    assert attention.weights.shape == (3, 2)
    np.testing.assert_allclose(attention.weights.sum(axis=1), 1.0, rtol=1e-5)
    scores = loaded.word_scores("one two", "eins zwei")
    assert sum(log_p for _, log_p in scores) == pytest.approx(loaded.score("one two", "eins zwei"))


def test_an_epoch_with_a_copy_of_the_text_has_twice_the_pairs(corpus, resumed) -> None:
    recipe = recipe_of(corpus, data={"rare_copy": 3, "subwords": {"merges": 6}})
    system, _ = resumed(recipe, 5)
    pairs = load_corpus(recipe.data).train
    batches = system.training_batches(pairs)
    places = np.concatenate(batches.epoch(np.random.default_rng(1)))
    assert sorted(places) == [*range(2 * len(pairs))]
    ids = [[*batches.pairs[place][1]] for place in (0, len(pairs))]
    assert ids[0] == system.target_ids(pairs[0][1]) and len(ids[0]) == len(ids[1])


@pytest.mark.parametrize("sections, message", [
    ({"model": {"heads": 3}}, "model.heads: expected a divisor of hidden_size 8, got 3"),
    ({"data": {"reverse_source": True}}, "data.reverse_source: expected false with the "
     "architecture transformer: it reads all words at once, whose order their positions tell"),
    ({"model": {"positions": 5}}, "data.max_translate_length: expected at most model.positions, 5"),
    ({"parametrize": {"tied": {"decoder.W_e": "encoder.W_e"}}}, "parametrize.tied: expected tables "
     "of one side, or data.shared_vocabulary, got decoder.W_e: encoder.W_e"),
    ({"data": {"shared_vocabulary": True, "subwords": {"merges": 3, "joint": False}}},
     "data.shared_vocabulary: expected the same merges for both sides"),
    ({"data": {"word_dropout": 1.0}}, "data.word_dropout: expected 0 <= word_dropout < 1, got 1.0"),
    ({"data": {"rare_copy": 1}}, "data.rare_copy: expected at least 2, got 1"),
    ({"data": {"rare_copy": 5, "subwords": {"merges": 3, "dropout": 0.1}}}, "data.rare_copy: "
     "expected none beside subwords.dropout or a second source, got 5"),
    ({"model": {"input_feeding": True}}, "'model.input_feeding' is not known to the architecture "
     "transformer, but to luong"),
])
def test_what_makes_no_sense_is_refused_with_its_line(corpus, sections, message) -> None:
    with pytest.raises(UserError, match=rf"transformer\.yaml:\d+: (key )?{message}|{message}"):
        recipe_of(corpus, **sections)


def test_a_sentence_beyond_the_positions_is_refused(corpus, capsys) -> None:
    """In training by the longest, in translation by its line; pieces count, not words."""
    short = recipe_file(corpus, model={"positions": 5}, data={"max_translate_length": 5})
    assert complaint(capsys, "train", short, "--output", corpus / "short") == (
        "target: expected sentences of at most 5 words or pieces (model.positions), got 6, of "
        "'sechs eins zwei sechs zwei'")
    pieces = recipe_of(corpus, model={"positions": 6}, data={
        "max_translate_length": 6, "max_length": 2, "subwords": {"merges": 1}},
        train={"epochs": 1})
    with pytest.raises(UserError, match="source: expected sentences of at most 6 words or pieces"):
        train(pieces, corpus / "pieces", Observer())
    recipe = recipe_of(corpus, model={"positions": 6}, data={"max_translate_length": 6})
    system = train(recipe, corpus / "run", Observer())
    assert len(system.translate([["one"] * 6], SearchOptions())[0][0].words) <= 12
    with pytest.raises(UserError, match="source: expected sentences of at most 6 words or pieces"):
        system.translate([["one"] * 7], SearchOptions())
    (corpus / "long.en").write_text("one\n" + "one " * 7)
    assert "long.en:2: expected at most 6 words (data.max_translate_length), got 7" in complaint(
        capsys, "translate", corpus / "long.en", "--model", corpus / "run", "--strict")


def test_the_lengths_of_its_norms_by_depth(corpus, capsys) -> None:
    """`nmt plot --scales`: every g of the file, in the order of the layers."""
    pytest.importorskip("matplotlib")
    run, picture = corpus / "scaled", corpus / "g.png"
    train(recipe_of(corpus, model={"norm": "scale", "pre_norm": True}), run, Observer())
    assert nmt("plot", run, run, "--scales", "-o", picture) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    g = {name: f"{value.item():.2f}" for name, value in System.open(run).parameters.items()
         if name.endswith("norm.g")}
    expected = [
        "decoder attention: {} {}".format(*(g[f"decoder.{i}.attention.norm.g"] for i in (0, 1))),
        "decoder-encoder attention: {} {}".format(*(g[f"decoder.{i}.source.norm.g"]
                                                    for i in (0, 1))),
        f"encoder attention: {g['encoder.0.attention.norm.g']}",
        "decoder feed-forward: {} {}".format(*(g[f"decoder.{i}.feed_forward.norm.g"]
                                               for i in (0, 1))),
        f"decoder, last: {g['decoder.norm.g']}",
        f"encoder feed-forward: {g['encoder.0.feed_forward.norm.g']}",
        f"encoder, last: {g['encoder.norm.g']}"]
    assert capsys.readouterr().out.splitlines() == [
        *(f"{run}: {line}" for line in expected), str(picture)]
    assert len(set(g.values())) > 1


def test_lengths_of_norms_need_scale_norms(corpus, capsys) -> None:
    pytest.importorskip("matplotlib")
    train(recipe_of(corpus), corpus / "layer", Observer())
    assert nmt("plot", corpus / "layer", "--scales", "-o", corpus / "g.png") == 2
    assert "layer: expected a Transformer with model.norm: scale" in capsys.readouterr().err
    assert not (corpus / "g.png").exists()
