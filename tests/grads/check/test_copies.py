"""Copies of layers that keep functions, and of layers that keep what cannot be copied."""

import functools
import threading
import types

import numpy as np
import pytest

from grads.check.copies import deep_copy
from grads.check.layers import check_layer

X = np.random.default_rng(0).normal(size=(3, 2))


class Scale:
    """x W, with a forward that makes the function of the backward."""

    factor = 1.0

    def __init__(self):
        self.W = np.array([2.0, 3.0])

    def forward(self, x):
        def pull(d):
            self.dW = self.factor * (d * x).sum(0)
            return d * self.W

        self.pull = pull
        return x * self.W

    def backward(self, d):
        return self.pull(d)


class Hooks(Scale):
    """A function made in `__init__` that uses the layer."""

    def __init__(self):
        super().__init__()
        self.hooks = [lambda: setattr(self, "dW", self.factor * self.sums)]

    def forward(self, x):
        self.x = x
        return x * self.W

    def backward(self, d):
        self.sums = (d * self.x).sum(0)
        for hook in self.hooks:
            hook()
        return d * self.W


class Defaults(Scale):
    """Functions without a closure, which use the layer as a default."""

    def forward(self, x):
        def pull(d, layer=self, *, x=x):
            layer.dW = layer.factor * (d * x).sum(0)
            return d * layer.W

        self.pull = pull
        return x * self.W


class Partials(Scale):
    """A partial function of a function that uses the layer's mapping of gradients."""

    def __init__(self):
        self.params, self.grads = {"W": np.array([2.0, 3.0])}, {"W": np.zeros(2)}

    def forward(self, x):
        gradients, W = self.grads, self.params["W"]

        def pull(x, d):
            gradients["W"] += self.factor * (d * x).sum(0)
            return d * W

        self.pull = functools.partial(pull, x)
        return x * W


class Node:
    """A number on a tape, as in micrograd."""

    def __init__(self, data, children=()):
        self.data, self.children = data, {*children}
        self.grad, self._backward = np.zeros(np.shape(data)), lambda: None

    def times(self, other, factor=1.0):
        out = Node(self.data * other.data, (self, other))

        def _backward():
            self.grad += factor * out.grad * other.data
            other.grad += out.grad * self.data

        out._backward = _backward
        return out

    def nodes(self, seen):
        for child in self.children - {*seen}:
            child.nodes(seen)
        return [*seen, self] if self in seen else seen.append(self) or seen


class Tape(Scale):
    """x W by a tape of nodes; the backward runs the function of each."""

    def forward(self, x):
        self.x, self.node = Node(x), Node(self.W * np.ones_like(x))
        self.out = self.x.times(self.node, self.factor)
        return self.out.data

    def backward(self, d):
        self.out.grad += d
        for node in reversed(self.out.nodes([])):
            node._backward()
        self.dW = self.node.grad.sum(0)
        return self.x.grad


def Attributes():
    """An object that keeps its forward and its backward as attributes."""
    layer = types.SimpleNamespace(W=np.array([2.0, 3.0]), factor=1.0)

    def forward(x):
        layer.x = x
        return x * layer.W

    def backward(d):
        layer.dW = layer.factor * (d * layer.x).sum(0)
        return d * layer.W

    layer.forward, layer.backward = forward, backward
    return layer


class Names(dict):
    """A mapping whose items are attributes; one that is not there raises KeyError."""

    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__


class Bag(Scale):
    """A layer that keeps its parameters so, and itself raises KeyError."""

    def __init__(self):
        self.params, self.grads = Names(W=np.array([2.0, 3.0])), Names(W=np.zeros(2))

    def __getattr__(self, name):
        raise KeyError(name)

    def forward(self, x):
        self.x = x
        return x * self.params.W

    def backward(self, d):
        self.grads.W = self.factor * (d * self.x).sum(0)
        return d * self.params.W


class Locked(Scale):
    """A layer with what cannot be copied: a lock, an open file, a generator and a module."""

    def __init__(self):
        super().__init__()
        self.lock, self.file = threading.Lock(), open(__file__)
        self.numbers, self.xp = (k for k in range(3)), np

    def forward(self, x):
        with self.lock:
            return super().forward(self.xp.asarray(x))


class Flat(Scale):
    """All parameters in one vector, and all gradients in another."""

    def __init__(self):
        self.theta, self.dtheta = np.array([2.0, 3.0, 0.5, -1.0]), np.zeros(4)
        self.W, self.b = self.theta.reshape(2, 2)
        self.dW, self.db = self.dtheta.reshape(2, 2)

    def forward(self, x):
        self.x = x
        return x * self.W + self.b

    def backward(self, d):
        self.dW += self.factor * (d * self.x).sum(0)
        self.db += d.sum(0)
        return d * self.W


class FlatCut(Flat):
    """The same with views that are made in each call."""

    def forward(self, x):
        W, b = self.theta.reshape(2, 2)
        self.x = x
        return x * W + b


@pytest.mark.parametrize("kind", [Flat, FlatCut])
def test_parameters_in_one_vector_are_checked_as_that(kind):
    report = check_layer(kind(), X)
    assert report.ok and {row.name for row in report.rows} == {"x", "theta"}
    assert "W: a view of theta, checked as a part of it" in report.notes
    wrong = kind()
    wrong.factor = 2.0
    assert [row.name for row in check_layer(wrong, X).wrong] == ["theta"]


def test_a_view_of_an_array_is_copied_as_a_view_of_its_copy():
    a, F = np.arange(12.0), np.asfortranarray(np.arange(6.0).reshape(2, 3))
    views = [a, F, a[2:8].reshape(2, 3).T[::-1], F[1:, ::2], a[::-1].view(int)]
    copied = deep_copy(views, {})
    assert all(map(np.array_equal, copied, views))
    assert copied[2].base is copied[0] and copied[3].base is copied[1]
    assert not np.shares_memory(copied[0], a)
    assert np.array_equal(deep_copy(views[3], {id(F): F.copy("C")}), views[3])


@pytest.mark.parametrize("kind", [Scale, Hooks, Defaults, Partials, Tape, Attributes, Bag, Locked])
def test_functions_that_a_layer_makes_use_its_copy(kind):
    layer, wrong = kind(), kind()
    report = check_layer(layer, X)
    assert report.ok and {"x", "W"} <= {row.name for row in report.rows}
    assert not {"dW", "pull"} & {*vars(layer)}
    wrong.factor = 2.0
    assert check_layer(wrong, X).wrong


def test_functions_that_share_a_variable_share_its_copy():
    def counter():
        count = 0

        def add():
            nonlocal count
            count += 1

        def again(n):
            return n and 1 + again(n - 1)

        return add, lambda: count, again

    functions = counter()
    add, read, again = deep_copy(functions, {})
    add()
    add()
    assert read() == 2 and functions[1]() == 0
    assert again(3) == 3 and again.__closure__[0].cell_contents is again


def test_a_long_tape_is_copied():
    node = first = Node(2.0)
    for _ in range(900):
        node = node.times(Node(1.0))
    copied = deep_copy(node, memo := {})
    copied.grad += 1
    for other in copied.nodes([])[::-1]:
        other._backward()
    assert memo[id(first)].grad == 1 and first.grad == 0
