"""Kinks that are close but not here: ReLUs of small numbers are checked as any others."""

from __future__ import annotations

import numpy as np
import pytest

from grads.check import check_gradients, check_pair

LAYERS = 5
DEPTH = range(LAYERS)
SCALES = pytest.mark.parametrize("scale", [1e-6, 1e-8, 1e-12, 1e-20])


def network(x, *parameters):
    """A ReLU network: weights and biases in turns."""
    a, cache = x, []
    for k in DEPTH:
        z = a @ parameters[2 * k] + parameters[2 * k + 1]
        cache.append((a, z))
        a = np.maximum(z, 0) if k < LAYERS - 1 else z
    return a, (cache, parameters)


def network_backward(d, saved):
    cache, parameters = saved
    gradients = []
    for k in reversed(DEPTH):
        a, z = cache[k]
        dz = d * (z > 0) if k < LAYERS - 1 else d
        gradients = [a.T @ dz, dz.sum(axis=0), *gradients]
        d = dz @ parameters[2 * k].T
    return [d, *gradients]


def small_network(scale, seed, width):
    """Its inputs: zero biases, as most are at the start."""
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(4, width)), *(array for _ in DEPTH for array in (
        scale * rng.normal(size=(width, width)), np.zeros(width)))]


@pytest.mark.parametrize("width", [6, 16])  # with 6 some layers are all zero: kinks that are here
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scale", [1.0, 1e-1, 1e-2, 1e-3])
def test_a_right_network_of_small_weights(scale, seed, width):
    report = check_pair(network, network_backward, small_network(scale, seed, width))
    assert report.ok, str(report)
    assert width == 6 or report.evaluations < 500


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("scale", [1.0, 1e-2, 1e-3])
@pytest.mark.parametrize("factor", [1, 1.01, 0])
def test_by_differences_alone(scale, seed, factor):
    """Their steps cross kinks; smaller ones, which rounding allows for small numbers, decide."""
    def backward(d, saved):
        gradients = network_backward(d, saved)
        gradients[3] = factor * gradients[3]
        return gradients

    report = check_pair(network, backward, small_network(scale, seed, 12), method="ridders")
    right = "ok", "undecided" if scale < 1e-2 else "ok"  # there fewer than three digits can be had
    assert report.verdict in (right if factor == 1 else ("wrong",)), str(report)


@pytest.mark.parametrize("scale", [1e-1, 1e-2, 1e-3])
@pytest.mark.parametrize("tensor, factor", [(5, 1.01), (6, -1), (8, 0), (9, 1.001)])
def test_a_wrong_network_of_small_weights(scale, tensor, factor):
    def wrong(d, saved):
        gradients = network_backward(d, saved)
        gradients[tensor] = factor * gradients[tensor]
        return gradients

    report = check_pair(network, wrong, small_network(scale, 0, 12))
    assert report.verdict == "wrong", str(report)


FUNCTIONS = {  # of entries, with the slopes at them
    "relu": (lambda v: np.maximum(v, 0).sum(), lambda v: 1.0 * (v > 0)),
    "leaky relu": (lambda v: np.where(v > 0, v, 0.1 * v).sum(), lambda v: np.where(v > 0, 1, 0.1)),
    "absolute value": (lambda v: np.abs(v).sum(), np.sign),
    "smaller of two": (lambda v: np.minimum(v, 0).sum(), lambda v: 1.0 * (v < 0)),
    "relu in plain Python": (lambda v: sum(max(float(x), 0.0) for x in v), lambda v: 1.0 * (v > 0)),
    "norm": (lambda v: np.sqrt((v * v).sum()), lambda v: v / np.sqrt((v * v).sum())),
}


