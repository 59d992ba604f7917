"""Classes of weights, of every architecture."""

import pytest

from lstm.parameters import Weight, axis
from nmt.models.contract import Tables, character_tables
from nmt.models.parametrization import Normalized, Parametrized, Tied
from nmt.models.registry import MODELS
from nmt.models.translator import ModelConfig, Translator
from nmt.pruning.classes import classes, in_order

VARIANTS = [(name, options) for name, one in MODELS.items()
            for variants in one.variants().values()
            for which in (0, -1)
            for options in [{key: values[which] for key, values in variants.choices.items()}]]


def model(**options):
    sizes = {"hidden_size": 4, "embedding_size": 4}
    return Translator(ModelConfig(**{**sizes, **options}), 7, 9)


def test_the_twelve_classes_of_the_thesis():
    """Figure 6.7: four layers a side, attention, softmax, source and target embedding."""
    for score, names in (("dot", {"attention.W_c"}),
                         ("general", {"attention.W_a", "attention.W_c"})):
        found = classes(model(layers=4, biases=False, score=score).weights())
        assert in_order(found.values()) == [
            *(f"source layer {n}" for n in (1, 2, 3, 4)),
            *(f"target layer {n}" for n in (1, 2, 3, 4)),
            "attention", "softmax", "source embedding", "target embedding"]
        assert {name for name, one in found.items() if one == "attention"} == names
        assert found["encoder.3.W"] == "source layer 4" and found["output.W_hy"] == "softmax"


def test_biases_are_in_no_class_and_both_directions_in_one():
    found = classes(model(layers=1, biases=True, output_bias=True, bidirectional=True,
                          bridge=True).weights())
    assert found["encoder.0.forward.W"] == found["encoder.0.backward.W"] == "source layer 1"
    assert not [name for name in found if name.split(".")[-1].startswith("b")]
    assert in_order(found.values()) == [
        "source layer 1", "target layer 1", "bridge", "attention", "softmax", "source embedding",
        "target embedding"]


def test_classes_of_rnnsearch_and_of_a_language_model():
    rnnsearch = MODELS["rnnsearch"]
    found = classes(rnnsearch.build(rnnsearch.config(), Tables((7,), 9)).weights())
    assert in_order(found.values()) == [
        "source layer 1", "target layer 1", "bridge", "deep output", "attention", "softmax",
        "source embedding", "target embedding"]
    assert {name for name, one in found.items() if one == "attention"} == {
        "attention.W_a", "attention.U_a", "attention.v_a"}
    text = MODELS["language_model"]
    found = classes(text.build(text.config(layers=2), Tables((), 9)).weights())
    assert in_order(found.values()) == ["layer 1", "layer 2", "softmax", "embedding"]


@pytest.mark.parametrize("name, options", VARIANTS)
def test_every_weight_of_every_architecture_but_biases_has_a_class(name, options):
    """What has none is a vector that is added; every matrix is in a class."""
    one = MODELS[name]
    try:
        config = one.config(**options)
    except ValueError:
        pytest.skip("these options do not go together")
    characters = dict.fromkeys(character_tables(config), 8)
    weights = one.build(config, Tables((7,) * one.sources, 9, **characters)).weights()
    found = classes(weights)
    without = weights.keys() - found.keys()
    assert all(len(weights[key].shape) == 1 for key in without)
    assert all(key.split(".")[-1][:1] in "bg" for key in without)
    assert all(one and one == one.strip() and "_" not in one for one in found.values())


def test_what_is_stored_counts_where_parameters_are_made_from_others():
    tied = Parametrized(model(), {"output.W_hy": Tied("decoder.W_e")})
    assert "softmax" not in classes(tied.weights()).values()
    fixed = Parametrized(model(), {"output.W_hy": Normalized(1.0, learned=True)})
    assert "output.W_hy.radius" not in classes(fixed.weights())


def test_a_part_with_a_prefix_of_its_own_has_classes_of_its_own():
    matrix = Weight((axis("unit", 2), axis("unit", 2)), None)
    table = Weight((axis("word", 2), axis("input", 2)), None)
    gates = Weight((axis("gate", 2), axis("unit", 2)), None)
    assert classes({"characters.0.W": gates, "characters.W_e": table, "gate.W": matrix}) == {
        "characters.0.W": "characters layer 1", "characters.W_e": "characters embedding",
        "gate.W": "gate"}
