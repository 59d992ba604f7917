"""The commands as a user calls them: their output, their files and their errors."""

import io
import json
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from threadpoolctl import threadpool_info
from tiny_run import TEXT_RECIPE, complaint, files_in, lines_of, nmt, printed, start, write_recipe

from nmt.cli import main
from nmt.recipe.limits import LIMITS
from nmt.system import System
from nmt.training import checkpoint
from nmt.training.run import BEST, LAST, LOG

MODEL_FILES = {"best.safetensors", "last.safetensors", "log.jsonl", "recipe.yaml", "source.vocab",
               "target.vocab"}


@pytest.fixture
def translate(trained, monkeypatch, capsys):
    """Call `nmt translate` with bytes on stdin; return its stdout."""

    def call(content, *options):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        return printed(capsys, "translate", "--model", trained / "model", *options)

    return call


def same_arrays(path, other):
    ours, theirs = checkpoint.load(path).arrays, checkpoint.load(other).arrays
    return ours.keys() == theirs.keys() and all(
        np.array_equal(array, theirs[name]) for name, array in ours.items())


# --- training ---------------------------------------------------------------------------------


def test_train_makes_a_model_directory(corpus, capsys) -> None:
    with open(corpus / "train.en", "a") as en, open(corpus / "train.de", "a") as de:
        en.write("\none\n" + 7 * "one " + "\n")
        de.write("eins\n\n" + "eins\n")
    recipe = write_recipe(corpus / "r.yaml", data={"test_source": "test.en",
                                                   "test_target": "test.de"})
    out = printed(capsys, "train", recipe, "--output", corpus / "out")
    assert "80 training pairs; left out: 2 with an empty side, 1 over 6 words" in out
    assert len(re.findall(r"^epoch [12], .*dev perplexity", out, re.MULTILINE)) == 2
    assert re.search(r"^test, best checkpoint: BLEU [0-9.]+ \(.*tok:none.*\), beam 2, "
                     r"perplexity [0-9.]+$", out, re.MULTILINE)
    assert files_in(corpus / "out") == MODEL_FILES
    resolved = yaml.safe_load((corpus / "out" / "recipe.yaml").read_text())
    assert resolved["train"]["plateau_patience"] == 3  # a default
    records = [json.loads(line) for line in (corpus / "out" / LOG).read_text().splitlines()]
    assert [r["epoch"] for r in records if r["event"] == "epoch"] == [1, 2]
    assert (corpus / "out" / "source.vocab").read_text().split("\n")[:2] == ["<unk>", "</s>"]


@pytest.mark.parametrize("order", [
    ["RECIPE", "--train.epochs", 1, "--output", "OUT", "--model.hidden_size=5"],
    ["--train.epochs", 1, "--model.hidden_size", 5, "--output", "OUT", "RECIPE"],
    ["--output", "OUT", "--backend", "numpy", "RECIPE", "--train.epochs=1",
     "--model.hidden_size", 5],
])
def test_overrides_may_stand_anywhere(corpus, order) -> None:
    names = {"RECIPE": corpus / "r.yaml", "OUT": corpus / "out"}
    assert nmt("train", *[names.get(word, word) for word in order]) == 0
    resolved = yaml.safe_load((corpus / "out" / "recipe.yaml").read_text())
    assert resolved["train"]["epochs"] == 1 and resolved["model"]["hidden_size"] == 5


def test_the_default_directory_is_named_after_the_recipe(corpus) -> None:
    assert nmt("train", "r.yaml", "--train.epochs", 1) == 0
    assert files_in(corpus / "runs" / "r") == MODEL_FILES


def test_resume_goes_on_as_if_it_had_never_stopped(corpus, capsys) -> None:
    recipe = corpus / "r.yaml"
    assert nmt("train", recipe, "--output", corpus / "whole", "--train.epochs", 3) == 0
    assert nmt("train", recipe, "--output", corpus / "cut", "--train.epochs", 1) == 0
    assert nmt("train", "--resume", corpus / "cut", "--train.epochs", 3) == 0
    for file in (LAST, BEST):
        assert same_arrays(corpus / "cut" / file, corpus / "whole" / file)
    assert (corpus / "cut" / "recipe.yaml").read_text() \
        == (corpus / "whole" / "recipe.yaml").read_text()
    before = (corpus / "cut" / LAST).read_bytes()
    assert "nothing is left to train after epoch 3 of 3\n" in printed(capsys, "train", "--resume",
                                                                      corpus / "cut")
    assert (corpus / "cut" / LAST).read_bytes() == before


