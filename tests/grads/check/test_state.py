"""Layers that keep something on themselves: what they were is what they are after a check."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from grads.check import check_gradients, check_pair
from grads.check.analytic import pair_case
from grads.check.layers import check_layer
from grads.check.losses import check_loss
from grads.check.state import State

RNG = np.random.default_rng(17)


class Linear:
    """A layer as people write it."""

    def __init__(self):
        self.W, self.b = RNG.normal(size=(3, 2)), np.zeros(2)
        self.x = self.dW = None

    def forward(self, x):
        self.x = x
        return np.tanh(x @ self.W + self.b)

    def backward(self, dy):
        dz = dy * (1 - np.tanh(self.x @ self.W + self.b) ** 2)
        self.dW, self.db = self.x.T @ dz, dz.sum(axis=0)
        return dz @ self.W.T


class FirstInput(Linear):
    """Keeps the x of its first call."""

    def forward(self, x):
        if self.x is None:
            self.x = x
        return np.tanh(x @ self.W + self.b)


class FirstMask(Linear):
    """Keeps the mask of its first call."""

    mask = None

    def forward(self, x):
        self.x = x
        z = x @ self.W + self.b
        if self.mask is None:
            self.mask = z > 0
        return np.maximum(z, 0)

    def backward(self, dy):
        dz = dy * self.mask
        self.dW, self.db = self.x.T @ dz, dz.sum(axis=0)
        return dz @ self.W.T


class Appending(Linear):
    """Keeps a list of inputs, of which the backward takes the last."""

    def __init__(self):
        super().__init__()
        self.saved = []

    def forward(self, x):
        self.saved.append(x)
        return np.tanh(x @ self.W + self.b)

    def backward(self, dy):
        self.x = self.saved.pop()
        return super().backward(dy)


class FirstOfList(Appending):
    """Takes the first of the list instead."""

    def backward(self, dy):
        self.x = self.saved[0]
        return Linear.backward(self, dy)


class Counting(Linear):
    """Has running statistics, a random generator and a buffer that is written over."""

    def __init__(self):
        super().__init__()
        self.mean, self.calls = np.zeros(3), 0
        self.rng, self.buffer = np.random.default_rng(1), np.zeros((4, 3))

    def forward(self, x):
        self.mean *= 0.9
        self.mean += 0.1 * x.mean(axis=0).real
        self.calls += 1
        self.rng.random(5)
        self.buffer[...] = x.real
        return super().forward(x)


def pair_of(layer):
    """Its functions, which set the layer's parameters, as in a training loop."""
    def forward(x, W, b):
        layer.W, layer.b = W, b
        return layer.forward(x), None

    def backward(dy, _):
        dx = layer.backward(dy)
        return dx, layer.dW, layer.db

    return forward, backward


def check(layer):
    x = RNG.normal(size=(4, 3))
    return check_pair(*pair_of(layer), [x, layer.W, layer.b])


@pytest.mark.parametrize("make", [Linear, Appending, Counting])
def test_layers_with_state_are_right(make):
    check(make()).raise_if_wrong()


@pytest.mark.parametrize("make", [FirstInput, FirstMask, FirstOfList])
@pytest.mark.parametrize("used", [False, True])
def test_a_layer_that_keeps_its_first_call(make, used):
    layer = make()
    x = RNG.normal(size=(4, 3))
    if used:
        layer.forward(x)
    report = check_pair(*pair_of(layer), [x, layer.W, layer.b])
    assert report.verdict == "wrong"
    assert "does it keep something of its first call?" in str(report)


# --- functions that count their calls -----------------------------------------------------------

CALLS = {"count": 0}


def slower(x):
    """Depends on the number of calls."""
    CALLS["count"] += 1
    return x**2 / CALLS["count"], (x, CALLS["count"])


class Slower(Linear):
    """Counts the calls of all layers of the class."""

    calls = 0

    def forward(self, x):
        Slower.calls += 1
        self.count = Slower.calls
        return super().forward(x) / self.count

    def backward(self, dy):
        return super().backward(dy / self.count)


def test_functions_that_count_their_calls():
    config = ModuleType("users_config")
    config.calls = 0

    def counted(x):
        config.calls += 1
        return (x**3).sum() / config.calls

    def gradient(x):  # counts, too
        config.calls += 1
        return 3 * x**2 / config.calls

    def loss(W):
        CALLS["count"] += 1
        return (W**2).sum() / CALLS["count"], 2 * W / CALLS["count"]

    x = RNG.normal(size=(4, 3))
    reports = [
        check_pair(slower, lambda d, cache: 2 * d * cache[0] / cache[1], [x]),
        check_gradients(counted, [x], gradient),
        check_gradients(counted, [x], lambda x: 3 * x**2 / config.calls),
        check_layer(Slower(), x),
        check_loss(loss, x),
    ]
    for report in reports:
        report.raise_if_wrong()
        assert "each run starts from the same variables" in str(report)
    assert (CALLS["count"], Slower.calls, config.calls) == (0, 0, 0)


