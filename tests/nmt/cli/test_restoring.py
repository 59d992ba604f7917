"""`nmt evaluate --restore` does for several systems what annotate, translate, restore and score
do."""

import io
import json
import re
import sys
from pathlib import Path

import pytest
from tiny_run import complaint, files_in, nmt, printed, write_recipe

from nmt.data.annotation import METHODS
from nmt.data.corpus import read_lines
from nmt.evaluation import report

SIZES = ["--source-vocabulary", 6, "--target-vocabulary", 5]
PAIR = ["dev.en", "dev.de"]


@pytest.fixture(scope="module", autouse=True)
def models(workplace):
    """A directory with links, a dictionary, and a model of each method's annotated text."""
    for name in ("train", "dev"):
        nmt("align", f"{name}.en", f"{name}.de", "--method", "hmm", "-o", f"{name}.links")
    nmt("dictionary", "train.en", "train.de", "d", "--links", "train.links", "--min-count", 1)
    for number, method in enumerate(METHODS):
        for name, sizes in (("train", SIZES), ("dev", [
                word for side in ("source", "target")
                for word in (f"--{side}-vocabulary", f"{method}/{side}.vocab")])):
            links = [] if method == "noalign" else ["--links", f"{name}.links"]
            assert nmt("annotate", f"{name}.en", f"{name}.de", "--method", method, *links,
                       *sizes, "--output", method) == 0
        recipe = write_recipe(
            workplace / method / "r.yaml", data={"max_length": 12},
            model={"attention": "none", "input_feeding": False, "layers": 1 + number % 2,
                   "hidden_size": 24, "embedding_size": 24},
            train={"epochs": 8, "learning_rate": 0.05}, evaluate={"bleu": number == 0},
            search={"length_factor": 3.0})
        assert nmt("train", recipe, "--output", f"m-{method}") == 0
    lines = read_lines("dev.links")
    Path("far").write_text("\n".join([lines[0], lines[1] + " 0-77", *lines[2:]]) + "\n")


@pytest.fixture
def no_pictures(monkeypatch):
    monkeypatch.setattr(report, "can_draw", lambda: False)  # they take their time


def evaluated(capsys, *arguments):
    shown = printed(capsys, "evaluate", *PAIR, *arguments, "--output", "e")
    with open("e/evaluation.json", encoding="utf-8") as file:
        return shown, json.load(file)["systems"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.usefixtures("no_pictures")
def test_it_equals_the_single_commands(capsys, monkeypatch, method) -> None:
    _, (actual,) = evaluated(capsys, "--model", f"m-{method}", "--restore", "d", "--links",
                             "dev.links", "--rarity", "train.en")
    source = f"{method}/dev.en" if method == "copyable" else "dev.en"
    with open(source, "rb") as file:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(file.read())))
    written = printed(capsys, "translate", "--model", f"m-{method}")
    with open("mt", "w", encoding="utf-8") as file:
        file.write(written)
    for extra, score, groups in (
        (["--keep-unknown"], actual["bleu"]["score"], actual["bleu_by_rarity"]),
        ([], actual["bleu_after_replacement"]["annotation"],
         actual["bleu_by_rarity_after_replacement"]["annotation"]),
    ):
        nmt("restore", "dev.en", "mt", "--method", method, "--source-vocabulary",
            f"{method}/source.vocab", "--dictionary", "d", "-o", "out", *extra)
        said = printed(capsys, "score", "out", "dev.de", "--tokenize", "none", "--source",
                       "dev.en", "--rarity", "train.en")
        assert f"BLEU {score:.2f} (" in said
        (group,) = groups
        assert f"BLEU {group['bleu']:.2f} of sentences 1-8" in said
        if extra:
            assert actual["unknown_words"] == sum(line.split().count("<unk>")
                                                  for line in read_lines("out")) > 0
    said = printed(capsys, "perplexity", f"{method}/dev.en", f"{method}/dev.de", "--model",
                   f"m-{method}")
    numbers = [float(text) for text in re.findall(r"(?:ity|s) ([\d.]+) over", said)]
    assert [actual["perplexity"], *actual["perplexity_by_class"].values()] \
        == pytest.approx(numbers, abs=1e-4)
    assert len(numbers) == (3 if method == "posall" else 1)
    assert sum(actual["pointers"].get(name, 0) for name in ("pointed", "null")) \
        == actual["unknown_words"]


