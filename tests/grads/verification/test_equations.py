"""The page of equations is complete and checked; its numbers exist, and its line numbers are
right."""

from __future__ import annotations

import pytest

from backend.errors import UserError
from grads.verification import equations
from grads.verification.citations import (
    ITEMS,
    THESIS,
    Citation,
    find_in_source,
    find_in_text,
    read_list,
)
from grads.verification.equations import ROOT, checks_of, problems, read_source, to_markdown

PAGE = ROOT / "docs" / "equations.md"


@pytest.fixture(scope="module")
def source():
    return read_source()


# --- the repository as it is ----------------------------------------------------------------------


def test_the_page_is_what_the_source_says(source):
    assert PAGE.read_text(encoding="utf-8") == to_markdown(source), "run `grads equations`"


def test_no_line_cites_a_number_that_does_not_exist(source):
    """No number is without a line, and no line without a check."""
    assert not problems(source)


def test_algorithms_are_derived_line_by_line(source):
    for row in equations.rows_of(source):
        if "Algorithm" in row.key[1] and row.item.algorithm:
            assert row.derivation, row.key


def test_repeats_lead_to_an_equation():
    for key, item in ITEMS.items():
        keys = [key]
        while item.same_as is not None:
            assert item.same_as in ITEMS and item.same_as not in keys, key
            keys.append(item.same_as)
            item = ITEMS[item.same_as]
        assert item.title, key


def test_only_a_repository_has_a_page(tmp_path, monkeypatch):
    monkeypatch.setattr(equations, "ROOT", tmp_path)
    with pytest.raises(UserError, match="expected the repository with its tests"):
        read_source()


# --- negative controls ----------------------------------------------------------------------------


def changed(source, edit):
    """The source with other citations. edit: returns what replaces a citation."""
    return source._replace(citations=[new for citation in source.citations
                                      for new in edit(citation)])


def test_a_number_without_a_line_is_named(source):
    without = changed(source, lambda citation: [citation]
                      if citation.key != (THESIS, "2.36") else [])
    assert problems(without) == [
        f"thesis {number}: no derivation and no kernel cites it" for number in ("2.36", "6.2")]


def test_a_number_out_of_place_is_named_with_its_line(source):
    named = Citation((THESIS, "2.63"), "lstm/a.py", 7, "read_source", True)
    assert problems(source._replace(citations=[*source.citations, named])) == [
        "lstm/a.py:7: thesis has no '2.63'"]


def test_no_mark_excuses_a_number_from_having_a_line():
    """There used to be a mark for numbers that are not implemented; it hid code without
    citations."""
    items = read_list("# p: t\n1: - later\n2: ~ background")[1]
    assert items["p", "1"].algorithm and items["p", "1"].title == "- later"
    assert not items["p", "2"].algorithm


def test_a_function_that_nothing_checks_is_named(source):
    name = "un" + "cited"  # not in this file either
    citation = Citation((THESIS, "2.36"), f"lstm/{name}.py", 7, name, True)
    assert problems(source._replace(citations=[*source.citations, citation])) == [
        f"lstm/{name}.py:7: no gradient calls {name}, no test names it"]


def test_a_line_that_moved_shows(source):
    moved = changed(source, lambda citation: [
        citation._replace(line=citation.line + citation.file.endswith("gru.py"))])
    assert to_markdown(moved) != to_markdown(source)
    assert not problems(moved)


# --- how citations are written --------------------------------------------------------------------


@pytest.mark.parametrize("text, numbers", [
    ("# c_t = f_t o c_{t-1} + i_t o h_hat (2.36)", ["2.36"]),
    ("# (2.35, 2.38)", ["2.35", "2.38"]),
    ("# (2.35), (2.38)", ["2.35", "2.38"]),
    ("# (2.47-2.50)", ["2.47", "2.48", "2.49", "2.50"]),
    ("# Lemma 1 (2.12) on (4.5)", ["2.12", "4.5"]),
    ("# (4.2.1 dot)", ["4.2.1 dot"]),
    ("# (4.2.1 dot; 4.2.2 local-m)", ["4.2.1 dot", "4.2.2 local-m"]),
    ("# (4.2.1 dat)", ["4.2.1 dat"]),
    ("# clipping (2.2.2)", []),
    ("# section 2.2.2; alpha = 1.5; 100.5 (see 2.36)", []),
    ("at every step, Eqs. 2.3 and 2.4-2.6.", ["2.3", "2.4", "2.5", "2.6"]),
    ("Eqs. 4.5, 4.7, and then", ["4.5", "4.7"]),
    ("Eqs. 4.6-4.7 and 4.2.3.", ["4.6", "4.7"]),
    ("Eqs.\n    2.49 and\n    2.50", ["2.49", "2.50"]),
    ("Algorithms 1 and 2", ["Algorithm 1", "Algorithm 2"]),
    ("Algorithms 3-5", ["Algorithm 3", "Algorithm 4", "Algorithm 5"]),
    ("Algorithm 2, lines 7-8, and g'", ["Algorithm 2 line 7", "Algorithm 2 line 8"]),
    ("Algorithm 3 (lines 8 and 9; the rest", ["Algorithm 3 line 8", "Algorithm 3 line 9"]),
    ("(Algorithm 3, lines 2-3, 7-8)", [f"Algorithm 3 line {n}" for n in (2, 3, 7, 8)]),
    ("lines 5, 6 of Algorithm 1", ["Algorithm 1 line 5", "Algorithm 1 line 6"]),
    ("# (2.41), line 7", ["2.41", "Algorithm 2 line 7"]),
    ("# lines 14, 15", ["Algorithm 2 line 14", "Algorithm 2 line 15"]),
    ("# Algorithm 4, line 18", ["Algorithm 4 line 18"]),
    ("Kingma and Ba, their Algorithm 1", []),
    ("lines 3-5 of the file", []),
    ("Eq. 2.99", ["2.99"]),
    ("# (9.9)", ["9.9"]),
])  # fmt: skip
def test_citations_of_the_thesis(text, numbers):
    """In a function whose docstring names Algorithm 2."""
    assert sorted({number for paper, number in find_in_text(text, "Algorithm 2")
                   if paper == THESIS}) == sorted(numbers)