@SCALES
@pytest.mark.parametrize("how", [{}, {"method": "ridders"}, {"every_entry": True}], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_small_numbers(name, how, scale):
    f, slopes = FUNCTIONS[name]
    v = scale * np.random.default_rng(2).normal(size=10)
    assert check_gradients(f, [v], [slopes(v)], **how).ok
    for factor in (0, 1.01):
        report = check_gradients(f, [v], [factor * slopes(v)], **how)
        assert report.verdict == "wrong", str(report)


@pytest.mark.parametrize("v", [1e-8, -1e-8])
def test_a_hinge_near_its_margin(v):
    def hinge(v):
        return np.maximum(0, 1 - (1 + v)).sum()

    right = np.array([-1.0 * (v < 0)])
    assert check_gradients(hinge, [np.array([v])], [right]).ok
    assert check_gradients(hinge, [np.array([v])], [right - 1]).verdict == "wrong"


# --- no complex step, and lengths that differ ---------------------------------------------------


def repulsion(x):
    """The energy of points on a line; float() leaves real differences alone."""
    return float(np.sum(1 / np.abs(np.diff(x))))


def repulsion_gradient(x, factor=1.0):
    pull = -np.sign(np.diff(x)) / np.diff(x) ** 2
    gradient = np.append(0, pull) - np.append(pull, 0)
    gradient[0] *= factor
    return gradient


@pytest.mark.parametrize("factor, verdict", [(1, "ok"), (3, "wrong"), (-1, "wrong"), (0, "wrong")])
@pytest.mark.parametrize("unit", [1.0, 1e-6, 1e-10])
def test_an_entry_that_is_zero_is_moved_by_the_size_of_its_neighbours(unit, factor, verdict):
    points = unit * np.array([0.0, 1.2, 3.1])
    report = check_gradients(repulsion, [points], lambda x: repulsion_gradient(x, factor))
    assert report.verdict == verdict


def bump(p, width=30.0):
    """A bell far from the origin."""
    return float(np.exp(-(((p - 5e5) / width) ** 2).sum() / 2))


def test_a_function_that_varies_over_far_less_than_its_input_is_not_called_flat():
    p = np.array([500020.0, 499990.0])
    right = -(p - 5e5) / 900 * bump(p)
    assert check_gradients(bump, [p], [right]).verdict != "wrong"
    assert check_gradients(bump, [p], [2 * right]).verdict == "wrong"
    assert check_gradients(bump, [p], [0 * p]).verdict == "wrong"


# --- functions that vary over far shorter lengths than their inputs ------------------------------


@pytest.mark.parametrize("factor", [1, 1.01, 0])
@pytest.mark.parametrize("rate", [1e4, 1e6, 1e9, 1e13])
def test_a_wave_at_zero_without_a_complex_step(rate, factor):
    report = check_gradients(lambda v: float(np.sin(rate * v).sum()), [np.zeros(3)],
                             [np.full(3, factor * rate)])
    assert report.verdict == ("ok" if factor == 1 else "wrong"), str(report)


@pytest.mark.parametrize("factor", [1, 1.01, 0])
def test_steps_of_whole_wavelengths(factor):
    rate, a = 2 * np.pi / 5e-7, np.array([3e-6, 1.1e-6])
    right = rate * np.cos(rate * a)
    report = check_gradients(lambda a: float(np.sin(rate * a).sum()), [a], [factor * right])
    assert report.verdict == ("ok" if factor == 1 else "wrong"), str(report)


@pytest.mark.parametrize("factor", [1, 1.01, 0])
def test_longer_steps_that_overflow(factor):
    right = -1e12 * np.exp(-3)
    report = check_gradients(lambda a: float(np.exp(-1e12 * a)), [3e-12], [factor * right])
    assert report.verdict == ("ok" if factor == 1 else "wrong"), str(report)


def test_small_inputs_are_not_said_to_have_an_offset():
    report = check_gradients(lambda v: float(v - np.floor(v)), [3 - 1e-13], [1.0])
    assert report.verdict == "undecided" and "offset" not in str(report)


@pytest.mark.parametrize("number", [float, np.asarray], ids=["differences", "both methods"])
@pytest.mark.parametrize("steps", [30, 36, 60, 100])
def test_a_chaotic_iteration_is_not_called_wrong(steps, number):
    """The logistic map: a rounding of its input grows to the size of its output."""
    def orbit(x):
        x = number(x)
        for _ in range(steps):
            x = 3.9 * x * (1 - x)
        return x

    def slope(x):
        d = 1.0
        for _ in range(steps):
            d, x = d * 3.9 * (1 - 2 * x), 3.9 * x * (1 - x)
        return [d]

    report = check_gradients(orbit, [0.3], slope)
    assert report.verdict == ("ok" if steps == 30 else "undecided"), str(report)
    assert report.evaluations < 1000 and "not the same in all directions" not in str(report)
    if steps > 30 and number is not float:
        assert "amplifies rounding" in str(report)
