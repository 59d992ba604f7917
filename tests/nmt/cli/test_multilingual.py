"""One model of several languages, in which a token chooses the language; unknown tokens."""

from pathlib import Path

import pytest
from tiny_run import complaint, nmt, printed, write_corpus, write_recipe

from nmt.data.corpora import tokenisers
from nmt.recipe import DataConfig
from nmt.system import System


def test_one_model_writes_what_it_is_told(tmp_path, monkeypatch, capsys) -> None:
    """The same words give German with <2de>, and the English itself with <2en>."""
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path, pairs=200)
    for language in ("de", "en"):
        write_recipe(tmp_path / f"{language}.yaml", evaluate={"bleu": False},
                     data={"target_token": f"<2{language}>", "train_target": f"train.{language}",
                           "dev_target": f"dev.{language}"},
                     model={"hidden_size": 24, "embedding_size": 16, "dropout": 0.0},
                     train={"epochs": 10})
    Path("both.yaml").write_text(
        "tasks: {de: de.yaml, en: en.yaml}\nshare: [encoder, decoder]\n")
    assert nmt("train", "both.yaml", "--output", "run") == 0
    system = System.open("run/de")
    assert {"<2de>", "<2en>"} <= set(system.source.words)
    assert not {"<2de>", "<2en>"} & set(system.target.words)
    actual = {}
    for key, options in {"de": (), "en": ("--target-token", "<2en>")}.items():
        actual[key] = printed(capsys, "translate", "test.en", "--model", "run/de", "--beam", "1",
                              *options).split()
    english = set(Path("train.en").read_text().split())
    share = {key: sum(word in english for word in words) / len(words)
             for key, words in actual.items()}
    assert share["de"] < 0.2 and share["en"] > 0.8
    Path("text").write_text("one\n\n<2xx> two\n")
    translate = ("translate", "text", "--model", "run/de")
    assert complaint(capsys, *translate, "--strict") == (
        "text:3: expected a language that the model was trained to write, <2de>, <2en>, got <2xx>")
    assert complaint(capsys, *translate, "--target-token", "<2fr>").startswith(
        "--target-token: expected a language that the model was trained to write, <2de>, <2en>")
    assert complaint(capsys, *translate, "--target-token", "de") == (
        "--target-token: expected a token such as <2de>, got 'de'")
    assert "data.target_token" in complaint(
        capsys, "translate", "text", "--model", "run/de", "run/en")


def test_the_token_comes_before_the_words() -> None:
    files = {"train_source": "a", "train_target": "b"}
    cut = tokenisers(DataConfig(target_token="<2de>", **files))[0].tokenise
    assert cut("Two words.") == ["<2de>", "Two", "words", "￭."] and cut(" ") == []
    for wrong in ({"target_token": "de", **files}, {"target_token": "<2de>", "corpus": "cldr"}):
        with pytest.raises(ValueError, match="target_token: expected <2 and a language's code>"):
            DataConfig(**wrong)
