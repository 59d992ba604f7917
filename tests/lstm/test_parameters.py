"""Weights: axes, ranges, forget bias, determinism. Dropout masks: values, mean, replay."""

from __future__ import annotations

import numpy as np
import pytest
from strict.module import StrictArray, strict, to_numpy

import backend
from attention.scores import Variant, score_weights
from lstm.cells.lstm import GATES
from lstm.embedding import embedding_weight
from lstm.parameters import (
    SCHEMES,
    Axis,
    Scheme,
    Weight,
    axis,
    initialise,
    orthogonal,
)
from lstm.stack import Stack, dropout_mask, stack_weights

H, E = 40, 30


def weights_of(*scheme):
    """A table, two stacks and a matrix, by a scheme."""
    how = Scheme(*scheme)
    return {
        "W_e": embedding_weight(500, E, how),
        **stack_weights("s", Stack("lstm", 2, H), {"x": E}, how),
        **stack_weights("r", Stack("rnn", 1, H), {"x": E}, how),
        "W_hy": Weight((axis("word", 200), axis("unit", H)), how.matrix()),
    }  # fmt: skip


WEIGHTS = weights_of()


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
    weights = weights_of("uniform", scale)
    parameters = initialise(weights, np.random.default_rng(2), "float64")
    for name in (n for n, w in WEIGHTS.items() if len(w.shape) == 2):
        a = parameters[name] / scale
        assert 0.99 < np.abs(a).max() <= 1.0, name
        assert abs(a.mean()) < 5 * np.sqrt(1 / 3 / a.size)
        assert abs((a**2).mean() - 1 / 3) < 5 * np.sqrt(4 / 45 / a.size)


def test_a_scale_of_minus_zero_is_zero():
    """NumPy refuses the interval [0, -0)."""
    parameters = initialise(weights_of("uniform", -0.0), np.random.default_rng(2), "float64")
    assert not any(a.any() for a in parameters.values())


def test_xavier():
    """a = sqrt(6 / (rows + columns)) of each gate's own matrix; a look-up table keeps the scale."""
    parameters = initialise(weights_of("xavier", 0.1), np.random.default_rng(3), "float64")
    expected = {"s.0.W": (H + E + H), "s.1.W": (H + H + H), "r.0.W": (H + E + H), "W_hy": (200 + H)}
    for name, size in expected.items():
        a = np.abs(parameters[name]).max() / np.sqrt(6 / size)
        assert 0.99 < a <= 1.0, name
    assert 0.099 < np.abs(parameters["W_e"]).max() <= 0.1


def test_orthogonal():
    """Bahdanau et al., B.1: the state's matrix of each block is orthogonal, all else is normal."""
    scheme, rows, columns = Scheme("orthogonal"), axis("unit", 40), axis("input", 50)
    weights = {**stack_weights("g", Stack("gru", 1, 20), {"x": 30}, scheme),
               "W_a": Weight((rows, columns), scheme.matrix(std=0.001)),
               "v_a": Weight((rows,), scheme.vector())}
    parameters = initialise(weights, np.random.default_rng(5), "float64")
    blocks = parameters["g.0.W"][:, 30:].reshape(3, 20, 20)
    for block in blocks:
        np.testing.assert_allclose(block @ block.T, np.eye(20), atol=1e-14)
    assert np.abs(blocks[0] - blocks[1]).max() > 0.1
    for normal, std in ((parameters["g.0.W"][:, :30], 0.01), (parameters["W_a"], 0.001)):
        assert 0.9 < normal.std() / std < 1.1
        assert abs(normal.mean()) < 5 * std / np.sqrt(normal.size)
    assert not parameters["v_a"].any() and not parameters["g.0.b"].any()


