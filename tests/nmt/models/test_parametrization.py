"""Parametrizations on the translator: rows of tables, Adam, errors.

Gradients are checked in the catalogue."""

from __future__ import annotations

import numpy as np
import pytest

from backend.rows import RowGradient, add_gradients
from grads.verification.parametrized import TABLES
from nmt.data.batches import make_batch, stream_batches
from nmt.models.language_model import LanguageModel, LanguageModelConfig
from nmt.models.parametrization import (
    Frozen,
    Leading,
    Masked,
    Normalized,
    Parametrized,
    Stacked,
    Tied,
)
from nmt.models.translator import ModelConfig, Translator
from nmt.training.optimizers import Adam

V, H = 7, 4
PAIRS = [([3, 4, 5], [2, 3, 3]), ([2, 6], [5, 6, 4, 2])]


def make(name, dtype="float64"):
    """A parametrized translator, its stored parameters, a batch."""
    config = ModelConfig(layers=1, hidden_size=H, embedding_size=H, scale=0.8, dropout=0.2)
    model = Translator(config, V, V)
    model = Parametrized(model, TABLES[name](model))
    stored = model.initial_parameters(np.random.default_rng(1), dtype)
    return model, stored, make_batch(PAIRS, [0, 1], True)


@pytest.mark.parametrize("name", TABLES)
def test_plain_parameters_give_the_same_loss(name):
    """The parameters for search and validation have the model's names, shapes and loss."""
    model, stored, batch = make(name)
    plain = model.plain(stored)
    assert {key: value.shape for key, value in plain.items()} == {
        key: weight.shape for key, weight in model.model.weights().items()}
    assert model.model.loss(plain, batch)[0] == model.loss(stored, batch)[0]


def test_a_tied_table_of_rows_and_rows_has_distinct_ids():
    """Source and target look up one table: rows are merged by id, and Adam updates each once."""
    config = ModelConfig(layers=1, hidden_size=H, embedding_size=H, scale=0.8)
    model = Parametrized(Translator(config, V, V), {"encoder.W_e": Tied("decoder.W_e")})
    stored = model.initial_parameters(np.random.default_rng(1), "float64")
    batch = make_batch(PAIRS, [0, 1], True)
    plain = model.model.backward(model.model.loss(model.plain(stored), batch)[1])
    merged = model.backward(model.loss(stored, batch)[1])["decoder.W_e"]
    assert isinstance(merged, RowGradient) and len(set(merged.ids.tolist())) == len(merged.ids)
    assert merged.ids.tolist() == sorted(
        {*plain["encoder.W_e"].ids.tolist(), *plain["decoder.W_e"].ids.tolist()})
    whole = plain["encoder.W_e"].dense() + plain["decoder.W_e"].dense()
    np.testing.assert_allclose(merged.dense(), whole, rtol=1e-14)
    by_rows, by_table = ({"W": stored["decoder.W_e"].copy()} for _ in range(2))
    rows, dense = Adam(0.1), Adam(0.1)
    for _ in range(3):
        rows.update(by_rows, {"W": merged})
        dense.update(by_table, {"W": whole})
    np.testing.assert_allclose(by_rows["W"], by_table["W"], rtol=1e-12)


def test_sums_of_gradients():
    rows = RowGradient(np.array([1, 3]), np.array([[1.0], [2.0]]), (5, 1))
    other = RowGradient(np.array([0, 3]), np.array([[4.0], [8.0]]), (5, 1))
    dense = np.arange(5.0)[:, None]
    expected = rows.dense() + dense
    assert add_gradients(rows, other).ids.tolist() == [0, 1, 3]
    np.testing.assert_array_equal(add_gradients(rows, other).values, [[4.0], [1.0], [10.0]])
    np.testing.assert_array_equal(add_gradients(rows, dense.copy()), expected)
    np.testing.assert_array_equal(add_gradients(dense.copy(), rows), expected)
    np.testing.assert_array_equal(add_gradients(dense.copy(), dense), 2 * dense)


def test_half_of_a_stacked_lstm_is_half_of_each_gate():
    model, stored, _ = make("shared and private gates")
    for name in ("shared", "private"):
        stored[name] = np.full_like(stored[name], ["shared", "private"].index(name))
    gates = model.plain(stored)["encoder.0.W"].reshape(4, H, -1)
    assert not gates[:, : H // 2].any() and (gates[:, H // 2 :] == 1).all()


def test_masked_entries_are_zero_and_have_no_gradient():
    model, stored, batch = make("mask")
    mask = model.table["decoder.0.W"].mask
    assert not model.plain(stored)["decoder.0.W"][~mask].any()
    gradient = model.backward(model.loss(stored, batch)[1])["decoder.0.W"]
    assert not gradient[~mask].any() and gradient[mask].all()


def test_normalized_rows_have_their_length():
    model, stored, _ = make("fixnorm")
    lengths = np.linalg.norm(model.plain(stored)["output.W_hy"], axis=1)
    np.testing.assert_allclose(lengths, 2.0)


def test_a_stream_goes_on_through_a_parametrized_language_model():
    config = LanguageModelConfig(layers=1, hidden_size=H, embedding_size=H, scale=0.8)
    model = Parametrized(LanguageModel(config, V), {"output.W_hy": Tied("W_e")})
    stored = model.initial_parameters(np.random.default_rng(1), "float64")
    first = stream_batches([2, 3, 4, 5, 6, 2, 3], 1, 3)[0]
    assert [a.shape for a in model.loss(stored, first)[1].state[0]] == [(1, H)] * 2


@pytest.mark.parametrize("table, message", [
    ({"W": Frozen()}, "W: expected a parameter of the model, one of encoder.W_e"),
    ({"decoder.W_e": Leading("words", 7, 9)}, r"decoder.W_e: expected 7 of the 9 rows of words, "
     "got 8"),
    ({"encoder.W_e": Tied("output.W_hy")}, r"to have shape \(7, 4\), got \(8, 4\)"),
    ({"encoder.W_e": Tied("x"), "decoder.0.W": Tied("x")}, r"decoder.0.W: expected x, which it"),
    ({"encoder.0.b": Normalized(1.0)}, "encoder.0.b: expected a matrix to normalise"),
    ({"encoder.W_e": Masked(np.ones((2, 3), bool))}, r"a mask of shape \(7, 4\), got \(2, 3\)"),
    ({"encoder.0.W": Stacked({"a": 3, "b": 2}, blocks=4)}, "parts that make up 4 in each of 4"),
])  # fmt: skip
def test_what_does_not_fit_is_named(table, message):
    config = ModelConfig(layers=1, hidden_size=H, embedding_size=H)
    with pytest.raises(ValueError, match=message):
        Parametrized(Translator(config, V, V + 1), table)


def test_a_row_of_zeros_cannot_be_normalised():
    model, stored, batch = make("fixnorm")
    stored["output.W_hy"][5] = 0.0
    with pytest.raises(ValueError, match=r"output.W_hy: expected no row of zeros, got row 5"):
        model.loss(stored, batch)
