"""`nmt demo`, reduced to seconds."""

import importlib.util
import re

import numpy as np
import pytest
from tiny_run import complaint, files_in, nmt

from backend.errors import UserError
from nmt.cli import demo, demo_files
from nmt.translation import Translation

SMALL = ["--phrases", 40, "--epochs", 1, "--data.dev_size", 6, "--data.test_size", 12,
         "--model.hidden_size", 8, "--model.embedding_size", 8, "--model.bidirectional", "false"]


def run(directory, *options):
    return nmt("demo", *SMALL, "--output", directory, *options)


def test_it_trains_translates_scores_and_draws(tmp_path, capsys) -> None:
    assert run(tmp_path / "demo") == 0
    out = capsys.readouterr().out
    assert "40 phrases to train on, 6 dev" in out
    assert re.search(r"epoch 1, training perplexity [0-9.]+, dev perplexity .* BLEU", out)
    for what in ("source", "translation", "reference"):
        assert len(re.findall(rf"^{what} ", out, re.MULTILINE)) == 10
    for score in ("BLEU", "chrF"):
        assert re.search(rf"test {score} [0-9.]+  \(nrefs:1\|.*version:", out)
    assert {"recipe.yaml", "best.safetensors", "source.vocab"} < files_in(tmp_path / "demo")
    assert nmt("perplexity", "--model", tmp_path / "demo", *two_files(tmp_path)) == 0


def test_without_matplotlib_it_says_why_there_is_no_picture(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert run(tmp_path / "demo", "--data.test_size", 2) == 0
    out = capsys.readouterr().out
    drawn_as_text = "What the decoder attended to" in out
    assert ("No picture: matplotlib is not installed" in out) == drawn_as_text
    assert "The same as a picture" not in out


def two_files(directory):
    for name, text in (("a", "3 days\n"), ("b", "3 jours\n")):
        (directory / name).write_text(text)
    return directory / "a", directory / "b"


def test_an_older_demo_is_replaced_and_other_directories_are_not(tmp_path, capsys) -> None:
    assert run(tmp_path / "demo") == 0
    mine = {"thesis.tex": "years", "attention.html": "mine", ".hidden": "too"}
    for name, text in mine.items():
        (tmp_path / "demo" / name).write_text(text)
    first = (tmp_path / "demo" / "best.safetensors").read_bytes()
    assert run(tmp_path / "demo", "--target", "de", "--seed", 2) == 0
    assert {name: (tmp_path / "demo" / name).read_text() for name in mine} == mine
    before = (tmp_path / "demo" / "best.safetensors").read_bytes()
    assert before != first
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").touch()
    for wrong, message in (
        (["--output", tmp_path / "mine"], "mine: expected a new directory or an earlier demo's"),
        (["--output", tmp_path / "demo", "--source", "xx"], "expected a CLDR locale .* got 'xx'"),
        (["--output", tmp_path / "demo", "--source", "fr"], "expected two different ones"),
        (["--output", tmp_path / "demo", "--phrases", 0], "--phrases: .* at least 1, got '0'"),
        (["--output", tmp_path / "demo", "--epochs", "x"], "--epochs: .* at least 1, got 'x'"),
        (["--output", tmp_path / "demo", "--seed", -1], "--seed: .* at least 0, got '-1'"),
    ):
        assert re.search(message, complaint(capsys, "demo", *wrong))
    assert files_in(tmp_path / "mine") == {"notes"}
    assert (tmp_path / "demo" / "best.safetensors").read_bytes() == before  # kept


MANIFEST = '["recipe.yaml", "source.vocab", "best.safetensors", "attention.png", "a", "../x.vocab"]'


@pytest.mark.parametrize("manifest", ["", MANIFEST], ids=["empty", "list"])
@pytest.mark.parametrize("name", ["recipe.yaml", "source.vocab", "best.safetensors",
                                  "attention.png"])
def test_a_marker_is_not_enough(tmp_path, name, manifest) -> None:
    """A listed file that does not begin like the demo's files is not replaced, nor is a link."""
    (tmp_path / ".demo").write_text(manifest)
    (tmp_path / name).write_text("years of work")
    with pytest.raises(UserError, match=f"{name}: expected what an earlier demo wrote, found"):
        demo_files.replace(tmp_path, [])
    assert (tmp_path / name).read_text() == "years of work"
    (tmp_path / name).rename(tmp_path / "far")
    (tmp_path / name).symlink_to("far")
    with pytest.raises(UserError, match="found something else"):
        demo_files.check(tmp_path)


def test_what_a_demo_wrote_is_replaced_other_names_stay(tmp_path) -> None:
    inside = tmp_path / "demo"
    inside.mkdir()
    (inside / ".demo").write_text(MANIFEST)
    for place in (inside / "source.vocab", inside / "target.vocab", tmp_path / "x.vocab"):
        place.write_text("<unk>\n</s>\n")
    (inside / "a").touch()
    assert demo_files.replace(inside, ["log.jsonl"]) == {"target.vocab", "a"}
    assert files_in(tmp_path) == {"demo", "demo/.demo", "demo/target.vocab", "demo/a", "x.vocab"}
    for damaged in ("[", "3", "null"):
        (inside / ".demo").write_text(damaged)
        with pytest.raises(UserError, match=r"\.demo: expected a list of the files"):
            demo_files.check(inside)


def test_a_directory_that_cannot_be_made(tmp_path, capsys) -> None:
    (tmp_path / "file").touch()
    message = complaint(capsys, "demo", "--phrases", 40, "--output", tmp_path / "file" / "demo")
    assert message == f"{tmp_path}/file/demo: cannot make the directory: Not a directory"
    assert files_in(tmp_path) == {"file"}


def test_the_map_is_that_of_a_translation_that_fits_the_terminal() -> None:
    def place(*lengths):
        return demo._interesting([Translation(["w"] * n, 0.0, 0.0, np.ones((n + 1, 1)))
                                  for n in lengths])

    assert place(3, 15, 14, 9) == 2
    assert place(0, 3, 20, 7) == 2  # none fits: the longest one, which is empty only if all are


def test_the_embedded_corpus_can_be_written_and_trained_on(tmp_path, capsys) -> None:
    sizes = ["--train", 60, "--dev", 5, "--test", 0]
    assert nmt("corpus", tmp_path / "de", "--target", "de", *sizes) == 0
    assert f"{tmp_path}/de/train.de\n" in capsys.readouterr().out
    lines = (tmp_path / "de" / "train.de").read_text("utf-8").splitlines()
    assert len(set(lines)) > 50 and len(lines) == 60
    said = complaint(capsys, "corpus", tmp_path / "xx", "--target", "xx")
    assert "'xx'" in said and not (tmp_path / "xx").exists()
