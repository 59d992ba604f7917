"""The hybrid's training step beside the word model's: equal words first, then both timed."""

import pytest
from timed import cases, prepare, run

from backend.errors import UserError
from benchmarks import hybrid
from benchmarks.devices import CPU
from benchmarks.timing import blas_kernels


def test_a_quick_run_leaves_a_record(tmp_path, capsys):
    path, record = run("hybrid", tmp_path)
    assert path.name == f"hybrid-{blas_kernels()}.json"
    assert [row["sizes"]["layers"] for row in record["rows"]] == [1, 2]
    for row in record["rows"]:
        assert row["seconds"].keys() == {"hybrid", "word"}
        assert row["differences"]["words' loss"] < 1e-9 and 0 < row["rare_share"] < 1
    assert "data" not in record["options"] and "layers=2" in capsys.readouterr().out


def test_other_words_are_not_timed(monkeypatch):
    create = hybrid.System.create

    def biased(recipe, vocabularies):
        system = create(recipe, vocabularies)
        loss = system.model.loss
        if "target_characters" not in vocabularies:
            system.model.loss = lambda *a: (loss(*a)[0] * 1.1, None)
        return system

    monkeypatch.setattr(hybrid.System, "create", biased)
    with pytest.raises(AssertionError, match=r"the words' losses differ by 9.1e-02"):
        prepare(next(cases("hybrid", ["--quick", "--output", "x"])), CPU)


def test_the_text_must_be_named():
    with pytest.raises(UserError, match="--data: expected the directory of the text, got none"):
        next(cases("hybrid", []))
