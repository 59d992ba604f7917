"""Recipes: defaults, files, overrides, and one clear line for each thing that can be wrong."""

import re
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import pytest
import yaml

import nmt as package
from backend.errors import UserError
from lstm.cells import CELLS
from nmt.models.contract import Architecture
from nmt.models.registry import MODELS
from nmt.models.rnnsearch_config import RNNSearchConfig
from nmt.recipe import AnyRecipe, LanguageModelRecipe, Recipe
from nmt.recipe.file import as_mapping, load_recipe, save_recipe
from nmt.recipe.tasks import TasksRecipe
from nmt.recipe.tree import plain, read_tree
from nmt.search.interface import SearchOptions

RECIPES = Path(package.__file__).parent / "recipes"
SHIPPED = sorted(RECIPES.rglob("*.yaml"))
PAPER_SIZE = sorted((RECIPES / "thesis").glob("*.yaml"))  # the rows of Tables 4.1 and 4.4
SMALL = sorted((RECIPES / "thesis-small").glob("*.yaml"))


@cache
def shipped(path):
    """A recipe of the package, which is read once."""
    return load_recipe(AnyRecipe, path)


def load(directory, text, *overrides):
    path = directory / "r.yaml"
    path.write_text(text)
    return load_recipe(Recipe, path, overrides)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_recipes_that_come_along_load(path) -> None:
    """Recipes on files name their paper's tokenisation. None uses the default for users' own text,
    which may change; the embedded corpora have rules of their own."""
    recipe = shipped(path)
    for section in re.findall(r"^(\w+):$", path.read_text(), re.MULTILINE):
        assert getattr(recipe, section) is not None
    if path.stem == "own" or isinstance(recipe, LanguageModelRecipe):
        return
    for task in recipe.tasks.values() if isinstance(recipe, TasksRecipe) else [recipe]:
        assert task.data.corpus in ("cldr", "reverse") or task.data.tokenise in (
            "none", "moses", "letters"), task.data.tokenise


