"""Hostile arguments and files: the error is one line that names them, and nothing is done."""

from __future__ import annotations

import argparse
import io
import json
import shutil
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file
from tiny_run import complaint, nmt, printed, write_corpus, write_recipe

from backend import host, memory
from backend.errors import UserError
from grads.cli import build_parser as grads_parser
from nmt.cli import build_parser as nmt_parser
from nmt.console.arguments import count, natural, positive
from nmt.data.align import number_of_pairs, read_gold
from nmt.data.annotation import symbol_of
from nmt.data.cldr import CldrOptions
from nmt.recipe import AnyRecipe
from nmt.recipe.file import load_recipe
from nmt.recipe.keys import keys_of
from nmt.search.interface import SearchOptions
from nmt.search.sample import draw
from nmt.training import checkpoint
from nmt.training.log import Log, read_log

assert CldrOptions, "the embedded corpus"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A directory with a corpus and a translator's run, `run`."""
    folder = tmp_path_factory.mktemp("adversary")
    write_corpus(folder)
    assert nmt("train", write_recipe(folder / "r.yaml", train={"epochs": 1}),
               "--output", folder / "run") == 0
    return folder


@pytest.fixture
def run(runs, tmp_path):
    """A copy of the run that may be damaged."""
    return shutil.copytree(runs / "run", tmp_path / "run")


def change(path, arrays=lambda document: None, metadata=lambda document: None):
    """Rewrite a checkpoint with other content and a matching checksum."""
    saved = checkpoint.load(path)
    arrays(saved.arrays), metadata(saved.metadata)
    checkpoint.save(path, saved.arrays, saved.metadata)


# --- numbers --------------------------------------------------------------------------------------


