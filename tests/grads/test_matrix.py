"""Every configuration of every model, the matrix of what was proved, and the committed pages."""

from __future__ import annotations

import dataclasses
import json
import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from strict.module import strict

from grads import matrix, oracle
from grads.case import SHAPES, Case, Entry, draw
from grads.catalogue import CONFIGURATIONS, DERIVATIONS, ENTRIES, check
from grads.catalogue.configurations import CHOICES, NEVER, OTHER_WAYS, translator
from grads.checking.claims import dense
from grads.checking.differentiate import along
from grads.matrix import page as matrix_page
from nmt.models.language_model import LanguageModelConfig
from lstm.stack import UNITS
from nmt.models.translator import ModelConfig

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "gradient-matrix.md"
MADE_OF = {"translator": ModelConfig, "language model": LanguageModelConfig}
# Fields of a configuration that change no line of a forward or backward pass, and `biases`, whose
# two values the language models of the product and `ENTRIES` have.
NO_CHOICE = {"architecture", "hidden_size", "embedding_size", "initialisation", "scale",
             "forget_bias", "biases"}
DEPTHS = [(kind, unit, layers) for kind in MADE_OF for unit in UNITS for layers in (1, 2)]

# layers, feeding; one end: 4 global scores that are not products, 5 in local-m, twice 5 in local-p;
# both ends: the same without dot
WAYS = 2 * 2 * ((4 + 5 + 10) + (4 + 4 + 8))

# --- every configuration ------------------------------------------------------------------------


def wrong_along(entry, shape, seed=0):
    """The relative error of the gradients along a random direction over all tensors at once."""
    rng = np.random.default_rng(seed)
    case = entry.make(rng, SHAPES[shape])
    upstream = {"loss": draw(rng)}
    direction = {name: rng.normal(size=a.shape) for name, a in case.inputs.items()}
    gradients = case.backward(case.inputs, upstream)
    analytic = sum((dense(d, name, case.inputs) * direction[name]).sum()
                   for name, d in gradients.items())
    numeric = along(case.forward, case.inputs, upstream, [direction])
    return abs(analytic - numeric.value.item()) / numeric.scale.item()


@pytest.mark.parametrize("kind, unit, layers", DEPTHS)
def test_every_configuration(kind, unit, layers):
    """All tensors of all configurations along one direction."""
    members = [e for e in CONFIGURATIONS if e.kind == kind and
               (e.options.get("unit", "lstm"), e.options["layers"]) == (unit, layers)]
    ways = WAYS // 2 if kind == "translator" and unit == "lstm" else 0
    looks = 104 if UNITS[unit].has_cell else 64  # a unit without a cell is not fed
    assert len(members) == {"translator": looks, "language model": 16}[kind] + ways
    for entry in members:
        for shape in entry.shapes:
            if not wrong_along(entry, shape) < 1e-12:
                check(entry, shape).raise_if_wrong()
                pytest.fail(f"{entry.name}, {shape}: wrong along a direction, right at its entries")


def test_a_wrong_gradient_of_a_configuration_is_seen():
    """Element-wise clipping that acts is no gradient: an honest example of a wrong one."""
    options = {"unit": "lstm", "layers": 2}
    assert wrong_along(Entry("", (), partial(translator, **options, clip_dh=NEVER)), "full") < 1e-12
    assert wrong_along(Entry("", (), partial(translator, **options, clip_dh=1e-3)), "full") > 1e-3


def test_configurations_are_distinct_and_valid():
    everything = [*ENTRIES, *CONFIGURATIONS]
    assert len({entry.name for entry in everything}) == len(everything)
    made = set()
    for entry in CONFIGURATIONS:
        config = MADE_OF[entry.kind](**entry.options)
        assert config not in made, entry.name
        made.add(config)


@pytest.mark.parametrize("kind", MADE_OF)
def test_configurations_leave_no_choice_out(kind):
    """A new option of a model must be added to the product, and all that is valid is in it."""
    fields = {field.name for field in dataclasses.fields(MADE_OF[kind])}
    ways = OTHER_WAYS if kind == "translator" else {}
    assert fields - NO_CHOICE == (set(CHOICES[kind]) | set(ways)) - {"biases"}
    members = [entry for entry in CONFIGURATIONS if entry.kind == kind]
    for option, values in (*CHOICES[kind].items(), *ways.items()):
        values = (*values, *CHOICES[kind].get(option, ()), *ways.get(option, ()))
        assert {entry.options.get(option, values[0]) for entry in members} == set(values)
    # translators: encoder and bridge in 2 ways with all 5 looks, in 1 with the 3 that are not dot
    # of lstm and rnn; the gru's decoder has the 3 looks without feeding in 2 ways, and 2 in 1
    looks = {"translator": 2 * (2 * 5 + 3) + 2 * 3 + 2, "language model": 3 * 2}[kind]
    assert len(members) == 2**4 * looks + (WAYS if ways else 0)


def test_where_acting_clips_are_tested():
    for file, test in matrix_page.CLIP_TESTS:
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8")


# --- the committed pages ------------------------------------------------------------------------


def committed():
    return json.loads(PAGE.with_suffix(".json").read_text(encoding="utf-8"))


def size(error):
    """The order of magnitude of an error; rounding counts as none."""
    return max(math.log10(error), -14.0) if error > 0 else -14.0


def test_the_page_lists_exactly_what_exists():
    rows = [(row["section"], row["name"], row["options"], tuple(row["shapes"]))
            for row in committed()["rows"]]
    assert rows == [(section, entry.name, matrix.plain_options(entry), entry.shapes)
                    for section, entries in matrix.sections().items() for entry in entries]


