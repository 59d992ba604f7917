"""The checker on the corpus: no false alarm, no miss, and its command line on the corpus's files."""

from __future__ import annotations

import pytest
from gradient_corpus import PAIRS, WRONG, Pair, Wrong

from grads.check import check_gradients, check_pair
from grads.check.report import Report
from grads.cli import main


def check(pair: Pair, wrong: Wrong | None = None) -> Report:
    """The report on a pair, right or with a mistake."""
    forward, backward = pair.functions(wrong)
    if pair.scalar:
        return check_gradients(forward, pair.inputs(), backward)
    return check_pair(forward, backward, pair.inputs())


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_no_false_alarm(pair):
    check(pair).raise_if_wrong()


@pytest.mark.parametrize("pair, wrong", WRONG, ids=lambda one: getattr(one, "name", None))
def test_no_miss(pair, wrong):
    assert not check(pair, wrong).ok, f"{wrong.what}: {wrong.old} -> {wrong.new}"


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if pair.name in ("crf", "lstm_cell")],
                         ids=lambda pair: pair.name)
def test_a_file_of_the_corpus_is_a_users_file(pair, tmp_path, capsys):
    wrong = pair.wrong[0]
    broken = tmp_path / "broken.py"
    broken.write_text(pair.source(wrong))
    assert main(["check", f"{pair.file}:{pair.name}"]) == 0
    assert main(["check", f"{broken}:{pair.name}"]) == 1
    assert "WRONG" in capsys.readouterr().out