def test_a_wrong_function_that_counts_its_calls():
    report = check_pair(slower, lambda d, cache: d * cache[0] / cache[1], [RNG.normal(size=3)])
    assert "it is off by the factor 0.5" in str(report)


@pytest.mark.parametrize("rng", [np.random.default_rng(3), np.random.RandomState(3), np.random])
def test_random_numbers_beside_a_counter(rng):
    def dropped(x):
        CALLS["count"] += 1
        mask = (rng.uniform(size=x.shape) > 0.5) / CALLS["count"]
        return x * mask, mask

    report = check_pair(dropped, lambda d, mask: d * mask, [RNG.normal(size=(4, 3))])
    assert report.verdict == "wrong" and "two runs of the function differ" in str(report)


def test_a_variable_of_the_module_and_of_a_closure():
    for functions in (closed_over(), (forward_kept, backward_kept)):
        x = RNG.normal(size=(3, 3))
        assert "first call" in str(check_pair(*functions, [x]))


def closed_over():
    first = None

    def forward(x):
        nonlocal first
        first = x if first is None else first
        return x**2, None

    return forward, lambda dy, _: 2 * first * dy


KEPT = None


def forward_kept(x):
    global KEPT
    KEPT = x if KEPT is None else KEPT
    return x**2, None


def backward_kept(dy, _):
    return 2 * KEPT * dy


# --- afterwards ---------------------------------------------------------------------------------


def contents(layer):
    """Copies of a layer's attributes."""
    return {name: np.copy(value) if isinstance(value, np.ndarray) else
            value.bit_generator.state if isinstance(value, np.random.Generator) else
            list(value) if isinstance(value, list) else value
            for name, value in vars(layer).items()}


@pytest.mark.parametrize("make", [Linear, FirstInput, FirstMask, Appending, Counting])
@pytest.mark.parametrize("used", [False, True])
def test_a_layer_stands_as_before(make, used):
    layer = make()
    x = RNG.normal(size=(4, 3))
    if used:
        layer.forward(x)
    before, objects = contents(layer), dict(vars(layer))
    check_pair(*pair_of(layer), [x, layer.W, layer.b])
    assert vars(layer).keys() == objects.keys()
    assert all(vars(layer)[name] is value for name, value in objects.items())
    np.testing.assert_equal(contents(layer), before)


def test_arrays_that_are_written_in_place():
    """The layer's own arrays are the inputs, and its functions write into them."""
    layer = Linear()
    x, kept = RNG.normal(size=(4, 3)), layer.W.copy()

    def forward(x, W, b):
        layer.W[...] = W.real
        return np.tanh(x @ W + b), (x, W, b)

    def backward(dy, cache):
        x, W, b = cache
        dz = dy * (1 - np.tanh(x @ W + b) ** 2)
        return dz @ W.T, x.T @ dz, dz.sum(axis=0)

    check_pair(forward, backward, [x, layer.W, layer.b]).raise_if_wrong()
    assert np.array_equal(layer.W, kept)


def test_after_an_error_half_way():
    layer = Counting()
    forward, _ = pair_of(layer)
    before = contents(layer)

    def fails(dy, _):
        layer.extra = dy
        raise RuntimeError("half-way")

    with pytest.raises(RuntimeError, match="half-way"):
        check_pair(forward, fails, [RNG.normal(size=(4, 3)), layer.W, layer.b])
    np.testing.assert_equal(contents(layer), before)


def test_a_function_with_a_gradient():
    layer = Counting()
    x, before = RNG.normal(size=(4, 3)), contents(layer)
    check_gradients(lambda x: layer.forward(x).sum(), [x],
                    lambda x: (layer.forward(x), layer.backward(np.ones((4, 2))))[1]
                    ).raise_if_wrong()
    np.testing.assert_equal(contents(layer), before)


def test_what_keeps_no_state():
    case = pair_case(np.sin, np.cos, [np.ones(3)], {})
    assert not State(case.forward, case.vjp).mutable
    assert State(*pair_of(Linear())).mutable


def test_the_global_random_generator_is_restored():
    np.random.seed(3)
    before = np.random.get_state()[1].copy()

    def noisy(x):
        np.random.uniform(size=5)
        return (x**2).sum()

    check_gradients(noisy, [RNG.normal(size=3)], lambda x: [2 * x])
    assert np.array_equal(np.random.get_state()[1], before)


OMEGAS = [1.1, 1.7, 2.5]


def test_default_arguments_are_restored():
    """The diagnosis tries changes of the backward; some of them write into what it reads."""
    def f(a, omegas=OMEGAS):
        return sum(np.sum(np.sin(w * a) * a) for w in omegas)

    def g(a, omegas=OMEGAS):
        d = np.zeros_like(a)
        for w in omegas:
            e = np.zeros(3)
            e[-1] = 1 / len(omegas)
            d += 3 * e[-1] * (np.sin(w * a) + np.cos(w * a) * a)
        return [1.1 * d]

    a = np.random.default_rng(0).normal(size=4)
    before = f(a)
    assert check_gradients(f, [a], g).wrong
    assert f(a) == before and OMEGAS == [1.1, 1.7, 2.5]
