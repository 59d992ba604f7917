"""`python -m benchmarks two-trees`: that every piece of work runs, and that a failure is a line."""

from __future__ import annotations

import pytest

from benchmarks import two_trees
from benchmarks.__main__ import main


def test_this_tree_against_itself(capfd):
    assert main(["two-trees", "--other", str(two_trees.ROOT), "--pairs", "2", "--quick"]) == 0
    printed = capfd.readouterr().out
    for name in two_trees.WORKS:
        assert f"\n{name} " in printed
    assert printed.count(" (") >= 4 * len(two_trees.WORKS) and "nan" not in printed


def test_a_path_without_code_is_one_line(capsys, tmp_path):
    assert main(["two-trees", "--other", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "--other: expected the root of a work tree" in error and error.count("\n") == 1


def test_work_that_is_not_the_same_is_one_line(capsys, monkeypatch):
    answers = iter([1.0, 1.02, 1.0])
    monkeypatch.setattr(two_trees, "ask",
                        lambda *_, **__: {"value": next(answers), "seconds": 1.0})
    assert main(["two-trees", "--other", str(two_trees.ROOT), "--only", "adam"]) == 2
    assert "adam: the trees' results differ" in capsys.readouterr().err


@pytest.mark.parametrize("above, below, said", [
    ([2.0, 2.0, 2.0], [1.0, 1.0, 1.0], "2.000 (2.000-2.000)"),
    ([1.0, 3.0, 2.0], [1.0, 1.0, 4.0], "2.000 (0.750-2.000)"),
])
def test_ratios_are_of_medians_with_quartiles_of_iterations(above, below, said):
    assert two_trees.ratio(above, below) == said
