"""`--checkpoint best|last` of every command that uses a trained model."""

import argparse
import io
import json
import re
import shutil
import sys

import pytest
from tiny_run import complaint, nmt

from grads.cli import build_parser as grads_parser
from nmt.cli import build_parser as nmt_parser
from nmt.run_files import checkpoint_path
from nmt.system import System
from nmt.training import checkpoint
from nmt.training.run import BEST, LAST

VERBS = [
    "translate --model model", "translate --model model other",
    "perplexity test.en test.de --model model", "attention test.en test.de --model model",
    "align train.en train.de --model model",
    "dictionary test.en test.de out --model model --min-count 1",
    "back-translate test.en --model model --source out --target kept --sample 1",
    "logits steps test.en test.de --model model", "logits norms --model model",
    "lm sample --model lm", "lm perplexity test.de --model lm",
    "evaluate test.en test.de --model model",
    "evaluate test.en test.de --model model other --ensemble",
]

OF_WEIGHTS = [  # left out, since best and last differ too little here
    "similarity pairs --model model", "words pairs --model model --output map.png",
    "prune model --percent 50 --output new", "redundancy model --output new",
]


@pytest.fixture(scope="module")
def _weakened(_trained, tmp_path_factory):
    directory = tmp_path_factory.mktemp("weakened") / "runs"
    shutil.copytree(_trained, directory)
    assert nmt("train", directory / "model/recipe.yaml", "--output", directory / "other",
               "--train.seed", 2, "--train.epochs", 3) == 0
    for name in ("model", "other", "lm"):
        saved = checkpoint.load(directory / name / BEST)
        weak = {key: -0.3 * array for key, array in saved.arrays.items()}
        checkpoint.save(directory / name / BEST, weak, saved.metadata)
    return directory


@pytest.fixture
def runs(_weakened, tmp_path, monkeypatch):
    """`model`, `other` and `lm`, whose best parameters are weakened, in the working directory."""
    shutil.copytree(_weakened, tmp_path / "runs")
    monkeypatch.chdir(tmp_path / "runs")
    return tmp_path / "runs"


@pytest.fixture
def call(runs, monkeypatch, capsys):
    """Call a command; return what it prints and writes, without its speed."""

    def call(words, *options):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one two three\nfive\n")))
        capsys.readouterr()
        assert nmt(*words.split(), *options) == 0
        written = (runs / "out").read_text() if (runs / "out").is_file() else ""
        return re.sub("words translated.*", "", capsys.readouterr().out) + written

    return call


@pytest.mark.parametrize("words", VERBS)
def test_every_command_takes_either(runs, call, words) -> None:
    """The default is the best checkpoint; in a directory with only the last one, it is the last."""
    best, last = (call(words, "--checkpoint", which) for which in ("best", "last"))
    assert best != last
    if words in VERBS[:3]:
        assert call(words) == best
    for name in ("model", "other", "lm"):
        (runs / name / BEST).unlink()
    assert call(words) == last


@pytest.mark.parametrize("words", OF_WEIGHTS)
def test_a_checkpoint_that_is_missing_is_named(runs, capsys, words) -> None:
    (runs / "pairs").write_text("one\ttwo\t5\nthree\tfour\t1\nfive\tsix\t3\n")
    (runs / "model" / LAST).unlink()
    message = complaint(capsys, *words.split(), "--checkpoint", "last")
    assert f"model/{LAST}" in message


def test_no_command_with_a_model_lacks_it() -> None:
    with_model = set()
    parsers = [("nmt", nmt_parser()), ("grads", grads_parser())]
    for name, parser in parsers:
        options = {option for action in parser._actions for option in action.option_strings}
        takes_model = "--model" in options or any(
            action.metavar == "RUN" for action in parser._actions)
        assert takes_model == ("--checkpoint" in options), name
        with_model |= {name} if takes_model else set()
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                parsers += [(f"{name} {verb}", subparser)
                            for verb, subparser in action.choices.items()]
    assert with_model == {*(" ".join(("nmt", *re.findall(r"^(?:lm |logits )?[\w-]+", words)))
                       for words in VERBS + OF_WEIGHTS),
                     "nmt export", "nmt lm fuse", "nmt lm tune", "nmt logits lexicon", "nmt serve",
                     "nmt rerank", "grads walk", "grads explore", "grads debug-state"}


