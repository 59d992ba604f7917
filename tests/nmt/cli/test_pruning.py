"""`nmt prune` and `nmt redundancy`: their options, files and messages."""

import io
import json
import re

import numpy as np
import pytest
from tiny_run import captured, complaint, files_in, nmt, printed

from nmt.system import System
from nmt.training import checkpoint
from nmt.training.run import LAST


def test_prune_prints_counts_and_other_commands_read_its_run(trained, capsys):
    run, pruned = trained / "model", trained / "p"
    out = printed(capsys, "prune", run, "--percent", 40, "--output", pruned)
    assert "source layer 1" in out and "target embedding" in out
    sizes = [int(line.split()[-6].replace(",", "")) for line in out.splitlines()
             if "weights pruned" in line]
    assert sum(sizes[:-1]) == sizes[-1]
    assert files_in(pruned) == {"recipe.yaml", "source.vocab", "target.vocab", LAST}
    assert nmt("evaluate", trained / "dev.en", trained / "dev.de", "--model", run, pruned) == 0
    assert nmt("perplexity", trained / "dev.en", trained / "dev.de", "--model", pruned) == 0
    assert nmt("attention", trained / "dev.en", "--model", pruned) == 0
    assert "of weights" not in capsys.readouterr().err


def test_a_sparse_directory_is_smaller_and_the_same_model(trained, capsys):
    for name, options in (("p", []), ("s", ["--sparse"])):
        assert nmt("prune", trained / "model", "--percent", 80, "--output", trained / name,
                   *options) == 0
    dense, sparse = (System.open(trained / name) for name in ("p", "s"))
    assert all(np.array_equal(array, sparse.parameters[name])
               for name, array in dense.parameters.items())
    sizes = [(trained / name / LAST).stat().st_size for name in ("p", "s")]
    kept = sum(array.size * 4 for array in dense.parameters.values()) * 0.2
    assert sizes[1] < sizes[0] - 3 * kept
    assert f"{trained / 's' / LAST}: {sizes[1] / 1e6:.2f} MB" in capsys.readouterr().out


def test_sparse_products_translate_alike(trained, capsys, monkeypatch):
    """With at most a tenth of the weights left; stderr names the sparse weights."""
    pytest.importorskip("scipy", reason="scipy (extra `sparse`) is not installed")
    assert nmt("prune", trained / "model", "--percent", 90, "--scheme", "class-uniform",
               "--output", trained / "p") == 0
    written = []
    for model, options in (("p", []), ("p", ["--sparse"]), ("model", ["--sparse"])):
        capsys.readouterr()
        lines = io.BytesIO(b"one two three\nfour\n")
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(lines))
        written.append(captured(capsys, "translate", "--model", trained / model, *options))
    assert written[0].out == written[1].out and written[0].out.count("\n") == 2
    assert written[1].err == ("sparse products: decoder.0.W, attention.W_c, output.W_hy\n")
    assert "none, more than a tenth of each is left" in written[2].err
    said = complaint(capsys, "translate", "--sparse", "--model", trained / "p", trained / "model")
    assert "--sparse: expected one model, got an ensemble" in said


def test_retrain_and_from_scratch(trained, capsys):
    common = ["prune", trained / "model", "--percent", 60, "--train.epochs", "0.2"]
    assert nmt(*common, "--output", trained / "r", "--retrain") == 0
    assert nmt(*common, "--output", trained / "f", "--from-scratch", trained / "r.yaml",
               "--data.reverse_source=true", "--data.directory", trained) == 0
    assert f"run directory: {trained / 'f'}" in capsys.readouterr().out
    for name, how in (("r", "retrained"), ("f", "sparse from the beginning")):
        system = System.open(trained / name)
        assert system.pruning.facts["how"] == how and system.pruning.facts["percent"] == 60
    assert nmt("train", "--resume", trained / "r", "--train.epochs=0.2") == 0
    assert nmt("prune", trained / "r", "--percent", 60, "--sparse", "--output",
               trained / "s") == 0


@pytest.mark.parametrize("arguments, message", [
    (["--percent", "100"], r"argument --percent: expected a number in \[0, 100\), got '100'"),
    (["--percent", "-3"], r"argument --percent: expected a number in \[0, 100\), got '-3'"),
    (["--percent", "nan"], r"argument --percent: expected a number in \[0, 100\), got 'nan'"),
    (["--percent", "half"], r"argument --percent: expected a number in \[0, 100\), got 'half'"),
    (["--percent", "5", "--scheme", "blind"], "--scheme: invalid choice: 'blind'"),
    (["--percent", "5", "--train.epochs=2"], "--train.epochs=2: needs --retrain or --from-scr"),
    (["--percent", "5", "--sparse", "--retrain"], "--sparse: cannot be used with --retrain or"),
    (["--percent", "5", "--retrain", "--model.layers=2"], "cannot train what is left with other "
                                                         "options: model.layers: was 1, now 2"),
    (["--percent", "5", "--retrain", "none.yaml"], "none.yaml: cannot be read"),
])
def test_what_cannot_be_pruned_leaves_nothing(trained, capsys, arguments, message):
    said = complaint(capsys, "prune", trained / "model", "--output", trained / "p", *arguments)
    assert re.search(message, said), said
    assert not (trained / "p").exists()


