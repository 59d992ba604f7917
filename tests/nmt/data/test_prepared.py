"""Text that other programs prepared is recognised, and a message says what to set."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_run import RECIPE, SOURCE, captured, nmt, write_corpus, write_recipe

from nmt.data.prepared import attached, signs

TOKENS = [f"the {word} , and a {word} ." for word in SOURCE]
RAW = [f"The {word}, and a {word}." for word in SOURCE]
SMALL = ["--model.hidden_size", 4, "--model.embedding_size", 4, "--train.epochs", 1]


@pytest.mark.parametrize("line, said", [
    ("a dog .", "1 has a full stop that stands apart at the end"),
    ("a dog , a cat", "1 has a comma that stands apart"),
    ("it &apos;s a dog", "1 has &apos; and the like"),
    ("AT&amp;T", "1 has &apos; and the like"),
    ("well @-@ known", "1 has a hyphen as @-@"),
    ("well ##AT##-##AT## known", "1 has a hyphen as ##AT##-##AT##"),
    ("co@@ tt@@ on", "1 has pieces that end in @@"),
    ("▁co tt on", "1 has pieces that begin with ▁"),
    ("wasn ￭’￭ t", "1 has joiners, ￭"),
    ("Raw text, isn't it? No: at 2:30 @home & <b>.", ""),
    ("Qui est là ? « Moi ! » ; ça va :", ""),
    ("यह क्या है ।", ""),
    ("", ""),
])
def test_signs_of_a_line(line: str, said: str) -> None:
    assert signs([line]) == (f"of 1 line, {said}" if said else "")


def test_a_few_lines_are_no_sign() -> None:
    assert signs([*RAW * 10, "an odd line ."]) == ""
    assert signs([*TOKENS, *RAW[:2]]).startswith("of 9 lines, 7 have a full stop")
    assert attached(RAW) == "of 7 lines, 7 have punctuation at words" and not attached(TOKENS)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_corpus(tmp_path)
    for name, lines in (("tok", TOKENS), ("raw", RAW)):
        for language in ("en", "de"):
            (tmp_path / f"{name}.{language}").write_text("\n".join(lines * 3) + "\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_training_says_what_to_set_once(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = ("tok.en: looks tokenised already: of 21 lines, 21 have a full stop that stands "
            "apart at the end, 21 have a comma that stands apart. data.tokenise tokenises it "
            "again; --data.tokenise none trains on it as it is\n")
    files = ["--train", "tok.en", "tok.de"]
    assert captured(capsys, "train", *files, *SMALL, "--output", "a").err == said
    assert captured(capsys, "init", "mine.yaml", *files).err == said
    assert captured(capsys, "train", "--train", "raw.en", "tok.de", *SMALL, "--output", "b"
                    ).err.startswith("tok.de: ")
    for options in (["--data.tokenise", "none"], ["--train", "raw.en", "raw.de"]):
        assert not captured(capsys, "train", *files, *SMALL, *options, "--output", "/".join("cd")
                            if len(options) == 2 else "e").err
    write_recipe(work / "copy.yaml", {**RECIPE, "data": {
        "corpus": "copy", "train_source": "tok.en", "dev_source": "tok.en"}})
    assert captured(capsys, "train", "copy.yaml", "--output", "f").err.count("looks tokenised") == 1


def test_translating_says_that_text_is_prepared_otherwise(
    work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, tokenise in (("tok", "none"), ("raw", "joiner")):
        assert nmt("train", "--train", f"{name}.en", f"{name}.de", "--data.tokenise", tokenise,
                   *SMALL, "--output", name) == 0
    assert captured(capsys, "translate", "raw.en", "--model", "tok").err == (
        "63 of 105 words are read as <unk> (The, zero,, zero.); of 21 lines, 21 have punctuation "
        "at words, and the model reads text in tokens (data.tokenise none): prepare this text as "
        "its training text was\n")
    assert captured(capsys, "translate", "tok.en", "--model", "raw").err == (
        "the text looks tokenised already: of 21 lines, 21 have a full stop that stands "
        "apart at the end, 21 have a comma that stands apart. The model tokenises it again "
        "(data.tokenise joiner)\n")
    for name in ("tok", "raw"):
        assert not captured(capsys, "translate", f"{name}.en", "--model", name).err
    (work / "odd.en").write_text("entirely other words\n")
    assert captured(capsys, "translate", "odd.en", "--model", "raw").err == (
        "3 of 3 words are read as <unk> (entirely, other, words); --replace-unk copies such words, "
        "and subwords (data.subwords) leave fewer\n")


def test_scores_of_text_in_tokens(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--tokenize none scores" in captured(capsys, "score", "tok.en", "tok.de").err
    assert not captured(capsys, "score", "tok.en", "tok.de", "--tokenize", "none").err
    assert not captured(capsys, "score", "raw.en", "raw.de").err