def actions(parser):
    """The options of a parser and of its subparsers."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from actions(inner)
        else:
            yield parser.prog, action


@pytest.mark.parametrize("parser", [nmt_parser, grads_parser])
def test_every_number_of_a_command_line_is_finite_and_bounded(parser):
    tried = 0
    for where, action in actions(parser()):
        assert action.type not in (int, float), (where, action.option_strings)
        takes_numbers = callable(action.type) and action.type.__module__ != "pathlib"
        for text in ("inf", "nan", "-inf", "1e999", "-1", "9" * 5000) if takes_numbers else ():
            with pytest.raises(argparse.ArgumentTypeError):
                action.type(text)
            tried += 1
    assert tried > 60


@pytest.mark.parametrize("architecture", ["luong", "hybrid", "rnnsearch", "language_model"])
def test_no_number_of_a_recipe_is_infinite_nan_or_astronomic(tmp_path, architecture):
    data = "text: {train: x}" if architecture == "language_model" else "data: {corpus: reverse}"
    path = tmp_path / "r.yaml"
    path.write_text(f"{data}\nmodel: {{architecture: {architecture}}}\n")
    numeric = [name for name, key in keys_of(architecture).items()
               if "int" in key.written or "float" in key.written]
    assert len(numeric) > 20
    if architecture != "luong":  # keys that it does not have
        numeric = [name for name in numeric if name not in keys_of("luong")]
    for name in numeric:
        for value in (".inf", ".nan", "-.inf", "1" + "0" * 30):
            text = f"{{x: {value}}}" if name == "parametrize.normalized" else value
            with pytest.raises(UserError, match=f"override: {name}: expected"):
                load_recipe(AnyRecipe, path, [f"--{name}={text}"])


@pytest.mark.parametrize("changes", [
    {"beam": 10**5}, {"nbest": 10**5, "beam": 10**5}, {"minimum_steps": 10**9},
    {"longest_word": 10**9}, {"length_factor": 1e300}, {"length_factor": float("inf")},
    {"length_normalisation": 1e300}, {"length_normalisation": float("nan")},
])  # fmt: skip
def test_limits_of_a_search(changes):
    with pytest.raises(ValueError, match=r": expected .*at most"):
        SearchOptions(**changes)
    assert SearchOptions(length_normalisation=20).length_penalty(10**6) < float("inf")


def test_a_model_that_no_memory_holds_is_refused_before_it_is_made(runs, capsys, tmp_path):
    line = complaint(capsys, "train", runs / "r.yaml", "--model.layers=100",
                     "--model.hidden_size=100000", "--output", tmp_path / "new")
    assert line.startswith("the model's parameters, ") and "GB of memory needed, " in line
    assert not (tmp_path / "new").exists()


def test_what_training_needs_beside_the_parameters_is_counted(runs, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 10_000)  # 1,752 parameters: 7,008 bytes
    line = complaint(capsys, "train", runs / "r.yaml", "--output", tmp_path / "new")
    assert line.startswith("gradients and the optimizer's state, 1,752 numbers each: at least")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\n")))
    monkeypatch.setattr(memory, "available_bytes", lambda: 8000)
    line = complaint(capsys, "translate", "--model", runs / "run", "--beam", "1000")
    assert line.startswith("1 sentence, 1000 hypotheses each: at least 0.1 MB of memory needed")


def test_free_memory_is_what_the_tightest_limit_leaves(monkeypatch):
    figures = {"/proc/meminfo": 5000, "/sys/fs/cgroup/memory.max": 3000,
               "/sys/fs/cgroup/memory.current": 1000, "/proc/self/status": 1}
    monkeypatch.setattr(memory, "_number", lambda path, *_: figures.get(path))
    assert memory.available_bytes() == 2000
    figures["/sys/fs/cgroup/memory.max"] = None
    assert memory.available_bytes() == 5000
    monkeypatch.setattr(memory, "_number", lambda *_: None)
    assert memory.available_bytes() is None and memory.check_fits(10**30, "x", "y") is None


@pytest.mark.parametrize("temperature", [1e-3, 1e-45, 1e-308, 5e-324])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_vanishing_temperature_is_greedy(temperature, dtype):
    logits = np.array([[0.0, 3.0, 2.0, -1e30], [5.0, 4.0, 4.5, 4.9]], dtype)
    for uniform in (0.0, 0.5, 1 - 2**-53):
        drawn = draw(logits, logits.max(axis=1), np.full(2, uniform), temperature)
        np.testing.assert_array_equal(drawn, [1, 0])


@pytest.mark.filterwarnings("error")
def test_a_high_temperature_draws_all_words_equally():
    logits = np.array([[0.0, 3.0, 2.0, -5.0]], np.float32)
    actual = {int(draw(logits, logits.max(axis=1), np.array([u]), 1e308)[0])
              for u in (0.1, 0.3, 0.6, 0.9)}
    assert actual == {0, 1, 2, 3}


# --- checkpoints ----------------------------------------------------------------------------------


def all_nan(arrays):
    for name, array in arrays.items():
        if name.startswith("parameters/"):
            array[...] = np.nan


def test_every_verb_refuses_a_checkpoint_of_nan(runs, run, capsys, monkeypatch, tmp_path):
    for file in ("best", "last"):
        change(run / f"{file}.safetensors", all_nan)
    monkeypatch.chdir(runs)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\n")))
    new, pair = tmp_path / "new", ("test.en", "test.de")
    for arguments in (
        ("translate", "--model", run), ("perplexity", *pair, "--model", run),
        ("evaluate", *pair, "--model", runs / "run", run, "--ensemble"),
        ("align", *pair, "--model", run), ("attention", "test.en", "--model", run),
        ("dictionary", *pair, new, "--model", run), ("words", "test.en", "--model", run, "-o", new),
        ("prune", run, "--percent", "10", "--output", new),
        ("redundancy", run, "--output", new), ("train", "--resume", run, "--train.epochs", "2"),
    ):
        line = complaint(capsys, *arguments)
        assert "parameter '" in line and "that are infinite or NaN" in line, line
        assert str(run) in line and not new.exists()


def huge(value):
    """Sets all parameters to a finite number, and one to the largest."""
    def change(arrays):
        for name, array in arrays.items():
            if name.startswith("parameters/"):
                array[...] = value if name.endswith("encoder.0.W") else 0.9 * value

    return change


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [1e12, 1e30, -3e38])
def test_every_verb_names_the_parameter_that_overflows(
    runs, run, capsys, monkeypatch, tmp_path, value
):
    """In one line, without NumPy's warnings; the file itself is valid, since its numbers are
    finite."""
    for file in ("best", "last"):
        change(run / f"{file}.safetensors", huge(value))
    monkeypatch.chdir(runs)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\n")))
    pair = ("test.en", "test.de")
    for arguments in (
        ("translate", "--model", run), ("perplexity", *pair, "--model", run),
        ("translate", "test.en", "--model", run, "--jobs", "2"),
        ("translate", "test.en", "--model", run, "--sample", "1"),
        ("evaluate", *pair, "--model", run), ("align", *pair, "--model", run),
        ("attention", *pair, "--model", run),
    ):
        status = nmt(*arguments)
        output = capsys.readouterr()
        if value == 1e12:  # float32 holds the products
            assert "overflow" not in output.err
            continue
        assert status == 2 and output.err == (
            "nmt: parameter 'encoder.0.W': expected numbers that do not overflow in the model, "
            f"found up to {abs(value):.3g}\n"), (arguments, output)
    status = nmt("train", "--resume", run, "--train.epochs", "2")
    error = capsys.readouterr().err  # a model with saturated gates has a loss and gradients
    assert (status, error) == (0, "") if value > 0 else (
        status == 2 and "the gradient of 'output.W_hy' is not finite" in error)


@pytest.mark.parametrize("damage, said", [
    (lambda arrays: [arrays.pop(name) for name in list(arrays) if "optimizer" in name],
     "expected the state of Adam after 10 updates, found none"),
    (lambda arrays: [arrays.update({name: array.astype(np.float64)})
                     for name, array in list(arrays.items()) if "/m/" in name],
     "expected float32 of shape"),
    (lambda arrays: arrays.update({"optimizer/zz/x": np.zeros(2)}), "expected the state of Adam"),
    (lambda arrays: arrays.update({"carried/x": np.zeros(2)}), "expected none, found shape"),
])  # fmt: skip
def test_a_state_that_is_not_whole_is_not_resumed(run, capsys, damage, said):
    change(run / "last.safetensors", damage)
    line = complaint(capsys, "train", "--resume", run, "--train.epochs", "2")
    assert line.startswith(f"{run / 'last.safetensors'}: cannot resume: ") and said in line


@pytest.mark.parametrize("key, value", [
    ("options", {}), ("counters", {}), ("counters", {"a": 1}), ("meter", {}), ("schedule", {}),
    ("data_rng", {}), ("data_rng", {"bit_generator": "x"}), ("dropout_rng", {"state": {}}),
    *(("meter", {"tasks": {"": [3.5, 4, 1, 0.0, odd, 0]}, "window_seconds": [0, 0],
                 "seconds": [0, 0]}) for odd in ([], None)),
])  # fmt: skip
def test_a_state_of_another_shape_is_not_resumed(run, capsys, key, value):
    change(run / "last.safetensors", metadata=lambda saved: saved["training"].update({key: value}))
    line = complaint(capsys, "train", "--resume", run, "--train.epochs", "2")
    assert line.startswith(f"{run / 'last.safetensors'}: cannot resume")


def test_a_run_that_goes_on_elsewhere_says_so(run, capsys, monkeypatch):
    now = host.environment()
    assert load_file(run / "last.safetensors")  # the library reads it
    saved = checkpoint.load_metadata(run / "last.safetensors")["training"]["environment"]
    assert saved == now and {"NumPy", "BLAS threads", "BLAS kernels"} <= now.keys()
    elsewhere = now | {"BLAS threads": 96, "NumPy": "9.9"}
    monkeypatch.setattr("nmt.training.state.environment", lambda: elsewhere)
    assert nmt("train", "--resume", run, "--train.epochs", "2") == 0
    said = (f"resumed elsewhere (NumPy: was {now['NumPy']}, now 9.9, BLAS threads: was "
            f"{now['BLAS threads']}, now 96): the last bits may not be those of a run that was "
            "never stopped")
    assert capsys.readouterr().out.count(said) == 1
    notes = [record for record in read_log(run / "log.jsonl") if record["event"] == "note"]
    assert [note["text"] for note in notes] == [said]
    assert "resumed" not in printed(capsys, "train", "--resume", run, "--train.epochs", "3")


# --- other files ----------------------------------------------------------------------------------


def test_links_of_4500_digits_and_of_the_billionth_sentence(tmp_path):
    path = tmp_path / "links"
    for text, said in (("0-" + "9" * 4500, "expected links such as"),
                       ("1 1 1\n" + "9" * 4500 + " 1 1", "expected 'sentence source target'"),
                       ("1 1 1\n999999999 1 1", "2: expected a sentence from 1 to 10,000,000")):
        path.write_text(text + "\n")
        with pytest.raises(UserError, match=said):
            read_gold(path, [None] * number_of_pairs(path))
    assert symbol_of(f"<unk_{'9' * 4500}>") is None and symbol_of("<p_-3>").number == -3


@pytest.mark.parametrize("record", [
    "[" * 100_000, "[1]", "null", '{"event": "update"}', '{"event": [], "step": 1}',
    '{"event": "update", "step": "1"}', '{"event": "update", "step": 1.5}',
    f'{{"event": "update", "step": {10**30}}}', '{"event": "update", "step": -1}',
    '{"event": "epoch", "step": 1, "scores": []}',
    '{"event": "epoch", "step": 1, "scores": {"perplexity": 0}}',
    '{"event": "epoch", "step": 1, "scores": {"bleu": "x"}}',
    '{"event": "update", "step": 1, "loss": NaN}', '{"event": "update", "step": 1, "loss": "x"}',
    '{"event": "update", "step": 1, "loss": 1e999}',
    '{"event": "update", "step": 1, "target_tokens_per_second": null}',
])  # fmt: skip
def test_records_of_another_shape(tmp_path, record):
    path, good = tmp_path / "log.jsonl", '{"event": "epoch", "step": 1, "epoch": 1}'
    path.write_text(f"{good}\n{record}\n")
    with pytest.raises(UserError, match=r"log.jsonl:2: expected a record of a training log"):
        read_log(path)
    Log(path).keep(lambda record: record["step"] == 1)
    assert [json.loads(line) for line in path.read_text().splitlines()] == [json.loads(good)]


def test_numbers_that_are_words_are_files(tmp_path, capsys):
    """Digits of other scripts and superscripts, too many digits."""
    (tmp_path / "text").write_text("a b\n")
    for text, said in (("²", "²: cannot be read"), ("٣", "٣: cannot be read"),
                       ("9" * 5000, "--source-vocabulary: expected an integer of at least 2")):
        line = complaint(capsys, "annotate", tmp_path / "text", "--method", "noalign",
                         "--source-vocabulary", text, "--output", tmp_path / "out")
        assert said in line and len(line) < 500


def test_types_of_numbers_are_told_apart():
    assert {natural("3"), positive("3"), count("3")} == {3}
