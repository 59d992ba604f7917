"""A program's verbs come from one table; only the module of the called verb is imported."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import grads.cli
import nmt.cli

ROOT = Path(__file__).resolve().parents[3]
TABLES = {"nmt": nmt.cli.VERBS, "grads": grads.cli.VERBS}


@pytest.mark.parametrize("program", TABLES)
def test_each_row_names_its_functions_and_each_function_has_a_row(program):
    declared: dict[str, set[str]] = {}
    for verb in TABLES[program]:
        if verb.module:
            declared.setdefault(verb.module, set()).add(verb.name.split()[-1].replace("-", "_"))
    for name, verbs in declared.items():
        functions = vars(import_module(name))
        assert {word.removeprefix("run_") for word, value in functions.items()
                if word.startswith("run_") and value.__module__ == name} == verbs
        assert all(functions[f"add_{verb}"].__module__ == name for verb in verbs)


@pytest.mark.parametrize(("words", "modules"), [
    (["--threads", "1", "bpe", "join", "x"], ["nmt.cli.bpe"]),
    (["--model.attention", "attention", "recipe", "x"], ["nmt.cli.recipes"]),
    (["translat"], []),
])
def test_the_modules_of_other_verbs_are_left_alone(words, modules):
    code = ("import json, sys, nmt.cli\n"
            f"try: nmt.cli.main({words!r})\n"
            "except SystemExit: pass\n"
            "print(json.dumps([*sys.modules]))")
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True,
                         check=True).stdout
    verbs = {verb.module for verb in nmt.cli.VERBS}
    assert sorted(verbs & {*json.loads(out.splitlines()[-1])}) == modules
