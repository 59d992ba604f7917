"""`nmt score` against sacrebleu's own command line: scores, signatures, tests of significance."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import unicodedata
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from tiny_run import complaint, lines_of

from nmt.evaluation.scores import TOKENISATIONS

TEXTS = ["The cat isn't on the mat, is it?", "It costs 1,234.50 € — « oui » !", "他在 2:30 来了。",
         "A well-known man's dog.", "x", "https://a.org/b?c=d &amp; more", "ΑΒΓ αβγ ß ẞ"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three systems and two sets of references, of 42 lines."""
    directory, rng = tmp_path_factory.mktemp("scores"), random.Random(1)

    def noisy(line: str, share: float) -> str:
        words = [word.swapcase() if rng.random() < share / 2 else word for word in line.split()
                 if rng.random() > share] or ["no"]
        return " ".join(words)

    for name, share in (("r1", 0.0), ("r2", 0.3), ("good", 0.15), ("fair", 0.3), ("bad", 0.6)):
        lines = [noisy(line, share) for line in TEXTS * 6]
        (directory / name).write_text("\n".join(lines) + "\n", "utf-8")
    odd = [f" {unicodedata.normalize('NFD', noisy(line + ' häßlich é', 0.2))}\t\r\n"
           for line in TEXTS * 6]  # and the mark of byte order: a character like others
    (directory / "odd").write_bytes(("\ufeff" + "".join(odd)).encode())
    return directory


# sacrebleu takes over stdin and stdout: one process runs its command for all cases.
RUN = """
import json, os, sys
from sacrebleu.sacrebleu import main
kept = []
json.JSONEncoder.default = lambda self, value: float(value)  # it leaves float32 in the bootstrap's
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["sacrebleu", *arguments]
    sys.stdin, sys.stdout = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")  # it opens them again
    kept += [sys.stdin, sys.stdout]
    main()
    sys.stdout.flush()
    kept += [sys.stdin, sys.stdout]
os._exit(0)
"""
PAIRED = {"bootstrap": "--paired-bs", "randomisation": "--paired-ar"}
CASES = [*product(TOKENISATIONS, (["r1"], ["r1", "r2"]), (False, True), ("good", "bad"))]
CASES += [*product(("13a", "char", "none"), (["odd"], ["r1", "odd"]), (False, True),
                   ("good", "odd"))]
COMMANDS = [[*references, "-i", hypotheses, "-m", "bleu", "chrf", "ter", "--force", "-tok",
             tokenize, "-w", "2", *["-lc", "--chrf-lowercase"] * lower]
            for tokenize, references, lower, hypotheses in CASES]
COMMANDS += [["r1", "r2", "-i", "fair", "good", "bad", "-m", "bleu", "ter", "-f", "json", "-w", "2",
              flag, f"{flag}-n", "200"] for flag in PAIRED.values()]


@pytest.fixture(scope="module")
def theirs(files: Path) -> list[Any]:
    """What sacrebleu's command prints for each of the COMMANDS."""
    made = subprocess.run([sys.executable, "-c", RUN, json.dumps(COMMANDS)], cwd=files, check=True,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout
    values, decoder = [], json.JSONDecoder()
    while made.strip():
        value, end = decoder.raw_decode(made := made.lstrip())
        values.append(value)
        made = made[end:]
    return values


@pytest.mark.parametrize("k", range(len(CASES)), ids=lambda k: " ".join(COMMANDS[k][:-2]))
def test_scores_are_sacrebleus(files, theirs, monkeypatch, capsys, k) -> None:
    tokenize, references, lower, hypotheses = CASES[k]
    monkeypatch.chdir(files)
    ours = lines_of(capsys, "score", hypotheses, *references, "--metrics", "bleu", "chrf", "ter",
                    "--tokenize", tokenize, *["--lowercase"] * lower)
    names = {"BLEU": "BLEU", "chrF2": "chrF", "TER": "TER"}
    assert ours == [f"{names[result['name']]} {result['score']:.2f} ({result['signature']})"
                    for result in theirs[k]]


@pytest.mark.parametrize("test", PAIRED)
def test_comparisons_are_sacrebleus(files, theirs, monkeypatch, capsys, test) -> None:
    monkeypatch.chdir(files)
    said = theirs[len(CASES) + [*PAIRED].index(test)]
    ours = lines_of(capsys, "score", "fair", "r1", "r2", "--compare", "good", "bad", "--metrics",
                    "bleu", "ter", "--test", test, "--samples", 200)[2:]
    expected = []
    for metric in ("BLEU", "TER"):
        rows = [system[metric] for system in said]
        for row, path in zip(rows, ("fair", "good", "bad"), strict=True):
            p = f"p = {row['p_value']:.4f}" if row["p_value"] is not None else "baseline"
            spread = f"({row['mean']:.2f} ± {row['ci']:.2f}) " if test == "bootstrap" else ""
            expected.append(f"{metric} {row['score']:.2f} {spread}{p} {path}")
    assert [line for line in ours if not line.startswith("paired")] == expected
    assert [line for line in ours if line.startswith(f"paired {test} (nrefs:2|")] == ours[::4]


def test_what_cannot_be_scored(files, monkeypatch, capsys) -> None:
    monkeypatch.chdir(files)
    assert "tokenize: expected one of none, zh, 13a" in complaint(
        capsys, "score", "good", "r1", "--tokenize", "14a")
    (files / "short").write_text("x\n")
    assert "files differ in length: good has 42 lines, r1 has 42, short has 1" in complaint(
        capsys, "score", "good", "r1", "short")
    assert "files differ in length" in complaint(
        capsys, "score", "good", "r1", "--compare", "short")
    assert "expected one file of references, got 2" in complaint(
        capsys, "score", "good", "r1", "r2", "--source", "r1", "--rarity", "r1")
