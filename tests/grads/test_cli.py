"""The command `grads`: what it prints, writes and returns."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path

import pytest
import tanh_layer

from grads.cli import main
from grads.verification.mutation.execution import Outcome
from grads.verification.mutation.record import Mutant

LAYER = Path(tanh_layer.__file__).read_text(encoding="utf-8") + textwrap.dedent('''
    wrong_inputs, wrong_forward = layer_inputs, layer_forward

    def wrong_backward(dh, cache):
        dx, dW = layer_backward(dh, cache)
        return dx, -dW

    def cube_inputs(rng):
        return rng.normal(size=5)

    def cube(x):
        return (x ** 3).sum()

    def cube_gradient(x):
        return 3 * x ** 2

    near_inputs, near = cube_inputs, cube

    def near_gradient(x):
        return 3 * x ** 2 * (1 + 1e-6)

    def lonely_inputs(rng):
        return [np.arange(3)]

    lonely, lonely_gradient = cube, cube_gradient

    def broken_inputs(rng):
        raise RuntimeError("no data")

    broken, broken_gradient = cube, cube_gradient
''')


UNDECIDED = textwrap.dedent('''
    import numpy as np

    def both_inputs(rng):
        return rng.normal(size=5)

    def both(x):
        return (x * x).sum() * (2 if x.dtype.kind == "c" else 1)

    def both_gradient(x):
        return 2 * x
''')


@pytest.fixture
def layer(tmp_path):
    path = tmp_path / "lstm.py"  # the name of one of our packages
    path.write_text(LAYER, encoding="utf-8")
    return path


def run(capsys, *arguments):
    """Exit status, stdout and stderr."""
    status = 0
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as error:
        status = error.code
    out, err = capsys.readouterr()
    return status, out, err


@pytest.mark.parametrize("name", ["layer", "cube"])
def test_a_users_own_code(capsys, layer, name):
    status, out, err = run(capsys, "check", f"{layer}:{name}")
    assert (status, err) == (0, "")
    assert " ok" in out and "1 check, 0 wrong" in out


def test_a_wrong_gradient_is_status_1_with_its_diagnosis_and_files(capsys, layer, tmp_path):
    page, data = tmp_path / "report.html", tmp_path / "report.json"
    status, out, _ = run(capsys, "check", f"{layer}:wrong", f"{layer}:layer", "--html", page,
                         "--json", data)
    assert status == 1 and "WRONG" in out and "sign" in out and "2 checks, 1 wrong" in out
    assert page.read_text("utf-8").count("<section id=") == 2
    assert [report["ok"] for report in json.loads(data.read_text("utf-8"))] == [False, True]


def test_disagreement_is_status_3_and_no_error_of_the_users(capsys, layer, tmp_path):
    path = tmp_path / "two.py"
    path.write_text(UNDECIDED, encoding="utf-8")
    status, out, _ = run(capsys, "check", f"{path}:both", f"{layer}:layer")
    assert status == 3 and "2 checks, 0 wrong, 1 undecided" in out and "WRONG" not in out
    assert run(capsys, "check", f"{path}:both", f"{layer}:wrong")[0] == 1
    status, _, err = run(capsys, "check", f"{path}:both", "--method", "complex")
    assert status == 2 and "got 'complex': f: real differences say otherwise" in err
    assert run(capsys, "check", f"{path}:both", "--method", "ridders")[0] == 0


def test_the_relative_tolerance(capsys, layer):
    assert run(capsys, "check", f"{layer}:near")[0] == 1
    assert run(capsys, "check", f"{layer}:near", "--rtol", "1e-5")[0] == 0


def test_entries_by_name_and_pattern(capsys):
    status, out, _ = run(capsys, "check", "luong: as usual; ragged")
    assert status == 0 and re.search(r"encoder.0.W +\(8, 5\) +1 of 40 \+ 2 ", out)
    status, out, _ = run(capsys, "check", "luong: as usual; ragged", "--all", "--method", "complex")
    assert status == 0 and re.search(r"encoder.0.W +\(8, 5\) +40 ", out)
    assert "directions" not in out
    status, out, _ = run(capsys, "check", "rnnsearch*tanh*; full", "language_model: as usual")
    assert status == 0 and "language_model: as usual; smallest: ok" in out and "luong" not in out
    assert "rnnsearch: " in out and "ragged" not in out.partition("language_model")[0]
    status, out, _ = run(capsys, "check", "derivation lstm:*")
    assert status == 0 and "2 checks, 0 wrong" in out


def test_a_file_is_checked_without_the_catalogue(capsys, layer, monkeypatch):
    monkeypatch.setattr("grads.verification.catalogue.entries", None)
    assert run(capsys, "check", f"{layer}:cube")[0] == 0


def test_the_list_of_entries(capsys):
    status, out, _ = run(capsys, "check", "--list")
    assert status == 0 and "\nluong: as usual; real, real\n" in f"\n{out}"
    assert "derivation attention: as usual\n" in out
    status, longer_list, _ = run(capsys, "check", "--list", "--tier", "every")
    assert status == 0 and longer_list.count("\n") > 1000


@pytest.mark.parametrize("arguments, message", [
    (["explore", "serch"], "search, or FILE.py:NAME, got 'serch'; did you mean 'search'?"),
    (["walk", "lstm", "--beam", "3"], "beam: lstm has none; search has"),
    (["explore", "lstm", "--modle", "x"], "unrecognized arguments: --modle x; did you mean "
     "'--model'? (see grads explore --help)"),
    (["check", "luogn: as usual"], "got 'luogn: as usual'; did you mean 'luong: as usual'?"),
    (["check", "luong*", "--tier", "large"], "--tier: expected one of tiny, real, every"),
    (["check", "luong*", "--method", "magic"], "--method: expected one of both"),
    (["check", "{}:lyer"], "expected a function lyer_inputs, found none; did you mean 'layer_inp"),
    (["check", "{}:lonely"], "inputs: 'x' is of int64, which has no derivative"),
    (["check", "{}:broken"], "broken_inputs: RuntimeError: no data"),
    (["check", "nowhere.py:f"], "nowhere.py: expected a Python file, found none"),
    (["check", "x", "--sample", "0"], "expected an integer of at least 1"),
    (["mutants", "printed sign"], "NAME: expected one of the papers' mistakes, got 'printed si"),
    (["check", "{}:cube", "--rtol", "2"], "--rtol: expected a number between 0 and 1, got 2"),
    (["chekc"], "invalid choice: 'chekc'"),
])  # fmt: skip
def test_errors_are_one_line_and_status_2(capsys, layer, arguments, message):
    status, out, err = run(capsys, *(text.format(layer) for text in arguments))
    assert (status, out) == (2, "")
    assert err.startswith("grads: ") and err.count("\n") == 1 and message in err


def test_a_file_that_cannot_be_written_is_told(capsys, layer, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    status, _, err = run(capsys, "check", f"{layer}:cube", "--json", tmp_path / "file" / "x.json")
    assert status == 2 and "x.json: cannot be written" in err


def test_mutants_shows_what_the_check_says_of_a_mistake(capsys):
    status, out, _ = run(capsys, "mutants", "printed sign of ds")
    assert status == 0 and "p - one_hot(y, len(p))" in out and "WRONG" in out
    assert "it has the reversed sign" in out and "1 mistake, 0 not noticed" in out


def test_mutants_writes_the_page_and_is_status_1_on_a_survivor(capsys, monkeypatch, tmp_path):
    def outcomes(number, jobs, told):
        assert (number, jobs) == (2, 3)
        return [Outcome(Mutant(f"lstm.f: {name}", "lstm.f", "sign", "", range(1), ""), by, "", 0.0)
                for name, by in (("a + b -> a - b", "gradient"), ("c + d -> c - d", survivor))]

    monkeypatch.setattr("grads.verification.mutation.run.run", outcomes)
    page = tmp_path / "mutants.md"
    survivor = "gradient"
    status, out, _ = run(capsys, "mutants", "--sample", 2, "--jobs", 3, "-o", page)
    assert status == 0 and "2 mutants of 1 function: 2 killed" in out
    survivor = ""
    status, out, _ = run(capsys, "mutants", "--sample", 2, "--jobs", 3, "-o", page)
    assert status == 1 and "lstm.f: c + d -> c - d: survives" in out
    assert "`lstm.f: c + d -> c - d`" in page.read_text("utf-8")


def test_a_time_limit_is_status_3_and_says_what_was_covered(capsys, tmp_path):
    path = tmp_path / "slow.py"
    path.write_text(LAYER + textwrap.dedent("""
        import time

        def slow_forward(x, W):
            time.sleep(0.3)
            return layer_forward(x, W)

        slow_inputs, slow_backward = layer_inputs, layer_backward
    """), encoding="utf-8")
    status, out, err = run(capsys, "check", f"{path}:slow", "--time-limit", "0.1")
    assert (status, err) == (3, "") and "1 check, 0 wrong, 1 not finished" in out
    assert "nothing of x, W" in out and "WRONG" not in out
    status, _, err = run(capsys, "check", f"{path}:slow", "--time-limit", "0")
    assert status == 2 and "--time-limit: expected seconds above 0 and at most 1e8, got '0'" in err


@pytest.mark.parametrize("options", [
    ("walk", "nmt", "--hidden", "999999999999"), ("walk", "nmt", "--layers", "100000"),
    ("check", "--time-limit", "1e308"), ("explore", "search", "--beam", "9" * 5000),
])  # fmt: skip
def test_an_astronomic_number_is_one_line(capsys, options):
    status, out, err = run(capsys, *options)
    assert (status, out) == (2, "") and err.count("\n") == 1
    assert err.startswith(f"grads: argument {options[2 if options[0] != 'check' else 1]}: expected")
