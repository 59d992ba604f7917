"""Pairs kept for the next start are those that were read; stale pairs are read again."""

import os
import threading
from dataclasses import fields, replace
from pathlib import Path

import pytest
from tiny_run import RECIPE, nmt, write_corpus, write_recipe

from nmt.console.notes import heard
from nmt.data import kept_corpus, stored
from nmt.data.corpora import load_corpus
from nmt.data.kept_corpus import COUNTS, DECIDING, DRAWING, FACTS, INDEX, TEXT
from nmt.data.stored import StoredPairs
from nmt.recipe import DataConfig
from nmt.run_files import fingerprint
from nmt.translator_training import text_of

# The keys on which the pairs do not depend: files are compared by size and time.
IRRELEVANT = {
    "directory", "train_source", "train_second_source", "train_target", "dev_source",
    "dev_second_source", "dev_target", "test_source", "test_second_source", "test_target", "cache",
    "lexicon", "test_size", "max_translate_length", "source_vocabulary", "target_vocabulary",
    "min_frequency", "max_vocabulary", "shared_vocabulary", "word_dropout", "rare_copy",
    "max_characters", "reverse_source", "reverse_target", "source_end", "subwords"}


@pytest.fixture(params=["dev", "drawn"])
def data(request, tmp_path):
    """A data section that keeps its pairs, with files for validation and without."""
    write_corpus(tmp_path)
    (tmp_path / "train.en").open("a", encoding="utf-8").write("a\n\n" + "b " * 40 + "\nwasn’t\n")
    (tmp_path / "train.de").open("a", encoding="utf-8").write("A\nx\nb\nd’été!\n")
    drawn = {"dev_source": "", "dev_target": ""} if request.param == "drawn" else {}
    return DataConfig(**{**RECIPE["data"], "directory": str(tmp_path), **drawn,
                         "cache": str(tmp_path / "kept"), "tokenise": "joiner"})


def no_reading(*_):
    raise AssertionError("the training text was read")


@pytest.mark.parametrize("block", (1 << 25, 100))
def test_kept_pairs_are_those_that_were_read(data, block, monkeypatch) -> None:
    monkeypatch.setattr(stored, "BLOCK", block)
    first = load_corpus(replace(data, cache=""))
    assert load_corpus(data) == first and first.empty == 1 and first.too_long == 1
    assert sorted(os.listdir(data.cache)) == sorted([FACTS, TEXT, INDEX, *COUNTS])
    monkeypatch.setattr("nmt.data.corpora._read_pairs", no_reading)
    again = load_corpus(data)
    assert again == first and isinstance(again.train, StoredPairs)
    assert (again.train.lengths == first.train.lengths).all()
    for ours, theirs in zip(again.train.sides, first.train.sides, strict=True):
        assert ours.counts() == theirs.counts() and list(ours) == list(theirs)
        assert list(ours.counts()) == list(theirs.counts())  # in the same order
    assert fingerprint(text_of(again)) == fingerprint(text_of(first)) \
        == fingerprint(list(text_of(first)))


def notes_of(data, capsys) -> str:
    with heard():
        load_corpus(data)
    return capsys.readouterr().err


def test_stale_or_damaged_pairs_are_read_again_with_a_line(data, capsys) -> None:
    assert notes_of(data, capsys) == ""
    assert notes_of(data, capsys) == ""
    for name in (TEXT, INDEX, *COUNTS):
        path = Path(data.cache) / name
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        assert f"{data.cache}: {name} is damaged; the training text is read again" \
            in notes_of(data, capsys)
        path.write_bytes(content[:-1])
        assert f"{name} is damaged" in notes_of(data, capsys)
        path.unlink()
        assert f"{name} is damaged" in notes_of(data, capsys)
        assert notes_of(data, capsys) == ""
    facts = (Path(data.cache) / FACTS).read_bytes()
    for content in (b"", b"{}", facts[:-1], facts.replace(b'"empty": 1', b'"empty": 2')):
        assert content != facts
        (Path(data.cache) / FACTS).write_bytes(content)
        assert f"{FACTS} is damaged" in notes_of(data, capsys)
    train = Path(data.directory) / "train.de"
    time = train.stat().st_mtime_ns
    train.write_text(train.read_text("utf-8").replace("!", "?"), "utf-8")
    os.utime(train, ns=(time, time + 1))
    assert f"{train} has changed; the training text is read again" in notes_of(data, capsys)
    data = replace(data, max_length=5)
    assert "max_length has changed" in notes_of(data, capsys)
    assert ("seed has changed" in notes_of(replace(data, seed=9), capsys)) == (not data.dev_source)


@pytest.mark.parametrize("before", (None, 2), ids=("new", "other"))
def test_an_interrupted_write_is_read_again(data, before, monkeypatch) -> None:
    """In a new directory, and in one with other pairs."""
    def stop(path, text):
        raise KeyboardInterrupt

    if before:
        load_corpus(replace(data, max_length=before))
    with monkeypatch.context() as patch:
        patch.setattr(kept_corpus, "write_text", stop)
        with pytest.raises(KeyboardInterrupt):
            load_corpus(data)
    for again in (data, replace(data, max_length=before or 3)):
        assert load_corpus(again) == load_corpus(replace(again, cache=""))


def test_pairs_that_a_pipe_gives_are_not_kept(data) -> None:
    path = Path(data.directory) / "train.en"
    lines, fifo = path.read_bytes(), path.with_name("fifo")
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_bytes, args=(lines,))
    piped = replace(data, train_source="fifo", dev_source="dev.en", dev_target="dev.de")
    writer.start()
    assert load_corpus(piped).train == load_corpus(replace(piped, train_source="train.en",
                                                           cache="")).train
    writer.join()
    assert not Path(data.cache).exists()


def test_many_pairs_that_are_not_kept_have_a_line(data, capsys, monkeypatch) -> None:
    plain = replace(data, cache="")
    assert notes_of(plain, capsys) == ""
    pairs = len(load_corpus(plain).train)
    monkeypatch.setattr(kept_corpus, "MANY", pairs)
    assert notes_of(plain, capsys) == \
        f"{pairs} training pairs: --data.cache DIR keeps them tokenised for the next start\n"
    assert notes_of(data, capsys) == ""


def test_each_key_of_the_data_section_is_known_to_decide_the_pairs_or_not() -> None:
    names = {field.name for field in fields(DataConfig)}
    assert {*DECIDING, *DRAWING, *IRRELEVANT} == names
    assert not IRRELEVANT & {*DECIDING, *DRAWING}


def test_a_run_of_kept_pairs_is_the_same(tmp_path) -> None:
    """Its parameters are bit-identical, and a resumed run reads the kept pairs, too."""
    write_corpus(tmp_path, 24)
    best = []
    for name, cache in (("plain", ""), ("first", "kept"), ("second", "kept")):
        recipe = write_recipe(tmp_path / f"{name}.yaml", train={"epochs": 1},
                              data={"cache": cache and str(tmp_path / cache)})
        assert nmt("train", recipe, "--output", tmp_path / name) == 0
        best.append((tmp_path / name / "best.safetensors").read_bytes())
    assert best[0] == best[1] == best[2]
    assert nmt("train", "--resume", tmp_path / "second", "--train.epochs", "2") == 0
