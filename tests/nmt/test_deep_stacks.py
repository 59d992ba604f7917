"""Layer-normalised and residual stacks by a recipe: training, resuming, search, the stepper,
errors."""

from __future__ import annotations

import numpy as np
import pytest
import yaml
from explored import checked
from tiny_run import SOURCE, TARGET, TEXT_RECIPE, complaint, nmt, write_recipe

from backend.errors import UserError
from grads.stepper.explorer.models import open_model
from nmt.language_models import LanguageSystem
from nmt.models.translator import Translator
from nmt.recipe import Recipe
from nmt.recipe.file import load_recipe
from nmt.search.interface import SearchOptions
from nmt.training.progress import Observer
from nmt.translator_training import train

MODELS = {
    "norm": {"unit": "lstm-norm", "layers": 2},
    "residual": {"layers": 3, "residual": True, "input_feeding": False},
    "both": {"unit": "lstm-norm", "layers": 2, "residual": True, "bidirectional": True,
             "bridge": True},
}


def recipe_of(directory, **model):
    write_recipe(directory / "r.yaml", model=model, train={"checkpoint_every": 2})
    return load_recipe(Recipe, directory / "r.yaml")


def test_it_learns(corpus) -> None:
    """The toy language, whose words are translated one by one."""
    write_recipe(corpus / "r.yaml", model=MODELS["both"] | {"hidden_size": 16, "dropout": 0.0},
                 train={"epochs": 15, "learning_rate": 0.03}, evaluate={"bleu": False})
    system = train(load_recipe(Recipe, corpus / "r.yaml"), corpus / "run", Observer())
    translated = [nbest[0].words for nbest in system.translate(
        [[word] for word in SOURCE], SearchOptions())]
    assert translated == [[word] for word in TARGET]


def test_gains_begin_at_one_and_only_the_forget_gate_s_bias_elsewhere(corpus) -> None:
    config = recipe_of(corpus, unit="lstm-norm", forget_bias=1.0).model
    weight = Translator(config, 5, 5).weights()["decoder.0.b"]
    ((rows,),) = (weight.axes,)
    assert [name for name, _ in rows.parts][4:6] == ["g_x i", "g_x f"]
    assert [name for name, _ in rows.parts][-2:] == ["g_c", "b_c"]
    b = weight.initial(np.random.default_rng(1), weight.shape).reshape(14, -1)
    assert (b[1] == 1.0).all() and not b[[0, *range(2, 14)]].any()


# --- where it does not apply ----------------------------------------------------------------------


@pytest.mark.parametrize("model, said", [
    ({"residual": True, "layers": 1}, "model.residual"),
    ({"residual": True, "architecture": "transformer"},
     "key 'model.residual' is not known to the architecture transformer, but to luong"),
    ({"unit": "lstm-norm", "architecture": "rnnsearch"}, "model.unit: expected one of"),
])
def test_a_recipe_without_such_a_stack(corpus, model, said) -> None:
    (corpus / "r.yaml").write_text(yaml.safe_dump({"data": {"corpus": "cldr"}, "model": model}))
    with pytest.raises(UserError, match=said):
        load_recipe(Recipe, corpus / "r.yaml")


@pytest.mark.parametrize("name, said", [
    ("norm", "model.unit: expected lstm or rnn or gru or gru-after, got lstm-norm"),
    ("residual", "model.residual: expected False, got True")])
def test_onnx_has_no_such_stack(corpus, capsys, name, said) -> None:
    recipe_of(corpus, **MODELS[name])
    assert nmt("train", corpus / "r.yaml", "--output", corpus / "run") == 0
    assert said in complaint(capsys, "export", corpus / "run", "--format", "onnx", "-o",
                             corpus / "exported")


def test_the_stepper_runs_a_normalised_model_and_refuses_a_residual_one(corpus, capsys) -> None:
    for name in ("norm", "residual"):
        recipe_of(corpus, **MODELS[name])
        assert nmt("train", corpus / "r.yaml", "--output", corpus / name) == 0
    run, _ = checked(corpus / "norm", "one two", "eins zwei")
    assert run.derivation.title.startswith("Encoder-decoder: 2 layers of lstm-norm")
    with pytest.raises(UserError, match=r"expected a model without model\.residual, got True"):
        open_model(corpus / "residual", "one", None, "best")
    write_recipe(corpus / "lm.yaml", TEXT_RECIPE, model={"residual": True})
    assert nmt("lm", "train", corpus / "lm.yaml", "--output", corpus / "lm") == 0
    with pytest.raises(UserError, match=r"model\.residual: expected false for a page"):
        open_model(corpus / "lm", "eins", None, "best")


def test_deep_fusion_takes_no_residual_language_model(corpus, capsys) -> None:
    path = write_recipe(corpus / "rs.yaml")
    small = {"architecture": "rnnsearch", "hidden_size": 4, "embedding_size": 3, "layer_size": 4}
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"model": small}))
    assert nmt("train", corpus / "rs.yaml", "--output", corpus / "rs") == 0
    write_recipe(corpus / "lm.yaml", TEXT_RECIPE, model={"residual": True},
                 text={"vocabulary": str(corpus / "rs/target.vocab")})
    assert nmt("lm", "train", corpus / "lm.yaml", "--output", corpus / "lm") == 0
    assert LanguageSystem.open(corpus / "lm").recipe.model.residual
    assert complaint(capsys, "lm", "fuse", "--model", corpus / "rs", "--lm", corpus / "lm",
                     "--output", corpus / "deep") == (
        "model.residual: expected false for deep fusion, got a language model with residual "
        "connections")
