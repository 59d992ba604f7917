"""The gradient matrix: every family, the committed pages, and that mistakes show."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from strict.module import strict
from toy_model import registered, toys

from grads.verification import catalogue, derivations, matrix
from grads.verification.catalogue import TIERS, entries
from grads.verification.matrix import digit, from_json, measure, to_json, to_markdown, worst
from nmt.models.registry import MODELS

PAGE = Path(__file__).parents[3] / "docs" / "gradient-matrix.md"


def committed():
    return from_json(PAGE.with_suffix(".json").read_text("utf-8"))[1]


def size(error):
    """The order of magnitude of an error; rounding counts as none."""
    return max(math.log10(error), -14.0) if error > 0 else -14.0


# --- the committed pages ------------------------------------------------------------------------


def test_the_page_is_made_of_its_json():
    text = PAGE.with_suffix(".json").read_text("utf-8")
    assert PAGE.read_text("utf-8") == to_markdown(text)


def test_the_page_is_one_screen():
    assert len(PAGE.read_text("utf-8").splitlines()) < 60


def test_the_page_lists_exactly_what_exists():
    names = [line.name for line in committed()]
    assert sorted(names) == sorted(entry.name
                                   for entry in (*entries(*TIERS), *derivations.entries()))


def test_all_that_the_page_says_is_right():
    for line in committed():
        assert not line.wrong and line.entries, line.name
        errors = [line.errors.get(kind, 0.0) for kind in ("complex", "directions", "torch")]
        # An entry may be a small difference of large numbers: 3e-19 of 3e-9 is rounding, an error
        # of 1e-10.
        limits = (1e-9, 1e-10, 1e-10)
        assert all(isinstance(error, str) or error < limit
                   for error, limit in zip(errors, limits, strict=True)), line.name
        if line.family.partition(",")[0] in MODELS:
            assert not isinstance(errors[2], str), f"{line.name}: compared with no reference"


@pytest.mark.parametrize("entry", entries(*TIERS)[::250], ids=lambda entry: entry.name)
def test_the_page_is_what_the_code_gives(entry):
    """Extents exactly, errors by their size: digits differ between BLAS libraries."""
    [line] = [line for line in committed() if line.name == entry.name]
    measured = measure(entry)
    assert (measured.family, measured.entries, measured.directions, measured.wrong) == (
        line.family, line.entries, line.directions, ())
    for kind, error in measured.errors.items():
        if not isinstance(error, str) and not isinstance(line.errors[kind], str):
            assert abs(size(error) - size(line.errors[kind])) < 3, kind


# --- what a line says of a model that is wrong --------------------------------------------------


@pytest.fixture
def alone(monkeypatch):
    """A catalogue with only the toy model."""
    monkeypatch.setattr(derivations, "entries", list)
    monkeypatch.setattr(catalogue, "architectures", lambda: {"toy": MODELS["toy"]})


def test_families_and_extents(alone):
    with registered():
        lines = list(matrix.build())
    assert {line.family for line in lines} == {"toy, size 3, tiny", "toy, size 4, tiny",
                                               "toy, real"}
    assert from_json(to_json(lines, 7))[0]["seed"] == 7
    again = from_json(to_json([lines[0], lines[-1]._replace(wrong=("v",))], 7))[1]
    assert [(line.family, line.name, line.wrong) for line in again] == [
        (lines[0].family, lines[0].name, ()), (lines[-1].family, lines[-1].name, ("v",))]
    assert lines[0].entries > 18 and not lines[0].wrong
    assert lines[0].errors["torch"] in (matrix.NO_TORCH, "no reference")
    assert lines[0].errors["cupy"] == matrix.NO_GPU


@pytest.mark.parametrize("flaw, wrong", [("wrong", "v"), ("inaccurate", "gradients: float32")])
def test_a_wrong_model_shows(flaw, wrong):
    with registered(flaw):
        line = measure(toys("tiny")[0])
    assert wrong in line.wrong
    page = to_markdown(to_json([line, line._replace(name="right", wrong=())], 0))
    assert f"WRONG: {line.name} |" in page
    assert "2 gradient checks of every architecture and derivation, 1 wrong" in page


def test_a_column_in_which_nothing_ran_is_a_sentence():
    with registered():
        line = measure(toys("tiny")[0])
    ran = line._replace(errors=line.errors | {"cupy": 1e-12})
    page = to_markdown(to_json([line, line], 0))
    assert f"CuPy: {matrix.NO_GPU}." in page and "| CuPy |" not in page
    page = to_markdown(to_json([line, ran], 0))
    assert f"{matrix.NO_GPU}." not in page and "| CuPy |" in page and "| 1e-12 |" in page


def test_columns_beside_the_check_are_held_to_their_limits(monkeypatch):
    entry = entries("tiny")[0]
    right = measure(entry, device=strict)
    assert right.wrong == () and right.errors["cupy"] < 1e-14
    monkeypatch.setattr(matrix, "against_reference", lambda *_: np.nan)
    gradients_of = matrix.gradients_of
    monkeypatch.setattr(matrix, "gradients_of", lambda case, *dtype: {
        name: 1.01 * d for name, d in gradients_of(case, *dtype).items()}
        if case is not seen.setdefault("first", case) else gradients_of(case, *dtype))
    seen: dict = {}
    assert measure(entry, device=strict).wrong == ("torch", "cupy")


def test_worst_and_digits():
    assert worst([1e-3, "none", 2e-3]) == 2e-3 and worst(["none"]) == "none" and worst([]) == ""
    assert math.isnan(worst([1.0, np.nan]))
    assert [digit(x) for x in (1.26e-5, 1e-18, np.inf, "text")] == [1e-5, 0.0, "inf", "text"]


# --- the command --------------------------------------------------------------------------------


@pytest.mark.parametrize("flaw, status", [("", 0), ("wrong", 1)])
def test_write(flaw, status, alone, tmp_path, capsys):
    with registered(flaw):
        assert matrix.write(tmp_path / "page.md", 3) == status
        count = len(entries(*TIERS))
    text = (tmp_path / "page.json").read_text("utf-8")
    assert (tmp_path / "page.md").read_text("utf-8") == to_markdown(text)
    assert json.loads(text)["seed"] == 3
    assert f"{count} checks, {count * status} wrong" in capsys.readouterr().out
