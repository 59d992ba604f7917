"""YAML that would fill the memory or the stack, or command a terminal, is refused at once."""

from __future__ import annotations

import gc
import time

import pytest
import yaml
from tiny_run import complaint

from backend.errors import UserError
from nmt.recipe import AnyRecipe
from nmt.recipe.file import as_text, load_recipe
from nmt.recipe.limits import beyond_limits
from nmt.recipe.tree import read_tree

NINE = range(9)
LISTS = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]\n" for i in NINE)
MAPPINGS = "a: &a {x: 1}\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} {{{', '.join(f'k{j}: *{chr(97 + i)}' for j in NINE)}}}\n"
    for i in NINE)
BEYOND = r"expected at most 20 mappings and lists within each other and 10,000 values"


def refused(path, text: str | bytes) -> str:
    """The message of a recipe that is refused, within a second of CPU time; what the collector
    takes for all that earlier tests left is not counted."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    gc.disable()
    try:
        started = time.process_time()
        with pytest.raises(UserError) as caught:
            load_recipe(AnyRecipe, path)
        seconds = time.process_time() - started
    finally:
        gc.enable()
    assert seconds < 1
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("text, line", [
    (LISTS, 5), (MAPPINGS, 5), ("a: " + "[" * 100_000, 1), ("a: " + "{b: " * 100_000, 1),
    ("".join(" " * i + "a:\n" for i in range(300)), 21), ("- " * 1000, 1),
    ("".join(f"k{i}: 1\n" for i in range(20_000)), 5000),
])  # fmt: skip
def test_bombs_and_depth(tmp_path, text, line):
    said = refused(tmp_path / "r.yaml", text)
    assert BEYOND in said and said.startswith(f"{tmp_path / 'r.yaml'}:{line}:"), said


def test_a_file_that_is_too_large_is_not_read_whole(tmp_path):
    said = refused(tmp_path / "r.yaml", b"x" * (1 << 21))
    assert said.endswith("expected a recipe of at most 1,048,576 bytes, got more")
    with pytest.raises(UserError, match="expected a recipe of at most"):
        load_recipe(AnyRecipe, "/dev/zero")


def test_aliases_of_a_few_values_are_what_they_stand_for(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text("a: &x {b: [1, 2]}\nc: *x\nd: &y 3\ne: *y\n")
    tree = read_tree(path)
    assert tree["c"].value["b"].value == [1, 2] and tree["e"].value == 3


@pytest.mark.parametrize("value, line", [
    ("!!int ''", 2), ("!!float ''", 2), ("!!bool x", 2), ("!!timestamp x", 2), ("0x_", 2),
    ("9" * 4500, 2), ("2001-99-99", 2), ("!!binary é", 2),
])  # fmt: skip
def test_values_that_are_not_what_their_tag_says(tmp_path, value, line):
    said = refused(tmp_path / "r.yaml", f"model:\n  layers: {value}\n")
    assert said.startswith(f"{tmp_path / 'r.yaml'}:{line}: expected YAML, got")


@pytest.mark.parametrize("where", ["file", "override"])
def test_a_path_with_a_nul_is_none(tmp_path, where):
    path, given = tmp_path / "r.yaml", []
    data = {"train_source": "a", "train_target": "b", "dev_source": "c", "dev_target": "d"}
    if where == "file":
        data["directory"] = "x\0y"
    else:
        given = ["--data.directory=x\0y"]
    path.write_text(yaml.safe_dump({"data": data}))
    place = rf"{path}:\d" if where == "file" else "override"
    with pytest.raises(UserError, match=rf"{place}: data.directory: expected no NUL character"):
        load_recipe(AnyRecipe, path, given)


def test_control_characters_of_keys_are_shown_not_obeyed(tmp_path, capsys):
    (tmp_path / "r.yaml").write_text('"\\e[31mmodel\\x9b\\u202e\\ud800": {}\n')
    line = complaint(capsys, "recipe", tmp_path / "r.yaml")
    assert "key '\\x1b[31mmodel\\x9b\\u202e\\ud800' is not known" in line


def test_control_characters_of_values_survive_a_round_trip(tmp_path):
    (tmp_path / "r.yaml").write_text(
        'data: {corpus: reverse, directory: "\\e[2J\\x9b\\u202e\\u2028\\udcff"}\n')
    recipe = load_recipe(AnyRecipe, tmp_path / "r.yaml")
    text = as_text(recipe)
    assert "\x1b" not in text and "\x9b" not in text
    (tmp_path / "again.yaml").write_text(text, "utf-8")
    assert load_recipe(AnyRecipe, tmp_path / "again.yaml") == recipe


@pytest.mark.parametrize("key, value, expected", [
    ("model.layers", 101, "at most 100"), ("train.max_norm", float("inf"), "a finite number"),
    ("train.halve_every", 1e-300, "at least 1e-06"), ("train.seed", 2**63, "at most 9.22"),
    ("parametrize.normalized", {"a": 1.0, "b": float("nan")}, "a finite number"),
    ("parametrize.frozen", ["x"], None), ("model.layers", None, None), ("model.biases", True, None),
    ("data.min_frequency", 10**10, "at most 1,000,000,000"), ("model.scale", 0.1, None),
])  # fmt: skip
def test_limits(key, value, expected):
    said = beyond_limits(key, value)
    assert said is None if expected is None else said.startswith(expected)
