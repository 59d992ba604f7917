"""A run of two sources, and two runs of one source each that translate together."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_run import complaint, lines_of, nmt, printed, write_corpus, write_recipe

from nmt import api
from nmt.system import System

SECOND = {f"{name}_second_source": f"{name}.xx" for name in ("train", "dev", "test")}
TEST = {"test_source": "test.en", "test_target": "test.de"}


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """English, its words in reverse as a second source, and German; runs `two`, `one`, `other`."""
    directory = tmp_path_factory.mktemp("two")
    write_corpus(directory, pairs=150)
    for name in ("train", "dev", "test"):
        text = (directory / f"{name}.en").read_text()
        (directory / f"{name}.xx").write_text("".join(
            " ".join(word[::-1] for word in line.split()) + "\n" for line in text.splitlines()))
    train = {"epochs": 4, "learning_rate": 0.03}
    no_bleu = {"bleu": False}
    model = {"dropout": 0.0, "hidden_size": 16}
    two = write_recipe(directory / "two.yaml", data=TEST | SECOND, train=train,
                       evaluate=no_bleu, model=model | {"architecture": "two_sources"})
    single = write_recipe(directory / "one.yaml", train=train, evaluate=no_bleu, model=model)
    other = write_recipe(
        directory / "other.yaml", train=train, evaluate=no_bleu, model=model,
        data={"train_source": "train.xx", "dev_source": "dev.xx", "source_language": "xx"})
    for path in (two, single, other):
        assert nmt("train", path, "--output", directory / path.stem) == 0
    return directory


@pytest.fixture(autouse=True)
def _there(work, monkeypatch):
    monkeypatch.chdir(work)


def test_a_run_of_two_sources_translates_two_files(work, capsys) -> None:
    both = ("translate", "test.en", "test.xx", "--model", "two")
    lines = lines_of(capsys, *both)
    assert len(lines) == len(Path("test.de").read_text().splitlines())
    Path("turned").write_text("\n".join(Path("test.xx").read_text().splitlines()[::-1]) + "\n")
    assert lines_of(capsys, "translate", "test.en", "turned", "--model", "two") != lines
    assert len(lines_of(capsys, *both, "--nbest", "2", "--beam", "3")) == 2 * len(lines)
    assert lines_of(capsys, "translate", "test.en", "test.xx", "--model", "two", "two") == lines
    system = System.open("two")
    assert set(system.vocabularies) == {"source", "second_source", "target"}
    assert "eno" in system.vocabularies["second_source"].words
    translator = api.load("two")
    text = f"{Path('test.en').read_text().splitlines()[0]}\n" \
           f"{Path('test.xx').read_text().splitlines()[0]}"
    assert translator.translate(text) == lines[0]


def test_evaluation_perplexity_and_attention_read_a_second_source(work, capsys) -> None:
    second = ("--second-source", "test.xx")
    report = printed(capsys, "evaluate", "test.en", "test.de", *second, "--model", "two", "one")
    assert report.splitlines()[0].split() == ["two", "one"]
    assert printed(capsys, "perplexity", "test.en", "test.de", *second, "--model", "two"
                   ).startswith("perplexity ")
    shown = printed(capsys, "attention", "test.en", "test.de", *second, "--model", "two")
    first, other = (Path(f"test.{name}").read_text().split("\n")[0].split()[0]
                    for name in ("en", "xx"))
    assert f"1 {first}" in shown and f"1 {other}" in shown


def test_models_of_one_source_each_translate_together(work, capsys) -> None:
    lines = lines_of(capsys, "translate", "test.en", "test.xx", "--model", "one", "other",
                     "--sources")
    assert len(lines) == len(Path("test.de").read_text().splitlines())
    same = lines_of(capsys, "translate", "test.en", "test.en", "--model", "one", "one",
                    "--sources", "--average", "logs")
    assert same == lines_of(capsys, "translate", "test.en", "--model", "one")


@pytest.mark.parametrize("arguments, message", [
    (("translate", "test.en", "--model", "two"),
     "FILE: expected 2 files, one of each source that is read, got 1"),
    (("translate", "--model", "two"),
     "FILE: expected 2 files, one of each source that is read, got standard input"),
    (("translate", "test.en", "short", "--model", "two"),
     "parallel files differ in length: test.en has 6 lines, short has 1"),
    (("translate", "test.en", "missing", "--model", "two"), "missing: cannot be read: "),
    (("translate", "test.en", "empty", "--model", "two"),
     "empty:1: expected a sentence, as test.en has one there, got an empty line"),
    (("translate", "test.en", "test.xx", "--model", "two", "--alignments", "a"),
     "--alignments: expected a model of one source, got one that reads 2"),
    (("translate", "test.en", "test.xx", "--model", "two", "one"),
     "one: expected the source vocabulary of two in one ensemble, got another"),
    (("translate", "test.en", "test.xx", "--model", "one", "--sources"),
     "--sources: expected a model for each source in --model, got one"),
    (("translate", "test.en", "test.xx", "--model", "one", "two", "--sources"),
     "two: expected a model of one source, without characters and factors, among"),
    (("evaluate", "test.en", "test.de", "--model", "two"),
     "--second-source: expected a file, since the model reads two sources, got none"),
    (("perplexity", "test.en", "test.de", "--second-source", "short", "--model", "two"),
     "parallel files differ in length: test.en has 6 lines, short has 1"),
    (("attention", "test.en", "--second-source", "test.xx", "--model", "one"),
     "--second-source: expected a model that reads two sources, got one of one source"),
    (("align", "test.en", "test.de", "--model", "two"),
     "nmt align: expected a model of one source, got one that reads 2"),
    (("back-translate", "test.en", "--model", "two", "--source", "x", "--target", "y"),
     "source: expected a sentence of each of the 2 sources that the model reads, got 1"),
    (("serve", "--model", "two"),
     "nmt serve: expected a model of one source, got one that reads 2"),
    (("train", "two.yaml", "--data.train_second_source", "short", "--output", "new"),
     "short has 1"),
    (("train", "two.yaml", "--data.train_second_source", "", "--output", "new"),
     "dev_second_source: expected none without dev_source and train_second_source, got 'dev.xx'"),
    (("train", "two.yaml", "--data.dev_second_source", "", "--output", "new"),
     "dev_second_source: expected the name of a file, as train_second_source, got nothing"),
    (("train", "one.yaml", "--data.train_second_source", "train.xx", "--data.dev_second_source",
      "dev.xx", "--output", "new"),
     "data.train_second_source: expected none for a model of one source (architecture two_sources"),
    (("train", "one.yaml", "--model.architecture", "two_sources", "--output", "new"),
     "data.train_second_source: expected the name of a file, since the model reads two sources"),
], ids=lambda value: value if isinstance(value, str) else None)
def test_bad_input_is_one_line(work, capsys, arguments, message) -> None:
    Path("short").write_text("one\n")
    Path("empty").write_text("\n" * 6)
    assert message in complaint(capsys, *arguments)
