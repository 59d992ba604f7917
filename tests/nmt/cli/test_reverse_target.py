"""`data.reverse_target`: a model that writes from the end equals a model of reversed lines, and
every verb restores the order of its output."""

from pathlib import Path

import numpy as np
import pytest
from tiny_run import complaint, lines_of, nmt, write_recipe

from grads.stepper.explorer.models import open_model
from grads.stepper.explorer.search import SearchSettings, build_search
from nmt.data.attention_links import weights_of_words
from nmt.data.corpus import read_lines
from nmt.system import System

SETS = ("train", "dev", "test")


@pytest.fixture(scope="module", autouse=True)
def work(workplace):
    """A model that writes from the end, and a model of text with reversed target lines."""
    for name in SETS:
        lines = [" ".join(line.split()[::-1]) for line in read_lines(f"{name}.de")]
        Path(f"{name}.ed").write_text("\n".join(lines) + "\n", "utf-8")
    files = {"train_target": "train.ed", "dev_target": "dev.ed"}
    for name, data in (("told", {"reverse_target": True}), ("plain", files)):
        write_recipe(workplace / "r.yaml", data=data, evaluate={"bleu": False},
                     train={"epochs": 3, "learning_rate": 0.03},
                     model={"attention": "global", "score": "general"})
        assert nmt("train", "r.yaml", "--output", name) == 0


def test_it_is_the_model_of_reversed_lines(capsys) -> None:
    told, plain = System.open("told"), System.open("plain")
    assert all(np.array_equal(told.parameters[name], array)
               for name, array in plain.parameters.items())
    lines = [lines_of(capsys, "translate", "test.en", "--model", name, "--sample", "2")
             for name in ("told", "plain")]
    assert lines[0] == [" ".join(line.split()[::-1]) for line in lines[1]] != lines[1]
    perplexity = [lines_of(capsys, "perplexity", "test.en", f"test.{end}", "--model", name)
                  for name, end in (("told", "de"), ("plain", "ed"))]
    assert perplexity[0] == perplexity[1]


@pytest.mark.parametrize("convention", ["predicted", "read"])
def test_links_are_those_of_the_words_in_order(capsys, convention) -> None:
    links = [lines_of(capsys, "align", "test.en", f"test.{end}", "--model", name, "--aligned-word",
                     convention) for name, end in (("told", "de"), ("plain", "ed"))]
    for told, plain, target in zip(*links, read_lines("test.de"), strict=True):
        last = len(target.split()) - 1
        pairs = [tuple(map(int, link.split("-"))) for link in plain.split()]
        assert told.split() == [f"{i}-{last - j}" for i, j in reversed(pairs)]


def test_scores_and_rows_stand_at_their_words() -> None:
    """Also of a hypothesis without an end marker."""
    (told,) = System.open("told").force([("one two".split(), "eins zwei".split())])
    (plain,) = System.open("plain").force([("one two".split(), "zwei eins".split())])
    assert told.steps is not None and plain.steps is not None
    assert told.steps.tolist() == plain.steps[[1, 0, 2]].tolist()
    assert np.array_equal(told.alignment, plain.alignment[[1, 0, 2]])
    rows = np.arange(6.0).reshape(3, 2)
    assert weights_of_words(rows, 3, "read", from_end=True)[:, 0].tolist() == [0, 0, 2]
    assert weights_of_words(rows, 2, "read", from_end=True)[:, 0].tolist() == [4, 0]


def test_other_verbs(capsys) -> None:
    """Attention maps, evaluation, reranking and pages; an ensemble with a model that writes from
    the start is refused."""
    shown = lines_of(capsys, "attention", "test.en", "test.de", "--model", "told")
    assert shown[0] == f"1: {read_lines('test.de')[0]}"
    rows = [line.split()[0] for line in shown[1:] if line.strip()]
    assert [word for word in rows if word in read_lines("test.de")[0].split()] == \
        read_lines("test.de")[0].split()
    assert nmt("evaluate", "test.en", "test.de", "--model", "told", "plain", "--replace-unk") == 0
    Path("nbest").write_text("".join(f"{n} ||| {line} ||| log_p= -1 ||| -1\n"
                                     for n, line in enumerate(read_lines("test.de"))))
    assert nmt("rerank", "test.en", "nbest", "--model", "told", "--weights", "w", "--tune",
               "test.de", "--tokenize", "none") == 0
    assert complaint(capsys, "translate", "test.en", "--model", "told", "plain") == (
        "plain: expected the data.reverse_target of told in one ensemble, got another")
    page = build_search(SearchSettings(Path("told"), sentence="one two three"))
    assert page["searches"]["beam"]["found"] and any("from its end" in n for n in page["notes"])
    system = System.open("told")
    actual = open_model(Path("told"), "one two", "eins zwei", "best")
    run = actual.derivation.run()
    forced = system.force([("one two".split(), "eins zwei".split())])[0]
    assert float(run.loss(run.forward.result)) == pytest.approx(-forced.log_probability, rel=1e-5)
    assert "expected false with a model of characters" in complaint(
        capsys, "train", "r.yaml", "--output", "no", "--data.reverse_target", "true",
        "--model.architecture", "hybrid")