def test_ctrl_c_saves_and_resume_goes_on(corpus) -> None:
    kernels = [info["architecture"] for info in threadpool_info() if "architecture" in info]
    process = start("train", corpus / "r.yaml", "--output", corpus / "cut", "--train.epochs",
                    100000, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                    env={"OPENBLAS_CORETYPE": kernels[0]} if kernels else {})  # for equal numbers
    log, until = corpus / "cut" / LOG, time.monotonic() + 60
    while not (log.exists() and log.stat().st_size) and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert re.fullmatch(r"(nmt: OPENBLAS_CORETYPE .*\n)?"
                        rf"nmt: stopped after update \d+; continue with --resume {corpus}/cut\n",
                        error)
    counters = checkpoint.load(corpus / "cut" / LAST).metadata["training"]["counters"]
    epochs = ["--train.epochs", counters["epoch"]]
    for arguments in (["--resume", corpus / "cut"],
                      [corpus / "r.yaml", "--output", corpus / "whole"]):
        assert nmt("train", *arguments, *epochs) == 0
    assert same_arrays(corpus / "cut" / LAST, corpus / "whole" / LAST)


@pytest.mark.filterwarnings("error")  # on stderr there is only the error's line
def test_a_loss_that_is_not_finite_stops_training(corpus, capsys, monkeypatch) -> None:
    monkeypatch.setitem(LIMITS, "learning_rate", (0, 1e40))
    before = files_in(corpus)
    explode = ["--train.optimizer", "sgd", "--train.max_norm", "null", "--train.learning_rate"]
    message = complaint(capsys, "train", corpus / "r.yaml", "--output", corpus / "out",
                        *explode, "1e39")
    assert re.fullmatch(r"update 2: parameter '[\w.]+' is not finite; no update was saved",
                        message)
    assert files_in(corpus) == before
    message = complaint(capsys, "train", corpus / "r.yaml", "--output", corpus / "out",
                        *explode, "1e39", "--train.batch_size", "80")  # one update an epoch
    assert re.fullmatch(r"update 1: parameter '[\w.]+' is not finite; no update was saved",
                        message)
    assert files_in(corpus) == before
    message = complaint(capsys, "train", corpus / "r.yaml", "--output", corpus / "out",
                        *explode, "1e34", "--train.checkpoint_every", "1", "--train.epochs", "9")
    assert re.fullmatch(rf"update \d+: .* is not finite; {corpus}/out/{LAST} holds the state "
                        r"after update \d+", message)
    kept = checkpoint.load(corpus / "out" / LAST).select(checkpoint.PARAMETERS)
    assert all(np.isfinite(array).all() for array in kept.values())