def test_evaluate_sets_both_side_by_side(runs, call) -> None:
    words = "evaluate test.en test.de --model model other --ensemble"
    alone = {}
    for which in ("best", "last"):
        call(words, "--checkpoint", which, "--output", "report")
        alone[which] = systems(runs)
        assert [system["name"] for system in alone[which]] == ["model", "other",
                                                         "ensemble, probabilities"]
        assert [system["checkpoint"] for system in alone[which]] == [which] * 3
    shown = call(words, "--checkpoint", "both", "--output", "report")
    both = systems(runs)
    assert [system["name"] for system in both] == [
        "model, best", "model, last", "other, best", "other, last",
        "ensemble, probabilities, best", "ensemble, probabilities, last"]
    for place, system in enumerate(both):
        expected = alone[system["checkpoint"]][place // 2]
        for key in ("perplexity", "bleu", "chrf", "checkpoint", "epochs"):
            assert system[key] == expected[key]
    assert system["checkpoint"] == "last" and system["epochs"] is None
    assert [system["epochs"] for system in both[1:4:2]] == [12, 3]
    rows = re.findall(r"^(\w.*, (?:best|last))  +((?:best|last)(?: \(\d+\))?)  ", shown,
                      re.MULTILINE)
    assert [name for name, _ in rows] == [system["name"] for system in both]
    assert " ".join(cell for _, cell in rows) \
        == f"best ({both[0]['epochs']}) last (12) best ({both[2]['epochs']}) last (3) best last"


def systems(directory):
    return json.loads((directory / "report/evaluation.json").read_text())["systems"]


def test_training_speed_stands_beside_each_model(runs, call) -> None:
    """Speed is by CPU time if all logs have it, otherwise by the fastest quarter."""
    command = "evaluate test.en test.de --model model other --output report"
    shown = call(command)
    rates = [system["training_target_tokens_per_second"] for system in systems(runs)]
    row = re.search(r"^training, target tokens/s of CPU time +(\d+) +(\d+)$", shown, re.MULTILINE)
    assert row and list(row.groups()) == [f"{rate['of_cpu_time']:.0f}" for rate in rates]
    assert "fastest quarter" not in shown
    log = runs / "other" / "log.jsonl"
    log.write_text(re.sub(r'"cpu_seconds": [^,]*, ', "", log.read_text()))
    shown = call(command)
    assert re.search(rf"^training, target tokens/s of CPU time +{row[1]} +-$", shown, re.MULTILINE)
    row = re.search(r"^training, target tokens/s, fastest quarter +(\d+) +(\d+)$", shown,
                    re.MULTILINE)
    assert row and list(row.groups()) == [f"{rate['fastest_quarter']:.0f}" for rate in rates]
    for name in ("model", "other"):
        (runs / name / "log.jsonl").unlink()
    assert "training" not in call(command).split("report")[0]
    assert [system["training_target_tokens_per_second"] for system in systems(runs)] == [None, None]


def test_an_unknown_checkpoint_is_refused(runs, capsys) -> None:
    for words in VERBS:
        message = complaint(capsys, *words.split(), "--checkpoint", "first")
        assert message.startswith("argument --checkpoint: invalid choice: 'first'")
    assert "invalid choice: 'both'" in complaint(capsys, *VERBS[0].split(), "--checkpoint", "both")
    with pytest.raises(ValueError, match="which: expected one of best, last, got 'first'"):
        System.open("model", "first")
    assert checkpoint_path(runs / "model", "last").name == LAST
