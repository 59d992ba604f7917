"""`nmt rerank`: lists are rescored by models of both directions; weights are tuned and applied."""

import json
from pathlib import Path

import pytest
from tiny_run import captured, complaint, lines_of, nmt, printed, write_recipe

from nmt.data.corpus import read_lines
from nmt.data.nbest import read_nbest
from nmt.system import System


@pytest.fixture(scope="module", autouse=True)
def work(workplace):
    """A model of each direction, and an n-best list of the test set."""
    swapped = {f"{name}_{side}": f"{name}.{suffix}" for name in ("train", "dev")
               for side, suffix in (("source", "de"), ("target", "en"))}
    for name, data in (("there", {}), ("back", swapped)):
        write_recipe(workplace / "r.yaml", data=data, evaluate={"bleu": False},
                     train={"epochs": 6, "learning_rate": 0.05},
                     model={"hidden_size": 16, "embedding_size": 16})
        assert nmt("train", "r.yaml", "--output", name) == 0
    with open("nbest", "w", encoding="utf-8") as file, pytest.MonkeyPatch.context() as out:
        out.setattr("sys.stdout", file)
        assert nmt("translate", "test.en", "--model", "there", "--nbest", "8") == 0


ARGUMENTS = ("rerank", "test.en", "nbest", "--backward", "back", "--weights", "w")


def test_tuned_weights_choose_better_ones(capsys) -> None:
    said = captured(capsys, *ARGUMENTS, "--tune", "test.de", "--tokenize", "none", "-o", "out",
                    "--nbest-output", "all").err
    before, after = (float(text.split()[0]) for text in (said[5:], said.split(", ")[1]))
    assert after >= before and set(json.loads(Path("w").read_text())) == {
        "log_p", "cut", "backward:back", "words"}
    assert printed(capsys, "score", "out", "test.de", "--tokenize",
                   "none").startswith(f"BLEU {after:.2f}") or after == 0
    assert lines_of(capsys, *ARGUMENTS) == read_lines("out")
    actual = read_nbest("all")
    assert [nbest[0].text for nbest in actual] == read_lines("out")
    best = next(best for best in actual[0] if best.text)
    (forced,) = System.open("back").force([(best.text.split(), read_lines("test.en")[0].split())])
    assert best.features["backward:back"] == pytest.approx(forced.log_probability, abs=1e-3)
    assert best.features["words"] == len(best.text.split())


def test_what_cannot_be_reranked(capsys, tmp_path) -> None:
    def refused(**changes: object) -> str:
        arguments = {"nbest": "nbest", "model": ["--backward", "back"], "more": [], **changes}
        return complaint(capsys, "rerank", "test.en", arguments["nbest"], *arguments["model"],
                         "--weights", arguments.get("weights", "w"), *arguments["more"])

    lines = read_lines("nbest")
    Path("order").write_text("\n".join([*lines[8:], *lines[:8]]) + "\n")
    assert refused(nbest="order") == (
        "order:1: expected a translation of line 0, got one of line 1: the list is out of order")
    Path("short").write_text("\n".join(lines[:8]) + "\n")
    assert refused(nbest="short") == (
        "short: expected translations of 6 lines of test.en, got those of 1")
    Path("damaged").write_text(lines[0].replace("log_p= ", "log_p= x") + "\n")
    assert "damaged:1: expected a finite number, got 'x" in refused(nbest="damaged")
    Path("other").write_text(lines[0] + "\n" + lines[1].replace("cut=", "cat=") + "\n")
    assert refused(nbest="other") == "other:2: expected the features log_p cut, got log_p cat"
    Path("text").write_text("null\n")
    assert refused(nbest="text").startswith("text:1: expected line ||| translation |||")
    assert refused(model=[]) == "expected --model DIR or --backward DIR, got neither"
    assert "v: expected weights of log_p, cut, backward:back, words, got those of log_p" in [
        Path("v").write_text('{"log_p": 1}') and refused(weights="v")]
    assert Path("v").write_text("[1]") and refused(weights="v").startswith(
        "v: expected JSON of weights")
    assert refused(more=["--tune", "dev.de"]) == (
        "parallel files differ in length: test.en has 6 lines, dev.de has 8")