WRONG_TRAINING = [
    (["r.yaml", "--train.epoch", "3"], r"override 'train.epoch' .* mean 'train.epochs'\?"),
    (["r.yaml", "--train.epochs", "x"], r"override: train.epochs: expected float, got 'x'"),
    (["r.yaml", "other.yaml"], r"recipe: expected one YAML file, got r.yaml, other.yaml"),
    (["absent.yaml"], r"absent.yaml: cannot be read: No such file"),
    (["typo.yaml"], r"typo.yaml:2: key 'model.hiden_size' .* mean 'model.hidden_size'\?"),
    (["r.yaml", "--data.train_source", "absent"], r"/absent: cannot be read: No such file"),
    (["r.yaml", "--data.train_source", "dev.en"], r"dev.en has 8 lines, .*train.de has 80"),
    (["r.yaml", "--data.corpus", "cldr", "--data.target_language", "xx"], r"locale.*got 'xx'"),
    (["r.yaml", "--model.hidden_size", "10000000"],
     r"model.hidden_size: expected at most 100,000, got 10000000"),
    (["r.yaml", "--output", "."], r"\.: expected a new or empty directory, found \w+"),
    (["r.yaml", "--output", "r.yaml"], r"r.yaml: expected a directory, found a file"),
    (["r.yaml", "--output", "r.yaml/out"], r"r.yaml/out: cannot make the directory: Not a dir"),
    (["--resume", "absent"], r"absent: expected a run directory .*, found no such directory"),
    (["--resume", "directory"], r"directory: expected .*, found no recipe.yaml in it"),
    (["--resume", "directory", "--output", "out"], r"--resume: cannot be used with a recipe, "),
    (["r.yaml", "--resume", "directory"], r"--resume: cannot be used with a .* --outp"),
    ([], r"recipe: expected --train SOURCE TARGET, a YAML file or --resume DIR, got none"),
    (["r.yaml", "--backend", "jax"], r"--backend: invalid choice: 'jax'"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG_TRAINING)
def test_wrong_training(corpus, capsys, arguments, message) -> None:
    (corpus / "typo.yaml").write_text("model:\n  hiden_size: 3\n")
    (corpus / "directory").mkdir()
    before = {name: (corpus / name).read_bytes() for name in files_in(corpus)
              if (corpus / name).is_file()}
    assert re.search(message, complaint(capsys, "train", *arguments))
    after = {name: (corpus / name).read_bytes() for name in files_in(corpus)
             if (corpus / name).is_file()}
    assert after == before and not (corpus / "out").exists() and not (corpus / "runs").exists()


@pytest.mark.parametrize(("arguments", "message"), [
    (["--train.learning_rate", "0.5"], r"learning_rate: was 0.02, now 0.5"),
    (["--model.layers", "2"], r"model.layers: was 1, now 2"),
    (["--data.min_frequency", "2"], r"data.min_frequency: was 1, now 2"),
])
def test_a_resumed_run_may_not_change(corpus, capsys, arguments, message) -> None:
    assert nmt("train", corpus / "r.yaml", "--output", corpus / "out", "--train.epochs", 1) == 0
    before = {name: (corpus / "out" / name).read_bytes() for name in MODEL_FILES}
    said = complaint(capsys, "train", "--resume", corpus / "out", *arguments)
    assert re.search(f"cannot resume with other options: {message}$", said)
    said = complaint(capsys, "train", corpus / "r.yaml", "--output", corpus / "out")
    assert said.endswith(f"a training run is here already; --resume {corpus / 'out'} continues it, "
                         "another --output starts a new run")
    assert {name: (corpus / "out" / name).read_bytes() for name in MODEL_FILES} == before
    (corpus / "out" / LAST).write_bytes(before[LAST][:100])
    said = complaint(capsys, "train", "--resume", corpus / "out")
    assert re.search(r"last\.safetensors: expected a safetensors file, found a damaged one", said)
    (corpus / "out" / LAST).unlink()
    said = complaint(capsys, "train", "--resume", corpus / "out")
    assert re.search(r"found no last\.safetensors in it", said)


# --- translation --------------------------------------------------------------------------------


def test_lines_stay_aligned(translate, trained) -> None:
    text = "one two\r\n\n \t \nsix\n\nzero \u2028 zero\x0cone\n\nfour"
    lines = translate(text.encode()).split("\n")
    assert len(lines) == 9 and lines[8] == ""  # eight lines, each ended
    assert [bool(line) for line in lines[:8]] == [True, False, False, True, False, True, False,
                                                  True]
    system = System.open(trained / "model")
    for place, words in ((0, ["one", "two"]), (3, ["six"]), (7, ["four"])):
        ((best,),) = system.translate([words], system.recipe.search)
        assert lines[place] == " ".join(best.words)


@pytest.mark.parametrize(("content", "output"), [(b"", ""), (b"\n", "\n"), (b"\n \n\n", "\n\n\n")])
def test_without_a_word_there_is_nothing_to_translate(translate, content, output) -> None:
    assert translate(content) == output


def test_a_byte_order_mark_is_not_part_of_the_first_word(translate) -> None:
    assert translate(b"\xef\xbb\xbffive two\n") == translate(b"five two\n")


def test_the_size_of_blocks_does_not_change_the_output(translate, monkeypatch, tmp_path) -> None:
    lines = [" ".join("one two three four five six zero".split()[: 1 + n % 6]) for n in range(23)]
    content = ("\n".join(lines) + "\n").encode()
    options = "--nbest", 2, "--alignments", tmp_path / "links"
    expected, links = translate(content, *options), (tmp_path / "links").read_text()
    monkeypatch.setattr("nmt.cli.translating.BLOCK", 5)
    assert translate(content, *options) == expected
    assert (tmp_path / "links").read_text() == links


def test_a_bad_line_is_found_before_anything_is_printed(trained, monkeypatch, capsys) -> None:
    monkeypatch.setattr("nmt.cli.translating.BLOCK", 2)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\n" * 9 + b"\xff\n")))
    with pytest.raises(SystemExit) as stop:
        main(["translate", "--model", str(trained / "model"), "--strict"])
    said = capsys.readouterr()
    assert stop.value.code == 2 and said.out == "" and "<stdin>:10" in said.err


def test_nbest_and_alignments(translate, trained, tmp_path) -> None:
    content = b"three two one\n\nfive\n"
    out = translate(content, "--beam", 4, "--nbest", 3, "--alignments", tmp_path / "links",
                    "--length-normalisation", 0.5)
    rows = [line.split(" ||| ") for line in out.splitlines()]
    assert [row[0] for row in rows] == ["0"] * 3 + ["1"] + ["2"] * 3  # from 0, as Moses counts
    for row in rows:
        assert len(row) == 4 and re.fullmatch(r"-?\d+\.\d{4}", row[3])
        assert re.fullmatch(r"log_p= -?\d+\.\d{4} cut= [01]", row[2])
    for group in (rows[:3], rows[4:]):
        scores = [float(row[3]) for row in group]
        assert scores == sorted(scores, reverse=True)
        assert scores[0] != float(group[0][2].split()[1])
        assert len({row[1] for row in group}) == 3
    links = (tmp_path / "links").read_text().split("\n")
    assert len(links) == len(rows) + 1 and links[3] == ""
    for row, line in zip(rows, links, strict=False):
        targets = [int(link.split("-")[1]) for link in line.split()]
        assert targets == list(range(len(row[1].split())))
    system = System.open(trained / "model")
    alignment = system.translate([["three", "two", "one"]], system.recipe.search)[0][0].alignment
    translate(b"three two one\n", "--alignments", tmp_path / "links")
    expected = [f"{alignment[t].argmax()}-{t}" for t in range(len(alignment) - 1)]
    assert (tmp_path / "links").read_text() == " ".join(expected) + "\n"


def test_nbest_marks_what_was_cut(translate, trained) -> None:
    """A translation of four words with a limit of eleven steps, and with one of three words."""
    system = System.open(trained / "model")
    search = replace(system.recipe.search, beam=12, nbest=12, minimum_steps=2, length_factor=0.5)
    recipe = trained / "model" / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("minimum_steps: 10", "minimum_steps: 2"))
    (expected,) = system.translate([["one", "two", "three", "four"]], search)
    rows = [line.split(" ||| ") for line in translate(
        b"one two three four\n", "--nbest", 12, "--length-factor", 0.5).splitlines()]
    assert [row[1] for row in rows] == [" ".join(translation.words) for translation in expected]
    cut = [row[2].split()[-1] for row in rows]
    assert cut == [str(int(not best.finished)) for best in expected] and {*cut} == {"0", "1"}
    scores = [float(row[3]) for row in rows]
    assert scores == sorted(scores, reverse=True)


