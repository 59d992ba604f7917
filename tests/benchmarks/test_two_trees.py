"""`python -m benchmarks two-trees`: that every piece of work runs, and that a failure is a line."""

from __future__ import annotations

import pytest
from timed import run

from benchmarks import two_trees
from benchmarks.__main__ import main


def test_this_tree_against_itself(tmp_path, capsys):
    _, record = run("two-trees", tmp_path)
    assert [row["case"] for row in record["rows"]] == list(two_trees.WORKS)
    for row in record["rows"]:
        assert list(row["seconds"]) == ["this", "other", "other again"]
    assert capsys.readouterr().out.count("other again / other") == len(two_trees.WORKS)


@pytest.mark.parametrize("arguments", [[], ["--other", "/nowhere"]])
def test_a_path_without_code_is_one_line(arguments, tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["two-trees", "--output", str(tmp_path), *arguments])
    error = capsys.readouterr().err
    assert "--other: expected the root of a work tree" in error and error.count("\n") == 1


def test_results_that_differ_are_named_and_no_process_stays(tmp_path, capsys, monkeypatch):
    values, ended = iter([1.0, 1.02, 1.0]), []

    class Fake:
        def __init__(self, *_):
            self.value = next(values)

        def end(self):
            ended.append(self)

    monkeypatch.setattr(two_trees, "Worker", Fake)
    with pytest.raises(SystemExit, match="2"):
        main(["two-trees", "--quick", "--output", str(tmp_path)])
    assert "layer: expected equal results of the trees, got" in capsys.readouterr().err
    assert len(ended) == 3
