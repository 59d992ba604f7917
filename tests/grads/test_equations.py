"""The index of equations: complete, proved, nothing that does not exist; the page is fresh."""

from __future__ import annotations

import pytest

from backend.errors import UserError
from grads.equations import ROOT, build, outdated, to_markdown
from grads.equations.citations import find_in_source, find_in_text, unknown
from grads.equations.index import Carrier, checks_of, index_of
from grads.equations.papers import THESIS, read_items
from grads.equations.proofs import KnownTests, executed, executed_by

ITEMS = read_items()
PAGE = ROOT / "docs" / "equations.md"


@pytest.fixture(scope="module")
def index():
    return build()


# --- the repository as it is --------------------------------------------------------------------


def test_the_page_is_what_the_source_says(index):
    complaints = outdated(PAGE.read_text(encoding="utf-8"), index)
    assert not complaints, "run `grads equations`, then look at the difference:\n" \
        + "\n".join(complaints)


def test_no_line_cites_a_number_that_does_not_exist(index):
    assert not index.problems, "\n".join(index.problems)


def test_every_carrier_is_proved(index):
    bare = [f"{c.file}:{c.line} {c.name} ({key[1]})" for key, row in index.rows.items()
            for c, proof in row.carriers.items() if not (proof.gradients or proof.tests)]
    assert not bare, f"neither executed by a gradient check nor named by a test: {bare}"


def test_chapter_2_is_implemented(index):
    """Chapter 2 but for background, and all algorithms: in a derivation line by line."""
    for (paper, number), row in index.rows.items():
        chapter_2 = number.startswith(("2.", "Algorithm"))
        if paper == THESIS and chapter_2 and not row.item.background:
            assert row.carriers, number
            assert "line" not in number or row.side(literal=True), number


def test_repeats_lead_to_an_equation():
    for key, item in ITEMS.items():
        seen = [key]
        while item.same_as is not None:
            assert item.same_as in ITEMS and item.same_as not in seen, key
            seen.append(item.same_as)
            item = ITEMS[item.same_as]
        assert item.title, key


def test_only_a_repository_has_an_index(tmp_path):
    with pytest.raises(UserError, match="expected the repository with its tests"):
        build(tmp_path)


# --- negative controls --------------------------------------------------------------------------


def cell(edit=lambda source: source):
    """Citations of lstm/lstm.py with an edit."""
    return find_in_source(edit((ROOT / "lstm" / "lstm.py").read_text()), "lstm/lstm.py", ITEMS)


def test_a_number_without_a_line_is_named(index):
    """Take (2.36) off its lines, and the page that lists it is wrong."""
    page = to_markdown(index)
    assert not outdated(page, index)
    rows = dict(index.rows)
    rows[THESIS, "2.36"] = rows[THESIS, "2.36"]._replace(carriers={})
    complaints = outdated(page, index._replace(rows=rows))
    assert complaints[0] == "thesis 2.36: the page lists it, no line carries it"
    assert "thesis 6.2: the page lists it, no line carries it" in complaints  # repeats 2.36


def test_a_citation_taken_away_takes_the_carrier_away():
    def carried(citations):
        tests = KnownTests(ROOT)
        rows = index_of(citations, {(THESIS, "2.36"): ITEMS[THESIS, "2.36"]}, {}, tests).rows
        return [carrier.name for carrier in rows[THESIS, "2.36"].carriers]

    assert carried(cell()) == ["lstm_cell_forward"]
    assert carried(cell(lambda s: s.replace("(2.36)", "").replace("2.35-2.38", "2.35")
                        .replace("2.35-2.40", "2.35").replace("2.35-2.50", "2.35"))) == []


def test_a_number_that_does_not_exist_is_named_with_its_line():
    assert not unknown(cell(), ITEMS)
    source = (ROOT / "lstm" / "lstm.py").read_text()
    line = 1 + source[: source.index("(2.36)")].count("\n")
    [complaint] = unknown(cell(lambda s: s.replace("(2.36)", "(2.63)")), ITEMS)
    assert complaint.startswith(f"lstm/lstm.py:{line}: thesis has no '2.63'")
    [complaint] = unknown(cell(lambda s: s.replace("lines 7-13", "lines 7-17")), ITEMS)
    assert "has no 'Algorithm 2 line 17'" in complaint


def test_line_numbers_may_drift_and_nothing_else(index):
    page = to_markdown(index)
    assert not outdated(page.replace(".py:5", ".py:7").replace("#L5", "#L7"), index)
    assert outdated(page.replace("`lstm_cell_forward`", "`lstm_cell`"), index)
    assert outdated(page.replace("`luong: as usual`", "`luong: unusual`", 1), index)


def test_a_line_that_no_check_executes_has_none():
    """The gradients' clipping is off in every entry: its line is no entry's, its function is."""
    source = (ROOT / "lstm" / "recurrence.py").read_text().splitlines()
    head = next(n for n, text in enumerate(source, 1) if text.startswith("def clip_elements"))
    clip = next(n for n, text in enumerate(source, 1) if "(2.2.2 element-wise)" in text)
    runs = executed_by(ROOT)

    def checks(first, last):
        return checks_of(
            Carrier("lstm/recurrence.py", clip, "clip_elements", (first, last)), runs)

    assert len(checks(head, clip)) > 10
    assert checks(clip, clip) == []


