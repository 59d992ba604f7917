"""`nmt train --train a.en a.de` and `nmt init`: two files are enough to train."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tiny_run import SOURCE, TARGET, captured, complaint, lines_of, nmt, printed

from nmt.cli.options import names_of_runs
from nmt.cli.own_files import language_of
from nmt.data.corpora import load_corpus
from nmt.data.corpus import read_lines
from nmt.recipe import DataConfig, Recipe
from nmt.recipe.file import load_recipe

SMALL = ["--model.hidden_size", 4, "--model.embedding_size", 4, "--train.epochs", 1]


@pytest.fixture(autouse=True)
def _here(corpus: Path) -> None:
    """The working directory holds the corpus."""


def test_two_files_make_a_translator(capsys: pytest.CaptureFixture[str]) -> None:
    said = printed(capsys, "train", "--train", "train.en", "train.de", *SMALL)
    assert said.startswith("72 training pairs; left out: 0 with an empty side, 0 over 80 words, 8 ")
    recipe = load_recipe(Recipe, "runs/own/recipe.yaml")
    assert (recipe.data.source_language, recipe.data.target_language) == ("en", "de")
    assert recipe.data.tokenise == "joiner" and recipe.model.hidden_size == 4
    assert nmt("train", "--resume", "runs/own", "--train.epochs", 2) == 0
    assert nmt("train", "--resume", "runs/own/last.safetensors", "--train.epochs", 3) == 0
    assert "epoch 3" in capsys.readouterr().out


def test_a_file_name_without_a_language_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    for path, name in (("train.en", "source.txt"), ("train.de", "target.xx")):
        Path(name).write_bytes(Path(path).read_bytes())
    said = captured(capsys, "train", "--train", "source.txt", "target.xx", "--data.target_language",
                    "de", "--data.tokenise", "natural", *SMALL).err.splitlines()
    assert [line for line in said if "language" in line] == [
        "source.txt: no language in its name: tokenised by the rules of English; "
        "--data.source_language names another language"]
    data = load_recipe(Recipe, "runs/own/recipe.yaml").data
    assert (data.source_language, data.target_language) == ("en", "de")
    assert not captured(capsys, "init", "mine.yaml", "--train", "train.de", "target.xx").err
    data = load_recipe(Recipe, "mine.yaml").data
    assert (data.source_language, data.target_language) == ("de", "en")


def test_all_three_sets_and_a_recipe_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert nmt("init", "mine.yaml", "--train", "train.en", "train.de", "--dev", "dev.en",
               "dev.de") == 0
    assert "nmt train mine.yaml --output runs/mine" in capsys.readouterr().out
    sections = yaml.safe_load(Path("mine.yaml").read_text("utf-8"))
    assert sections["data"]["dev_target"] == "dev.de"
    assert sections["data"]["source_language"] == "en" and "test_source" not in sections["data"]
    assert nmt("train", "mine.yaml", "--train", "dev.en", "dev.de", "--test", "test.en", "test.de",
               "--data.dev_size", 1, "--data.source_language", "nl", "--output", "out", *SMALL) == 2
    assert "at least 10 pairs" in capsys.readouterr().err and not Path("out").exists()
    said = printed(capsys, "train", "mine.yaml", "--test", "test.en", "test.de", "--train",
                   "train.en", "train.de", "--output", "out", *SMALL)
    assert "test, best checkpoint: BLEU" in said and "8 for validation" in said


def test_what_yaml_would_take_for_something_else_is_quoted() -> None:
    for path, name in (("train.en", "a 'b\" #.no"), ("train.de", "train.de")):
        Path(name).write_bytes(Path(path).read_bytes())
    assert nmt("init", "mine.yaml", "--train", "a 'b\" #.no", "train.de") == 0
    data = load_recipe(Recipe, "mine.yaml").data
    assert (data.train_source, data.source_language) == ("a 'b\" #.no", "no")
    assert nmt("train", "--train", "a 'b\" #.no", "train.de", *SMALL) == 0
    assert load_recipe(Recipe, "runs/own/recipe.yaml").data.source_language == "no"


def test_a_recipe_that_is_written_is_the_default_one() -> None:
    assert nmt("init", "plain.yaml") == 0
    packaged = Path(__file__).parents[3] / "nmt/recipes/own.yaml"
    text = packaged.read_text("utf-8").replace("nmt/recipes/own.yaml", "plain.yaml")
    assert Path("plain.yaml").read_text("utf-8") == text


@pytest.mark.parametrize("arguments, said", [
    (["train", "--train", "train.en", "train.en"], "--train: expected two files of its own, got"),
    (["train", "--train", "train.en", "train.de", "--dev", "dev.en", "train.de"], "--dev: "),
    (["train", "--dev", "dev.en", "dev.de"], "--dev: needs --train"),
    (["train", "--train", "train.en", "dev.de"], "files differ in length: train.en has 80"),
    (["train", "--train", "train.en", "none.de"], "none.de: cannot be read"),
    (["train", "--train", "empty.en", "empty.de"], "at least 10 pairs to draw some from for"),
    (["train", "--resume", "x", "--train", "train.en", "train.de"], "--resume: cannot be used "
     "with a recipe"),
    (["train", "train.en", "train.de"], "recipe: expected one YAML file, got train.en, train.de; "
     "two text files go after --train"),
    (["train", "--train", "train.en", "train.de", "--outptu", "x"],
     "unrecognized arguments: --outptu=x; did you mean '--output'? (see nmt train --help)"),
    (["train", "--train", "train.en", "train.de", "--quick", "--seed", "3"],
     "override 'quick' is not known"),
    (["init", "train.en"], "train.en: expected a new file, found one"),
    (["init", "new.yaml", "--test", "test.en", "test.de"], "--test: needs --train"),
])
def test_errors_are_one_line(arguments: list[str], said: str,
                             capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("empty.en", "empty.de"):
        Path(name).write_bytes(b"")
    assert nmt(*arguments) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert not Path("runs").exists() and not Path("new.yaml").exists()


@pytest.mark.parametrize("path, language", [
    ("a.fr", "fr"), ("train.lc.tok.de", "de"), ("x/corpus.pt_BR", "pt_BR"), ("corpus.zh.txt", "zh"),
    ("sentences.txt", None), ("plain", None), ("fr", None), ("a.xyz", None),
])
def test_languages_by_the_files_names(path: str, language: str | None) -> None:
    assert language_of(path) == language


def test_pairs_drawn_for_validation_are_not_trained_on() -> None:
    data = DataConfig(train_source="train.en", train_target="train.de", tokenise="none",
                      dev_size=5, seed=3)
    corpus = load_corpus(data)
    lines = list(zip(read_lines("train.en"), read_lines("train.de"), strict=True))
    trained = [(" ".join(x), " ".join(y)) for x, y in corpus.train]
    drawn = list(zip(map(" ".join, corpus.dev.sources), corpus.dev.references, strict=True))
    assert len(drawn) == 5 and sorted(trained + drawn) == sorted(lines)
    rest = iter(lines)
    assert all(word in rest for word in trained)  # in the order of the file
    assert load_corpus(data).dev == corpus.dev
    other = load_corpus(DataConfig(train_source="train.en", train_target="train.de",
                                   tokenise="none", dev_size=5, seed=4))
    assert other.dev.sources != corpus.dev.sources


def test_a_drawn_line_that_is_too_long_is_named_by_its_line(
    capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("long.en", "long.de"):
        Path(name).write_text("".join(f"{i}\n" for i in range(30))
                              + "".join(f"a b c {i}\n" for i in range(30)), "utf-8")
    assert nmt("train", "--train", "long.en", "long.de", "--data.max_translate_length", 3,
               *SMALL) == 2
    number = int(capsys.readouterr().err.split("long.en:")[1].split(":")[0])
    assert 30 < number <= 60


def test_no_source_of_the_validation_set_is_trained_on(capsys: pytest.CaptureFixture[str]) -> None:
    """If lines repeat, as in Tatoeba, all lines of a drawn source are drawn."""
    words = SOURCE + TARGET
    lines = [f"{words[i % 14]} {words[i * i % 11]}" for i in range(60)]
    Path("twice.en").write_text("\n".join(lines * 2 + ["once more"]) + "\n")
    Path("twice.de").write_text("\n".join(f"{i} {line}" for i, line in enumerate(
        lines * 2 + ["once more"])) + "\n")
    data = DataConfig(train_source="twice.en", train_target="twice.de", tokenise="none")
    corpus = load_corpus(data)
    trained = {" ".join(source) for source, _ in corpus.train}
    drawn = [" ".join(source) for source in corpus.dev.sources]
    assert 4 <= len(drawn) <= 12 and not trained & set(drawn)
    assert len(corpus.train) + len(drawn) == 121
    assert corpus.repeated == 121 - len({*lines, "once more"})
    said = printed(capsys, "train", "--train", "twice.en", "twice.de", *SMALL)
    assert f"(no source of these is trained on; {corpus.repeated} lines repeat a source)\n" in said
    assert said.endswith("translate: nmt translate FILE --model runs/own\n")
    Path("same.en").write_text("the same\n" * 40)
    Path("same.de").write_text("\n".join(map(str, range(40))) + "\n")
    assert nmt("train", "--train", "same.en", "same.de", *SMALL, "--output", "n") == 2
    assert "got 1 source in 40 lines" in capsys.readouterr().err


def test_a_language_that_yaml_reads_otherwise_is_to_be_quoted(
    capsys: pytest.CaptureFixture[str]
) -> None:
    assert nmt("init", "mine.yaml", "--train", "train.en", "train.de") == 0
    text = Path("mine.yaml").read_text("utf-8").replace("language: en", "language: no")
    Path("mine.yaml").write_text(text, "utf-8")
    assert nmt("train", "mine.yaml") == 2
    assert "expected str, in quotes (without them YAML takes no, off" in capsys.readouterr().err


def test_tables_that_are_tied_the_wrong_way_are_named_the_right_way(
    capsys: pytest.CaptureFixture[str]
) -> None:
    assert complaint(
        capsys, "train", "--train", "train.en", "train.de", *SMALL, "--data.shared_vocabulary",
        "true", "--parametrize.tied", "{encoder.W_e: decoder.W_e}",
    ).endswith("; did you mean decoder.W_e: encoder.W_e?")


def test_checkpoints_that_are_compared_have_the_names_of_their_runs(tmp_path: Path) -> None:
    paths = [tmp_path / run / file for run, file in (
        ("a", "last.safetensors"), ("b", "last.safetensors"), ("b", ""), ("c/b", ""))]
    assert names_of_runs(paths[:3]) == ["a-last", "b-last", "b"]
    assert names_of_runs(paths[2:]) == list(map(str, paths[2:]))


def test_translations_begin_with_a_prefix(capsys: pytest.CaptureFixture[str]) -> None:
    """Also if the prefix ends where the training text always has a joiner's mark."""
    for name in ("train.de", "dev.de"):
        Path(name).write_text("".join(f"l'{line}" for line in open(name, encoding="utf-8")))
    assert nmt("train", "--train", "train.en", "train.de", *SMALL, "--output", "run") == 0
    for prefix in ("l'", "l'eins zwei"):
        lines = lines_of(capsys, "translate", "test.en", "--model", "run", "--prefix", prefix)
        assert len(lines) == 6 and all(line.startswith(prefix) for line in lines)
        assert not any(line.startswith("l' ") for line in lines) and {*lines} != {prefix}
    for prefix, said in (("x eins", "target vocabulary, got x"), ("eins y", "got y")):
        assert said in complaint(capsys, "translate", "test.en", "--model", "run", "--prefix",
                                 prefix)
    (words, *_) = lines_of(capsys, "translate", "test.en", "--model", "run", "--minimum-length", 9)
    assert len(words) > len("l'") and nmt("translate", "test.en", "--model", "run",
                                          "--minimum-length", -1) == 2
