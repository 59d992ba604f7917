"""Pruned run directories: opened, trained, resumed, sparse; with other parametrizations."""

from pathlib import Path

import numpy as np
import pytest
import yaml
from tiny_run import Crash, CrashAt, nmt, write_recipe

from backend.errors import UserError
from nmt.language_models import LanguageSystem
from nmt.pruning.run import (
    FROM_SCRATCH,
    RETRAINED,
    masks_for,
    open_system,
    prune,
    retrain,
    retraining_recipe,
    stored_parameters,
    with_masks,
)
from nmt.recipe import Recipe
from nmt.recipe.file import load_recipe
from nmt.run_directory import RunDirectory
from nmt.search.interface import SearchOptions
from nmt.system import System
from nmt.training import checkpoint
from nmt.training.progress import Observer
from nmt.training.run import BEST, LAST
from nmt.translator_training import train

RECIPES = Path(__file__).resolve().parents[3] / "nmt" / "recipes"
SENTENCE = ["one", "two", "three"]


def pruned_share(system):
    masks = system.pruning.masks.values()
    return 1 - sum(mask.sum() for mask in masks) / sum(mask.size for mask in masks)


def zero_where_pruned(system):
    """Whether both the stored and the model's parameters are zero where they are pruned."""
    stored = stored_parameters(system)
    return all(not stored[name][~mask].any() for name, mask in system.pruning.masks.items())


@pytest.mark.parametrize("sparse", [False, True])
def test_a_pruned_run_is_opened_as_any_other(trained, sparse):
    system = System.open(trained / "model")
    pruned = prune(system, 60, "class-blind", "model")
    RunDirectory(trained / "p", system.recipe, resume=False).write(pruned, {}, sparse=sparse)
    opened = System.open(trained / "p")
    assert zero_where_pruned(opened) and abs(pruned_share(opened) - 0.6) < 0.001
    assert opened.pruning.facts == {"how": "pruned", "scheme": "class-blind", "percent": 60,
                                    "of": "model"}
    for name, array in system.parameters.items():
        mask = pruned.pruning.masks.get(name, np.True_)
        np.testing.assert_array_equal(opened.parameters[name], np.where(mask, array, 0))
        assert opened.parameters[name].dtype == array.dtype
    ((first,),), ((other,),) = (translator.translate([SENTENCE], SearchOptions())
                                for translator in (pruned, opened))
    assert first.words == other.words and first.score == other.score


def test_training_what_is_left_resumes_exactly(trained):
    """Masks and facts are kept, and pruned weights are exactly zero in every checkpoint."""
    how = RETRAINED
    pruned = prune(System.open(trained / "model"), 70, "class-blind", "model")
    before = {name: array.copy() for name, array in pruned.stored.items()}
    recipe = retraining_recipe(trained / "model", None, how,
                               ["--train.epochs=0.2", "--train.checkpoint_every=2"])
    expected = retrain(pruned, recipe, trained / "whole", how, Observer())
    with pytest.raises(Crash):
        retrain(pruned, recipe, trained / "cut", how, CrashAt(5))
    resumed = train(recipe, trained / "cut", Observer(), resume=True)
    opened = System.open(trained / "cut")
    for system in (resumed, opened):
        assert zero_where_pruned(system) and system.pruning.facts["how"] == how
        for name, array in system.parameters.items():
            np.testing.assert_array_equal(array, expected.parameters[name], err_msg=name)
    for file in (BEST, LAST):
        saved = checkpoint.load(trained / "cut" / file)
        masks = saved.select(checkpoint.MASKS)
        assert {name: mask.tolist() for name, mask in masks.items()} == {
            name: mask.tolist() for name, mask in pruned.pruning.masks.items()}
    assert any((expected.parameters[name] != array).any() for name, array in before.items())
    assert all((pruned.stored[name] == array).all() for name, array in before.items())


def test_retraining_begins_with_what_is_left_and_from_scratch_with_fresh_weights(trained):
    """The log of one update has the loss before the update."""
    system = System.open(trained / "model")
    pruned = prune(system, 50, "class-blind", "model")
    losses = {}
    for how in (RETRAINED, FROM_SCRATCH):
        recipe = retraining_recipe(trained / "model", None, how, [
            "--train.epochs=0.01", "--train.log_every=1"])
        again = retrain(pruned, recipe, trained / how, how, Observer())
        line = (trained / how / "log.jsonl").read_text().splitlines()[0]
        losses[how] = yaml.safe_load(line)["loss"]
        assert again.pruning.facts["pruned_perplexity"] > 1
    assert losses[RETRAINED] < 0.8 * losses[FROM_SCRATCH]
    words = len(system.target)
    assert abs(losses[FROM_SCRATCH] - np.log(words)) < 0.7


def test_the_settings_of_retraining_are_the_thesis_s():
    """Rate 0.5 instead of 1.0, 4 epochs, and after 2 epochs halved every 0.5, as in the row's
    recipe."""
    row = load_recipe(Recipe, RECIPES / "thesis" / "section-6.2" / "retrained.yaml")
    first = load_recipe(Recipe, RECIPES / "thesis" / "global-dot.yaml")
    assert (first.train.learning_rate, first.train.epochs) == (1.0, 12)
    assert (row.model, row.data) == (first.model, first.data)
    train = row.train
    assert (train.learning_rate, train.epochs, train.schedule, train.halve_after,
            train.halve_every) == (0.5, 4, "thesis", 2, 0.5)
    rate = train.make_schedule().rate_at
    assert [rate(epoch, done) for epoch in (1, 2, 3, 4) for done in (0.0, 0.5)] == [
        0.5, 0.5, 0.5, 0.5, 0.25, 0.125, 0.0625, 0.03125]
    small = load_recipe(Recipe, RECIPES / "thesis-small" / "section-6.2" / "retrained.yaml")
    assert small.train.epochs == 4 and small.train.learning_rate == 0.5


