"""Messages on the package: its version, and extras that exist."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from backend import errors
from nmt.console import package

ROOT = Path(__file__).resolve().parents[3]
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
CALL = re.compile(r"""(?:missing\(["'][\w-]+["'], |install\()["']([\w-]+)["']\)""")
# Without files that record printed output
SOURCES = [path for folder in ("backend", "nmt", "grads", "benchmarks", "docs")
           for path in (ROOT / folder).rglob("*.[pm][yd]")]


def test_every_extra_of_a_message_is_one_of_the_package() -> None:
    named = {extra for path in SOURCES for extra in CALL.findall(path.read_text("utf-8"))}
    assert {"plot", "bpe", "mpi", "cuda12"} <= named <= set(DECLARED["optional-dependencies"])
    assert errors.missing("x", "bpe") == \
        "x is not installed (pip install -e '.[bpe]' in a checkout)"


def test_the_user_of_a_wheel_installs_the_libraries_of_an_extra(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(errors, "CHECKOUT", tmp_path / "pyproject.toml")
    monkeypatch.setattr(errors, "requires", lambda _: [
        "numpy>=2.1", 'mpi4py>=4; extra == "mpi"', 'mpich>=4; extra == "mpi"',
        'matplotlib>=3.9; extra == "plot"'])
    assert errors.missing("mpi4py", "mpi") == \
        "mpi4py is not installed (pip install 'mpi4py>=4' 'mpich>=4')"


def test_nobody_is_sent_to_an_index_that_has_no_such_package() -> None:
    wrong = re.compile(rf"{package.PACKAGE}\[|this package's extra|install the extra")
    assert [path for path in SOURCES if wrong.search(path.read_text("utf-8"))] == []


@pytest.mark.parametrize("program", ["nmt", "grads"])
def test_version(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said = subprocess.run([sys.executable, "-m", program, "--version"], capture_output=True,
                          text=True, check=True, cwd=ROOT).stdout
    assert said == f"{program} {package.release()}\n"

    def none(_: str) -> str:
        raise PackageNotFoundError

    monkeypatch.setattr(package, "version", none)
    assert package.release() == "(not installed)"
