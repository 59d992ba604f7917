"""Initialisation: ranges, forget bias, determinism. Dropout masks: values, mean, replay."""

from __future__ import annotations

import numpy as np
import pytest
from strict.module import StrictArray, strict, to_numpy

import backend
from lstm.lstm import GATES
from lstm.parameters import Weight, dropout_mask, initialise, orthogonal
from lstm.stack import stack_weights

H, E = 40, 30
WEIGHTS = {
    "W_e": Weight((500, E), embedding=True), **stack_weights("s", "lstm", 2, E, H),
    **stack_weights("r", "rnn", 1, E, H), "W_hy": Weight((200, H)),
}  # fmt: skip


def limits(parameters, names):
    return {name: float(np.abs(parameters[name]).max()) for name in names}


def test_names_shapes_and_dtype():
    for dtype in ("float32", "float64"):
        parameters = initialise(WEIGHTS, np.random.default_rng(1), dtype=dtype)
        assert list(parameters) == list(WEIGHTS)
        for name, weight in WEIGHTS.items():
            assert parameters[name].shape == weight.shape
            assert parameters[name].dtype == dtype
            assert parameters[name].flags.c_contiguous


@pytest.mark.parametrize("scale", [0.1, 0.8])
def test_uniform(scale):
    """Luong, 4.3.1: every matrix in [-scale, scale], filling it, with mean zero."""
    parameters = initialise(WEIGHTS, np.random.default_rng(2), scale=scale, dtype="float64")
    for name in (n for n, w in WEIGHTS.items() if len(w.shape) == 2):
        a = parameters[name] / scale
        assert 0.99 < np.abs(a).max() <= 1.0, name
        assert abs(a.mean()) < 5 * np.sqrt(1 / 3 / a.size)
        assert abs((a**2).mean() - 1 / 3) < 5 * np.sqrt(4 / 45 / a.size)


def test_xavier():
    """a = sqrt(6 / (rows + columns)) of each gate's own matrix; a look-up table keeps the scale."""
    found = initialise(WEIGHTS, np.random.default_rng(3), scheme="xavier", scale=0.1,
                       dtype="float64")  # fmt: skip
    expected = {"s.0.T": (H + E + H), "s.1.T": (H + H + H), "r.0.T": (H + E + H), "W_hy": (200 + H)}
    for name, size in expected.items():
        a = np.abs(found[name]).max() / np.sqrt(6 / size)
        assert 0.99 < a <= 1.0, name
    assert 0.099 < np.abs(found["W_e"]).max() <= 0.1


def test_orthogonal():
    """Bahdanau et al., B.1: each block's matrix of the state is orthogonal, the rest is normal."""
    weights = {**stack_weights("g", "gru", 1, 30, 20), "W_a": Weight((40, 50), deviation=0.001),
               "v_a": Weight((40,), drawn=True)}
    found = initialise(weights, np.random.default_rng(5), scheme="orthogonal", dtype="float64")
    blocks = found["g.0.T"][:, 30:].reshape(3, 20, 20)
    for block in blocks:
        np.testing.assert_allclose(block @ block.T, np.eye(20), atol=1e-14)
    assert np.abs(blocks[0] - blocks[1]).max() > 0.1
    for normal, deviation in ((found["g.0.T"][:, :30], 0.01), (found["W_a"], 0.001)):
        assert 0.9 < normal.std() / deviation < 1.1
        assert abs(normal.mean()) < 5 * deviation / np.sqrt(normal.size)
    assert not found["v_a"].any() and not found["g.0.b"].any()


def test_random_orthogonal_matrices_have_no_preferred_signs():
    """The trace of a uniform one is 0 on average and its square 1; LAPACK's Q alone is not so."""
    rng = np.random.default_rng(6)
    traces = np.array([np.trace(orthogonal(rng, 3)) for _ in range(4000)])
    assert abs(traces.mean()) < 0.08 and 0.9 < (traces**2).mean() < 1.1