def test_directories_that_exist_or_are_no_runs_are_named(trained, capsys):
    before = files_in(trained)
    for output, message in (("model", "a training run is here already"), ("lm", "training run is"),
                            ("train.de", "expected a directory, found a file")):
        said = complaint(capsys, "prune", trained / "model", "--percent", 5, "--output",
                         trained / output)
        assert output in said and message in said
        said = complaint(capsys, "redundancy", trained / "model", "--output", trained / output)
        assert output in said and message in said
    said = complaint(capsys, "prune", trained, "--percent", 5, "--output", trained / "p")
    assert "expected the run directory of a translator, found no recipe.yaml in it" in said
    said = complaint(capsys, "redundancy", trained / "model", "--output", trained / "p",
                     "--trained", trained / "model")
    assert "model: expected a run that `nmt prune --retrain` or `--from-scratch` trained" in said
    assert files_in(trained) == before


def test_a_mask_that_does_not_fit_the_checkpoint_is_named(trained, capsys):
    assert nmt("prune", trained / "model", "--percent", 50, "--output", trained / "p") == 0
    saved = checkpoint.load(trained / "p" / LAST)
    name = checkpoint.PARAMETERS + "output.W_hy"
    checkpoint.save(trained / "p" / LAST, {**saved.arrays, name: np.ones_like(saved.arrays[name])},
                    saved.metadata)
    said = complaint(capsys, "translate", "--model", trained / "p")
    assert f"{trained / 'p' / LAST}: mask of 'output.W_hy': expected zeros where it prunes" in said


def test_redundancy_writes_figures_and_pictures(trained, capsys):
    """A small sweep with a retrained run; the files agree with the printed lines."""
    captured(capsys, "prune", trained / "model", "--percent", 80, "--output", trained / "r",
             "--retrain", "--train.epochs=1")
    assert nmt("redundancy", trained / "model", "--output", trained / "out", "--percents", 0, 80,
               "--schemes", "class-blind", "class-uniform", "--trained", trained / "r") == 0
    out = capsys.readouterr().out
    actual = json.loads((trained / "out/redundancy.json").read_text())
    assert [(p["scheme"], p["percent"]) for p in actual["points"]] == [
        ("class-blind", 0), ("class-blind", 80), ("class-uniform", 0), ("class-uniform", 80)]
    first, blind = actual["points"][:2]
    assert first["perplexity"] < blind["perplexity"] and first["bleu"] > 50
    assert (f"class-blind 80 %: perplexity {blind['perplexity']:.2f}, BLEU {blind['bleu']:.2f}"
            in out)
    assert {effect["name"] for effect in actual["breakdown"]} == {
        "source layer 1", "target layer 1", "attention", "softmax", "source embedding",
        "target embedding"}
    (run,) = actual["trained"]
    assert run["how"] == "retrained" and run["perplexity"] < blind["perplexity"]
    assert run["pruned_perplexity"] == pytest.approx(blind["perplexity"])
    lines = (trained / "out/redundancy.tsv").read_text().splitlines()
    assert [line.split("\t")[0] for line in lines] == ["model", *["pruned"] * 4, "retrained"]
    kept = actual["survivors"]["classes"]
    assert sum(share["kept"] for share in kept.values()) == round(
        0.2 * sum(share["size"] for share in kept.values()))
    names = files_in(trained / "out")
    assert {"schemes.png", "classes.png", "largest-deleted.png", "survivors.png", "retraining.png",
            "retraining-curves.png", "weights-decoder.0.W.png"} <= names


def test_redundancy_of_a_language_model(trained, capsys):
    assert nmt("redundancy", trained / "lm", "--output", trained / "out", "--percents", 0, 50,
               "--schemes", "class-distribution", "--classes", 0) == 0
    actual = json.loads((trained / "out/redundancy.json").read_text())
    assert [point["bleu"] for point in actual["points"]] == [None, None]
    assert actual["breakdown"] == []
    assert list(actual["survivors"]["gates"]) == ["layer 1", "layer 2"]
    said = complaint(capsys, "redundancy", trained / "lm", "--output", trained / "o", "--test")
    assert "--test: expected a translator" in said
    assert not (trained / "o").exists()
