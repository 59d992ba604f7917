"""The hybrid's training step beside the word model's: equal words first, then both timed."""

import json

import pytest

from backend.errors import UserError
from benchmarks import hybrid
from benchmarks.timing import blas_kernels


def test_a_quick_run_leaves_a_record(tmp_path, capsys):
    hybrid.main(["--quick", "--output", str(tmp_path)])
    record = json.loads((tmp_path / f"hybrid-{blas_kernels()}.json").read_text())
    assert [row["layers"] for row in record["rows"]] == [1, 2]
    for row in record["rows"]:
        times = row["seconds"]
        assert row["cost"] == pytest.approx(times["hybrid"] / times["word"] - 1)
        assert row["difference"] < 1e-9 and 0 < row["rare_share"] < 1
    assert "data" not in record["options"] and "2 character layer(s)" in capsys.readouterr().out


def test_other_words_are_not_timed(monkeypatch):
    options = hybrid.parse(["--quick", "--output", "x"])
    corpus = hybrid.load_corpus(hybrid.recipe_of(hybrid.WORD, options).data)
    create = hybrid.System.create

    def biased(recipe, vocabularies):
        system = create(recipe, vocabularies)
        loss = system.model.loss
        if "target_characters" not in vocabularies:
            system.model.loss = lambda *a: (loss(*a)[0] * 1.1, None)
        return system

    monkeypatch.setattr(hybrid.System, "create", biased)
    with pytest.raises(AssertionError, match=r"the words' losses differ by 9.1e-02"):
        hybrid.run(20, 1, corpus, options)


def test_the_text_must_be_named():
    with pytest.raises(UserError, match="--data: expected the directory of the text, got none"):
        hybrid.parse([])
