"""A run knows its recipe and its data, and has one process at a time."""

import json
import os
import re
import shutil
import signal
import sys

import pytest
from tiny_run import complaint, files_in, nmt, write_recipe

from backend.errors import UserError
from nmt.run_directory import RECIPE
from nmt.training import checkpoint
from nmt.training.directory_lock import FILE, DirectoryLock, left_by_killed
from nmt.training.run import LAST


@pytest.fixture
def run(corpus):
    """A run directory, after one epoch of two."""
    assert nmt("train", corpus / "r.yaml", "--output", corpus / "run", "--train.epochs", 1) == 0
    return corpus / "run"


def edit(path, *changes):
    text = path.read_text("utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text, "utf-8")


EDITS = [("reverse_source: false", "reverse_source: true"),
         ("attention: global", "attention: none"), ("dropout: 0.1", "dropout: 0.2"),
         ("max_length: 6", "max_length: 5"), ("tied: {}", "tied: {decoder.W_e: output.W_hy}")]


def test_an_edited_recipe_is_told_by_every_command(run, capsys):
    corpus = run.parent
    edit(run / RECIPE, *EDITS)
    differing = ("data.max_length: was 6, {0} 5; data.reverse_source: was False, {0} True; "
                 "model.dropout: was 0.1, {0} 0.2; model.attention: was 'global', {0} 'none'; "
                 "parametrize.tied: was {{}}, {0} {{'decoder.W_e': 'output.W_hy'}}")

    def parts(text):
        return sorted(text.split("; "))

    said = complaint(capsys, "perplexity", corpus / "dev.en", corpus / "dev.de", "--model", run)
    start, _, differences = said.partition("trained by: ")
    assert re.fullmatch(rf"{run}/recipe.yaml: this is not the recipe that \w+.safetensors was ",
                        start)
    assert parts(differences) == parts(differing.format("here"))
    start, _, differences = complaint(capsys, "train", "--resume", run).partition(" options: ")
    assert start == f"{run}: cannot resume with other"
    assert parts(differences) == parts(differing.format("now"))


def test_an_older_run_has_all_pairs_whatever_train_size_it_wrote(run, capsys):
    """Its corpus of files did not read the key, of which it recorded the default."""
    edit(run / RECIPE, ("train_size: null", "train_size: 20"))
    said = complaint(capsys, "train", "--resume", run, "--train.epochs", 2)
    assert "data have changed" in said  # a run of this version: 20 pairs
    for path in run.glob("*.safetensors"):
        saved = checkpoint.load(path)
        saved.metadata["model"]["recipe"]["data.train_size"] = 20
        checkpoint.save(path, saved.arrays, saved.metadata)
    assert nmt("train", "--resume", run, "--train.epochs", 2) == 0
    assert "train_size: null" in (run / RECIPE).read_text("utf-8")
    assert nmt("translate", run.parent / "test.en", "--model", run) == 0


def test_what_is_best_is_decided_by_the_same_dev_data_and_tokenisation(run, capsys):
    """Files may be renamed, and the scoring of a finished model may change."""
    corpus = run.parent
    shutil.copy(corpus / "dev.de", corpus / "moved.de")
    edit(corpus / "dev.de", ("eins", "zwei"))
    said = complaint(capsys, "train", "--resume", run)
    assert re.fullmatch(rf"{run}/{LAST}: cannot resume: its 'dev' is \w+, this run's \w+: .*", said)
    named = ["--data.dev_target", "moved.de", "--train.epochs", 2]
    assert nmt("train", "--resume", run, *named) == 0
    edit(run / RECIPE, ("bleu_tokenize: none", "bleu_tokenize: 13a"))
    said = complaint(capsys, "train", "--resume", run, *named)
    assert said.endswith("evaluate.bleu_tokenize: was 'none', now '13a'")
    assert nmt("perplexity", corpus / "dev.en", corpus / "moved.de", "--model", run) == 0


def test_runs_from_before_checkpoints_held_the_recipe_open_and_go_on(run):
    for path in run.glob("*.safetensors"):
        saved = checkpoint.load(path)
        for name in ("recipe", "dev"):
            del saved.metadata["model"][name]
        checkpoint.save(path, saved.arrays, saved.metadata)
    corpus = run.parent
    assert nmt("perplexity", corpus / "dev.en", corpus / "dev.de", "--model", run) == 0
    assert nmt("train", "--resume", run, "--train.epochs", 2) == 0
    assert checkpoint.load_metadata(run / LAST)["model"]["recipe"]["model.layers"] == 1


def test_keys_that_a_version_did_not_have_are_no_difference(run):
    for path in run.glob("*.safetensors"):
        saved = checkpoint.load(path)
        del saved.metadata["model"]["recipe"]["data.cut_long"]
        saved.metadata["model"]["recipe"]["data.of_tomorrow"] = 1
        checkpoint.save(path, saved.arrays, saved.metadata)
    assert nmt("train", "--resume", run, "--train.epochs", 2) == 0


def test_the_lock_names_its_holder_and_ends_with_the_process(tmp_path, capsys, run):
    ready = tmp_path / "ready"
    child = os.fork()
    if not child:
        with DirectoryLock(run, [RECIPE]):
            ready.touch()
            signal.pause()
    while not ready.exists():
        pass
    said = complaint(capsys, "train", "--resume", run)
    assert re.fullmatch(rf"{run}: expected a run that no process is training, but process "
                        rf"{child} on \S+ has trained it since [\d: -]+", said)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert (run / FILE).exists()
    assert nmt("train", "--resume", run, "--train.epochs", 2) == 0
    assert not [name for name in files_in(run) if name.startswith(".")]


def test_a_directory_that_is_no_longer_there(tmp_path):
    def held(name):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").touch()
        return DirectoryLock(tmp_path / name, ["f"])

    with held("moved") as lock:
        lock.check()
        (tmp_path / "moved").rename(tmp_path / "there")
        (tmp_path / "moved").mkdir()
        with pytest.raises(UserError, match=f"moved to {tmp_path}/there during the run"):
            lock.check()
    assert not files_in(tmp_path / "moved")
    with held("deleted") as lock:
        shutil.rmtree(tmp_path / "deleted")
        with pytest.raises(UserError, match="which was deleted during the run"):
            lock.check()
    with held("emptied") as lock:
        (tmp_path / "emptied" / "f").unlink()
        with pytest.raises(UserError, match=r"emptied/f: .* it was deleted during the run"):
            lock.check()


def test_a_run_that_was_killed_before_its_first_checkpoint_is_begun_again(corpus, capsys):
    """Its files may be written over; others in the directory may not."""
    run = corpus / "run"
    run.mkdir()
    (run / FILE).write_text(json.dumps({"files": [RECIPE, "source.vocab"]}))
    for name in (RECIPE, "notes"):
        (run / name).write_text("x")
    assert left_by_killed(run) == {FILE, RECIPE, "source.vocab"}
    said = complaint(capsys, "train", "--resume", run)
    assert said.startswith(f"{run}: the run was killed before its first checkpoint; start it again")
    said = complaint(capsys, "train", corpus / "r.yaml", "--output", run)
    assert said.endswith("expected a new or empty directory, found notes in it")
    (run / "notes").unlink()
    assert nmt("train", corpus / "r.yaml", "--output", run, "--train.epochs", 1) == 0
    assert FILE not in files_in(run)


def test_checkpoints_and_logs_have_the_mode_of_the_umask(corpus):
    before = os.umask(0o027)
    try:
        write_recipe(corpus / "r.yaml", train={"epochs": 1})
        assert nmt("train", corpus / "r.yaml", "--output", corpus / "run") == 0
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in (corpus / "run").iterdir()} == {0o640}


WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
DOES_MORE = ("subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork",
             "socket.", "pickle.", "marshal.loads", "ctypes.dlopen", "os.remove", "os.rename",
             "os.mkdir", "os.rmdir", "os.chmod", "os.chown", "os.link", "os.symlink", "shutil.",
             "urllib.", "os.truncate", "os.kill")


def test_opening_a_run_directory_does_nothing_but_compute(run):
    """Python reports every system action to an audit hook, in a forked process."""
    corpus, report = run.parent, run.parent / "found"
    child = os.fork()
    if not child:
        sys.dont_write_bytecode = True
        told: list[str] = []

        def hear(event, arguments):
            path, _, flags = arguments if event == "open" else ("", "", 0)
            if event.startswith(DOES_MORE) or (flags & WRITING and path != os.devnull):
                told.append(f"{event} {arguments}")

        sys.addaudithook(hear)
        status = nmt("perplexity", corpus / "dev.en", corpus / "dev.de", "--model", run)
        text = f"{status} {told}"
        report.write_text(text)
        os._exit(0)
    os.waitpid(child, 0)
    assert report.read_text() == "0 []"
