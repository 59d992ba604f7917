"""The wheel in a new environment outside of the checkout, as a user gets it by pip."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("backend", "lstm", "attention", "nmt", "grads")
# Without the variables of the checkout's tests
OURS = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the source distribution."""
    dist = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--outdir", str(dist), str(ROOT)],
                   check=True, capture_output=True)
    return next(dist.glob("*.whl")), next(dist.glob("*.tar.gz"))


@pytest.fixture(scope="module")
def clean(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with an environment `env` in which only the wheel is installed."""
    home = tmp_path_factory.mktemp("clean")
    venv.create(home / "env")
    # By this environment's pip, and compiled when imported: half of the time
    done = subprocess.run([sys.executable, "-m", "pip", "--python", home / "env/bin/python",
                           "install", "-q", "--no-compile", str(built[0])],
                          capture_output=True, text=True, cwd=home, env=_environment())
    if "No matching distribution" in done.stderr:
        pytest.skip("the dependencies cannot be had from a package index")
    assert done.returncode == 0, done.stderr
    return home


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in OURS}


def _run(clean: Path, program: str, *arguments: str) -> str:
    done = subprocess.run([clean / "env/bin" / program, *arguments], capture_output=True,
                          text=True, cwd=clean, env=_environment(), check=True)
    return done.stdout


def test_the_wheel_has_the_packages_typed_and_no_others(built: tuple[Path, Path]) -> None:
    names = zipfile.ZipFile(built[0]).namelist()
    roots = {name.split("/")[0] for name in names}
    assert {root for root in roots if not root.endswith(".dist-info")} == set(PACKAGES)
    assert {f"{package}/py.typed" for package in PACKAGES} <= set(names)


def test_the_source_distribution_has_the_checkout(built: tuple[Path, Path]) -> None:
    names = {name.partition("/")[2] for name in tarfile.open(built[1]).getnames()}
    assert {"benchmarks/__main__.py", "tests/test_package.py", "docs/index.md", "Makefile",
            "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md"} <= names


@pytest.mark.parametrize("program", ["nmt", "grads"])
def test_every_verb_has_help(clean: Path, program: str) -> None:
    code = (f"from {program}.cli import VERBS, build_parser\n"
            "for verb in VERBS:\n"
            "    print(build_parser(verb.name.split()).format_help().splitlines()[0])\n")
    assert _run(clean, "python", "-c", code).count(f"usage: {program}") > 5
    assert f"usage: {program}" in _run(clean, program, "--help")


def test_the_demo_trains_and_translates(clean: Path) -> None:
    out = _run(clean, "nmt", "demo", "--phrases", "200", "--epochs", "1", "--threads", "1")
    assert "BLEU" in out
    assert (clean / "runs/demo").is_dir()


def test_a_derivation_is_walked_and_explored(clean: Path) -> None:
    assert "verified: d loss" in _run(clean, "grads", "walk", "lstm")
    _run(clean, "grads", "explore", "lstm", "-o", "lstm.html")
    assert "<html" in (clean / "lstm.html").read_text("utf-8")