@pytest.mark.parametrize("name, attention", [("normal", 2 / 120), ("small", 2 / 300)])
def test_normal_and_small(name, attention):
    """Variances: Nguyen Eq. 3.5; SmallInit's of attention; embeddings of mean square norm one."""
    scheme, rng = Scheme(name), np.random.default_rng(6)
    draws = [(scheme.matrix(), (90, 60), 2 / 150), (scheme.matrix(3), (90, 60), 2 / 90),
             (scheme.attention(), (60, 60), attention), (scheme.embedding(), (90, 60), 1 / 60)]
    for initial, shape, variance in draws:
        values = initial(rng, shape)
        assert 0.9 < (values**2).mean() / variance < 1.1
        assert abs(values.mean()) < 5 * (variance / values.size) ** 0.5


def test_random_orthogonal_matrices_have_no_preferred_signs():
    """The trace of a uniform orthogonal matrix has mean 0 and variance 1, unlike that of LAPACK's
    Q."""
    rng = np.random.default_rng(6)
    traces = np.array([np.trace(orthogonal(rng, 3)) for _ in range(4000)])
    assert abs(traces.mean()) < 0.08 and 0.9 < (traces**2).mean() < 1.1


@pytest.mark.parametrize("scheme", SCHEMES)
def test_forget_bias_is_on_the_f_block_alone(scheme):
    parameters = initialise(weights_of(scheme, 0.1, 1.5), np.random.default_rng(4))
    for name in ("s.0.b", "s.1.b"):
        blocks = dict(zip(GATES, parameters[name].reshape(4, H), strict=True))
        assert (blocks.pop("f") == 1.5).all()
        assert not np.concatenate(list(blocks.values())).any()
    assert not parameters["r.0.b"].any()


def test_the_seed_decides():
    first, two, other_seed = (initialise(WEIGHTS, np.random.default_rng(seed))
                              for seed in (5, 5, 6))
    for name, weight in WEIGHTS.items():
        np.testing.assert_array_equal(first[name], two[name])
        assert len(weight.shape) == 1 or (first[name] != other_seed[name]).mean() > 0.99


def test_unknown_scheme():
    with pytest.raises(ValueError, match="initialisation: expected one of uniform, xavier, "
                                         "orthogonal, normal, small, got 'he'"):
        Scheme("he")


def test_weights_are_drawn_in_their_order():
    """One generator draws all weights in order, so models with the same first weights share their
    values."""
    weights = {"a": WEIGHTS["W_e"], "b": WEIGHTS["W_hy"]}
    rng = np.random.default_rng(8)
    expected = [rng.uniform(-0.1, 0.1, (500, E)), rng.uniform(-0.1, 0.1, (200, H))]
    parameters = initialise(weights, np.random.default_rng(8), "float64")
    for array, drawn in zip(parameters.values(), expected, strict=True):
        np.testing.assert_array_equal(array, drawn)


# --- what the axes count --------------------------------------------------------------------------


def test_an_axis_has_parts_where_there_are_several():
    assert axis("unit", 4) == Axis("unit", 4)
    assert axis("unit", 4).parts == axis("column", {"x": 3}).parts == ()
    assert axis("gate", {"i": 2, "f": 3}) == Axis("gate", 5, (("i", 2), ("f", 3)))


@pytest.mark.parametrize("unit, gates", [
    ("lstm", ("i", "f", "o", "h_hat")), ("gru", ("r", "z", "h~")), ("rnn", None)])
def test_a_stack_says_what_its_axes_count(unit, gates):
    """Rows are the gates in their order; columns are the inputs and the previous state."""
    weights = stack_weights("s", Stack(unit, 2, H, True), {"x": E, "c": 7}, Scheme())
    assert list(weights) == [f"s.{layer}.{direction}.{name}" for layer in (0, 1)
                             for direction in ("forward", "backward") for name in ("W", "b")]
    rows = axis("gate", dict.fromkeys(gates, H)) if gates else Axis("gate", H)
    for name, weight in weights.items():
        assert weight.axes[0] == rows
        below = (("x", E), ("c", 7)) if ".0." in name else (("x", 2 * H),)
        parts = (*below, ("h", H))
        columns = Axis("column", sum(size for _, size in parts), parts)
        assert weight.axes[1:] == ((columns,) if name.endswith("W") else ())
        assert weight.shape == tuple(axis.size for axis in weight.axes)


