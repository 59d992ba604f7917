"""RNNsearch against its literal derivation, its options where the paper is open, and invalid
configurations."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from literal import assert_close, dense, draw_parameters

from grads.derivations import rnnsearch as literal
from lstm.cells.gru import GATES
from nmt.data.batches import make_batch
from nmt.models.heads.hidden_layer import LAYERS, maxout_backward, maxout_forward
from nmt.models.rnnsearch import RNNSearch
from nmt.models.rnnsearch_config import CONTEXTS, UNITS, RNNSearchConfig

V, E, H, M = 6, 3, 2, 4
PAIRS = [([2, 3, 4, 2], [3, 2]), ([5], [2, 3, 4]), ([3, 3], [])]
SUFFIX = {"r": "_r", "z": "_z", "h~": ""}


def make(**options):
    config = RNNSearchConfig(hidden_size=H, embedding_size=E, layer_size=M, **options)
    model = RNNSearch(config, V, V)
    return model, draw_parameters(np.random.default_rng(5), model.weights())


def as_printed(parameters):
    """The derivation's matrices: blocks of rows are gates, blocks of columns are inputs."""
    printed = {}
    for name, array in parameters.items():
        prefix, kind = name.rsplit(".", 1)
        if not prefix.startswith(("encoder.0", "decoder.0")):
            printed[name] = array
            continue
        decoder = prefix.startswith("decoder")
        letters, edges = ("WCU", [E, E + 2 * H]) if decoder else ("WU", [E])
        for gate, rows in zip(GATES, np.split(array, 3), strict=True):
            blocks = [("b", rows)] if kind == "b" else zip(
                letters, np.split(rows, edges, axis=1), strict=True)
            printed |= {f"{prefix}.{letter}{SUFFIX[gate]}": block for letter, block in blocks}
    return printed


@pytest.mark.parametrize("deep_state, query, biases", [
    ("before", "state", True), ("now", "state", False), ("before", "state-word", False),
    ("now", "state-word", True)])
def test_loss_and_gradients_are_those_of_the_derivation(deep_state, query, biases):
    """A ragged batch against the sum of its sentences, which include targets of one word and of
    none."""
    model, parameters = make(deep_state=deep_state, query=query, biases=biases, output_bias=biases)
    loss, cache = model.loss(parameters, make_batch(PAIRS, range(3), False))
    gradients = {name: dense(d) for name, d in model.backward(cache).items()}
    assert gradients.keys() == parameters.keys()
    printed, total, sums = as_printed(parameters), 0.0, {}
    for x, y in PAIRS:
        J, trace = literal.forward(printed, x, y, deep_state=deep_state, query=query)
        for name, d in literal.backward(printed, x, y, trace).items():
            sums[name] = sums.get(name, 0.0) + d
        total += J
    assert_close(loss, total)
    actual = as_printed(gradients)
    assert actual.keys() == sums.keys()
    for name, expected in sums.items():
        assert_close(actual[name], expected)


@pytest.mark.parametrize("context, unit, layer", list(product(CONTEXTS, UNITS, LAYERS)))
def test_a_batch_is_the_sum_of_its_sentences(context, unit, layer):
    model, parameters = make(context=context, unit=unit, layer=layer)
    loss, cache = model.loss(parameters, make_batch(PAIRS, range(3), False))
    gradients = model.backward(cache)
    total, sums = 0.0, dict.fromkeys(gradients, 0.0)
    for i in range(len(PAIRS)):
        alone, cache = model.loss(parameters, make_batch(PAIRS, [i], False))
        total += alone
        sums = {name: sums[name] + dense(d) for name, d in model.backward(cache).items()}
    assert_close(loss, total)
    for name, d in gradients.items():
        assert_close(d, sums[name])


def test_rnnencdec_has_no_alignment_and_reads_forward():
    _, parameters = make(context="last")
    assert not [name for name in parameters if name.startswith("attention")]
    assert "encoder.0.W" in parameters
    assert parameters["decoder.0.W"].shape == (3 * H, E + H + H)


def test_the_context_of_rnnencdec_is_the_last_state():
    """An encoder that returns zero everywhere leaves nothing of the source."""
    model, parameters = make(context="last")
    parameters["encoder.0.W"] *= 0.0
    parameters["encoder.0.b"] *= 0.0
    shorter, longer = (model.loss(parameters, make_batch([(x, [3])], [0], False))[0]
                       for x in ([2, 3], [4, 5, 2]))
    assert shorter == longer


def test_maxout():
    t, kept = maxout_forward(np.array([[1.0, 3.0, 5.0, 2.0, -4.0, -4.0]]))
    np.testing.assert_array_equal(t, [[3, 5, -4]])
    np.testing.assert_array_equal(
        maxout_backward(np.array([[10.0, 20.0, 30.0]]), kept), [[0, 10, 20, 0, 30, 0]])


def test_initial_parameters_are_those_of_appendix_b():
    model = RNNSearch(RNNSearchConfig(hidden_size=40, embedding_size=30, layer_size=20), 50, 60)
    parameters = model.initial_parameters(np.random.default_rng(1), "float64")
    for name in ("encoder.0.forward.W", "encoder.0.backward.W", "decoder.0.W"):
        for block in parameters[name][:, -40:].reshape(3, 40, 40):
            np.testing.assert_allclose(block @ block.T, np.eye(40), atol=1e-13)
        assert 0.9 < parameters[name][:, :-40].std() / 0.01 < 1.1
    for name in ("attention.W_a", "attention.U_a"):
        assert 0.9 < parameters[name].std() / 0.001 < 1.1
    for name, array in parameters.items():
        assert array.ndim == 2 or not array.any(), name
    assert 0.9 < parameters["output.W_o"].std() / 0.01 < 1.1


@pytest.mark.parametrize("field, value", [
    ("context", "first"), ("query", "word"), ("unit", "lstm"), ("layer", "relu"),
    ("deep_state", "after"),
    ("hidden_size", 0), ("layer_size", 0), ("clip_elements", -1.0), ("initialisation", "he"),
])  # fmt: skip
def test_a_bad_value_names_its_field(field, value):
    with pytest.raises(ValueError, match=rf"^{field}: expected .*got '?{value}"):
        RNNSearchConfig(**{field: value})
