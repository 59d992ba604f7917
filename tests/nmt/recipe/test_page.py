"""docs/recipe.md is what the code says, and every key has its line."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from tiny_run import complaint, nmt, printed

import nmt as package
from nmt.models.registry import MODELS
from nmt.recipe.keys import ARCHITECTURE, keys_of
from nmt.recipe.page import meaning

RECIPES = Path(package.__file__).parent / "recipes"
PAGE = RECIPES.parents[1] / "docs" / "recipe.md"


@pytest.fixture(scope="module")
def text() -> str:
    """The page, which equals the code's output (next test)."""
    return PAGE.read_text("utf-8")


def test_the_page_is_the_code_s(capsys, text) -> None:
    assert printed(capsys, "recipe", "--doc") == text, "nmt recipe --doc > docs/recipe.md"


def test_every_key_has_a_meaning_and_stands_on_the_page(text) -> None:
    keys = {(name, key.section) for architecture in MODELS
            for name, key in keys_of(architecture).items()}
    for name, section in keys:
        assert f"`{name}`" in text
        assert name == ARCHITECTURE or meaning(section, name.split(".")[-1]), name


def test_a_section_lists_only_what_differs_from_an_earlier_one(text) -> None:
    sections = {block.split("\n")[0]: block for block in text.split("\n## ")}
    two_sources, hybrid = sections["`model` of `two_sources`"], sections["`model` of `hybrid`"]
    assert "The keys of `model` of `luong`, and:" in two_sources and "model.bridge" in two_sources
    assert "model.layers" not in two_sources and "model.layers" not in hybrid
    transformer = sections["`model` of `transformer`"]
    assert "| `model.scale` |" in transformer and "| `model.dropout` |" in transformer
    assert "model.alpha" in hybrid and "model.layers" in sections["`model` of `luong`"]


@dataclass
class Parent:
    size: int = 1  # units: a # sign may stand here
    bare: int = 2


@dataclass
class Child(Parent):
    other: str = "x"  # of the child


def test_the_meaning_is_the_comment_behind_the_field() -> None:
    assert meaning(Child, "other") == "of the child"
    assert meaning(Child, "size") == "units: a # sign may stand here"
    assert meaning(Child, "bare") == meaning(Child, "absent") == ""


def test_a_default_shows_what_else_is_possible(text) -> None:
    for row in ("| `train.shuffle` | `\"epoch\"`, once |", "| `data.max_length` | `50` or null |",
                "| `data.train_size` | `null` or int |", "| `train.epochs` | `12.0` |",
                "| `parametrize.tied` | `{}`, dict[str, str] |", "| `search.beam` | `5` |"):
        assert row in text


def test_a_recipe_is_printed_as_it_is_used(capsys) -> None:
    recipe = RECIPES / "thesis" / "local-m-dot.yaml"
    recipe = yaml.safe_load(printed(capsys, "recipe", recipe, "--train.epochs", 3))
    assert recipe["model"]["architecture"] == "luong" and "base" not in recipe
    assert (recipe["model"]["attention"], recipe["model"]["dropout"]) == ("local-m", 0.2)
    assert (recipe["train"]["epochs"], recipe["train"]["plateau_patience"]) == (3, 3)
    assert nmt("recipe", RECIPES / "words.yaml") == 0
    assert yaml.safe_load(capsys.readouterr().out)["text"]["level"] == "words"


@pytest.mark.parametrize(("arguments", "message"), [
    (["absent.yaml"], "absent.yaml: cannot be read"),
    ([], "one of the arguments recipe --doc is required"),
    (["a.yaml", "--doc"], "not allowed with argument"),
])
def test_what_it_does_not_print(capsys, arguments, message) -> None:
    assert message in complaint(capsys, "recipe", *arguments)