def test_scores_say_what_their_axes_count():
    weights = score_weights(Variant("concat", "local-p"), "a", 4, 6, Scheme(), bidirectional=True)
    assert {name: [axis.name for axis in weight.axes] for name, weight in weights.items()} == {
        "a.W_a": ["unit", "column"], "a.v_a": ["unit"], "a.W_p": ["unit", "input"],
        "a.v_p": ["unit"]}
    assert weights["a.W_a"].axes[1].parts == (("h", 4), ("source", 6))
    for both, parts in ((True, (("forward", 3), ("backward", 3))), (False, ())):
        weights = score_weights(Variant("general"), "a", 4, 6, Scheme(), bidirectional=both)
        assert weights["a.W_a"].axes[1] == Axis("source unit", 6, parts)


def test_how_a_score_starts():
    """Under `orthogonal`, its matrices are normals with the given std, and its vectors are zero."""
    weights = score_weights(Variant("additive", "local-p"), "a", 90, 90, Scheme("orthogonal"),
                            std=0.001)
    parameters = initialise(weights, np.random.default_rng(1), "float64")
    for name in ("a.W_a", "a.U_a", "a.W_p"):
        assert 0.95 < parameters[name].std() / 0.001 < 1.05, name
    assert not parameters["a.v_a"].any() and not parameters["a.v_p"].any()


def test_parameters_and_masks_are_made_where_the_backend_says():
    expected = initialise(WEIGHTS, np.random.default_rng(7))
    mask = dropout_mask(np.random.default_rng(7), (3, 4), 0.5)
    with backend.using(strict):
        parameters = initialise(WEIGHTS, np.random.default_rng(7))
        moved = dropout_mask(np.random.default_rng(7), (3, 4), 0.5)
    assert type(moved) is StrictArray
    np.testing.assert_array_equal(to_numpy(moved), mask)
    for name, array in to_numpy(parameters).items():
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
    for number, size in enumerate(shape):  # no position, sentence or unit is special
        means = (mask > 0).mean(axis=number)
        std = np.sqrt(rate * (1 - rate) / size)
        assert np.abs(means - (1 - rate)).max() < 6 * std


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
    single, two = (dropout_mask(np.random.default_rng(11), (50, 3), 0.3, d) for d in ("f4", "f8"))
    np.testing.assert_array_equal(single > 0, two > 0)


def test_biases_drawn_as_matrices_are():
    """As in Zaremba et al. (2014): no bias is zero, and none exceeds the scale."""
    how = Scheme("uniform", 0.05, uniform_biases=True)
    bias = how.bias(("i", "f", "o", "h_hat"))(np.random.default_rng(1), (400,))
    assert 0.04 < np.abs(bias).max() <= 0.05 and (bias != 0).all() and abs(bias.mean()) < 0.01
    with pytest.raises(ValueError, match=r"uniform_biases: expected false unless .*'xavier'"):
        Scheme("xavier", uniform_biases=True)
    with pytest.raises(ValueError, match=r"forget_bias: expected 0 where .* got 1\.0"):
        Scheme("uniform", forget_bias=1.0, uniform_biases=True)


@pytest.mark.parametrize("scheme", ["uniform", "xavier"])
def test_a_score_s_vector_is_drawn(scheme):
    """v_a and v_p are matrices of one row and not biases. If they were zero, a score would be
    constant."""
    how, rows = Scheme(scheme, 0.1), axis("unit", 400)
    weights = {"v_a": Weight((rows,), how.vector()), "b": Weight((rows,), how.bias())}
    parameters = initialise(weights, np.random.default_rng(1))
    limit = 0.1 if scheme == "uniform" else np.sqrt(6 / 401)
    assert 0.9 * limit < np.abs(parameters["v_a"]).max() <= limit
    assert not parameters["b"].any()