@pytest.mark.parametrize("scheme", ["uniform", "xavier", "orthogonal"])
def test_forget_bias_is_on_the_f_block_alone(scheme):
    found = initialise(WEIGHTS, np.random.default_rng(4), scheme=scheme, forget_bias=1.5)
    for name in ("s.0.b", "s.1.b"):
        blocks = dict(zip(GATES, found[name].reshape(4, H), strict=True))
        assert (blocks.pop("f") == 1.5).all()
        assert not np.concatenate(list(blocks.values())).any()
    assert not found["r.0.b"].any()


def test_the_seed_decides():
    one, two, other = (initialise(WEIGHTS, np.random.default_rng(seed)) for seed in (5, 5, 6))
    for name, weight in WEIGHTS.items():
        np.testing.assert_array_equal(one[name], two[name])
        assert len(weight.shape) == 1 or (one[name] != other[name]).mean() > 0.99


def test_unknown_scheme():
    with pytest.raises(ValueError, match="scheme: expected one of uniform, xavier, orthog"):
        initialise(WEIGHTS, np.random.default_rng(0), scheme="he")


def test_parameters_and_masks_are_made_where_the_backend_says():
    expected = initialise(WEIGHTS, np.random.default_rng(7))
    mask = dropout_mask(np.random.default_rng(7), (3, 4), 0.5)
    with backend.using(strict):
        found = initialise(WEIGHTS, np.random.default_rng(7))
        moved = dropout_mask(np.random.default_rng(7), (3, 4), 0.5)
    assert type(moved) is StrictArray
    np.testing.assert_array_equal(to_numpy(moved), mask)
    for name, array in to_numpy(found).items():
        np.testing.assert_array_equal(array, expected[name])


# --- dropout ------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_mask_values_and_mean(rate, dtype):
    """Zero with probability `rate`, else 1 / (1 - rate): the mean is one, to five deviations."""
    shape = (40, 50, 100)
    mask = dropout_mask(np.random.default_rng(8), shape, rate, dtype)
    assert mask.shape == shape and mask.dtype == dtype
    values = np.unique(mask)
    assert len(values) == 2 and values[0] == 0.0
    np.testing.assert_allclose(values[1], 1 / (1 - rate), rtol=1e-4)
    kept = (mask > 0).mean()
    assert abs(kept - (1 - rate)) < 5 * np.sqrt(rate * (1 - rate) / mask.size)
    assert abs(mask.mean(dtype="f8") - 1) < 5 * np.sqrt(rate / (1 - rate) / mask.size)
    for axis in range(3):  # no position, sentence or unit is special
        means = (mask > 0).mean(axis=axis)
        deviation = np.sqrt(rate * (1 - rate) / shape[axis])
        assert np.abs(means - (1 - rate)).max() < 6 * deviation


def test_masks_of_nothing_and_of_rate_zero():
    rng = np.random.default_rng(9)
    assert (dropout_mask(rng, (3, 4), 0.0) == 1.0).all()
    assert dropout_mask(rng, (0, 4), 0.5).shape == (0, 4)


def test_masks_are_replayed():
    """The same generator state gives the same masks; one mask after another differs."""
    rng = np.random.default_rng(10)
    state = rng.bit_generator.state
    first, second = (dropout_mask(rng, (30, 7), 0.4) for _ in range(2))
    assert (first != second).any()
    rng.bit_generator.state = state
    np.testing.assert_array_equal(dropout_mask(rng, (30, 7), 0.4), first)
    np.testing.assert_array_equal(dropout_mask(rng, (30, 7), 0.4), second)


def test_masks_in_two_dtypes_drop_the_same():
    one, two = (dropout_mask(np.random.default_rng(11), (50, 3), 0.3, d) for d in ("f4", "f8"))
    np.testing.assert_array_equal(one > 0, two > 0)


@pytest.mark.parametrize("scheme", ["uniform", "xavier"])
def test_a_score_s_vector_is_drawn(scheme):
    """v_a and v_p are matrices of one row, and no biases: from zero a score would say nothing."""
    weights = {"v_a": Weight((400,), drawn=True), "b": Weight((400,))}
    made = initialise(weights, np.random.default_rng(1), scheme=scheme, scale=0.1)
    limit = 0.1 if scheme == "uniform" else np.sqrt(6 / 401)
    assert 0.9 * limit < np.abs(made["v_a"]).max() <= limit
    assert not made["b"].any()
