"""The report as text: systems are columns, or rows if there are many."""

import re
from dataclasses import replace
from itertools import chain

import pytest

from nmt.analysis.lengths import Group
from nmt.data.align import AlignmentScore
from nmt.evaluation.evaluate import Evaluation, KnownWords, Subject
from nmt.evaluation.report import COLUMNS, as_text
from nmt.evaluation.scores import Score
from nmt.evaluation.speed import TrainingSpeed

PLAIN = Evaluation(
    Subject("base", "best", 8, TrainingSpeed(2000.0, 2500.0)), 8.47, Score(21.07, "tok:13a"),
    Score(45.0, "nc:6"), Score(43.5, "nc:6"),
    [Group("1-10", 3, 19.5, 20), Group("11+", 0, None, 0)], 12, {}, {}, None, 2.0, 100)
ATTENDING = replace(
    PLAIN, subject=Subject("general", "last", 7), bleu=Score(36.75, "tok:13a"),
    replaced={"predicted": Score(37.06, "tok:13a"), "read": Score(36.5, "tok:13a")},
    alignment={"predicted": AlignmentScore(4, 2, 1, 2), "read": AlignmentScore(4, 2, 0, 1)},
    known=KnownWords(2, Score(40.25, "tok:13a")))
NOTHING_KNOWN = replace(ATTENDING, subject=Subject("ensemble, logs", "best"),
                        known=KnownWords(0, None))
THREE = [replace(PLAIN, known=KnownWords(3, Score(24.5, "tok:13a"))), ATTENDING, NOTHING_KNOWN]


def cells_of(text: str) -> list[list[str]]:
    """The lines of tables that have two spaces or more between their cells."""
    return [re.split(r" {2,}", line.strip()) for line in text.split("\n") if line.strip()]


def test_a_few_systems_are_columns_with_a_dash_for_what_they_lack() -> None:
    rows = {label: cells for label, *cells in cells_of(as_text(THREE))}
    assert rows["base"] == ["general", "ensemble, logs"]
    assert rows["checkpoint (epochs)"] == ["best (8)", "last (7)", "best"]
    assert rows["BLEU"] == ["21.07", "36.75", "36.75"]
    assert rows["chrF"] == ["45.00"] * 3 and rows["chrF3"] == ["43.50"] * 3
    assert rows["BLEU, unk replaced (predicted)"] == ["-", "37.06", "37.06"]
    assert rows["AER (predicted)"] == ["-", "0.500", "0.500"]
    assert rows["AER (read)"] == ["-", "0.833", "0.833"]
    assert rows["BLEU, sentences without unknown words"] == ["24.50", "40.25", "-"]
    assert rows["number of them"] == ["3", "2", "0"]
    assert rows["BLEU, 1-10 words (n=3)"] == ["19.50"] * 3
    assert rows["BLEU, 11+ words (n=0)"] == ["-"] * 3
    assert rows["words translated a second"] == ["50"] * 3
    assert rows["training, target tokens/s of CPU time"] == ["2000", "-", "-"]
    assert as_text(THREE).endswith("\n\nBLEU tok:13a\nchrF nc:6\nchrF3 nc:6")


def test_results_that_were_not_requested_have_no_row() -> None:
    shown = as_text([PLAIN])
    assert not re.search("replaced|AER|precision|without unknown|number", shown)


@pytest.mark.parametrize("count", [COLUMNS, COLUMNS + 1])
def test_many_systems_are_rows_with_the_same_answers(count) -> None:
    """A table for each kind of result, with the values that the columns would have."""
    systems = [replace(system, subject=replace(system.subject, name=f"{system.subject.name}-{i}"))
               for i, system in enumerate((THREE * 2)[:count])]
    shown = as_text(systems)
    names = [system.subject.name for system in systems]
    assert (cells_of(shown)[0] == names) == (count == COLUMNS)
    if count == COLUMNS:
        return
    for system, name in zip(systems, names, strict=True):
        _, *columns = cells_of(as_text([system, *THREE]))
        rows = [cells for first, *cells in cells_of(shown) if first == name]
        assert [len(cells) for cells in rows] == [6, 6, 6, 2, 2]
        assert [*chain(*rows)] == [cells[1] for cells in columns if len(cells) == 5]
    assert shown.endswith("\n\nBLEU tok:13a\nchrF nc:6\nchrF3 nc:6")
    assert max(map(len, shown.split("\n"))) < 130 and "words (n=3)" in shown