# --- how citations are written ------------------------------------------------------------------


@pytest.mark.parametrize("text, numbers", [
    ("# c_t = f_t o c_{t-1} + i_t o h_hat (2.36)", ["2.36"]),
    ("# (2.35, 2.38)", ["2.35", "2.38"]),
    ("# (2.35), (2.38)", ["2.35", "2.38"]),
    ("# (2.47-2.50)", ["2.47", "2.48", "2.49", "2.50"]),
    ("# Lemma 1 (2.12) on (4.5)", ["2.12", "4.5"]),
    ("# (4.2.1 dot)", ["4.2.1 dot"]),
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
    ("lines 5, 6 of Algorithm 1", ["Algorithm 1 line 5", "Algorithm 1 line 6"]),
    ("Kingma and Ba, their Algorithm 1", []),
    ("lines 3-5 of the file", []),
    ("Eq. 2.99", ["2.99"]),
    ("# (9.9)", ["9.9"]),
])  # fmt: skip
def test_citations_of_the_thesis(text, numbers):
    assert sorted({number for paper, number, _ in find_in_text(text, ITEMS)
                   if paper == THESIS}) == sorted(numbers)


@pytest.mark.parametrize("text, found", [
    ("# (Bahdanau 7)", {("Bahdanau", "7")}),
    ("# Bahdanau Eq. 7", {("Bahdanau", "7")}),
    ("# Nguyen Eqs. 1.10-1.12", {("Nguyen", f"1.{n}") for n in (10, 11, 12)}),
    ("# (Nguyen 1.10-1.12)", {("Nguyen", f"1.{n}") for n in (10, 11, 12)}),
    ("# (4.7; Bahdanau A.1.2 score)", {(THESIS, "4.7"), ("Bahdanau", "A.1.2 score")}),
    ("# (Nair 6.2 step 4b, Sennrich sampling)",
     {("Nair", "6.2 step 4b"), ("Sennrich", "sampling")}),
    ("# (Sennrich et al., 2016)", set()),
    ("# (Bahdanau A.9)", {("Bahdanau", "A.9")}),
    ("# (thesis 2.2.1), (Bahdanau A.2.2)", set()),
    ("# (thesis 2.17, Bahdanau A.2.2)", {(THESIS, "2.17")}),
])
def test_citations_of_other_papers(text, found):
    assert {(paper, number) for paper, number, _ in find_in_text(text, ITEMS)} == found


SOURCE = '''"""Of a module: Eq. 2.36."""

GATES: int = 4  # (2.35)


class Cache:
    u: int  # (2.38)


def backward(x):
    """Algorithm 2 from line 1; as in Algorithm 4 line 16.

    Eq. 2.44 on this line.
    """
    for t in x:  # line 1
        a = (t,
             1)  # (2.41), line 7
    return a  # line of code
'''


def test_citations_know_their_place():
    found = {(c.number, c.line, c.owner, c.does) for c in find_in_source(SOURCE, "m.py", ITEMS)}
    whole = (10, 18)
    assert found == {
        ("2.36", 1, "", (0, 0)), ("2.35", 3, "GATES", (3, 3)),
        ("Algorithm 2", 11, "backward", whole), ("Algorithm 4 line 16", 11, "backward", whole),
        ("2.44", 13, "backward", whole), ("Algorithm 2 line 1", 15, "backward", (15, 15)),
        ("2.41", 17, "backward", (16, 17)), ("Algorithm 2 line 7", 17, "backward", (16, 17)),
    }


# --- proofs -------------------------------------------------------------------------------------


def test_executed_lines_are_those_that_ran(tmp_path):
    file = tmp_path / "branch.py"
    file.write_text("def f(x):\n    if x:\n        return 1\n    return 2\n")
    scope = {}
    exec(compile(file.read_text(), str(file), "exec"), scope)
    assert executed(lambda: scope["f"](True), tmp_path) == {"branch.py": {1, 2, 3}}
    assert executed(lambda: None, tmp_path) == {}


def test_tests_are_found_by_name_through_helpers_and_through_callers(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "lstm").mkdir()
    (tmp_path / "lstm" / "m.py").write_text(
        "def g():\n    pass\n\n\ndef f():\n    g()\n\n\ndef lonely():\n    pass\n\n\n"
        "class C:\n    def public(self):\n        self._inner()\n\n    def _inner(self):\n"
        "        pass\n")
    (tmp_path / "tests" / "helper.py").write_text("from lstm import m\n\nCALLS = [m.f]\n")
    (tmp_path / "tests" / "test_m.py").write_text(
        "from helper import CALLS\nfrom lstm.m import C\n\n\ndef test_f():\n    CALLS[0]()\n\n\n"
        "def test_c():\n    C().public()\n\n\ndef test_other():\n    pass\n")
    tests = KnownTests(tmp_path)
    assert tests.naming("lstm.m", "f") == ["tests/test_m.py::test_f"]
    assert tests.naming("lstm.m", "g") == ["tests/test_m.py::test_f"]
    assert tests.naming("lstm.m", "C._inner") == ["tests/test_m.py::test_c"]
    assert tests.naming("lstm.m", "lonely") == []


