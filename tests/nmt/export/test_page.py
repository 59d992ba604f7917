"""The programs on the page about serving run, and print what we translate."""

from __future__ import annotations

import re
import shutil
from textwrap import dedent

import pytest
from tiny_run import ROOT, captured

from nmt.search.interface import SearchOptions
from nmt.system import System

PROGRAMS = re.findall(r"^    import .*?^    print.*?$",
                      (ROOT / "docs/serving.md").read_text("utf-8"), re.DOTALL | re.MULTILINE)
CASES = {"ctranslate2": ("transformer", "exported", 256), "onnx": ("demo", "exported-onnx", 30)}


@pytest.mark.parametrize("name", CASES)
def test_its_program_translates(name, tmp_path, monkeypatch, capsys) -> None:
    for package in ("ctranslate2", "onnxruntime", "onnx"):
        pytest.importorskip(package, reason="extra `export`")
    (program,) = (dedent(program) for program in PROGRAMS if name in program)
    run, directory, steps = CASES[name]
    golden = ROOT / "tests/golden_runs/runs" / ("luong" if run == "demo" else run)
    shutil.copytree(golden, tmp_path / "runs" / run)
    monkeypatch.chdir(tmp_path)
    captured(capsys, "export", f"runs/{run}", "--format", name, "-o", directory)
    exec(compile(program, name, "exec"), {})
    system = System.open(f"runs/{run}")
    options = SearchOptions(beam=5 if name == "ctranslate2" else 1, minimum_steps=steps)
    ((ours,),) = system.translate([["12", "weeks", "ago"]], options)
    assert ours.words and capsys.readouterr().out.strip() == system.text(ours)
