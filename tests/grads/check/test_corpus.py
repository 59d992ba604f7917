"""The checker on the corpus: no false alarm, no miss. Its command line on their files."""

from __future__ import annotations

import pytest
from gradient_corpus import MISTAKES, PAIRS, WRONG, Pair, Wrong

from grads.check import check_gradients, check_pair
from grads.check.report import Report
from grads.cli import main


def check(pair: Pair, wrong: Wrong | None = None, **extent: int) -> Report:
    """The report on a pair, right or with a mistake."""
    forward, backward = pair.functions(wrong)
    if pair.scalar:
        return check_gradients(forward, pair.inputs(), backward, **extent)
    return check_pair(forward, backward, pair.inputs(), **extent)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_no_false_alarm(pair):
    check(pair).raise_if_wrong()


@pytest.mark.parametrize("pair, wrong", WRONG, ids=MISTAKES)
def test_no_miss(pair, wrong):
    """The first mistake of a pair is diagnosed as well; of the others the verdict is enough."""
    extent = {} if wrong is pair.wrong[0] else {"diagnosis": 0}
    assert not check(pair, wrong, **extent).ok, f"{wrong.what}: {wrong.old} -> {wrong.new}"


@pytest.mark.parametrize("name", ["crf", "lstm_cell", "batch_norm"])
def test_a_file_with_a_mistake_from_the_command_line(name, tmp_path, capsys):
    pair = next(pair for pair in PAIRS if pair.name == name)
    broken = tmp_path / "broken.py"
    broken.write_text(pair.source(pair.wrong[0]))
    with pytest.raises(SystemExit) as stopped:
        main(["check", f"{pair.file}:{name}", f"{broken}:{name}"])
    assert stopped.value.code == 1
    assert "WRONG" in capsys.readouterr().out


def test_the_files_of_the_corpus_from_the_command_line(capsys):
    """Other inputs than above: from the command's generator, and upstream gradients after them."""
    main(["check", *(f"{pair.file}:{pair.name}" for pair in PAIRS)])
    assert capsys.readouterr().out.count(": ok; ") == len(PAIRS)
