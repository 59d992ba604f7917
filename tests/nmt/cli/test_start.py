"""The commands start quickly, because slow modules are imported where they are used."""

from __future__ import annotations

import subprocess
import sys

import pytest

SLOW = ("sacremoses", "sacrebleu", "jsonargparse", "matplotlib", "scipy", "torch", "asyncio")
NO_MODEL = ("nmt.models.registry", "nmt.recipe", "babel", "yaml")


@pytest.mark.parametrize(("program", "absent"), [
    ("import nmt", ("numpy", *SLOW, *NO_MODEL)),
    ("import nmt; nmt.load", SLOW),
    ("from nmt.cli import build_parser; build_parser(['--help'])", (*SLOW, *NO_MODEL)),
    ("from nmt.cli import build_parser; build_parser(['translate', '--help'])", SLOW),
    ("from nmt.cli import build_parser; build_parser(['train', '--help'])", SLOW),
    ("import grads.cli", (*SLOW, *NO_MODEL, "grads.derivations", "grads.verification.catalogue")),
])
def test_it_imports_nothing_slow(program: str, absent: tuple[str, ...]) -> None:
    asked = f"import sys; {program}; print([n for n in {absent} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