@pytest.mark.parametrize("text, citations", [
    ("# (Bahdanau 7)", {("Bahdanau", "7")}),
    ("# (Bahdanau 5-7)", {("Bahdanau", n) for n in "567"}),
    ("# Bahdanau Eq. 7", {("Bahdanau", "7")}),
    ("# Nguyen Eqs. 1.10-1.12", {("Nguyen", f"1.{n}") for n in (10, 11, 12)}),
    ("# (Nguyen 1.10-1.12)", {("Nguyen", f"1.{n}") for n in (10, 11, 12)}),
    ("# (4.7; Bahdanau A.1.2 score)", {(THESIS, "4.7"), ("Bahdanau", "A.1.2 score")}),
    ("# (Nair 6.2 step 4b, Sennrich sampling)",
     {("Nair", "6.2 step 4b"), ("Sennrich", "sampling")}),
    ("# (Sennrich samplng)", {("Sennrich", "samplng")}),
    ("# (Sennrich et al., 2016)", set()),
    ("# (Nguyen 2019)", set()),
    ("# (Bahdanau 9)", {("Bahdanau", "9")}),
    ("# (thesis 2.2.1), (Bahdanau A.2.2)", set()),
    ("# (thesis 2.17, Bahdanau A.2.2)", {(THESIS, "2.17")}),
])
def test_citations_of_other_papers(text, citations):
    assert set(find_in_text(text)) == citations


SOURCE = '''"""Of a module: Eq. 2.36."""

GATES = 4  # (2.35)


class Cache:
    """Eq. 2.40."""

    u: int  # (2.38)


def backward(x):
    """Algorithm 2 from line 1; as in Algorithm 4 line 16.

    Eq. 2.44 on this line.
    """
    for t in x:  # line 1
        t()

    def inner():
        return 1  # (2.41)
    return a  # line of code
'''


def test_citations_know_their_place():
    places = {(key[1], line, owner, in_comment)
              for key, _, line, owner, in_comment in find_in_source(SOURCE, "m.py")}
    assert places == {
        ("2.36", 1, "", False), ("2.35", 3, "", True), ("2.40", 6, "Cache", False),
        ("2.38", 9, "", True), ("Algorithm 2", 12, "backward", False),
        ("Algorithm 4 line 16", 12, "backward", False), ("2.44", 12, "backward", False),
        ("Algorithm 2 line 1", 17, "backward", True), ("2.41", 21, "backward.inner", True),
    }


# --- checks ---------------------------------------------------------------------------------------


def test_checks_are_what_calls_the_function(source):
    def checks(file, owner):
        return checks_of(Citation((THESIS, "2.36"), file, 1, owner, True), source)

    assert checks("grads/derivations/lstm.py", "lstm")[0] == "derivation lstm"
    assert checks("lstm/cells/lstm.py", "lstm_forward") == [
        "model luong", "model hybrid", "model language_model", "model deep_fusion",
        "model two_sources", "model features",
        "model parametrized", "model tasks", "model sampled", "model factored", "model lexical",
        "model lexicon", "model deep stacks"]
    assert checks("nmt/models/language_model.py", "LanguageModel") == ["model language_model"]
    assert checks("nmt/search/sample.py", "sample") == ["tests/nmt/search/test_sample.py"]


def test_a_test_names_the_function_or_else_the_module():
    citation = Citation((THESIS, "2.36"), "nmt/search/beam.py", 1, "Beam.grow", True)
    texts = {"tests/nmt/search/test_all.py": "Beam, growth", "tests/test_a.py": "Beam(2).grow()",
             "tests/nmt/search/test_beam.py": "b = Beam()\nb.grow()", "tests/nmt/test_b.py": "grow"}
    tests = equations.tests_of(citation, texts)
    assert tests == ["tests/nmt/search/test_beam.py", "tests/test_a.py"]
    imported = {"tests/test_c.py": "from nmt.search import beam", "tests/test_d.py": "nmt.data"}
    assert equations.tests_of(citation, imported) == ["tests/test_c.py"]
