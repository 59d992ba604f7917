"""Layers in the styles in which people write them: right ones pass, with every tensor checked,
wrong ones fail; the layer is left as it was; what cannot be checked is said in one line."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from grads.check.layers import check_layer
from grads.check.substitution import attributes_of

FILE = Path(__file__).with_name("layers_as_written.py")
TEXT = FILE.read_text(encoding="utf-8")


def styles(old="", new=""):
    """The layers of the file, with a mistake made in it."""
    namespace = {"__name__": "layers_as_written"}
    exec(compile(TEXT.replace(old, new) if old else TEXT, str(FILE), "exec"), namespace)
    return namespace["CHECKED"], namespace["MISTAKES"]


CHECKED, MISTAKES = styles()


def checked(report):
    """The names of the tensors of a report."""
    return {row.name for row in report.rows if row.upstream == "all" and row.checked}


@pytest.mark.parametrize("style", CHECKED)
def test_a_right_layer_passes_with_all_its_tensors_and_is_left_as_it_was(style):
    layer, inputs, names = styles()[0][style]
    before = state(layer)
    report = check_layer(layer, *inputs)
    report.raise_if_wrong()
    assert checked(report) == set(names.split())
    assert state(layer) == before


def state(layer):
    """Everything that a layer keeps, as bytes."""
    return repr(flat(layer))


def flat(value):
    """Values in place of objects."""
    if isinstance(value, dict):
        return {key: flat(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [flat(item) for item in value]
    if isinstance(value, np.ndarray):
        return pickle.dumps(value)
    return flat(attributes_of(value)) or repr(value)


@pytest.mark.parametrize("style", MISTAKES)
def test_a_wrong_layer_is_wrong(style):
    layer, inputs, _ = styles(*MISTAKES[style])[0][style]
    report = check_layer(layer, *inputs)
    assert report.verdict == "wrong", report


# --- what is said beside the verdict ------------------------------------------------------------

X = np.random.default_rng(1).normal(size=(5, 4))


class Dense:
    """A layer to change."""

    def __init__(self):
        self.W, self.b = np.ones((4, 3)) + X[:4, :3], np.zeros(3)

    def forward(self, x):
        self.x = x
        return x @ self.W + self.b

    def backward(self, d):
        self.dW, self.db = self.x.T @ d, d.sum(axis=0)
        return d @ self.W.T


class Kept(Dense):
    def forward(self, x):
        self.x = getattr(self, "x", x)
        return x @ self.W + self.b


def test_a_layer_that_keeps_what_its_first_call_got_is_said_to_do_so():
    report = check_layer(Kept(), X)
    assert report.verdict == "wrong" and "right when called once" in report.notes[-1]
    assert "right when called once" not in str(check_layer(Half(), X))


class Unnamed(Dense):
    def __init__(self):
        self.beta, self.gamma = np.zeros(4), np.ones(4)

    def forward(self, x):
        self.x = x
        return x * self.gamma + self.beta

    def backward(self, d):
        return d * self.gamma, d.sum(axis=0), (d * self.x).sum(axis=0)


def test_gradients_that_only_their_shape_tells_are_said():
    notes = [note for note in check_layer(Unnamed(), X).notes if "shape" in note]
    assert notes == [f"{name}: its gradient was taken by its shape, also that of {other}; names in "
                     "the return statement would tell, as dW of W"
                     for name, other in (("beta", "gamma"), ("gamma", "beta"))]


class Half(Dense):
    def backward(self, d):
        dx = super().backward(d)
        self.dW = self.dW / 2
        return dx


class Added(Dense):
    dW = db = 0

    def backward(self, d):
        self.dW, self.db = self.dW + self.x.T @ d, d.sum(axis=0)
        return d @ self.W.T


class AddedInPlace(Dense):
    def __init__(self):
        super().__init__()
        self.dW, self.db = np.zeros((4, 3)), np.zeros(3)

    def backward(self, d):
        self.dW += self.x.T @ d
        self.db += d.sum(axis=0)
        return d @ self.W.T


@pytest.mark.parametrize("kind", [Added, AddedInPlace])
def test_gradients_that_accumulate_are_set_to_zero_and_said_to_accumulate(kind):
    report = check_layer(kind(), X)
    names = "W, b" if kind is AddedInPlace else "W"
    assert report.ok and f"{names}: the backward adds to the gradients that are" in str(report)
    assert "adds" not in str(check_layer(Dense(), X))


class NoBias(Dense):
    def backward(self, d):
        self.dW = self.x.T @ d


def test_what_has_no_gradient_is_noted():
    report = check_layer(NoBias(), X)
    assert report.ok and checked(report) == {"W"}
    assert [note.partition(":")[0] for note in report.notes if "not checked" in note] == ["x", "b"]


class Pairs:
    """Tells its parameters and gradients in pairs, and keeps them under names of its own."""

    def __init__(self):
        self.used, self.filled, self.other = np.array([0.5, -1.0, 2.0]), None, np.ones(3)

    def parameters(self):
        return [(self.used, self.filled)]

    def forward(self, x):
        self.x = x
        return x * self.used

    def backward(self, d):
        self.filled = (d * self.x).sum(axis=0)
        return d * self.used


class Items(dict, Pairs):
    """A mapping that keeps its parameter in itself."""

    def __init__(self):
        self["used"] = np.array([0.5, -1.0, 2.0])
        self.used = self["used"]


@pytest.mark.parametrize("make", [Pairs, Items])
def test_a_gradient_that_cannot_be_told_is_undecided(make):
    report = check_layer(make(), np.random.default_rng(0).normal(size=(4, 3)))
    assert report.verdict == "undecided" and checked(report) == {"x"}
    (finding,) = report.findings
    assert finding[:2] == ("unchecked", "used") and "changes filled, of its" in finding.message
    assert [note for note in report.notes if "used" in note or "filled" in note] == []



def test_keywords_and_options_of_the_check():
    layer, (x, _), names = CHECKED["train=True"]
    report = check_layer(layer, x, keywords={"train": True}, every_entry=True, title="mine")
    assert report.ok and checked(report) == set(names.split()) and report.title == "mine"
    assert all(row.checked == row.size for row in report.rows)


def test_float32_weights():
    layer = Dense()
    layer.W, layer.b = layer.W.astype(np.float32), layer.b.astype(np.float32)
    assert check_layer(layer, X.astype(np.float32)).ok


def test_an_input_may_be_a_number_or_a_list():
    assert check_layer(Sine(), 0.3).ok and check_layer(Sine(), [0.3, 1.0]).ok


class Sine:
    def forward(self, x):
        self.slope = np.cos(x)
        return np.sin(x)

    def backward(self, d):
        return d * self.slope


class Buffered(Sine):
    def forward(self, x):
        out = np.zeros(x.shape)
        out[...] = super().forward(x)
        return out


def test_layers_in_a_list_may_write_into_buffers_in_a_complex_step():
    assert "complex" in check_layer([Buffered(), Buffered()], X).rows[0].errors


# --- what cannot be checked ---------------------------------------------------------------------


class Views(Dense):
    def __init__(self):
        super().__init__()
        rows = np.concatenate([self.W, self.W])
        self.W, self.top = rows[:len(self.W)], rows[:2]


class Empty:
    def forward(self, x):
        return np.sin(x)

    def backward(self, d):
        self.cos = d


class Strange(Empty):
    def backward(self, x, y, z):
        return x


class Targets(Empty):
    def backward(self, y):
        return y


class Bare(Empty):
    def backward(self):
        return 1


class Silent(Empty):
    def forward(self, x):
        self.result = x


class Uncopied(Dense):
    def __deepcopy__(self, memo):
        raise TypeError("there is one only")


class Misshapen(Dense):
    def backward(self, d):
        super().backward(d)
        return d


@pytest.mark.parametrize("layer, message", [
    (Dense, "layer: expected an object, got the class Dense"),
    (3, "layer: expected an object with a method __call__ or forward or "),
    (np.sin, "layer: expected an object with a method backward or "),
    (Views(), "layer: expected arrays that share no memory, got W and top"),
    (Empty(), "and no gradient"),
    (Strange(), "expected backward to take the gradient of the output, got backward(x, y, z); w"),
    (Targets(), "the gradient of the output, got backward(y); where it takes inputs or targets, s"),
    (Bare(), "expected backward to take the gradient of the output, got backward(); where"),
    (Silent(), "layer: expected forward to return an output, got None"),
    (Uncopied(), "expected an object that can be copied, got Uncopied: there is one only"),
    (Misshapen(), "gradients: expected 'x' of shape (5, 4), got (5, 3)"),
])
def test_what_cannot_be_checked_is_said_in_one_line(layer, message):
    with pytest.raises(ValueError) as caught:
        check_layer(layer, X)
    assert message in str(caught.value) and "\n" not in str(caught.value)


class BehindProperties:
    """A layer that shows its parameters and gradients as properties."""

    def __init__(self):
        self._values, self._slopes = {"scale": np.array([2.0, -3.0])}, {}

    params = property(lambda self: self._values)
    grads = property(lambda self: self._slopes)

    def forward(self, x):
        self.x = x
        return x * self.params["scale"]

    def backward(self, dy, factor=1.0):
        self.grads["scale"] = factor * (dy * self.x).sum(axis=0)
        return dy * self.params["scale"]


class BehindPropertiesWrong(BehindProperties):
    """Its gradient is twice the right one."""

    def backward(self, dy):
        return super().backward(dy, 2.0)


def test_parameters_behind_properties_are_checked():
    x = np.random.default_rng(1).normal(size=(3, 2))
    assert [row.name for row in check_layer(BehindProperties(), x).rows] == ["x", "scale"]
    assert [row.name for row in check_layer(BehindPropertiesWrong(), x).wrong] == ["scale"]


# --- numbers among the parameters -----------------------------------------------------------------


class Scaled:
    """Keeps a number beside an array, in mappings, lists or attributes."""

    def __init__(self, params, grads, factor):
        self.params, self.grads, self.factor = params, grads, factor
        self.W, self.b = params

    def forward(self, x):
        self.x = x
        return x @ self.params[self.W] + self.params[self.b]

    def backward(self, d):
        self.grads[self.W] = self.x.T @ d
        self.grads[self.b] = self.factor * d.sum()
        return d @ self.params[self.W].T


class Adding(Scaled):
    """Adds to its gradients."""

    def backward(self, d):
        self.grads[self.W] += self.x.T @ d
        self.grads[self.b] += self.factor * d.sum()
        return d @ self.params[self.W].T


W = np.random.default_rng(8).normal(size=(3, 2))


@pytest.mark.parametrize("make", [
    lambda factor: Scaled({"W": W, "b": 0.5}, {}, factor),
    lambda factor: Scaled({"W": W, "b": np.float64(0.5)}, {"W": None, "b": None}, factor),
    lambda factor: Adding({"W": W, "b": 0.5}, {"W": np.zeros((3, 2)), "b": 0.0}, factor),
    lambda factor: [Scaled({"W": W, "b": 0.5}, {}, factor)],
])
def test_numbers_among_the_parameters(make):
    x = np.random.default_rng(9).normal(size=(4, 3))
    report = check_layer(make(1.0), x)
    report.raise_if_wrong()
    assert [row.name.rpartition(".")[2] for row in report.rows] == ["x", "W", "b"]
    assert [row.status for row in check_layer(make(2.0), x).rows] == ["ok", "ok", "wrong"]


class Pair(NamedTuple):
    W: np.ndarray
    b: float


def test_numbers_in_lists_and_namedtuples_of_parameters():
    class Listed(Scaled):
        def __init__(self, factor):
            self.params, self.grads, self.factor = [W, 0.5], [None, None], factor
            self.W, self.b = 0, 1

    class Named(Listed):
        def __init__(self, factor):
            super().__init__(factor)
            self.params = Pair(*self.params)

        def backward(self, d):
            self.grads = [None, None]
            dx = super().backward(d)
            self.grads = Pair(*self.grads)
            return dx

    for make in (Listed, Named):
        x = np.random.default_rng(9).normal(size=(4, 3))
        assert [row.status for row in check_layer(make(1.0), x).rows] == ["ok", "ok", "ok"]
        assert [row.status for row in check_layer(make(2.0), x).rows] == ["ok", "ok", "wrong"]


def test_weights_that_are_lists_are_not_passed_over():
    class OfLists:
        def __init__(self):
            self.W = [[1.0, 2.0], [0.5, -1.0]]

        def forward(self, x):
            self.x = x
            return x @ np.array(self.W)

        def backward(self, d):
            self.dW = self.x.T @ d / len(d)  # wrong, which nobody can see
            return d @ np.array(self.W).T

    report = check_layer(OfLists(), np.random.default_rng(9).normal(size=(4, 2)))
    assert report.verdict == "undecided"
    [finding] = report.findings
    assert finding.name == "W" and "a list of numbers" in finding.message