@pytest.mark.parametrize("path", SHIPPED[::4], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_some_of_them_survive_a_round_trip(tmp_path, path) -> None:
    save_recipe(shipped(path), tmp_path / "saved.yaml")
    assert load_recipe(AnyRecipe, tmp_path / "saved.yaml") == shipped(path)


def test_the_recipes_that_come_along_say_their_command() -> None:
    for path in SHIPPED:
        name = path.relative_to(RECIPES.parents[1])
        if path.stem not in ("multi30k", "demo"):  # only bases; another command
            command = rf"^# nmt ((lm )?train|prune .*--retrain) {name} "
            assert re.search(command, path.read_text(), re.MULTILINE), name


def test_a_recipe_on_a_base_does_not_repeat_it() -> None:
    for path in SHIPPED:
        sections = yaml.safe_load(path.read_text())
        if "base" in sections:
            base = plain(read_tree(path.parent / sections.pop("base")))
            if "architecture" in sections.get("model", {}):
                base.pop("model", None)
            for section, values in sections.items():  # or a key of tasks, such as `private`
                if isinstance(values, dict):
                    assert not values.items() & base.get(section, {}).items(), path
                else:
                    assert values != base.get(section), path


@pytest.mark.parametrize("path", PAPER_SIZE, ids=lambda path: path.stem)
def test_a_row_of_the_tables_is_the_thesis_s_and_has_a_small_version(path) -> None:
    """Section 4.3.1, and a version that differs in data, sizes and epochs only."""
    recipe = shipped(path)
    model, train = recipe.model, recipe.train
    assert (model.layers, model.hidden_size, model.embedding_size) == (4, 1000, 1000)
    assert (model.initialisation, model.scale, model.biases) == ("uniform", 0.1, False)
    assert (train.optimizer, train.learning_rate, train.batch_size, train.max_norm) \
        == ("sgd", 1.0, 128, 5.0)
    assert (train.epochs, train.halve_after) == ((12, 8) if model.dropout else (10, 5))
    assert recipe.data.max_vocabulary == 50002 and recipe.search.beam == 10
    assert re.search(r"^# Reported: perplexity (over )?[0-9.]+", path.read_text(), re.MULTILINE)
    if path.stem not in ("base", "base-reverse", "base-reverse-dropout",
                         "global-location-no-feeding"):
        assert model.input_feeding and model.dropout == 0.2 and recipe.data.reverse_source
    small = shipped(RECIPES / "thesis-small" / path.name)
    sizes = {"layers": 1, "hidden_size": 1, "embedding_size": 1, "window": 1}
    assert replace(small.model, **sizes) == replace(model, **sizes)
    assert small.data.reverse_source == recipe.data.reverse_source


TABLE_4_3 = {"base-reverse": "base-reverse", "global-location": "global-location-no-dropout",
             "global-location-feed": "global-location-feed-no-dropout",
             "global-dot-drop-feed": "global-dot"}


@pytest.mark.parametrize("row, small", TABLE_4_3.items())
def test_a_row_of_table_4_3_has_a_small_version(row, small) -> None:
    """German to English, tokenized BLEU; the small version differs in data, sizes and epochs."""
    recipe = shipped(RECIPES / "thesis" / "table-4.3" / f"{row}.yaml")
    assert (recipe.data.source_language, recipe.data.target_language) == ("de", "en")
    assert recipe.data.reverse_source and recipe.evaluate.bleu_tokenize == "none"
    sizes = {"layers": 1, "hidden_size": 1, "embedding_size": 1}
    small_recipe = shipped(RECIPES / "thesis-small" / f"{small}.yaml")
    assert replace(small_recipe.model, **sizes) == replace(recipe.model, **sizes)


def test_tables_4_1_and_4_4_are_tokenized_and_table_4_2_is_nist_s() -> None:
    for path in PAPER_SIZE:
        recipe = shipped(path)
        assert (recipe.data.tokenise, recipe.evaluate.bleu_tokenize) == ("none", "none"), path
    nist = shipped(RECIPES / "thesis" / "table-4.2" / "local-p-general.yaml")
    assert (nist.data.tokenise, nist.evaluate.bleu_tokenize) == ("moses", "13a")


CHAPTER_3 = {  # layers, scale, data.directory, reported BLEU before and after replacement
    "table-3.2/posunk-4": (4, 0.08, "posunk-40k", "29.5", "31.8"),
    "table-3.2/posunk-6": (6, 0.06, "posunk-40k", "30.4", "32.7"),
    "table-3.2/posunk-4-80k": (4, 0.08, "posunk-80k", "35.6", "37.5"),
    "table-3.2/posunk-6-80k": (6, 0.06, "posunk-80k", "31.5", "33.1"),
    "table-3.2/posunk-6-80k-dropout": (6, 0.06, "posunk-80k", "35.6", "37.5"),
    "figure-3.6/noalign": (6, 0.1, "noalign", "26.6", "27.4"),
    "figure-3.6/copyable": (6, 0.1, "copyable", "27.5", "28.6"),
    "figure-3.6/posall": (6, 0.1, "posall", "27.5", "29.9"),
    "figure-3.6/posunk": (6, 0.1, "posunk", "28.4", "30.5"),
    "figure-3.7/posunk-3": (3, 0.1, "posunk", "25.4", "27.3"),
    "figure-3.7/posunk-4": (4, 0.1, "posunk", "26.8", "28.8"),
}


def test_every_recipe_of_chapter_3_is_held_to_it() -> None:
    names = {f"{path.parent.name}/{path.stem}" for path in SHIPPED
             if re.match(r"(table|figure)-3", path.parent.name)}
    assert names == CHAPTER_3.keys()


@pytest.mark.parametrize("name, row", CHAPTER_3.items(), ids=CHAPTER_3)
def test_a_row_of_chapter_3_is_the_thesis_s(name, row) -> None:
    """Section 3.3.2, footnote 6 (dropout) and, for the figures, footnote 8."""
    layers, scale, directory, *reported = row
    path = RECIPES / "thesis" / f"{name}.yaml"
    recipe = shipped(path)
    model, train, data = recipe.model, recipe.train, recipe.data
    table, long = name.startswith("table"), 2 if directory == "posall" else 1
    assert (model.layers, model.hidden_size, model.embedding_size) == (layers, 1000, 1000)
    assert (model.initialisation, model.scale, model.attention) == ("uniform", scale, "none")
    assert model.dropout == (0.2 if name.endswith("dropout") else 0.0)
    assert (train.optimizer, train.batch_size, train.epochs) == ("sgd", 128, 8)
    assert (train.schedule, train.halve_after, train.halve_every) == ("thesis", 5, 0.5)
    assert (train.learning_rate, train.max_norm) == ((0.7, 5.0) if table else (1.0, 1.0))
    assert data.reverse_source == table and data.max_length == 100 * long
    assert (data.directory, data.max_vocabulary, data.tokenise) == (directory, None, "none")
    assert (data.source_language, data.target_language) == ("en", "fr")
    assert recipe.search.length_factor == SearchOptions.length_factor * long
    header = path.read_text().split("base:")[0]
    assert all(figure in header for figure in reported)


COPY_SMALL = {"noalign": "figure-3.6/noalign", "copyable": "figure-3.6/copyable",
              "posall": "figure-3.6/posall", "posunk": "figure-3.6/posunk",
              "posunk-depth-2": "figure-3.7/posunk-3", "posunk-depth-3": "figure-3.7/posunk-4",
              "posunk-reverse": "table-3.2/posunk-4",
              "posunk-reverse-depth-2": "table-3.2/posunk-6",
              "posunk-reverse-2000": "table-3.2/posunk-6-80k"}


@pytest.mark.parametrize("small, row", COPY_SMALL.items())
def test_a_row_of_chapter_3_has_a_small_version(small, row) -> None:
    """It differs in data, sizes and training."""
    paper, small_recipe = (shipped(RECIPES / f"{name}.yaml")
                  for name in (f"thesis/{row}", f"copy-small/{small}"))
    sizes = {"layers": 1, "hidden_size": 1, "embedding_size": 1, "scale": 0.1}
    assert replace(small_recipe.model, **sizes) == replace(paper.model, **sizes)
    assert small_recipe.data.reverse_source == paper.data.reverse_source
    assert small_recipe.search.length_factor == paper.search.length_factor


@pytest.mark.parametrize("longest", [30, 50])
@pytest.mark.parametrize("name, reported", [
    ("rnnsearch", {30: ("21.50", "31.44"), 50: ("26.75", "34.16")}),
    ("rnnencdec", {30: ("13.93", "24.19"), 50: ("17.82", "26.71")}),
])  # fmt: skip
def test_a_row_of_bahdanau_s_table_1_is_the_appendices_(name, reported, longest) -> None:
    """Appendices A.2.3 and B, and a version that differs in data, sizes and training's length."""
    path = RECIPES / f"{name}-{longest}.yaml"
    recipe = shipped(path)
    model, train, data = recipe.model, recipe.train, recipe.data
    assert (model.hidden_size, model.embedding_size, model.layer_size) == (1000, 620, 500)
    assert (model.unit, model.layer, model.initialisation) == ("gru", "maxout", "orthogonal")
    assert model.context == {"rnnsearch": "search", "rnnencdec": "last"}[name]
    assert (train.optimizer, train.learning_rate, train.batch_size, train.sorted_within,
            train.max_norm) == ("adadelta", 1.0, 80, 20, 1.0)
    assert (data.max_length, data.max_vocabulary) == (longest, 30002)
    for figure in reported[longest]:
        assert figure in path.read_text()
    assert f"multi30k-{name}.yaml" in path.read_text()
    small = shipped(RECIPES / f"multi30k-{name}.yaml")
    sizes = {"hidden_size": 1, "embedding_size": 1, "layer_size": 1}
    assert replace(small.model, **sizes) == replace(model, **sizes)


def test_the_rows_that_are_compared_have_equal_sizes_and_training() -> None:
    recipes = {path.stem: shipped(path) for path in SMALL}
    assert len(PAPER_SIZE) == 14 and len(SMALL) == 19
    every = recipes.values()
    assert len({recipe.train for recipe in every}) == 1
    assert len({str(replace(recipe.data, reverse_source=True, source_end=False))
                for recipe in every}) == 1
    assert {(r.model.hidden_size, r.model.embedding_size, r.model.initialisation, r.model.scale)
            for r in every} == {(192, 192, "uniform", 0.1)}
    del recipes["rnnsearch"]
    variants = {(r.model.attention, r.model.score, r.model.concat_identity, r.model.input_feeding,
              r.model.dropout)
            for name, r in recipes.items() if not name.startswith("base")}
    assert len(variants) == len(recipes) - 3  # no row occurs twice


def test_values_of_every_type_arrive(tmp_path) -> None:
    recipe = load(tmp_path, "data: {corpus: cldr, max_vocabulary: null, reverse_source: yes}\n"
                            "train:\n  learning_rate: 5e-4\n  optimizer: adam\nmodel:\n")
    assert recipe.data.max_vocabulary is None and recipe.data.reverse_source is True
    assert recipe.train.learning_rate == 5e-4  # a string to PyYAML
    assert recipe.train.optimizer == "adam"
    assert recipe.model.layers == 2 and recipe.search.beam == 5  # defaults


def test_overrides_beat_the_file(tmp_path) -> None:
    text = "data: {corpus: cldr, directory: here}\nmodel: {layers: wrong, dropout: 0.5}\n"
    recipe = load(tmp_path, text, "--model.layers=3", "--data.directory=a=b",
                  "--train.max_norm=null", "--data.source_language=2024", "--model.dropout=0")
    assert (recipe.model.layers, recipe.model.dropout) == (3, 0.0)
    assert (recipe.data.directory, recipe.data.source_language) == ("a=b", "2024")
    assert recipe.train.max_norm is None


def test_a_required_key_may_come_from_an_override(tmp_path) -> None:
    recipe = load(tmp_path, "model: {layers: 1}\n", "--data.corpus=cldr")
    assert recipe.data.corpus == "cldr" and recipe.model.layers == 1


BASE = "data: {corpus: cldr}\n"
TRANSLATORS = ", ".join(name for name in MODELS if name != "language_model")
WRONG = [
    (BASE + "model:\n  layer: 2\n", r"r.yaml:3: key 'model.layer' .* mean 'model.layers'"),
    (BASE + "modle: {}\n", r"r.yaml:2: key 'modle' .* mean 'model'"),
    (BASE + "model:\n  bidirektional: yes\n", r":3: key .* mean 'model.bidirectional'"),
    (BASE + "1: 2\n", r"r.yaml:2: key '1' is not known"),
    (BASE + "layers: 2\n", r"r.yaml:2: key 'layers' .* mean 'model.layers'"),
    (BASE + "? [a]\n: 2\n", r"r.yaml:2: expected a name before ':', got a sequence"),
    (BASE + "model: &m {layers: *m}\n", r"r.yaml: expected YAML, got: mappings nested too deep"),
    (BASE + "model: {architecture: luon}\n",
     f"r.yaml:2: model.architecture: expected one of {TRANSLATORS}, got 'luon'; .*'luo"),
    (BASE + "model: {architecture: [luong]}\n", r":2: model.architecture: .*, got \['luong'\]"),
    (BASE + "model: {architecture: language_model}\n",
     f":2: model.architecture: expected one of {TRANSLATORS}, got 'language_model'$"),
    (BASE + "text: {train: a}\n",
     r"r.yaml:2: key 'text' is not known to the architecture luong, but to language_model"),
    (BASE + "model:\n  layer_size: 3\n", r"r.yaml:3: key 'model.layer_size' is not known to the "
                                         r"architecture luong, but to rnnsearch, deep_f.*; did"),
    (BASE + "model: 3\n", r"r.yaml:2: model: expected a mapping .*, got 3"),
    (BASE + "model: [a]\n", r"r.yaml:2: model: expected a mapping .*, got \['a'\]"),
    (BASE + "model: {layers: x}\n", r"r.yaml:2: model.layers: expected int, got 'x'"),
    (BASE + "model: {layers: 2.5}\n", r"r.yaml:2: model.layers: expected int, got 2.5"),
    (BASE + "model: {layers: null}\n", r"r.yaml:2: model.layers: expected int, got null"),
    (BASE + "model: {layers: {a: 1}}\n", r"model.layers: expected int, got {'a': 1}"),
    (BASE + "model: {bidirectional: maybe}\n", r"model.bidirectional: expected bool, got 'maybe'"),
    (BASE + "train: {max_norm: x}\n", r"train.max_norm: expected float \| null, got 'x'"),
    (BASE + "train: {optimizer: x}\n", r"train.optimizer: expected 'sgd' \| 'adam' .*, got 'x'"),
    (BASE + "train:\n\n  epochs: 0\n",
     r"r.yaml:4: train.epochs: expected a positive number, got 0"),
    (BASE + "train: {learning_rate: .nan}\n", r"train.learning_rate: expected a positive number"),
    (BASE + "model: {unit: ugru}\n", f"model.unit: expected one of {', '.join(CELLS)}, got 'ugru'"),
    (BASE + "search: {beam: 2, nbest: 3}\n", r"search.nbest: expected at most beam = 2, got 3"),
    (BASE + "evaluate: {bleu_tokenize: foo}\n", r"evaluate.bleu_tokenize: expected one of 13a"),
    (BASE + "evaluate: {batch_size: 0}\n", r"evaluate.batch_size: expected at least 1, got 0"),
    (BASE + "train: {criterion: blue}\n", r":2: train.criterion: .* bleu, got 'blue'"),
    (BASE + "evaluate: {bleu: off}\ntrain: {criterion: bleu}\n",
     r":3: train.criterion: expected perplexity, got 'bleu', which evaluate.bleu measures"),
    (BASE + "train: {criterion: character_perplexity}\n", r":2: train.criterion: .* bleu, got "
     r"'character_perplexity', which a hybrid model with target_characters has"),
    (BASE + "model: {layers: 2, layers: 3}\n", r":2: key 'model.layers' is already on line 2"),
    (BASE + "data: {seed: 2}\n", r"r.yaml:2: key 'data' is already on line 1"),
    (BASE + "model: {layers: 2\n", r"r.yaml:3: expected YAML, got: "),
    (BASE + "model: !!python/name:os.system\n", r"r.yaml:2: expected YAML, got: "),
    (BASE + "model: {layers: 2000-99-99}\n",
     "r.yaml:2: expected YAML, got '2000-99-99', which is no timestamp"),
    ("data: {corpus: web}\n", r"r.yaml:1: data.corpus: expected one of .*, reverse, got 'web'"),
    ("data: {corpus: cldr, dev_size: 0}\n", r"data.dev_size: expected at least 1, got 0"),
    ("data: {max_vocabulary: 1}\n", r"data.max_vocabulary: expected at least 2, got 1"),
    ("data: {train_source: a}\n", r"r.yaml: data.train_target: expected the name of a file"),
    ("model: {layers: 1}\n", r"r.yaml: data.train_source: expected the name of a file"),
    ("- data\n", r"r.yaml: expected a mapping of sections, got list"),
    ("text\n", r"r.yaml: expected a mapping of sections, got str"),
    ("", r"r.yaml: expected a mapping of sections, got an empty file"),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_a_wrong_file_is_named_with_the_line(tmp_path, text, message) -> None:
    with pytest.raises(UserError, match=message) as caught:
        load(tmp_path, text)
    assert str(caught.value).startswith(str(tmp_path / "r.yaml")) and "\n" not in str(caught.value)


@pytest.mark.parametrize(("override", "message"), [
    ("--train.epoch=3", "override 'train.epoch' .* mean 'train.epochs'"),
    ("--epochs=3", "override 'epochs' .* mean 'train.epochs'"),
    ("--epochs", "override 'epochs' .* mean 'train.epochs'"),
    ("--model=3", "override 'model' is not known"),
    ("--base=r.yaml", "override 'base' is not known"),
    ("--model.architecture=gru", "override: model.architecture: expected one of luong, rnnsearch"),
    ("--model.layer_size=3", "override 'model.layer_size' is not known to the architecture luong"),
    ("--train.epochs", "override: train.epochs: expected a value, got none"),
    ("--train.epochs=x", "override: train.epochs: expected float, got 'x'"),
    ("--train.epochs=-1", "override: train.epochs: expected a positive number, got -1"),
    ("--train.learning_rate=", "override: train.learning_rate: expected float, got ''"),
    ("--data.max_length=none", r"override: data.max_length: expected int \| null, got 'none'"),
    ("other.yaml", "override 'other.yaml' is not known"),
])
def test_a_wrong_override_is_named_as_one(tmp_path, override, message) -> None:
    with pytest.raises(UserError, match=f"^{message}"):
        load(tmp_path, BASE + "train: {epochs: 2}\n", override)


def test_files_that_cannot_be_read_are_named(tmp_path) -> None:
    with pytest.raises(UserError, match=r"absent.yaml: cannot be read: No such file"):
        load_recipe(Recipe, tmp_path / "absent.yaml")
    with pytest.raises(UserError, match="cannot be read: Is a directory"):
        load_recipe(Recipe, tmp_path)
    (tmp_path / "r.yaml").write_bytes(b"data: {directory: \xff}\n")
    with pytest.raises(UserError, match=r"r.yaml: expected YAML"):
        load_recipe(Recipe, tmp_path / "r.yaml")


# --- a recipe on another ------------------------------------------------------------------------


def write(directory, **files):
    for name, text in files.items():
        (directory / f"{name}.yaml").write_text(text)


def test_a_recipe_says_what_differs_from_its_base(tmp_path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "root.yaml").write_text(
        "data: {corpus: cldr, min_frequency: 9}\nmodel: {layers: 3, dropout: 0.5}\n"
        "train: {seed: 4}\n")
    write(tmp_path, middle="base: below/root.yaml\nmodel:\ntrain: {epochs: 2}\n",
          top="model: {layers: 4, unit: rnn, input_feeding: no}\nbase: middle.yaml\n")
    recipe = load_recipe(Recipe, tmp_path / "top.yaml", ["--model.dropout=0.25"])
    assert (recipe.data.corpus, recipe.data.min_frequency) == ("cldr", 9)
    assert (recipe.train.epochs, recipe.train.seed) == (2, 4)
    assert (recipe.model.layers, recipe.model.unit, recipe.model.dropout) == (4, "rnn", 0.25)
    save_recipe(recipe, tmp_path / "saved.yaml")
    assert "base" not in (tmp_path / "saved.yaml").read_text()


@pytest.mark.parametrize(("model", "override", "layers"), [
    ("{dropout: 0.5}", [], 3), ("{architecture: luong, dropout: 0.5}", [], 3),
    ("{architecture: rnnsearch}", [], None), ("{}", ["--model.architecture=rnnsearch"], None),
    ("{architecture: rnnsearch}", ["--model.architecture=luong"], 2),
])
def test_another_architecture_drops_the_model_section(tmp_path, model, override, layers) -> None:
    write(tmp_path, base=BASE + "model: {layers: 3}\n", top=f"base: base.yaml\nmodel: {model}\n")
    config = load_recipe(Recipe, tmp_path / "top.yaml", override).model
    assert config == RNNSearchConfig() if layers is None else config.layers == layers


def test_a_model_section_of_a_base_with_its_architecture_goes_on(tmp_path) -> None:
    write(tmp_path, base=BASE + "model: {architecture: rnnsearch, layer: tanh}\n",
          top="base: base.yaml\nmodel: {layer_size: 7}\n")
    assert load_recipe(Recipe, tmp_path / "top.yaml").model \
        == RNNSearchConfig(layer="tanh", layer_size=7)


@pytest.mark.parametrize(("files", "message"), [
    ({"top": "base: absent.yaml\n"}, r"top.yaml:1: base: expected a recipe's file, found none at "),
    ({"top": "base: .\n"}, r"top.yaml:1: base: expected a recipe's file, found none at "),
    ({"top": BASE + "base: 3\n"}, r"top.yaml:2: base: expected the name of a recipe's file, got 3"),
    ({"top": "base:\n"}, r"top.yaml:1: base: expected the name of a recipe's file, got null"),
    ({"top": "base: top.yaml\n"}, r"top.yaml:1: base: expected another recipe, got one that leads "
                                  r"back to itself: \S*top.yaml -> \S*top.yaml$"),
    ({"top": "base: a.yaml\n", "a": "\nbase: ./b.yaml\n", "b": "base: a.yaml\n"},
     r"b.yaml:1: base: .* itself: \S*top.yaml -> \S*a.yaml -> \S*b.yaml -> \S*a.yaml$"),
    ({"top": "base: a.yaml\n", "a": "- 1\n"}, r"/a.yaml: expected a mapping of sections, got list"),
    ({"top": "base: a.yaml\nmodel: {layers: 1}\n", "a": BASE + "model:\n  layer: 2\n"},
     r"/a.yaml:3: key 'model.layer' is not known"),
    ({"top": "base: a.yaml\nmodel: {layers: 1}\n", "a": BASE + "train:\n  epochs: 0\n"},
     r"/a.yaml:3: train.epochs: expected a positive number, got 0"),
    ({"top": "base: a.yaml\n\nmodel: {layers: x}\n", "a": BASE + "model: {layers: 2}\n"},
     r"/top.yaml:3: model.layers: expected int, got 'x'"),
    ({"top": "base: a.yaml\nsearch: {nbest: 3}\n", "a": BASE + "search: {beam: 2}\n"},
     r"/top.yaml:2: search.nbest: expected at most beam = 2, got 3"),
    ({"top": "base: a.yaml\nmodel: 3\n", "a": BASE + "model: {layers: 2}\n"},
     r"/top.yaml:2: model: expected a mapping of keys to values, got 3"),
])
def test_an_error_names_the_file_whose_line_it_is(tmp_path, files, message) -> None:
    write(tmp_path, **files)
    with pytest.raises(UserError, match=message) as caught:
        load_recipe(Recipe, tmp_path / "top.yaml")
    assert str(caught.value).startswith(str(tmp_path)) and "\n" not in str(caught.value)


# --- sections in sections -----------------------------------------------------------------------


@dataclass(frozen=True)
class Inner:
    size: int = 1
    rate: float | None = None

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"size: expected at least 1, got {self.size}")


@dataclass(frozen=True)
class Outer:
    inner: Inner = field(default_factory=lambda: Inner(size=5))
    name: str = "n"


@dataclass(frozen=True)
class Nested:
    outer: Outer = field(default_factory=Outer)
    other: Inner = field(default_factory=Inner)


@pytest.fixture
def nested(monkeypatch, tmp_path):
    """Load a recipe of an architecture whose configuration has sections in sections."""
    monkeypatch.setitem(MODELS, "nested", Architecture(Nested, lambda *_: None, dict))

    def call(model, *overrides, base=""):
        write(tmp_path, base=BASE + f"model: {{architecture: nested, {base}}}\n",
              top=f"base: base.yaml\nmodel:\n  architecture: nested\n{model}")
        return load_recipe(Recipe, tmp_path / "top.yaml", overrides)

    return call


def test_sections_nest(nested, tmp_path) -> None:
    assert nested("").model == Nested()
    assert nested("  outer: {inner: {rate: 5e-1}}\n").model.outer == Outer(Inner(5, 0.5))
    recipe = nested("  outer:\n    inner:\n      rate: 2\n", "--model.other.size=3",
                    "--model.outer.name=4", base="outer: {inner: {size: 7}, name: x}")
    assert recipe.model == Nested(Outer(Inner(7, 2.0), "4"), Inner(3))
    assert as_mapping(recipe)["model"]["outer"]["inner"] == {"size": 7, "rate": 2.0}
    save_recipe(recipe, tmp_path / "saved.yaml")
    assert load_recipe(Recipe, tmp_path / "saved.yaml") == recipe


@pytest.mark.parametrize(("model", "override", "message"), [
    ("  outer:\n    inner:\n      sise: 2\n", None,
     r"top.yaml:6: key 'model.outer.inner.sise' is not known; .* mean 'model.outer.inner.size'"),
    ("  outer:\n    inner: {size: 0}\n", None,
     r"top.yaml:5: model.outer.inner.size: expected at least 1, got 0"),
    ("  outer: {inner: {rate: x}}\n", None,
     r"top.yaml:4: model.outer.inner.rate: expected float \| null, got 'x'"),
    ("  outer: {inner: 3}\n", None, r"top.yaml:4: model.outer.inner: expected a mapping .*, got 3"),
    ("", "--model.other.size=0", r"override: model.other.size: expected at least 1, got 0"),
    ("", "--model.inner.size=0", r"override 'model.inner.size' is not known; .*inner.size'"),
])
def test_a_wrong_value_in_a_section_of_a_section(nested, model, override, message) -> None:
    with pytest.raises(UserError, match=message):
        nested(model, *([override] if override else []))


def test_a_language_model_recipe_has_its_own_sections(tmp_path) -> None:
    path = tmp_path / "lm.yaml"
    path.write_text("text: {train: a.txt}\nmodel: {architecture: language_model, hidden_size: 7}\n")
    recipe = load_recipe(LanguageModelRecipe, path)
    assert recipe.text.dev == "" and recipe.model.hidden_size == 7
    for text, message in (
        ("data: {corpus: cldr}\n", "lm.yaml:2: key 'data' is not known to the architecture lang"),
        ("", "text.train: expected the name of a file, got nothing"),
        ("text: {train: a, dev_share: 1.0}\n", "text.dev_share: expected 0 < dev_share < 1"),
        ("text: {train: a, level: bytes}\n", "text.level: expected words or characters"),
        ("text: {train: a}\ntrain: {criterion: bleu}\n", ":3: train.criterion: expected perpl"),
    ):
        path.write_text("model: {architecture: language_model}\n" + text)
        with pytest.raises(UserError, match=message):
            load_recipe(LanguageModelRecipe, path)
    path.write_text(BASE)
    with pytest.raises(UserError, match=r"lm.yaml: model.architecture: expected one of "
                                        r"language_model, got 'luong'$"):
        load_recipe(LanguageModelRecipe, path)


def test_a_recipe_that_cannot_be_written_is_an_error_and_leaves_nothing(tmp_path) -> None:
    (tmp_path / "r.yaml").write_text(BASE)
    recipe = load_recipe(Recipe, tmp_path / "r.yaml")
    with pytest.raises(UserError, match="cannot be written"):
        save_recipe(recipe, tmp_path / "r.yaml" / "below")
    assert [path.name for path in tmp_path.iterdir()] == ["r.yaml"]


def test_posall_has_twice_the_limits_on_lengths() -> None:
    """Its targets are twice as long (thesis, section 3.2.3)."""
    posall, posunk = (shipped(RECIPES / "copy-small" / f"{name}.yaml")
                      for name in ("posall", "posunk"))
    assert posall.data.max_length == 2 * posunk.data.max_length
    assert posall.search.length_factor == 2 * posunk.search.length_factor
    assert posall.search.minimum_steps == 2 * posunk.search.minimum_steps
    assert posall.model == posunk.model and posall.train == posunk.train


TABLE_5_2 = {  # row: small version, words' vocabulary, size, layers of characters, figures
    "word": ("word", 50002, 1024, None, "perplexity 5.9, BLEU 17.5"),
    "character-512-no-attention": ("character-no-attention", 202, 512, None, "BLEU 3.8"),
    "character-512": ("character", 202, 512, None, "characters 1.6, BLEU 17.5, chrF3 46.6"),
    "character-1024": ("character", 202, 1024, None, "characters 1.9, BLEU 15.7, chrF3 41.1"),
    "same-path": ("same-path", 10002, 1024, 1, "BLEU 14.1, chrF3 37.2"),
    "separate-path": ("separate-path", 10002, 1024, 1, "BLEU 15.6, chrF3 39.6"),
    "two-layer-characters": ("two-layer-characters", 10002, 1024, 2, "BLEU 17.7, chrF3 44.1"),
    "two-layer-characters-50k": ("two-layer-characters", 50002, 1024, 2, "BLEU 19.6, chrF3 46.5"),
}


@pytest.mark.parametrize("row", TABLE_5_2)
def test_a_row_of_table_5_2_is_the_thesis_s_and_has_a_small_version(row) -> None:
    """Section 5.4.2, and a version that differs in data, sizes and epochs only."""
    path = RECIPES / "thesis" / "table-5.2" / f"{row}.yaml"
    name, words, size, depth, figures = TABLE_5_2[row]
    recipe, small = shipped(path), shipped(RECIPES / "hybrid-small" / f"{name}.yaml")
    model, train, data = recipe.model, recipe.train, recipe.data
    assert (model.layers, model.hidden_size, model.embedding_size) == (4, size, size)
    assert (model.initialisation, model.scale, model.dropout) == ("uniform", 0.1, 0.2)
    attends = ("none",) if "no-attention" in row else ("global", "general")
    assert (model.attention, model.score)[: len(attends)] == attends
    assert (train.optimizer, train.learning_rate, train.epochs, train.halve_after,
            train.halve_every, train.batch_size, train.max_norm) == ("sgd", 1.0, 6, 4, 0.5, 128, 5)
    limit = {1024: 150, 512: 300}[size] if row.startswith("character") else 50
    assert (data.max_vocabulary, data.max_length, data.cut_long) == (words, limit, True)
    assert data.tokenise == ("letters" if row.startswith("character") else "moses")
    assert (data.source_language, data.target_language) == ("en", "cs")
    assert recipe.evaluate.bleu_tokenize == "13a" and figures in path.read_text()
    sizes = {"layers": 1, "hidden_size": 1, "embedding_size": 1}
    if depth is not None:
        assert (model.alpha, model.character_layers, data.max_characters) == (1.0, depth, 200)
        assert (model.character_dropout, model.character_embedding_size) == (0.2, size)
        sizes["character_embedding_size"] = 1
    assert replace(small.model, **sizes) == replace(model, **sizes)
    assert small.data.cut_long and small.data.target_language == "cs"


@pytest.mark.parametrize("words", [500, 1000, 10000])
@pytest.mark.parametrize("kind, base", [("word", "word"), ("hybrid", "two-layer-characters")])
def test_the_sweep_of_figure_5_3_differs_in_the_vocabulary_only(words, kind, base) -> None:
    at_3000, other = (shipped(RECIPES / "hybrid-small" / f"{name}.yaml")
                      for name in (base, f"{kind}-{words}"))
    assert at_3000.data.max_vocabulary == 3000
    assert other == replace(at_3000, data=replace(at_3000.data, max_vocabulary=words))


@pytest.mark.parametrize(("value", "read"), [
    ("010", 8), ("00", 0), ("1:30", 90), ("190:20:30", 685230), ("1:30.5", 90.5), ("-1:30", -90),
    ("!!int '010'", 8),
])
@pytest.mark.parametrize("key", ["train.epochs", "train.seed", "train.max_norm"])
def test_numbers_that_yaml_reads_as_others_are_refused(tmp_path, key, value, read) -> None:
    name, text = key.split(".")[1], value.removeprefix("!!int ").strip("'")
    with pytest.raises(UserError, match=rf"r\.yaml:2: {key}: expected a number without ':' or a "
                                        rf"zero in front, or text in quotes, got {text}, which "
                                        rf"YAML reads as {read}$"):
        load(tmp_path, f"data: {{corpus: cldr}}\ntrain: {{{name}: {value}}}\n")
    with pytest.raises(UserError, match=rf"^override: {key}: expected a number without .*, got "):
        load(tmp_path, "data: {corpus: cldr}\n", f"--{key}={value}")


def test_they_are_refused_inside_of_others_and_as_text_too(tmp_path) -> None:
    with pytest.raises(UserError, match=r"data\.train_source: .* or text in quotes, got 1:30"):
        load(tmp_path, "data: {corpus: copy, train_source: 1:30, dev_source: d}\n")
    recipe = load(tmp_path, "data: {corpus: copy, train_source: '1:30', dev_source: 08}\n",
                  "--data.test_source=010")
    assert (recipe.data.train_source, recipe.data.dev_source, recipe.data.test_source) \
        == ("1:30", "08", "010")
    for text, overrides in (("parametrize: {normalized: {a: 1:30}}", ()), ("model:\n", (
            "--parametrize.normalized={a: 1:30}",)), ("train: {seed: 08}", ()), ("model:\n", (
            "--train.seed=08",)), ("data.subwords.more_text: [a, 010]", ())):
        with pytest.raises(UserError, match="expected a number without"):
            load(tmp_path, f"data: {{corpus: cldr}}\n{text}\n", *overrides)


@pytest.mark.parametrize("value", ["0x" + "f" * 300, "0b" + "1" * 3000, "9" * 300])
def test_an_integer_beyond_all_keys_is_refused(tmp_path, value) -> None:
    for key in ("epochs", "seed"):
        with pytest.raises(UserError, match=f"r.yaml:2: train.{key}: expected a number of at most"):
            load(tmp_path, f"data: {{corpus: cldr}}\ntrain: {{{key}: {value}}}\n")
        with pytest.raises(UserError, match=f"override: train.{key}: expected a number of at most"):
            load(tmp_path, "data: {corpus: cldr}\n", f"--train.{key}={value}")


@pytest.mark.parametrize(("text", "key"), [
    ('data: {corpus: copy, train_source: "a\\uD800", dev_source: d}', "data.train_source"),
    ('data: {corpus: cldr}\nparametrize: {tied: {"\\uD800": a}}', "parametrize.tied"),
    ('data: {corpus: cldr}\nparametrize: {frozen: ["\\uD800"]}', "parametrize.frozen"),
])
def test_half_of_a_surrogate_pair_is_no_text(tmp_path, text, key) -> None:
    with pytest.raises(UserError, match=rf"{key}: expected no NUL character and no half of a "
                                        r"surrogate pair, got 'a?\\ud800'"):
        load(tmp_path, text + "\n")
    with pytest.raises(UserError, match=r"override: data\.directory: expected no NUL"):
        load(tmp_path, "data: {corpus: cldr}\n", "--data.directory=\udd00")
    recipe = load(tmp_path, "data: {corpus: cldr}\n", "--data.directory=caf\udce9")
    assert recipe.data.directory == "caf\udce9"  # the byte e9, as the system hands it on


@pytest.mark.parametrize(("value", "shown"), [("no", "False"), ("2024-01-01", "2024-01-01"),
                                              ("12", "12")])
def test_text_that_yaml_takes_for_something_else_wants_quotes(tmp_path, value, shown) -> None:
    with pytest.raises(UserError, match=f"source_language: expected str, in quo.*, got {shown}$"):
        load(tmp_path, f"data: {{corpus: cldr, source_language: {value}}}\n")