def test_the_run_s_recipe_is_retrained_with_those_settings(trained):
    original = System.open(trained / "model").recipe
    recipe = retraining_recipe(trained / "model", None, RETRAINED, ["--train.batch_size=4"])
    assert (recipe.model, recipe.data) == (original.model, original.data)
    assert recipe.train.learning_rate == original.train.learning_rate / 2 == 0.025
    assert (recipe.train.epochs, recipe.train.halve_after, recipe.train.halve_every) == (4, 2, 0.5)
    assert recipe.train.batch_size == 4 and recipe.train.optimizer == original.train.optimizer
    assert retraining_recipe(trained / "model", None, FROM_SCRATCH) == original


def test_another_model_or_other_data_are_refused(trained):
    with pytest.raises(UserError, match=r"cannot train what is left with other options: "
                                        r"model.hidden_size: was 8, now 9"):
        retraining_recipe(trained / "model", None, RETRAINED, ["--model.hidden_size=9"])
    with pytest.raises(UserError, match=r"lm.yaml: expected a recipe of the kind that .*model has"):
        retraining_recipe(trained / "model", trained / "lm.yaml", RETRAINED)


def test_pruning_again_prunes_more(trained):
    system = System.open(trained / "model")
    first = prune(system, 40, "class-uniform", "model")
    again = prune(first, 70, "class-blind", "p")
    assert abs(pruned_share(again) - 0.7) < 0.001 and zero_where_pruned(again)
    assert not any((again.pruning.masks[name] & ~mask).any()
                   for name, mask in first.pruning.masks.items())
    with pytest.raises(UserError, match=r"percent: expected at least 70.02, which .*, got 10"):
        prune(again, 10, "class-blind", "p")


def test_a_language_model(trained):
    system = open_system(trained / "lm")
    assert isinstance(system, LanguageSystem)
    pruned = prune(system, 50, "class-blind", "lm")
    recipe = retraining_recipe(trained / "lm", None, RETRAINED, ["--train.epochs=1"])
    retrained = retrain(pruned, recipe, trained / "p", RETRAINED, Observer())
    opened = LanguageSystem.open(trained / "p")
    assert zero_where_pruned(opened) and abs(pruned_share(opened) - 0.5) < 0.01
    np.testing.assert_array_equal(opened.parameters["rnn.0.W"], retrained.parameters["rnn.0.W"])


def parametrized_run(directory, **parametrize):
    """A translator trained for an epoch whose recipe parametrizes."""
    recipe = write_recipe(directory / "q.yaml", parametrize=parametrize, train={"epochs": 1})
    return train(load_recipe(Recipe, recipe), directory / "q", Observer())


@pytest.mark.parametrize("parametrize", [
    {"tied": {"output.W_hy": "decoder.W_e"}},
    {"normalized": {"output.W_hy": 2.5}, "learned_radius": True, "frozen": ["encoder.*"]}])
def test_what_other_parametrizations_store_is_pruned(corpus, parametrize):
    """Masks apply to stored parameters: to a tied table once, and to rows before they are
    scaled."""
    system = parametrized_run(corpus, **parametrize)
    pruned = prune(system, 30, "class-blind", "q")
    recipe = retraining_recipe(corpus / "q", None, RETRAINED, ["--train.epochs=1"])
    retrained = retrain(pruned, recipe, corpus / "p", RETRAINED, Observer())
    opened = System.open(corpus / "p")
    assert zero_where_pruned(opened) and zero_where_pruned(retrained)
    assert opened.parameters.keys() == system.model.weights().keys()
    mask = pruned.pruning.masks.get("output.W_hy", pruned.pruning.masks["decoder.W_e"])
    assert not mask.all() and not opened.parameters["output.W_hy"][~mask].any()
    if "normalized" in parametrize:
        lengths = np.linalg.norm(opened.parameters["output.W_hy"], axis=1)
        np.testing.assert_allclose(lengths, opened.stored["output.W_hy.radius"][0], rtol=1e-5)
        assert (opened.parameters["encoder.0.W"] == pruned.parameters["encoder.0.W"]).all()


def test_a_normalized_row_that_would_lose_all_weights_is_named(corpus):
    system = parametrized_run(corpus, normalized={"output.W_hy": 2.5})
    with pytest.raises(UserError, match=r"percent: output.W_hy: expected no row of zeros, got row"):
        prune(system, 99, "class-blind", "q")


def test_a_mask_of_another_model_is_named(trained):
    system = System.open(trained / "model")
    masks = masks_for(system, 50, "class-blind")
    other = {name.replace("encoder.0.W", "encoder.7.W"): mask for name, mask in masks.items()}
    with pytest.raises(UserError, match=r"encoder.7.W: expected a parameter of the model, one of"):
        with_masks(system, other)


def test_a_checkpoint_whose_mask_fits_another_model_is_named(trained):
    assert nmt("prune", trained / "model", "--percent", 50, "--output", trained / "p") == 0
    saved = checkpoint.load(trained / "p" / LAST)
    arrays = dict(saved.arrays)
    for prefix in (checkpoint.MASKS, checkpoint.PARAMETERS):
        arrays[prefix + "decoder.W_e"] = arrays[prefix + "decoder.W_e"][:, :-1]
    checkpoint.save(trained / "p" / LAST, arrays, saved.metadata)
    with pytest.raises(UserError, match=r"last.safetensors: decoder.W_e: expected a mask of shape"):
        System.open(trained / "p")
