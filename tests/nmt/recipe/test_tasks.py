"""Recipes of several tasks: their values, bases, overrides, and errors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from tiny_run import complaint, printed

from backend.errors import UserError
from nmt.models.registry import MODELS
from nmt.multitask import TasksSystem, build_vocabularies, load_corpora
from nmt.recipe import AnyRecipe, LanguageModelRecipe, Recipe, TranslationRecipe
from nmt.recipe.file import load_recipe
from nmt.recipe.tasks import KEYS, TasksRecipe

DATA = "{train_source: a, train_target: b, dev_source: c, dev_target: d}"
TASKS = "tasks: {x: one.yaml, y: one.yaml, z: {base: one.yaml, model: {layers: 1}}}\n"
TRANSLATORS = ", ".join(name for name in MODELS if name != "language_model")
RECIPES = Path(__file__).resolve().parents[3] / "nmt" / "recipes"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "one.yaml").write_text(f"data: {DATA}\n")
    return tmp_path


def load(folder, text, *overrides, kind=TasksRecipe):
    (folder / "r.yaml").write_text(text)
    return load_recipe(kind, folder / "r.yaml", overrides)


def test_values_of_a_recipe(folder) -> None:
    recipe = load(folder, TASKS + "ratios: {z: 0.1}\nshare: {encoder: [x, z]}\n")
    assert list(recipe.tasks) == ["x", "y", "z"]
    assert recipe.ratios == {"x": 1.0, "y": 1.0, "z": 0.1}
    assert recipe.share == {"encoder": [["x", "z"]]} and recipe.vocabularies == "joint"
    assert recipe.groups("encoder") == [["x", "z"], ["y"]]
    assert recipe.groups("decoder") == [["x"], ["y"], ["z"]]
    assert recipe.tasks["z"].model.layers == 1 != recipe.tasks["x"].model.layers
    assert recipe.train is recipe.tasks["x"].train


@pytest.mark.parametrize("share, expected", [
    ("[encoder]", {"encoder": [["x", "y", "z"]]}),
    ("[decoder, encoder]", {"encoder": [["x", "y", "z"]], "decoder": [["x", "y", "z"]]}),
    ("{decoder: [[x, y]]}", {"decoder": [["x", "y"]]}),
    ("{encoder: [z, y], decoder: [[x, z]]}", {"encoder": [["z", "y"]], "decoder": [["x", "z"]]}),
    ("[]", {})])
def test_groups_of_sharing_tasks(folder, share, expected) -> None:
    assert load(folder, TASKS + f"share: {share}\n").share == expected


def test_a_row_of_a_table_says_what_differs(folder) -> None:
    inner = folder / "rows"
    inner.mkdir()
    (folder / "base.yaml").write_text(TASKS + "ratios: {y: 0.5}\nshare: [encoder]\n")
    (inner / "row.yaml").write_text("base: ../base.yaml\nratios: {z: 2}\n"
                                    "tasks: {z: {train: {batch_size: 7}}}\n")
    recipe = load_recipe(TasksRecipe, inner / "row.yaml")
    assert recipe.ratios == {"x": 1.0, "y": 0.5, "z": 2.0}
    assert recipe.tasks["z"].train.batch_size == 7 and recipe.tasks["z"].model.layers == 1


def test_overrides_are_of_all_tasks_of_one_or_of_ratios(folder) -> None:
    recipe = load(folder, TASKS + "share: []\n", "--data.directory=d", "--y.data.directory=e",
                  "--ratios.z=0.25", "--train.seed=4")
    assert [task.data.directory for task in recipe.tasks.values()] == ["d", "e", "d"]
    assert recipe.ratios["z"] == 0.25 and recipe.train.seed == 4


def test_other_kinds_of_recipes_are_told_apart(folder) -> None:
    text = TASKS + "share: []\n"
    for kind in (AnyRecipe, TranslationRecipe):
        assert isinstance(load(folder, text, kind=kind), TasksRecipe)
    for kind in (Recipe, LanguageModelRecipe):
        with pytest.raises(UserError, match=r"r\.yaml:1: tasks: expected a recipe of one model"):
            load(folder, text, kind=kind)
    with pytest.raises(UserError, match="expected a recipe of several tasks, got a single one"):
        load_recipe(TasksRecipe, folder / "one.yaml")


@pytest.mark.parametrize("text, message", [
    ("share: []\nmodel: {layers: 1}\n" + TASKS, r"r\.yaml:2: key 'model' is not known to a recipe"),
    (TASKS + "shares: []\n", r"r\.yaml:2: key 'shares' is not known .*did you mean 'share'\?"),
    (TASKS, r"r\.yaml: share: expected \[encoder\], \[decoder\], both"),
    (TASKS + "share: encoder\n", r"r\.yaml:2: share: expected a list of parts, or a mapping"),
    (TASKS + "share: [encodr]\n", r"r\.yaml:2: share: expected one of encoder, decoder, got "
                                  r"'encodr'; did you mean 'encoder'\?"),
    (TASKS + "share: {encoder: [x]}\n", r"r\.yaml:2: share\.encoder: expected a list of tw"),
    (TASKS + "share: {encoder: [x, w]}\n", r"r\.yaml:2: share\.encoder: expected tasks among x, y"),
    (TASKS + "share: {encoder: [[x, y], [z, y]]}\n", r"share\.encoder: expected each task once"),
    (TASKS + "share: {encoder: [[x, y], z]}\n", r"share\.encoder: expected tasks among x, y, z"),
    (TASKS + "share: []\nratios: {y: 0}\n", r"r\.yaml:3: ratios\.y: expected a positive number"),
    (TASKS + "share: []\nratios: {y: -1}\n", r"ratios\.y: expected a positive number, got -1"),
    (TASKS + "share: []\nratios: {y: much}\n", r"ratios\.y: expected a positive number, got '"),
    (TASKS + "share: []\nratios: {y: .nan}\n", r"ratios\.y: expected a positive number, got nan"),
    (TASKS + "share: []\nratios: {x: 2}\n", r"ratios\.x: expected 1 for the first task, the re"),
    (TASKS + "share: []\nratios: {w: 2}\n", r"ratios: expected tasks among x, y, z, got 'w'"),
    (TASKS + "share: []\nratios: [1, 2]\n", r"ratios: expected a mapping of tasks to numbers"),
    (TASKS + "share: []\nprivate: 1\n", r"r\.yaml:3: private: expected a number from 0 to belo"),
    (TASKS + "share: []\nvocabularies: own\n", r"vocabularies: expected joint or first, got 'own'"),
    ("tasks: [one.yaml]\n", r"r\.yaml:1: tasks: expected a mapping of names to recipes"),
    ("tasks: {}\n", r"r\.yaml:1: tasks: expected a mapping of names to recipes"),
    ("tasks: {x: two.yaml}\n", r"r\.yaml:1: tasks\.x: expected a recipe's file, found none at"),
    ("tasks: {x: 3}\n", r"r\.yaml:1: tasks\.x: expected a recipe's file or its sections, got 3"),
    ("tasks: {a/b: one.yaml}\n", r"r\.yaml:1: tasks: expected a name of letters, digits, - and _"),
    ("tasks: {data: one.yaml}\n", r"r\.yaml:1: tasks: expected a name .* got 'data'"),
    ("tasks: {x: r.yaml}\nshare: []\n", r"tasks: expected a recipe of one task within another"),
    ("tasks:\n  x: {model: {layers: 1}}\nshare: []\n",
     r"r\.yaml:2: tasks\.x: data\.train_source: expected the name of a file, got nothing"),
    ("tasks: {x: {base: one.yaml, model: {layer: 1}}}\nshare: []\n",
     r"r\.yaml:1: key 'model\.layer' is not known .*; did you mean 'model\.layers'\?"),
    ("tasks: {x: {base: one.yaml, model: {architecture: language_model}}}\nshare: []\n",
     rf"model\.architecture: expected one of {TRANSLATORS}, got 'language_model'"),
])
def test_what_makes_no_sense_is_refused_with_its_line(folder, text, message) -> None:
    with pytest.raises(UserError, match=message):
        load(folder, text)


@pytest.mark.parametrize("override, message", [
    ("--w.data.directory=d", r"override 'w\.data\.directory' is not known"),
    ("--ratios.y=0", r"override: ratios\.y: expected a positive number, got '0'"),
    ("--ratios.w=1", r"override 'ratios\.w' is not known"),
    ("--x.model.layer=1", r"override 'model\.layer' is not known"),
    ("--train.epochs=many", r"override: train\.epochs: expected float, got 'many'")])
def test_overrides_that_make_no_sense(folder, override, message) -> None:
    with pytest.raises(UserError, match=message):
        load(folder, TASKS + "share: []\n", override)


def test_the_command_line_says_it_in_one_line(folder, capsys) -> None:
    (folder / "r.yaml").write_text(TASKS + "share: [encoder]\nratios: {y: 0}\n")
    for command in ("train", "recipe"):
        message = complaint(capsys, command, folder / "r.yaml")
        assert message.endswith("r.yaml:3: ratios.y: expected a positive number, got 0")
    (folder / "r.yaml").write_text(TASKS + "share: [encoder]\n")
    resolved = yaml.safe_load(printed(capsys, "recipe", folder / "r.yaml"))
    assert resolved["share"] == {"encoder": [["x", "y", "z"]]} and "private" not in resolved
    (folder / "r.yaml").write_text(TASKS + "share: [encoder]\nprivate: 0.5\n")
    assert load_recipe(TasksRecipe, folder / "r.yaml").private == 0.5
    assert yaml.safe_load(printed(capsys, "recipe", folder / "r.yaml"))["private"] == 0.5
    assert re.fullmatch(r".*expected a recipe of one model, got one of several tasks",
                        complaint(capsys, "lm", "train", folder / "r.yaml"))


PACKAGED = sorted(path for path in RECIPES.rglob("*.yaml")
                  if re.search(rf"^({'|'.join(KEYS)}):", path.read_text("utf-8"), re.M))


@pytest.mark.parametrize("path", PACKAGED, ids=lambda path: str(path.relative_to(RECIPES)))
def test_the_package_s_recipes_of_tasks_can_be_trained(tmp_path, path) -> None:
    """On other text: shared parts agree in the options of their vocabularies and in shapes."""
    recipe = load_recipe(TasksRecipe, path, [f"--data.directory={tmp_path}"])
    assert recipe.share and set(recipe.ratios) == set(recipe.tasks)
    for task in recipe.tasks.values():
        for key, file in vars(task.data).items():
            if re.fullmatch(r"(train|dev|test)_(source|target)", key) and file:
                (tmp_path / file).parent.mkdir(exist_ok=True)
                (tmp_path / file).write_text("one two three four\n")
    TasksSystem.models(recipe, build_vocabularies(load_corpora(recipe), recipe))