def test_every_entry_of_the_catalogue_has_one_section():
    listed = [entry.name for entries in matrix.sections().values() for entry in entries]
    assert len(set(listed)) == len(listed)
    assert {entry.name for entry in [*ENTRIES, *CONFIGURATIONS]} <= set(listed)


def test_the_page_is_made_of_its_json():
    text = PAGE.with_suffix(".json").read_text(encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == matrix_page.to_markdown(text)


def test_all_that_the_page_says_is_right():
    for row in committed()["rows"]:
        assert row["ok"] and not row["wrong"], row["name"]
        assert row["errors"]["complex"] < 1e-10 and row["errors"]["ridders"] < 1e-3, row["name"]
        assert 0 < row["checked"] <= row["size"] and row["tensors"], row["name"]
        assert row["errors"]["torch"] < 1e-10, row["name"]


SAMPLED = sorted({entry.name for entries in matrix.sections().values()
                  for entry in entries[:: max(1, len(entries) // 4)] if len(entries) > 9})


@pytest.mark.parametrize("name", SAMPLED)
def test_the_page_is_what_the_code_gives(name):
    """Coverage exactly, errors by their size: digits differ between BLAS libraries."""
    [row] = [row for row in committed()["rows"] if row["name"] == name]
    [entry] = [e for e in [*ENTRIES, *CONFIGURATIONS, *DERIVATIONS] if e.name == name]
    line = matrix.measure(row["section"], entry, committed()["seed"], None)
    assert line.ok and list(line.errors) == list(row["errors"])
    assert (line.tensors, line.checked, line.size) == (row["tensors"], row["checked"], row["size"])
    for column, error in line.errors.items():
        if not isinstance(error, str) and not isinstance(row["errors"][column], str):
            assert abs(size(error) - size(row["errors"][column])) < 3, column


# --- what a row says of a broken entry ----------------------------------------------------------


def broken(kind="", dtype=np.float32, double=1.0, noise=0.0, device=0.0):
    """x^2 with a gradient that is wrong always, in one dtype, or on the device."""
    def run(a):
        return {"y": a["x"] ** 2}, a["x"]

    def pull(d, x):
        other = not isinstance(x, np.ndarray)
        factor = double + (noise if x.dtype == dtype else 0.0) + (device if other else 0.0)
        return {"x": 2.0 * factor * d["y"] * x}

    return Entry("square", (), lambda rng, shape: Case({"x": rng.normal(size=3)}, run, pull),
                 ("full",), kind=kind)


def line_of(entry, device=None):
    [line] = matrix.build({"Broken": [entry]}, device=device)
    return line


def test_a_right_entry_is_ok():
    line = line_of(broken())
    assert line.ok and line.errors["complex"] < 1e-14 and line.errors["float32"] < 1e-6
    assert line.errors["torch"] == matrix.NO_TWIN and line.errors["cupy"] == matrix.NO_GPU


@pytest.mark.parametrize("flaw, wrong", [
    ({"double": 1.01}, "x"), ({"noise": 0.01}, "float32"), ({"double": np.nan}, "x"),
])  # fmt: skip
def test_a_broken_entry_shows_up_as_wrong(flaw, wrong):
    line = line_of(broken(**flaw))
    assert not line.ok and wrong in line.wrong
    page = matrix_page.to_markdown(matrix_page.to_json([line, line_of(broken())], 0))
    assert f"WRONG: {', '.join(line.wrong)} |" in page and "2 rows, 1 wrong" in page
    assert page.count("| ok |") == 1


@pytest.mark.parametrize("device, wrong", [(0.0, ()), (0.01, ("cupy",))])
def test_the_column_of_the_device_is_held_to_numpy(device, wrong, monkeypatch):
    monkeypatch.setattr(oracle, "available", lambda: False)
    line = line_of(broken(kind="square", device=device), strict)
    assert line.wrong == wrong and line.errors["torch"] == matrix.NO_TORCH
    assert line.errors["cupy"] == (0.0 if not wrong else pytest.approx(0.01))


@pytest.mark.parametrize("factor, wrong", [(1.0, ()), (1.01, ("torch",)), (np.nan, ("torch",))])
def test_the_column_of_the_oracle_is_held_to_a_limit(factor, wrong, monkeypatch):
    def gradients(entry, case, upstream):
        return {"x": 2 * upstream["y"] * case.inputs["x"] * factor}

    monkeypatch.setattr(oracle, "available", lambda: True)
    monkeypatch.setattr(oracle, "gradients", gradients)
    assert line_of(broken(kind="square")).wrong == wrong


def test_distance_is_a_part_of_the_tensors_largest():
    expected = {"a": np.array([1.0, -100.0]), "b": np.array([0.1]), "none": np.zeros((0, 3))}
    found = {"a": np.array([2.0, -100.0]), "b": np.array([0.102]), "none": np.zeros((0, 3))}
    assert matrix.distance(found, expected) == pytest.approx(0.02)
    assert matrix.distance(expected, expected) == 0.0
    assert matrix.distance({"a": np.array([1e-9])}, {"a": np.zeros(1)}) == math.inf
    assert math.isnan(matrix.distance({"a": np.array([np.nan]), "b": np.ones(1)},
                                      {"a": np.ones(1), "b": np.zeros(1)}))


# --- the command --------------------------------------------------------------------------------


@pytest.mark.parametrize("flaw, status", [({}, 0), ({"double": 1.01}, 1)])
def test_write(flaw, status, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(matrix, "sections", lambda: {"Squares": [broken(**flaw)]})
    assert matrix.write(tmp_path / "page.md", 3) == status
    text = (tmp_path / "page.json").read_text(encoding="utf-8")
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == matrix_page.to_markdown(text)
    assert json.loads(text)["seed"] == 3 and f"1 rows, {status} wrong" in capsys.readouterr().out
