"""RNNsearch as a user runs it: chosen by its architecture, trained with Adadelta, resumed, used."""

from dataclasses import replace

import numpy as np
import pytest
from tiny_run import RECIPE, write_recipe

from backend.errors import UserError
from nmt.data.vocabulary import END
from nmt.models.rnnsearch_config import RNNSearchConfig
from nmt.models.translator import ModelConfig
from nmt.recipe import Recipe
from nmt.recipe.file import load_recipe
from nmt.search.interface import SearchOptions
from nmt.system import System
from nmt.training.progress import Observer
from nmt.translator_training import train

MODEL = {"hidden_size": 8, "embedding_size": 6, "layer_size": 5}
TRAIN = {"optimizer": "adadelta", "learning_rate": 1.0, "schedule": "constant",
         "sorted_within": 20, "max_norm": 1.0, "checkpoint_every": 2}


def recipe_of(directory, *overrides, **model):
    recipe = {**RECIPE, "model": {"architecture": "rnnsearch", **MODEL, **model}}
    return load_recipe(Recipe, write_recipe(directory / "r.yaml", recipe, train=TRAIN), overrides)


def test_the_architecture_says_which_keys_there_are(corpus) -> None:
    assert recipe_of(corpus).model == RNNSearchConfig(**MODEL)
    recipe = recipe_of(corpus, "--model.layer=tanh", "--model.unit=rnn")
    assert (recipe.model.layer, recipe.model.unit, recipe.model.hidden_size) == ("tanh", "rnn", 8)
    with pytest.raises(UserError, match=r"r\.yaml:\d+: key 'model\.score' is not known to the "
                                        r"architecture rnnsearch, but to luong"):
        recipe_of(corpus, score="dot")
    with pytest.raises(UserError, match=r"r\.yaml:\d+: model.architecture: expected one of "
                                        "luong, rnnsearch, hybrid, transformer, deep_fusion, "
                                        "two_sources, features, got 'mamba'"):
        recipe_of(corpus, architecture="mamba")
    with pytest.raises(UserError, match=r"r\.yaml:\d+: model\.deep_state: expected one of before"):
        recipe_of(corpus, deep_state="after")
    path = corpus / "luong.yaml"
    path.write_text("data: {corpus: cldr}\n")
    assert isinstance(load_recipe(Recipe, path).model, ModelConfig)
    chosen = load_recipe(Recipe, path, ["--model.architecture=rnnsearch", "--model.layer_size=7"])
    assert chosen.model == RNNSearchConfig(layer_size=7)


def test_the_source_s_end_marker_is_read_and_linked_to_nothing(corpus) -> None:
    """Bahdanau's Figure 3: the last column is the end's."""
    system = train(recipe_of(corpus, "--data.source_end=true"), corpus / "run", Observer())
    words = ["one", "two", "three"]
    assert system.source_ids(words) == [*system.source.ids(words), END]
    assert system.source_columns(words) == [*words, "</s>"]
    ((best,),) = system.translate([words], SearchOptions())
    assert best.alignment is not None and best.alignment.shape[1] == 4
    alignment = np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1], [0.0, 0.0, 0.9, 0.1]])
    written = replace(best, words=["a", "b"], alignment=alignment)
    assert system.links(written, "predicted") == [(0, 1)]
    assert system.translate([[]], SearchOptions())[0][0].words == []


def test_an_ensemble_reads_the_end_marker_in_all_members_or_in_none(corpus) -> None:
    systems = [train(recipe_of(corpus, f"--data.source_end={end}"), corpus / end, Observer())
               for end in ("true", "false")]
    with pytest.raises(UserError, match=r"expected the data\.source_end of a in one ensemble"):
        System.together(["a", "b"], systems, "probabilities")