def test_without_nbest_lines_stay_aligned_whatever_the_recipe_says(translate, trained) -> None:
    plain = translate(b"one two\n\nfive\n", "--beam", 4)
    recipe = trained / "model" / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("nbest: 1", "nbest: 2"))
    assert System.open(trained / "model").recipe.search.nbest == 2
    assert translate(b"one two\n\nfive\n", "--beam", 4) == plain and plain.count("\n") == 3


def test_samples_come_from_the_seed(translate) -> None:
    content = b"one two three\n" * 10
    draws = [translate(content, "--sample", 3.0, "--seed", seed) for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2] and draws[0].count("\n") == 10


def test_the_best_of_several_draws_and_of_every_beam(translate, capsys) -> None:
    content = b"one two three\n" * 10
    drawn = [translate(content, "--sample", 3.0, *options) for options in ((), ("--draws", 1),
                                                                           ("--draws", 4))]
    assert drawn[0] == drawn[1] != drawn[2] and drawn[2].count("\n") == 10
    assert translate(content, "--beam", 1, "--every-beam") == translate(content, "--beam", 1)
    assert translate(content, "--beam", 3, "--every-beam").count("\n") == 10


def test_the_number_of_better_smaller_beams_is_printed(trained, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one two\n\nfive\n")))
    assert nmt("translate", "--model", trained / "model", "--beam", 2, "--every-beam") == 0
    assert re.search(r"^[0-2] of 3 sentences: a beam below 2 found a better translation$",
                     capsys.readouterr().err, re.M)


@pytest.mark.parametrize(("options", "content", "message"), [
    (["--draws", 2], b"one\n", r"--draws: needs --sample"),
    (["--sample", 1, "--every-beam"], b"one\n", r"--sample: cannot be used with --beam, --every-"),
    (["--beam", 0], b"one\n", r"--beam: expected an integer of at least 1, got '0'"),
    (["--beam", 2, "--nbest", 3], b"one\n", r"nbest: expected at most beam = 2, got 3"),
    (["--sample", 0], b"", r"--sample: expected a number above 0, got '0'"),
    (["--sample", 1, "--beam", 2], b"one\n", r"--sample: cannot be used with --beam, .* --nbest"),
    (["--sample", 1, "--seed", -1], b"one\n", r"--seed: expected an integer of at least 0"),
    (["--length-factor", 0], b"one\n", r"--length-factor: expected a number above 0"),
    (["--length-normalisation", -1], b"one\n", r"--length-normalisation: expected .* at least 0"),
    (["--alignments", "absent/links"], b"one\n", r"absent/links: expected a file in a directory"),
    (["--alignments", "."], b"one\n", r"\.: expected a file in a directory that can be written"),
    (["--alignments", "links", "--strict"], b"one\n\xffx\n",
     r"<stdin>:2: expected UTF-8, got byte 0xff"),
    (["--alignments", "links", "--strict"], b"\n\n" + b"one " * 1001,
     r"<stdin>:3: expected at most 1000"),
    (["--model", "absent"], b"one\n", r"absent: expected the run directory of a translator"),
    (["--colour", "red"], b"one\n", r"unrecognized arguments: --colour"),
])
def test_wrong_translation(trained, monkeypatch, capsys, options, content, message) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    before = files_in(trained)
    assert re.search(message, complaint(capsys, "translate", "--model", "model", *options))
    assert files_in(trained) == before  # no incomplete file of links


def test_output_is_utf8_in_any_locale(trained) -> None:
    process = start("translate", "--model", trained / "model", stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    env={"PYTHONIOENCODING": "ascii", "LC_ALL": "C"})
    out, error = process.communicate(b"five five\n")
    assert (process.returncode, error) == (0, b"")
    assert "fünf" in out.decode("utf-8")


def test_a_reader_that_leaves_ends_it_quietly(trained) -> None:
    """Like `nmt translate ... | head -1`, with more output than a pipe holds."""
    (trained / "many").write_text("one two three four five\n" * 4000)
    with open(trained / "many", "rb") as many:
        process = start("translate", "--model", trained / "model", "--beam", 1, "--nbest", 1,
                        stdin=many, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline().startswith(b"0 ||| ")
        process.stdout.close()
        assert process.wait(timeout=60) == 141
        assert process.stderr.read() == b""
        process.stderr.close()


# --- scores ---------------------------------------------------------------------------------------


def test_score(corpus, capsys) -> None:
    bleu, chrf = lines_of(capsys, "score", corpus / "dev.de", corpus / "dev.de")
    assert re.fullmatch(r"BLEU 100\.00 \(nrefs:1\|.*tok:13a.*\)", bleu)
    assert re.fullmatch(r"chrF 100\.00 \(nrefs:1\|.*\)", chrf)
    bleu, _ = lines_of(capsys, "score", corpus / "dev.en", corpus / "dev.de", "--tokenize", "none")
    assert bleu.startswith("BLEU 0.00") and "tok:none" in bleu
    (corpus / "empty").touch()
    for arguments, message in (
        ([corpus / "dev.de", corpus / "test.de"], r"dev.de has 8 lines, .*test.de has 6"),
        ([corpus / "absent", corpus / "dev.de"], r"absent: cannot be read: No such file"),
        ([corpus / "empty", corpus / "empty"], "expected at least one line to score, got none"),
        ([corpus / "dev.de"] * 2 + ["--tokenize", "x"], "tokenize: expected one of none,.*got 'x'"),
        ([corpus / "dev.de"], r"arguments are required: references"),
    ):
        assert re.search(message, complaint(capsys, "score", *arguments))


def test_perplexity(trained, capsys) -> None:
    (trained / "s").write_text("one two\n\nthree\nfour\n")
    (trained / "t").write_text("eins zwei\neins\n\nvier\n")
    model = ["--model", trained / "model"]
    capsys.readouterr()
    assert nmt("perplexity", trained / "s", trained / "t", *model) == 0
    expected = System.open(trained / "model").perplexity(
        [(["one", "two"], ["eins", "zwei"]), (["four"], ["vier"])])
    said, likelihood = capsys.readouterr().out.splitlines()
    assert said == f"perplexity {expected:.4f} over 2 pairs (2 with an empty side left out)"
    assert likelihood == (  # of five words, with the end markers, in two sentences
        f"negative log-likelihood {5 * np.log(expected) / 2:.4f} nats per sentence")
    assert nmt("perplexity", trained / "s", trained / "t", *model, "--log-probabilities",
               trained / "scores") == 0
    first, *empty, last = (trained / "scores").read_text().split("\n")[:-1]
    assert empty == ["", ""]
    assert np.exp(-(float(first) + float(last)) / 5) == pytest.approx(expected, rel=1e-4)
    (trained / "blank").write_text("\n" * 4)
    (trained / "short").write_text("eins\n")
    for target, message in (("blank", "expected a pair of sentences, got empty lines only"),
                            ("short", "s has 4 lines, .*short has 1"),
                            ("absent", "absent: cannot be read")):
        said = complaint(capsys, "perplexity", trained / "s", trained / target, *model)
        assert re.search(message, said)


# --- language models --------------------------------------------------------------------------


def test_language_models(corpus, capsys) -> None:
    recipe = write_recipe(corpus / "lm.yaml", TEXT_RECIPE)
    for directory, epochs in (("whole", 3), ("cut", 1)):
        assert nmt("lm", "train", recipe, "--output", corpus / directory, "--train.epochs",
                   epochs) == 0
    assert nmt("lm", "train", "--resume", corpus / "cut", "--train.epochs", 3) == 0
    assert same_arrays(corpus / "cut" / LAST, corpus / "whole" / LAST)
    assert files_in(corpus / "cut") == {"best.safetensors", "last.safetensors", "log.jsonl",
                                        "recipe.yaml", "text.vocab"}
    capsys.readouterr()
    model = ["--model", corpus / "cut"]
    draws = []
    for seed in (1, 1, 2):
        assert nmt("lm", "sample", *model, "--length", 20, "--prompt", "eins", "--seed", seed) == 0
        draws.append(capsys.readouterr().out)
    assert draws[0] == draws[1] != draws[2] and draws[0].startswith("eins")
    assert nmt("lm", "perplexity", corpus / "test.de", *model) == 0
    actual = re.fullmatch(r"perplexity ([\d.]+) per word, ([\d.]+) bits, over (\d+) words\n",
                          capsys.readouterr().out)
    assert actual is not None
    text = (corpus / "test.de").read_text("utf-8")
    assert int(actual[3]) == len(text.split()) + text.count("\n")
    assert abs(np.log2(float(actual[1])) - float(actual[2])) < 1e-3


@pytest.mark.parametrize(("arguments", "message"), [
    (["lm", "train", "r.yaml"],
     r"r.yaml: model.architecture: expected one of language_model, got 'luong'"),
    (["train", "lm.yaml"], r"lm.yaml:\d+: model.architecture: expected one of luong, rnnsearch"),
    (["lm", "train"], r"recipe: expected a YAML file or --resume DIR"),
    (["lm", "train", "lm.yaml", "--text.train", "absent"], r"absent: cannot be read"),
    (["lm", "train", "lm.yaml", "--text.streams", "0"], r"text.streams: expected at least 1"),
    (["lm", "train", "lm.yaml", "--text.streams", "9999"], r"more than 9999 tokens to train on"),
    (["lm", "train", "lm.yaml", "--text.dev", "empty"], r"some to test on, got \d+ and 0"),
    (["lm", "train", "lm.yaml", "--output", "lm"], r"lm/last.safetensors: a training run is here"),
    (["lm", "sample", "--model", "model"], r"expected a language model, found a translator"),
    (["lm", "sample", "--model", "lm", "--temperature", "0"],
     r"--temperature: expected a number above 0"),
    (["lm", "sample", "--model", "lm", "--length", "0"], r"--length: .*at least 1 and at most"),
    (["lm", "perplexity", "empty", "--model", "lm"], r"empty: expected text, found none"),
    (["lm", "perplexity", "absent", "--model", "lm"], r"absent: cannot be read"),
    (["lm"], r"arguments are required: lm_command"),
    (["perplexity", "dev.en", "dev.de", "--model", "lm"], r"expected a translator, found a lang"),
])
def test_wrong_language_models(trained, capsys, arguments, message) -> None:
    (trained / "empty").touch()
    before = files_in(trained)
    assert re.search(message, complaint(capsys, *arguments))
    assert files_in(trained) == before


@pytest.mark.parametrize(("arguments", "file"), [
    (["translate", "--model", "model"], BEST), (["train", "--resume", "model"], LAST),
    (["lm", "sample", "--model", "lm"], BEST), (["lm", "train", "--resume", "lm"], LAST),
])
def test_a_run_directory_of_another_format_is_refused(
    trained, monkeypatch, capsys, arguments, file
) -> None:
    path = Path(arguments[-1]) / file
    saved = checkpoint.load(path)
    with monkeypatch.context() as older:
        older.setattr(checkpoint, "VERSION", 2)
        checkpoint.save(path, saved.arrays, saved.metadata)
    (path.parent / "recipe.yaml").write_text("keys: of that time\n")
    assert complaint(capsys, *arguments) == f"{path}: expected format 3, found 2"


# --- the program ------------------------------------------------------------------------------


@pytest.mark.parametrize(("arguments", "message"), [
    ([], "the following arguments are required: command"),
    (["fly"], "argument command: invalid choice: 'fly'"),
    (["score", "--fast", "a", "b"], "unrecognized arguments: --fast"),
    (["--loud"], "the following arguments are required: command"),
    (["score", "a", "b", "--train.epochs", "3"], "unrecognized arguments: --train.epochs=3"),
])
def test_wrong_commands(capsys, arguments, message) -> None:
    assert complaint(capsys, *arguments).startswith(message)


def test_the_module_is_the_command() -> None:
    process = start("fly", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, error = process.communicate()
    assert (process.returncode, out) == (2, b"")
    assert re.fullmatch(rb"nmt: argument command: invalid choice: 'fly' .*\n", error)


def test_a_full_disk_is_an_error_of_one_line(trained) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    with open("/dev/full", "w") as full:
        process = start("score", trained / "dev.de", trained / "dev.de", stdout=full,
                        stderr=subprocess.PIPE)
        _, error = process.communicate()
    assert process.returncode == 2 and error == b"nmt: No space left on device\n"
