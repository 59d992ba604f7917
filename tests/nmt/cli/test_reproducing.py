"""The papers' claims: their figures are on the linked pages, verdicts follow the rule, scripts
run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

import nmt.cli.reproducing
from nmt.claims import AS_PAPER, NOT_AS_PAPER, NOT_DECIDED, Claim, Result, load_claims, page
from nmt.cli import main

ROOT = Path(__file__).resolve().parents[3]
CLAIMS = load_claims()


def reproduce(*arguments: str | Path) -> int:
    """The exit status of `nmt reproduce`."""
    try:
        main(["reproduce", *map(str, arguments)])
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    return 0


def on_its_page(claim: Claim, result: Result) -> bool:
    """Whether a line of the claim's page has the row and the figures."""
    lines = (ROOT / "docs" / claim.page).read_text("utf-8").split("\n")
    return any(result.row in line and f" {result.figures} " in line for line in lines)


def claim_of(better: str, worse: str) -> Claim:
    """A claim with these figures."""
    return dataclasses.replace(CLAIMS["reversal"], better=Result("a", "a", better),
                               worse=Result("b", "b", worse))


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Returns a function that makes a claim with a given script the only claim."""
    def put(script: str) -> None:
        claim = dataclasses.replace(CLAIMS["reversal"], name="toy", script=script)
        monkeypatch.setattr(nmt.cli.reproducing, "load_claims", lambda: {"toy": claim})
    return put


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=list(CLAIMS))
def test_figures_stand_on_the_page_that_is_linked(claim: Claim) -> None:
    assert on_its_page(claim, claim.better) and on_its_page(claim, claim.worse)
    assert not on_its_page(claim, dataclasses.replace(claim.better, figures="0.01 / 0.02"))


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=list(CLAIMS))
def test_recipes_exist_and_are_trained(claim: Claim) -> None:
    for recipe in claim.systems:
        assert (ROOT / "nmt" / "recipes" / f"{recipe}.yaml").is_file()
    assert "nmt train " in claim.script


def test_the_page_is_written_from_the_claims() -> None:
    assert (ROOT / "docs" / "claims.md").read_text("utf-8") == page(CLAIMS)


def test_the_page_says_how_many_and_lists_each_under_its_verdict() -> None:
    first = claim_of("2.0 / 2.1", "1.0 / 1.1")
    second = dataclasses.replace(first, name="second", better=first.worse, worse=first.better)
    text = page({"first": first, "second": second})
    assert "Of 2 claims" in text and "1 come out here as in the paper" in text
    tables = text.split("\n## ")[1:]
    assert [table.split("\n")[0] for table in tables] == ["As in the paper", "Not as in the paper"]
    assert f"`{first.name}`" in tables[0] and "`second`" in tables[1]


@pytest.mark.parametrize("better, worse, verdict", [
    ("2.0 / 2.1", "1.0 / 1.1", AS_PAPER),
    ("1.0 / 1.1", "2.0 / 2.1", NOT_AS_PAPER),
    ("2.0 / 3.1", "1.5 / 1.6", NOT_DECIDED),  # 1.0, less than the seeds of the first
    ("1.5 / 1.6", "0.0 / 2.0", NOT_DECIDED),  # and of the second
    ("9.0", "1.0 / 1.1", NOT_DECIDED),
    ("9.0 / 9.1", "1.0", NOT_DECIDED),
    ("14.25 (0.05)", "13.86 (0.33)", NOT_DECIDED),  # 0.39; the seeds of the second differ by 0.47
    ("14.35 (0.05)", "13.86 (0.33)", AS_PAPER),
])  # fmt: skip
def test_verdict(better: str, worse: str, verdict: str) -> None:
    assert claim_of(better, worse).verdict == verdict


def test_the_list_has_every_claim(capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce() == 0
    printed = capsys.readouterr().out
    assert all(f"{claim.name}: {claim.verdict}; " in printed for claim in CLAIMS.values())


def test_a_script_runs(only: Callable[[str], None], tmp_path: Path) -> None:
    only("nmt --version > $RUNS/version\n"
         "echo $SYSTEMS $DATA > $RUNS/systems\n"
         "ls $RECIPES > $RUNS/ls")
    output = tmp_path / "runs"
    assert reproduce("toy", "--data", "some", "--output", output) == 0
    assert (output / "version").read_text("utf-8").startswith("nmt ")
    assert (output / "systems").read_text("utf-8").split() == [
        "thesis-small/base-reverse", "thesis-small/base", "some"]
    assert "demo.yaml" in (output / "ls").read_text("utf-8")


def test_bad_input(
    only: Callable[[str], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce("reversla") == 2
    assert "did you mean 'reversal'?" in capsys.readouterr().err
    assert reproduce("reversal", "--output", tmp_path / "runs") == 2
    assert "needs --data DIR and --output DIR" in capsys.readouterr().err
    only("nmt no-such-verb\ntouch $RUNS/after")
    assert reproduce("toy", "--output", tmp_path / "failed") == 2
    assert "a command failed (exit status 2)" in capsys.readouterr().err
    assert not (tmp_path / "failed" / "after").exists()