def test_systems_of_all_methods_stand_side_by_side(capsys) -> None:
    pytest.importorskip("matplotlib")
    models = [f"m-{method}" for method in METHODS]
    shown, actual = evaluated(capsys, "--model", *models, "--restore", "d", "--links", "dev.links",
                              "--rarity", "train.en")
    assert [system["name"] for system in actual] == models
    assert re.search(r"^layers +1 +2 +1 +2$", shown, re.MULTILINE)
    assert "vocabulary" not in shown  # the same without symbols
    assert {tuple(system["vocabulary"]) for system in actual} == {(6, 5)}
    assert re.search(r"^  of positions +- +- +[\d.]+ +-$", shown, re.MULTILINE)
    assert re.search(r"^BLEU, unk replaced \(annotation\)( +[\d.]+){4}$", shown, re.MULTILINE)
    assert re.search(r"^  replaced \(annotation\) 1-8( +[\d.]+){4}$", shown, re.MULTILINE)
    assert files_in(Path("e")) == {
        "evaluation.json", "outputs.txt", "bleu-by-length.png", "bleu-by-rarity.png",
        "bleu-replaced.png", "bleu-by-perplexity.png", "learning-curves.png"}


@pytest.mark.usefixtures("no_pictures")
def test_attention_stands_beside_annotation(capsys) -> None:
    """A model without symbols counts as noalign, unless it has attention."""
    recipe = write_recipe(Path("noalign").resolve() / "a.yaml",
                          data={"max_length": 12}, train={"epochs": 1})
    assert nmt("train", recipe, "--output", "m-attention") == 0
    _, (plain, attending) = evaluated(
        capsys, "--model", "m-noalign", "m-attention", "--restore", "d", "--replace-unk", "d",
        "--rarity", "train.en")
    assert plain["bleu_after_replacement"].keys() == {"annotation"}
    assert attending["bleu_after_replacement"].keys() == {"predicted", "read"}
    assert attending["bleu_by_rarity_after_replacement"].keys() == {"predicted", "read"}
    assert attending["pointers"] == {}


@pytest.mark.parametrize(("arguments", "message"), [
    ("m-posunk --restore d", r"--restore: needs --links FILE, by which the references "
                             r"of m-posunk are annotated"),
    ("m-noalign --links dev.links", r"--links: needs --restore"),
    ("m-noalign --restore --without-unk", r"--without-unk: cannot be used with --restore"),
    ("m-posunk --restore d --links train.links",
     r"train.links: expected a line for each of 8 sentence pairs, found 80"),
    ("m-posunk --restore d --links far", r"far:2: link '0-77': expected a target word"),
    ("m-posunk --restore absent --links dev.links", r"absent: cannot be read"),
])
def test_wrong_requests(capsys, arguments, message) -> None:
    assert re.match(message, complaint(capsys, "evaluate", *PAIR, "--model", *arguments.split()))


@pytest.mark.usefixtures("no_pictures")
def test_bad_links_are_left_out_if_so_told(capsys) -> None:
    shown, _ = evaluated(capsys, "--model", "m-posunk", "--restore", "--links", "far",
                         "--skip-bad-links")
    assert shown.startswith("far: 1 link does not fit its sentence and is left out; posi")


def test_only_text_in_tokens(capsys) -> None:
    assert nmt("train", "noalign/r.yaml", "--data.tokenise", "moses", "--train.epochs", 0.1,
               "--output", "m-moses") == 0
    assert complaint(capsys, "evaluate", *PAIR, "--model", "m-moses", "--restore") \
        == "--restore: expected models of text in tokens (tokenise: none), got m-moses"
