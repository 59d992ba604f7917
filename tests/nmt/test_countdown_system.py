"""A Transformer that counts down, as a user runs it: training, resuming, commands, pages,
errors."""

from __future__ import annotations

import json
import math

import pytest
from tiny_run import RECIPE, TEXT_RECIPE, complaint, lines_of, nmt, write_corpus, write_recipe

import nmt as library
from backend.errors import UserError
from nmt.pages.search import searches_of
from nmt.recipe import Recipe
from nmt.recipe.file import load_recipe
from nmt.search.interface import SearchOptions
from nmt.search.recorder import LAST
from nmt.serving.service import Limits, Service
from nmt.system import System
from nmt.training.log import read_log

COUNTDOWN = {
    **RECIPE, "data": {**RECIPE["data"], "max_translate_length": 16},
    "model": {"architecture": "transformer", "encoder_layers": 1, "decoder_layers": 1, "heads": 2,
              "hidden_size": 12, "inner_size": 16, "dropout": 0.1, "positions": 16,
              "target_positions": "countdown"},
    "train": {**RECIPE["train"], "sorted_within": 4, "log_every": 1, "max_norm": 1.0,
              "checkpoint_every": 2, "keep": 2},
    "search": {"beam": 2, "lengths": 3}}


def recipe_of(directory, **sections):
    return load_recipe(Recipe, write_recipe(directory / "countdown.yaml", COUNTDOWN, **sections))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A directory with the corpus and two runs, `run`, of a countdown, and `forward`."""
    directory = tmp_path_factory.mktemp("countdown")
    write_corpus(directory)
    recipe = write_recipe(directory / "countdown.yaml", COUNTDOWN, model={"dropout": 0.0},
                          train={"epochs": 8, "schedule": "constant"}, evaluate={"bleu": False})
    assert nmt("train", recipe, "--output", directory / "run") == 0
    forward = write_recipe(directory / "forward.yaml", COUNTDOWN, train={"epochs": 1},
                           search={"lengths": 1}, model={"target_positions": "forward"})
    assert nmt("train", forward, "--output", directory / "forward") == 0
    return directory


def test_a_run_that_crashed_resumes_exactly_and_logs_its_parts(corpus, resumed) -> None:
    """With label smoothing, words dropped, batches by tokens and the target from its end."""
    recipe = recipe_of(corpus, model={"label_smoothing": 0.1}, train={"batch_tokens": 40},
                       data={"reverse_target": True, "word_dropout": 0.1})
    system, _ = resumed(recipe, 13)
    assert system.parameters["length.W"].shape == (16, 12)
    logs = [read_log(corpus / name / "log.jsonl") for name in ("whole", "cut")]
    for record in logs[0]:
        if "loss" in record:
            assert record["objective"] > record["loss"] > record["length_loss"] > 0
    epochs = [[record for record in log if record["event"] == "epoch"] for log in logs]
    losses = [[epoch["length_loss"] for epoch in log] for log in epochs]
    assert losses[0] == losses[1]
    for epoch in epochs[0]:
        assert 1 < epoch["scores"]["length_perplexity"] < 16
    pairs = [(["one", "two"], ["eins", "zwei"]), (["six"], ["sechs"])]
    perplexities = system.perplexities(pairs)
    forced = system.force(pairs)
    total = -sum(best.log_probability for best in forced)
    assert perplexities["perplexity"] == pytest.approx(math.exp(total / 5), rel=1e-6)
    assert perplexities["length_perplexity"] == pytest.approx(math.exp(
        -sum(best.steps[-1] for best in forced) / 2), rel=1e-6)


def test_it_learns_and_every_command_reads_it(trained, capsys) -> None:
    run, test = trained / "run", [trained / "test.en", trained / "test.de"]
    capsys.readouterr()
    for options in ((), ("--beam", 1, "--lengths", 1), ("--nbest", 2, "--beam", 3),
                    ("--sample", 1.0, "--seed", 3), ("--beam", 3, "--every-beam")):
        assert nmt("translate", test[0], "--model", run, *options) == 0
        assert capsys.readouterr().out.count("\n") == 6 * (2 if "--nbest" in options else 1)
    assert nmt("evaluate", *test, "--model", run, run, "--ensemble") == 0
    assert nmt("perplexity", *test, "--model", run) == 0
    said = capsys.readouterr().out.splitlines()
    assert float(said[-3].split()[1]) < 6.0 and said[-1].startswith("length perplexity ")
    for command in ("attention", "align", "logits"):
        files = {"attention": test[:1], "align": test, "logits": ["steps", *test]}[command]
        assert nmt(command, *files, "--model", run) == 0
    loaded = library.load(run)
    assert loaded.attention("one two", "eins zwei").weights.shape == (2, 2)
    scores = loaded.word_scores("one two", "eins zwei")
    assert len(scores) == 3  # the length's in the place of </s>
    assert sum(log_p for _, log_p in scores) == pytest.approx(loaded.score("one two", "eins zwei"))
    [best, *others] = loaded.nbest("one two", 6, beam=6)
    assert best.score >= max(other.score for other in others) and best.finished
    assert loaded.score("one two", best.text) == pytest.approx(best.log_probability, rel=1e-5)


def test_beams_side_by_side(trained, capsys) -> None:
    """BLEU, the length ratio and empty translations of each system with each beam."""
    test = [trained / "test.en", trained / "test.de"]
    rows = [line.split() for line in lines_of(capsys, "evaluate", *test, "--model", trained / "run",
                                              trained / "forward", "--beams", 1, 4, "--lengths", 1,
                                              "--output", trained / "out")[1:5]]
    assert [row[:2] for row in rows] == [["run", "1"], ["run", "4"], ["forward", "1"],
                                         ["forward", "4"]]
    kept = json.loads((trained / "out" / "beams.json").read_text())["beams"]
    reference = sum(len(line.split()) for line in test[1].read_text().splitlines())
    for row, facts in zip(rows, kept, strict=True):
        system = System.open(trained / row[0])
        sources = [line.split() for line in test[0].read_text().splitlines()]
        options = SearchOptions(beam=facts["beam"])
        best = [nbest[0] for nbest in system.translate(sources, options)]
        assert facts["length_ratio"] == sum(len(output.words) for output in best) / reference
        assert float(row[3]) == round(facts["length_ratio"], 3)
        assert int(row[4]) == facts["empty"] == sum(not output.words for output in best)
        assert (int(row[6]), facts["sentences"]) == (sum(not output.finished for output in best), 6)
    assert complaint(capsys, "evaluate", *test, "--model", trained / "run", "--beams", 2, "--gold",
                     test[0]) == "--beams: cannot be used with --gold"


@pytest.mark.parametrize("alpha", [0.0, 0.8])
def test_the_page_shows_the_search_of_the_best_length(trained, alpha) -> None:
    system = System.open(trained / "run")
    options = SearchOptions(beam=3, nbest=2, lengths=3, length_normalisation=alpha)
    words = ["one", "two", "three"]
    [[first, *_]] = system.translate([words], options)
    data = searches_of(system, words, options)
    beam = data["searches"]["beam"]
    assert beam["limit"] == len(beam["steps"]) == len(first.words) > 0
    assert beam["found"][0]["words"] == first.words and beam["found"][0]["finished"]
    assert beam["found"][0]["score"] == pytest.approx(first.score, rel=1e-6)
    path = [candidate for candidate in beam["steps"][-1]["candidates"] if candidate["fate"] == LAST]
    assert len(path) == 3 and path[0]["score"] == beam["found"][0]["score"]
    assert any("predicts the length first" in note for note in data["notes"])
    service = Service(system, options, Limits())
    answer = service.answer({"text": "one two three"})
    assert answer["translation"] == system.text(first)
    shown = answer["nbest"][0]
    assert sum(word["log_p"] for word in shown["words"]) + beam["first"] == pytest.approx(
        shown["log_p"], rel=1e-6)


@pytest.mark.parametrize("sections, message", [
    ({"model": {"target_positions": "down"}},
     "model.target_positions: expected one of forward, countdown, got 'down'"),
    ({"model": {"target_positions": "forward"}},
     "search.lengths: expected 1 without model.target_positions countdown, got 3"),
    ({"search": {"lengths": 0}}, "search.lengths: expected an integer of at least 1 "),
])
def test_what_makes_no_sense_is_refused_with_its_line(corpus, sections, message) -> None:
    with pytest.raises(UserError, match=rf"countdown\.yaml:\d+: (key )?{message}|{message}"):
        recipe_of(corpus, **sections)


def test_what_cannot_go_together_is_refused(trained, capsys) -> None:
    run, forward, test = trained / "run", trained / "forward", trained / "test.en"
    assert complaint(capsys, "translate", test, "--model", run, forward) == (
        f"{forward}: expected the model.target_positions of {run} in one ensemble, got another")
    assert complaint(capsys, "translate", test, test, "--sources", "--model", run, run) == (
        f"{run}: expected model.target_positions forward among models that read a source each, got "
        "countdown")
    assert complaint(capsys, "translate", test, "--model", forward, "--lengths", 2) == (
        "search.lengths: expected 1 without model.target_positions countdown, got 2")
    recipe = write_recipe(trained / "lm.yaml", TEXT_RECIPE, train={"epochs": 1},
                          text={"vocabulary": str(run / "target.vocab")})
    assert nmt("lm", "train", recipe, "--output", trained / "lm") == 0
    assert complaint(capsys, "translate", test, "--model", run, "--lm", trained / "lm",
                     "--lm-weight", 0.1).endswith(
        "expected a translator that predicts </s> beside a language model, got one with "
        "model.target_positions countdown")
    (trained / "long.de").write_text("eins " * 16 + "\n")
    (trained / "one.en").write_text("one\n")
    assert complaint(capsys, "perplexity", trained / "one.en", trained / "long.de", "--model",
                     run) == ("target: expected sentences of at most 16 words or pieces "
                              "(model.positions), got 17, of 'eins eins eins eins eins eins "
                              "eins eins ...'")
