"""Checkpoints kept of the last epochs, their average, and their ensemble."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from tiny_run import complaint, lines_of, nmt, write_recipe

from nmt.system import System
from nmt.training import checkpoint
from nmt.training.kept import kept

TWO = ("m/epoch-2.safetensors", "m/epoch-3.safetensors")


@pytest.fixture(scope="module", autouse=True)
def work(workplace):
    """A run of two epochs that was resumed for a third, and keeps the last two checkpoints."""
    write_recipe(workplace / "r.yaml", train={"keep": 2}, evaluate={"bleu": False},
                 parametrize={"normalized": {"encoder.W_e": 2.0}})
    assert nmt("train", "r.yaml", "--output", "m") == 0
    assert nmt("train", "--resume", "m", "--train.epochs", "3") == 0
    assert nmt("average", "m", "--output", "mean") == 0


def test_the_last_epochs_are_kept() -> None:
    assert [str(path) for path in kept(Path("m"))] == list(TWO)
    last = checkpoint.load("m/last.safetensors").select(checkpoint.PARAMETERS)
    third = checkpoint.load(TWO[1])
    assert all(np.array_equal(last[name], array)
               for name, array in third.select(checkpoint.PARAMETERS).items())
    assert third.metadata["epoch"] == 3


def test_the_average_is_the_mean_of_what_is_stored(capsys) -> None:
    """The mean is that of the stored table, not of its normalised rows."""
    members = [checkpoint.load(path).select(checkpoint.PARAMETERS) for path in TWO]
    mean = checkpoint.load("mean/last.safetensors")
    for name, array in mean.select(checkpoint.PARAMETERS).items():
        np.testing.assert_allclose(array, (members[0][name] + members[1][name]) / 2, atol=1e-7)
        assert array.dtype == members[0][name].dtype
    assert mean.metadata["epoch"] == 3
    assert mean.metadata["averaged"] == ["epoch-2.safetensors", "epoch-3.safetensors"]
    norms = np.linalg.norm(System.open("mean").parameters["encoder.W_e"], axis=1)
    np.testing.assert_allclose(norms, 2.0, rtol=1e-5)
    assert len(lines_of(capsys, "translate", "test.en", "--model", "mean")) == 6


def test_the_average_of_a_model_whose_parameters_are_what_is_trained() -> None:
    """Without parametrizations, the mean is written and not the first checkpoint."""
    write_recipe(Path("plain.yaml"), train={"keep": 2}, evaluate={"bleu": False})
    assert nmt("train", "plain.yaml", "--output", "plain") == 0
    assert nmt("average", "plain", "--output", "plain-mean") == 0
    members = [System.open(path).parameters for path in kept(Path("plain"))]
    for name, array in System.open("plain-mean").parameters.items():
        np.testing.assert_allclose(array, (members[0][name] + members[1][name]) / 2, atol=1e-7)
    assert not np.array_equal(members[0]["output.W_hy"], members[1]["output.W_hy"])


def test_checkpoints_of_one_run_as_an_ensemble(capsys) -> None:
    """A checkpoint's file can be given in place of a run directory."""
    pairs = [("one two".split(), "eins zwei".split())]
    first, other = (System.open(path) for path in TWO)
    together = System.open_all([Path(path) for path in TWO], "logs")
    assert first.perplexity(pairs) != other.perplexity(pairs)
    assert first.perplexity(pairs) == pytest.approx(System.open(Path(TWO[0])).perplexity(pairs))
    actual = together.force(pairs)[0].log_probability
    alone = [system.force(pairs)[0].log_probability for system in (first, other)]
    assert min(alone) - 1e-3 < actual < max(alone) + 0.5
    assert nmt("translate", "test.en", "--model", *TWO) == 0
    assert nmt("evaluate", "test.en", "test.de", "--model", *TWO, "--ensemble", "logs") == 0
    assert "m-epoch-2" in capsys.readouterr().out


def test_what_cannot_be_averaged(capsys, tmp_path) -> None:
    def refused(*arguments: object) -> str:
        return complaint(capsys, "average", *arguments, "--output", tmp_path / "no")

    assert refused("m", "--last", "3") == (
        "m: expected a run that kept 3 checkpoints (train.keep), found 2")
    assert refused("mean") == ("mean: expected a run that kept its last checkpoints (train.keep), "
                               "found 0")
    assert refused(TWO[0]) == f"{TWO[0]}: expected two checkpoints or more, got one"
    assert "m/epoch-9.safetensors: expected a checkpoint file, found nothing" in refused(
        TWO[0], "m/epoch-9.safetensors")
    shutil.copytree("m", tmp_path / "other")
    assert nmt("train", "r.yaml", "--output", tmp_path / "wide", "--model.hidden_size", "6",
               "--train.epochs", "1") == 0
    wide = tmp_path / "wide" / "epoch-1.safetensors"
    assert refused(TWO[0], wide) == f"{wide}: expected the model section of {TWO[0]}, got another"
    assert not (tmp_path / "no").exists()


def test_two_runs_are_averaged_only_by_force(tmp_path, capsys) -> None:
    shutil.copytree("m", tmp_path / "other")
    paths = [TWO[0], tmp_path / "other" / "epoch-3.safetensors"]
    assert "expected checkpoints of one run, got those of" in complaint(
        capsys, "average", *paths, "--output", tmp_path / "no")
    assert nmt("average", *paths, "--force", "--output", tmp_path / "made") == 0
