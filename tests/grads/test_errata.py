"""docs/errata.md lists every erratum once, and every piece of evidence can be run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from families import for_all

from grads.derivations.errata import MISTAKES
from grads.verification.citations import ITEMS, find_in_text

ROOT = Path(__file__).parents[2]
NUMBER = 53
PAGE = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")


def sections(page):
    """Number and text of each erratum."""
    parts = re.split(r"^### (\d+)\. ", page.partition("## Found on the way")[0], flags=re.M)
    return list(zip(map(int, parts[1::2]), parts[2::2], strict=True))


def evidence(page):
    """The tests that the page tells a reader to run."""
    commands = re.findall(r"^ +python -m pytest -q (\S+)(?: \\\n +-k (\S+))?$", page, flags=re.M)
    return ["::".join(filter(None, command)) for command in commands]


def mutants(page):
    """The mistakes that the page tells a reader to try."""
    return re.findall(r'^ +grads mutants "(.+)"$', page, flags=re.M)


def unlisted(text):
    """Paper and number of the citations that no paper has."""
    return [key for key in find_in_text(text) if key not in ITEMS]


def status(text):
    """Decided, Open or Noted. Raises ValueError unless there is exactly one."""
    [decision] = re.findall(r"\*\*(Decided|Open|Noted)\b", text)
    return decision


def test_every_erratum_is_there_once_and_in_order():
    assert [number for number, _ in sections(PAGE)] == list(range(1, NUMBER + 1))


def test_the_first_paragraph_counts():
    assert f"In {NUMBER} places" in PAGE and f"{len(MISTAKES)} of the mistakes" in PAGE


@for_all(sections(PAGE), lambda section: str(section[0]))
def test_every_erratum_has_a_status_and_its_evidence(section):
    """A decided erratum has a test to run, or the line if it concerns text only."""
    _, text = section
    if status(text) == "Decided":
        assert evidence(text)
    elif status(text) == "Noted":
        assert re.search(r"\blines? \d+", text)


def test_the_named_tests_can_be_run():
    wanted = sorted(set(evidence(PAGE)))
    assert len(wanted) >= 15
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *wanted],
        cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    for name in wanted:
        assert name in done.stdout


def test_the_named_mistakes_are_those_that_can_be_made():
    assert sorted(mutants(PAGE)) == sorted(MISTAKES)


def test_commands_are_found_however_they_stand():
    """Nothing that looks like a command escapes the tests above."""
    assert len(evidence(PAGE)) == PAGE.count("python -m pytest -q tests/")
    assert len(mutants(PAGE)) == PAGE.count("grads mutants ") - 1  # and the explanation's


def test_numbers_on_the_page_exist():
    of_thesis = PAGE.partition("## Bahdanau")[0]
    assert not unlisted(of_thesis)


# --- negative controls --------------------------------------------------------------------------


def test_a_missing_or_doubled_erratum_shows():
    without = PAGE.replace("### 7. ", "#### 7. ")
    assert [number for number, _ in sections(without)] != list(range(1, NUMBER + 1))
    doubled = PAGE.replace("### 8. ", "### 7. ")
    assert [number for number, _ in sections(doubled)] != list(range(1, NUMBER + 1))


def test_a_decision_without_evidence_shows():
    text = dict(sections(PAGE))[1]
    assert status(text) == "Decided" and evidence(text)
    assert not evidence(text.replace("-q", ""))
    with pytest.raises(ValueError):
        status(text.replace("**Decided:**", ""))


def test_a_number_that_does_not_exist_shows():
    [complaint] = unlisted("see Eq. 2.99")
    assert complaint == ("thesis", "2.99")
