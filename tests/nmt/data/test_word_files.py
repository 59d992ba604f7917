"""Vocabularies and word vectors of other programs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tiny_run import SOURCE, TARGET, captured, complaint, nmt, write_corpus, write_recipe

from backend.errors import UserError
from nmt.data.vocabulary import SPECIALS
from nmt.data.word_files import read_vectors, read_words
from nmt.system import System

FORMS = {
    "ours": "<unk>\n</s>\nthe\nof\n￭.\n",
    "OpenNMT": "<unk>\n<s>\n</s>\nthe\nof\n￭.\n",
    "OpenNMT-lua": "<blank>\n<unk>\n<s>\n</s>\nthe\nof\n￭.\n",
    "fairseq": "the 912\nof 85\n￭. 7\n",
    "counts behind tabs, CRLF, a blank line": "the\t912\r\nof\t85\r\n￭.\t7\r\n\r\n",
    "a word twice": "the 912\nof 85\nthe 3\n￭. 7\n",
    "SentencePiece": "<unk>\t0\n<s>\t0\n</s>\t0\nthe\t-3.25\nof\t-4e-05\n￭.\t-11\n",
    "Nematus": json.dumps({"of": 3, "the": 2, "eos": 0, "UNK": 1, "￭.": 4}),
    "Nematus, later": json.dumps({"</s>": 0, "<unk>": 1, "the": 2, "of": 3, "￭.": 4}, indent=2),
}


@pytest.mark.parametrize("form", FORMS)
def test_vocabularies_of_others(form: str, tmp_path: Path) -> None:
    path = tmp_path / "words"
    path.write_bytes(FORMS[form].encode())
    assert read_words(path) == ["the", "of", "￭."]


@pytest.mark.parametrize("text, said", [
    ("", "expected a vocabulary, a word a line or JSON, got no word"),
    ("<unk>\n</s>\n", "got no word"),
    ("the\nsome line of text\n", "2: expected a word, or a word and its count, got 'some line of"),
    ("{\"the\": ", "expected JSON, word -> id, got"),
    ("{\"the\": [], \"of\": 2}", "expected JSON, word -> id, got"),
    ("{\"a b\": 1}", "expected words without spaces, got 'a b'"),
])
def test_no_vocabulary(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "words"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        read_words(path)
    assert said in str(caught.value) and str(caught.value).startswith(f"{path}:")


def test_words_that_are_numbers_have_no_count(tmp_path: Path) -> None:
    (tmp_path / "words").write_text("7\n1984\neos\nUNK\n")
    assert read_words(tmp_path / "words") == ["7", "1984", "eos", "UNK"]


VECTORS = "the 1 2.5 -3e-1\nof 4 5 6 \n. . . 7 8 9\nthe 0 0 0\nrare 1 1 1\n"


@pytest.mark.parametrize("text", [VECTORS, "5 3\n" + VECTORS])
def test_vectors_of_word2vec_and_glove(text: str, tmp_path: Path) -> None:
    (tmp_path / "vectors").write_text(text)
    vectors = read_vectors(tmp_path / "vectors", {"the", "of", ". . .", "other"}, 3)
    assert {word: vector.tolist() for word, vector in vectors.items()} == {
        "the": [1.0, 2.5, np.float32(-0.3)], "of": [4, 5, 6], ". . .": [7, 8, 9]}


@pytest.mark.parametrize("text, said", [
    ("2 4\nthe 1 2 3 4\n", ":2: expected a word and 3 numbers, the size of the embeddings (model.em"
                          "bedding_size), got 4"),
    ("the 1 2\n", ":1: expected a word and 3 numbers, the size of the embeddings (model.embedding_"
                  "size), got 2"),
    ("of 1 2 3\nx 1 2 3\nthe 1 2 3,5\n", ":3: expected 3 numbers behind 'the', got '1 2 3,5'"),
    ("the 1 nan 3\n", ":1: expected finite numbers behind 'the'"),
    ("", ":1: expected a word and 3 numbers"),
])
def test_no_vectors(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "vectors").write_text(text)
    with pytest.raises(UserError) as caught:
        read_vectors(tmp_path / "vectors", {"the"}, 3)
    assert str(caught.value).startswith(f"{tmp_path / 'vectors'}{said}")


def test_a_run_with_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                         capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path)
    Path("theirs").write_text("\n".join(["<s>", "<unk>", "</s>", *(f"{word} 9"
                                                                 for word in SOURCE[::-1])]))
    Path("target").write_text(json.dumps({"eos": 0, "UNK": 1, **{
        word: i for i, word in enumerate(TARGET[:5], 2)}}))
    vectors = {word: np.full(8, i, np.float32) for i, word in enumerate([*SOURCE[:3], "more"], 1)}
    lines = [" ".join([word, *map(str, vector)]) for word, vector in vectors.items()]
    Path("vectors").write_text("4 8\n" + "\n".join(lines) + "\n")
    vocabularies = {"source_vocabulary": "theirs", "target_vocabulary": "target"}
    write_recipe(tmp_path / "r.yaml", data=vocabularies, train={"learning_rate": 1e-9})
    command = ["train", "r.yaml", "--init-embeddings", "source", "vectors"]
    said = captured(capsys, *command, "--output", "m").out
    assert "init: encoder.W_e: 3 of 7 words have a vector of vectors (42.9 %)\n" in said
    system = System.open("m")
    assert system.source.words == (*SPECIALS, *SOURCE[::-1])
    assert system.target.words == (*SPECIALS, *TARGET[:5])
    for word, vector in vectors.items():
        if word != "more":
            (row,) = system.source.ids([word])
            assert np.allclose(system.parameters["encoder.W_e"][row], vector, atol=1e-5)
    assert json.loads(Path("m/init.json").read_text())["embeddings"]["encoder.W_e"]["taken"] == 3
    assert nmt("train", "--resume", "m", "--train.epochs", 3) == 0
    Path("alien").write_text("alien\n")
    for options, said in (
            (["--init-embeddings", "source", "vectors"], "source or target, each once, got source"),
            (["--init-embeddings", "middle", "x"], "expected source or target, each once, got mid"),
            (["--model.embedding_size", 4], "vectors:2: expected a word and 4 numbers"),
            (["--data.source_vocabulary", "alien"], "alien: expected words of the training text"),
            (["--data.max_vocabulary", 9], "max_vocabulary: expected none where")):
        assert said in complaint(capsys, *command, "--output", "n", *options)
    assert "with --resume" in complaint(capsys, "train", "--resume", "m", *command[2:])
    Path("vectors").write_text("alien 1 2 3 4 5 6 7 8\n")
    assert "expected vectors of the source's words, got none" in complaint(
        capsys, *command, "--output", "n")
