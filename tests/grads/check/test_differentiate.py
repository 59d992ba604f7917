"""Numerical derivatives: closed forms, and error estimates that can be believed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grads.check.differentiate import METHODS, at_entries, derivatives
from grads.check.evaluate import Evaluator, Line

RNG = np.random.default_rng(3)
INPUTS = {"x": RNG.normal(size=(5, 3)), "W": RNG.normal(size=(3, 2)), "b": RNG.normal(size=2)}
UPSTREAM = {"y": RNG.normal(size=(5, 2)), "s": RNG.normal(size=()), "z": RNG.normal(size=(5, 3))}
EVERYWHERE = {name: np.arange(a.size) for name, a in INPUTS.items()}
ACCURACY = {"complex": 1e-14, "ridders": 1e-10, "central": 1e-8, "forward": 1e-5}  # reached here


def layer(a):
    """Three outputs; z depends on x only."""
    y = np.tanh(a["x"] @ a["W"] + a["b"])
    return {"y": y, "s": (y * y).sum(), "z": 3.0 * a["x"] ** 2}


def closed_form():
    """name -> (3, n), a row each for y, s and z."""
    y = layer(INPUTS)["y"]
    rows = {name: [] for name in INPUTS}
    for d_y, d_x in ((UPSTREAM["y"], 0.0), (2 * y * UPSTREAM["s"], 0.0),
                     (0.0 * y, 6 * INPUTS["x"] * UPSTREAM["z"])):
        da = d_y * (1 - y * y)
        rows["x"].append(da @ INPUTS["W"].T + d_x)
        rows["W"].append(INPUTS["x"].T @ da)
        rows["b"].append(da.sum(axis=0))
    return {name: np.reshape(row, (3, -1)) for name, row in rows.items()}


@pytest.mark.parametrize("method", METHODS)
def test_closed_form_for_every_output_at_once(method):
    numeric = at_entries(layer, INPUTS, UPSTREAM, EVERYWHERE, method)
    for name, exact in closed_form().items():
        value, error, scale = numeric[name]
        assert value.shape == error.shape == scale.shape == exact.shape
        np.testing.assert_allclose(value, exact, rtol=0, atol=ACCURACY[method] * abs(exact).max())
        assert (np.abs(value - exact) <= 2 * error).all()
        assert (error <= 100 * ACCURACY[method] * abs(exact).max()).all()
    for zero in (numeric["W"], numeric["b"]):  # z depends on neither
        assert not zero.value[2].any() and not zero.error[2].any() and not zero.scale[2].any()


@pytest.mark.parametrize("method", METHODS)
def test_along_directions(method):
    exact = closed_form()
    directions = [{name: RNG.normal(size=a.shape) for name, a in INPUTS.items()},
                  {"W": RNG.normal(size=(3, 2))}, {"b": np.array([0.0, 1.0])}, {}]
    numeric = derivatives(Evaluator(layer, INPUTS), UPSTREAM, map(Line, directions), method)
    expected = np.array([sum((exact[name] @ d.ravel() for name, d in direction.items()),
                             np.zeros(3)) for direction in directions]).T
    np.testing.assert_allclose(numeric.value, expected, rtol=0, atol=30 * ACCURACY[method])
    assert (np.abs(numeric.value - expected) <= 2 * numeric.error).all()
    assert not numeric.value[:, 3].any()


def test_scale_is_the_size_of_the_terms():
    numeric = at_entries(lambda a: {"y": a["x"] * np.array([1.0, -1.0])}, {"x": np.array(2.0)},
                         {"y": np.array([3.0, 3.0])}, {"x": [0]})["x"]
    assert numeric.value == 0.0 and numeric.scale == 6.0 and 0 < numeric.error < 1e-13
    coarse = at_entries(lambda a: {"y": a["x"] * np.array([1.0, -1.0])}, {"x": np.array(2.0)},
                        {"y": np.array([3.0, 3.0])}, {"x": [0]}, "ridders")["x"]
    assert coarse.value == 0.0 and coarse.scale == pytest.approx(6.0)


def test_accuracy_of_the_methods_is_the_known_ladder():
    """The V-curve of Squire and Trapp's function: each method's best step beats the one before."""
    def f(a):
        x = a["x"]
        return {"y": np.exp(x) / (np.cos(x) ** 3 + np.sin(x) ** 3)}

    inputs, upstream, exact = {"x": np.array(1.5)}, {"y": np.array(1.0)}, 3.62203370071632887

    def error(method, **options):
        value = at_entries(f, inputs, upstream, {"x": [0]}, method, **options)["x"].value
        return abs(float(value[0, 0]) - exact)

    errors = [error(method) for method in ("forward", "central", "ridders", "complex")]
    for worse, better in pairwise(errors):
        assert better < worse / 10
    assert errors[-1] < 1e-14
    for method, best in (("forward", 2.0**-26), ("central", 2.0**-17)):
        assert error(method, h=best * 2**10) > 30 * error(method)  # truncation
        assert error(method, h=best / 2**15) > 30 * error(method)  # rounding
    assert error("complex", h=1e-200) < 1e-14  # no rounding, however small the step
    ratio = error("central", h=2.0**-6) / error("central", h=2.0**-7)
    assert ratio == pytest.approx(4, rel=0.05)  # of order h^2
    ratio = error("forward", h=2.0**-12) / error("forward", h=2.0**-13)
    assert ratio == pytest.approx(2, rel=0.05)  # of order h


@pytest.mark.parametrize("method, per_entry", [
    ("complex", 1), ("forward", 2), ("central", 4), ("ridders", 8),
])
def test_evaluations_serve_all_outputs(method, per_entry):
    evaluate = Evaluator(layer, INPUTS)
    at_entries(evaluate, INPUTS, UPSTREAM, EVERYWHERE, method)
    assert evaluate.evaluations == per_entry * sum(a.size for a in INPUTS.values())
    derivatives(evaluate, UPSTREAM, [Line({"b": np.ones(2)})], method)
    assert evaluate.evaluations == per_entry * (1 + sum(a.size for a in INPUTS.values()))


SMALLEST = {"ridders": 2.0**-8, "central": 2.0**-17, "forward": 2.0**-26}  # steps
SMOOTH = {
    "tanh": np.tanh, "sine": np.sin, "exponential": lambda z: np.exp(np.sin(z)),
    "rational": lambda z: 1 / (1 + z * z), "cube": lambda z: z ** 3,
    "softmax": lambda z: np.exp(np.sin(z)) / np.exp(np.sin(z)).sum(),
    "logarithm": lambda z: np.log(2 + z * z),
}


@pytest.mark.parametrize("method", ["ridders", "central", "forward"])
@given(kind=st.sampled_from(sorted(SMOOTH)), seed=st.integers(0, 2**32 - 1),
       steep=st.floats(-2, 1), far=st.floats(-1, 2), hidden=st.floats(-3, 4))
@settings(max_examples=300, deadline=None, derandomize=True)  # a statistical claim
def test_error_estimates_are_honest(method, kind, seed, steep, far, hidden):
    """Of random functions, some steep, some with cancellation that the outputs do not show."""
    rng = np.random.default_rng(seed)
    n, offset = int(rng.integers(1, 5)), 10**hidden * rng.normal()
    W, W_2 = 10**steep * rng.normal(size=(n, n)), rng.normal(size=(3, n))
    inputs = {"x": 10**far * rng.normal(size=n)}
    upstream = {"plain": rng.normal(size=3), "noisy": rng.normal(size=3)}

    def f(a):
        plain = W_2 @ SMOOTH[kind](W @ a["x"])
        return {"plain": plain, "noisy": (plain + offset) - offset}

    where = {"x": np.arange(n)}
    exact = at_entries(f, inputs, upstream, where)["x"]
    numeric = at_entries(f, inputs, upstream, where, method)["x"]
    excess = np.abs(numeric.value - exact.value) - exact.error
    swallowed = numeric.error == 0  # no step changed any output
    largest = abs(W_2 @ SMOOTH[kind](W @ inputs["x"])).max() + abs(offset)
    assert (excess[swallowed] <= 4 * 2.0**-52 * largest / SMALLEST[method]).all()
    plain, noisy = np.where(swallowed, 0.0, excess) / np.where(swallowed, 1.0, numeric.error)
    assert plain.max() <= (4 if method == "ridders" else 10)
    assert noisy.max() <= 20 or method != "ridders"  # the textbooks' know nothing of it


def test_ridders_is_precise_where_functions_are_harmless():
    """An estimate may not be honest by being large."""
    numeric = at_entries(layer, INPUTS, UPSTREAM, EVERYWHERE, "ridders")
    for value, error, scale in numeric.values():
        assert (error <= 1e-8 * scale.max(initial=0.0) + 1e-300).all()
        assert np.isfinite(value).all()


@pytest.mark.parametrize("f, x, slope", [
    (np.log, 1e-3, 1e3),  # steps of the first iteration leave the domain
    (np.sqrt, 1e-4, 50.0),
    (lambda x: np.exp(-(x / 1e-3) ** 2), 3e-4, -600 * np.exp(-0.09)),  # narrower than they are
    (lambda x: np.maximum(x, 0.0), 1e-5, 1.0),  # a kink between them
    (np.log, 1e6, 1e-6),
])
def test_ridders_comes_closer_where_it_must(f, x, slope):
    evaluate = Evaluator(lambda a: {"y": f(a["x"])}, {"x": np.array(x)})
    value, error, _ = at_entries(evaluate, {}, {"y": np.array(1.0)}, {"x": [0]}, "ridders")["x"]
    np.testing.assert_allclose(value, slope, rtol=1e-8)
    assert abs(value - slope) <= 2 * error <= 1e-6 * abs(slope)
    assert evaluate.evaluations in (8, 16, 24)


@pytest.mark.parametrize("f, x, jump", [
    (lambda x: np.maximum(x, 0.0), 0.0, 1.0), (np.abs, 0.0, 2.0),
    (lambda x: np.exp(x) + np.maximum(x - 1.0, 0.0), 1.0, 1.0),
])
def test_ridders_does_not_believe_in_the_mean_of_two_slopes(f, x, jump):
    """Central differences agree with each other at a kink; the error covers both sides."""
    numeric = at_entries(lambda a: {"y": f(a["x"])}, {"x": np.array(x)}, {"y": np.array(1.0)},
                         {"x": [0]}, "ridders")["x"]
    assert numeric.error == pytest.approx(jump / 2, rel=1e-6)


def test_what_is_not_finite_has_no_error_bound():
    def f(a):
        with np.errstate(invalid="ignore"):
            return {"y": np.log(a["x"])}

    for method in ("ridders", "central", "forward"):
        numeric = at_entries(f, {"x": np.array([-1.0, 1.0])}, {"y": np.ones(2)}, {"x": [0, 1]},
                             method)["x"]
        assert np.isnan(numeric.value[0]).all() and np.isinf(numeric.error[0]).all()
        # one output that is not a number makes the sum so, wherever it is differentiated
    numeric = at_entries(f, {"x": np.array([2.0])}, {"y": np.ones(1)}, {"x": [0]}, "ridders")["x"]
    np.testing.assert_allclose(numeric.value, 0.5, rtol=1e-12)


def test_sampled_positions_and_no_positions():
    full = at_entries(layer, INPUTS, UPSTREAM, EVERYWHERE)
    some = at_entries(layer, INPUTS, UPSTREAM, {"W": np.array([4, 1]), "b": []})
    np.testing.assert_allclose(some["W"].value, full["W"].value[:, [4, 1]], rtol=1e-14)
    assert list(some) == ["W", "b"] and some["b"].value.shape == (3, 0)
    assert derivatives(Evaluator(layer, INPUTS), UPSTREAM, [], "complex").value.shape == (3, 0)


def test_only_outputs_with_an_upstream_gradient_count():
    together = at_entries(layer, INPUTS, UPSTREAM, EVERYWHERE)
    alone = at_entries(layer, INPUTS, {"s": UPSTREAM["s"]}, EVERYWHERE)
    for name in INPUTS:
        np.testing.assert_array_equal(alone[name].value, together[name].value[1:2])


def test_a_real_result_for_complex_arguments_does_not_depend_on_them():
    numeric = at_entries(lambda a: {"y": np.sign(a["x"]) * 3, "n": a["x"].argmax()},
                         {"x": np.ones(2)}, {"y": np.ones(2), "n": 1.0}, {"x": [0]})["x"]
    assert not numeric.value.any() and not numeric.error.any()


def test_along_a_direction_of_a_single_number():
    evaluate = Evaluator(lambda a: {"y": np.sin(a["x"])}, {"x": np.array(0.3)})
    numeric = derivatives(evaluate, {"y": np.array(1.0)}, [Line({"x": np.array(2.0)})], "complex")
    np.testing.assert_allclose(numeric.value, 2 * np.cos(0.3), rtol=1e-15)


@pytest.mark.parametrize("change, message", [
    ({"method": "magic"}, r"method: expected one of \['central'"),
    ({"upstream": {}}, "upstream: expected the gradient of at least one output"),
    ({"upstream": {"q": np.ones(2)}}, "upstream: expected names of .* got 'q'"),
    ({"upstream": {"y": np.ones(2)}}, r"upstream: expected 'y' of shape \(5, 2\), got \(2,\)"),
    ({"positions": {"b": [2]}}, r"positions: expected 'b' in 0\.\.1, got 2\.\.2"),
    ({"positions": {"b": [-1]}}, r"positions: expected 'b' in 0\.\.1, got -1\.\.-1"),
    ({"positions": {"c": [0]}}, "positions: expected the name of a floating input, got 'c'"),
    ({"inputs": INPUTS | {"b": np.array([1, 2])}}, "positions: .* got 'b': int64"),
    ({"inputs": INPUTS | {"b": np.array([1j, 2])}}, "inputs: expected 'b' of a real dtype"),
])
def test_arguments_are_checked(change, message):
    arguments = {"f": layer, "inputs": INPUTS, "upstream": UPSTREAM, "positions": EVERYWHERE}
    with pytest.raises(ValueError, match=message):
        at_entries(**arguments | change)
