"""Classes of weights, of every architecture."""

import pytest

from lstm.parameters import Weight, axis
from nmt.models.contract import Tables, character_tables
from nmt.models.parametrization import Normalized, Parametrized, Tied
from nmt.models.registry import MODELS
from nmt.models.translator import ModelConfig, Translator
from nmt.pruning.classes import classes, in_order

VARIANTS = [(name, options) for name, architecture in MODELS.items()
            for variants in architecture.variants().values()
            for which in (0, -1)
            for options in [{key: values[which] for key, values in variants.choices.items()}]]


def model(**options):
    sizes = {"hidden_size": 4, "embedding_size": 4}
    return Translator(ModelConfig(**{**sizes, **options}), 7, 9)


def test_the_twelve_classes_of_the_thesis():
    """Figure 6.7: four layers a side, attention, softmax, source and target embedding."""
    for score, names in (("dot", {"attention.W_c"}),
                         ("general", {"attention.W_a", "attention.W_c"})):
        class_of = classes(model(layers=4, biases=False, score=score).weights())
        assert in_order(class_of.values()) == [
            *(f"source layer {n}" for n in (1, 2, 3, 4)),
            *(f"target layer {n}" for n in (1, 2, 3, 4)),
            "attention", "softmax", "source embedding", "target embedding"]
        assert {name for name, class_name in class_of.items() if class_name == "attention"} == names
        assert class_of["encoder.3.W"] == "source layer 4" and class_of["output.W_hy"] == "softmax"


def test_biases_are_in_no_class_and_both_directions_in_one():
    class_of = classes(model(layers=1, biases=True, output_bias=True, bidirectional=True,
                             bridge=True).weights())
    assert class_of["encoder.0.forward.W"] == class_of["encoder.0.backward.W"] == "source layer 1"
    assert not [name for name in class_of if name.split(".")[-1].startswith("b")]
    assert in_order(class_of.values()) == [
        "source layer 1", "target layer 1", "bridge", "attention", "softmax", "source embedding",
        "target embedding"]


def test_classes_of_rnnsearch_and_of_a_language_model():
    rnnsearch = MODELS["rnnsearch"]
    class_of = classes(rnnsearch.build(rnnsearch.config(), Tables((7,), 9)).weights())
    assert in_order(class_of.values()) == [
        "source layer 1", "target layer 1", "bridge", "deep output", "attention", "softmax",
        "source embedding", "target embedding"]
    assert {name for name, class_name in class_of.items() if class_name == "attention"} == {
        "attention.W_a", "attention.U_a", "attention.v_a"}
    text = MODELS["language_model"]
    class_of = classes(text.build(text.config(layers=2), Tables((), 9)).weights())
    assert in_order(class_of.values()) == ["layer 1", "layer 2", "softmax", "embedding"]


@pytest.mark.parametrize("name, options", VARIANTS)
def test_every_weight_of_every_architecture_but_biases_has_a_class(name, options):
    """Every matrix is in a class; only vectors that are added have none."""
    architecture = MODELS[name]
    try:
        config = architecture.config(**options)
    except ValueError:
        pytest.skip("these options do not go together")
    characters = dict.fromkeys(character_tables(config), 8)
    tables = Tables((7,) * architecture.sources, 9, **characters)
    weights = architecture.build(config, tables).weights()
    class_of = classes(weights)
    without = weights.keys() - class_of.keys()
    assert all(len(weights[key].shape) == 1 for key in without)
    assert all(key.split(".")[-1][:1] in "bg" for key in without)
    assert all(label and label == label.strip() and "_" not in label for label in class_of.values())


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
