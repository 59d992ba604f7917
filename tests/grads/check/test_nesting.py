"""Parameters in nested mappings and lists, and inputs at the ends of what numbers can hold."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest

from grads.check import check_gradients, check_pair
from grads.check.losses import check_loss

RNG = np.random.default_rng(5)
X = RNG.normal(size=(4, 3))
NESTED = {"encoder": {"W": RNG.normal(size=(3, 2)), "b": RNG.normal(size=2)},
          "out": [RNG.normal(size=2), RNG.normal(size=2)]}


def loss(p):
    h = np.tanh(X @ p["encoder"]["W"] + p["encoder"]["b"])
    return (h @ p["out"][0]).sum() + (p["out"][1] ** 2).sum()


def gradient(p, factor=1.0):
    h = np.tanh(X @ p["encoder"]["W"] + p["encoder"]["b"])
    dz = (1 - h * h) * p["out"][0]
    return {"encoder": {"W": X.T @ dz, "b": factor * dz.sum(axis=0)},
            "out": [h.sum(axis=0), 2 * p["out"][1]]}


def test_nested_parameters_have_names_with_dots():
    for analytic in (gradient, gradient(NESTED)):
        report = check_gradients(loss, NESTED, analytic)
        assert report.ok and [row.name for row in report.rows] == [
            "encoder.W", "encoder.b", "out.0", "out.1"]
    [row] = check_gradients(loss, NESTED, gradient(NESTED, 2.0)).wrong
    assert (row.name, row.hints[0]) == ("encoder.b", "it is off by the factor 2")


def test_nested_parameters_of_a_pair_beside_an_array():
    def forward(x, p):
        return [layer @ x for layer in p["layers"]], (x, p)

    def backward(d, cache):
        x, p = cache
        return (sum(layer.T @ d_layer for layer, d_layer in zip(p["layers"], d, strict=True)),
                {"layers": [np.outer(d_layer, x) for d_layer in d]})

    inputs = [RNG.normal(size=3), {"layers": [RNG.normal(size=(2, 3)), RNG.normal(size=(4, 3))]}]
    assert check_pair(forward, backward, inputs).ok


@pytest.mark.parametrize("change, said", [
    (lambda g: g["encoder"].pop("b"), "expected an entry named 'encoder.b', got none"),
    (lambda g: g["encoder"].update(c=1.0), "expected an entry named 'encoder.c', got none"),
    (lambda g: g.update(out=g["out"][:1]), "expected 2 for 'out', as in the inputs, got 1"),
    (lambda g: g.update(encoder=1.0), "expected a mapping for 'encoder', as in the inputs"),
])
def test_gradients_in_another_form_are_told(change, said):
    nested = gradient(NESTED)
    change(nested)
    with pytest.raises(ValueError, match=said):
        check_gradients(loss, NESTED, nested)


@pytest.mark.parametrize("settings", [{"stride": 2}, {"stride": 2, "mode": "same"}, {}])
def test_a_mapping_of_settings_needs_no_gradient(settings):
    def forward(x, w, settings):
        stride = settings.get("stride", 1)
        return (x * w)[::stride], (x, w, stride)

    def backward(d, cache):
        x, w, stride = cache
        full = np.zeros_like(x)
        full[::stride] = d
        return full * w, full * x

    assert check_pair(forward, backward, [np.ones(6), np.arange(6.0) + 1, settings]).ok


def test_a_mapping_without_a_gradient_may_be_left_out():
    def pulled(x, pins):
        return (x ** 2).sum() + sum((x[k] - pin) ** 2 for k, pin in pins.items())

    def gradients(x, pins):
        d = 2 * x
        for k, pin in pins.items():
            d[k] += 2 * (x[k] - pin)
        return d, None

    inputs = [np.ones(2), {0: 1.5}]
    assert check_gradients(pulled, inputs, gradients, names=["x"]).ok
    report = check_gradients(pulled, inputs, gradients)
    assert report.verdict == "undecided" and report.findings[0].name == "pins.0"


def summed(p):
    tensors = p.values() if isinstance(p, dict) else p
    return sum((np.asarray(tensor) ** 2).sum() for tensor in tensors)


@pytest.mark.parametrize("gradients", [
    [1.0, -2.0], [3.0], [[1.0, 2.0], [3.0, 4.0]], [X, X[:1]], [X], {"a": X, "b": X[:1]}])
def test_the_gradient_of_an_only_input_has_its_form_or_is_the_only_one(gradients):
    doubled = ({key: 2 * tensor for key, tensor in gradients.items()} if isinstance(gradients, dict)
               else [(2 * np.asarray(tensor)).tolist() if isinstance(tensor, list) else 2 * tensor
                     for tensor in gradients])
    for inputs in ([gradients], {"p": gradients}):
        f = (lambda p: summed(p["p"])) if isinstance(inputs, dict) else summed
        for right in (doubled, [doubled], (doubled,), {"p": doubled}):
            assert check_gradients(f, inputs, right).ok
    with pytest.raises(ValueError, match="gradients: expected 1, one for each of p, got 3"):
        check_gradients(summed, [gradients], [X, X, X])


def test_a_list_gradient_may_be_wrong_too():
    report = check_gradients(summed, [[1.0, -2.0]], lambda p: [2.0, -2.0])
    assert report.verdict == "wrong" and report.rows[0].at == (1,)


@pytest.mark.parametrize("gradient, extent", [
    (size, extent) for size in (1.7e308, 1e300, -1e200, np.inf, np.nan)
    for extent in ({}, {"every_entry": True}, {"together": True})])
def test_an_astronomic_entry_of_a_gradient_is_wrong(gradient, extent):
    """The allowance for rounding does not overflow to infinity with it."""
    analytic = np.ones(40)
    analytic[7] = gradient
    report = check_gradients(np.sum, [np.linspace(-1, 1, 40)], [analytic], **extent)
    assert report.verdict == "wrong" and report.wrong[0].at == (7,)


@pytest.mark.parametrize("scale", [1e160, 1e300, 1e305])
@pytest.mark.parametrize("factor, verdict", [(1.0, "ok"), (1.001, "wrong"), (-1.0, "wrong")])
def test_an_astronomic_output(scale, factor, verdict):
    c = scale * np.linspace(1, 2, 40)
    report = check_gradients(lambda x: (c * x).sum(), [X.ravel()[:1] * np.ones(40)], [factor * c])
    assert report.verdict == verdict


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("factor, verdict", [(1.0, "ok"), (2.0, "wrong")])
@pytest.mark.parametrize("x", [1e200, 1e300])
def test_astronomic_inputs_leave_nothing_undecided(x, factor, verdict):
    report = check_gradients(lambda x: (1e-5 * x).sum(), [np.full(5, x)],
                             [np.full(5, factor * 1e-5)])
    assert report.verdict == verdict


def test_beyond_them_there_is_one_line():
    with pytest.raises(ValueError, match=r"inputs: expected values of at most 1e\+300 in 'x', got "
                                         r"1.7e\+308: the steps and sums of a check would over"):
        check_gradients(lambda x: np.tanh(x).sum(), [np.array([1.0, -1.7e308])], [np.zeros(2)])


@pytest.mark.parametrize("f", [
    lambda x: (x.astype(object) ** 2).sum(), lambda x: (np.array(list(x), object) ** 2).sum()])
def test_an_object_array_inside_is_named(f):
    report = check_gradients(f, [X], [2 * X])
    assert report.ok and not check_gradients(f, [X], [3 * X]).ok
    assert "a cast to object drops the imaginary part at " in report.notes[0]


def test_inputs_that_are_tiny_or_huge():
    for f, slope, x in ((np.sqrt, lambda x: 0.5 / np.sqrt(x), [1e-150, 1e-40, 1e-12, 1.0]),
                        (np.log, lambda x: 1 / x, [1e-40, 1.0]),
                        (np.log, lambda x: 1 / x, [1e300, 1e12, 1.0])):
        assert check_pair(lambda x, f=f: (f(x), x), lambda d, x, slope=slope: d * slope(x),
                          [np.array(x)]).ok


def test_outputs_that_are_no_numbers():
    both = check_pair(lambda x: ((x * x, x > 0), x), lambda d, x: 2 * x * d[0], [X])
    assert both.ok  # decisions beside the values
    with pytest.raises(ValueError, match="expected real numbers in output 'f', got <U1"):
        check_pair(lambda x: ("a", x), lambda d, x: d, [X])


def test_a_number_that_is_no_array_reaches_the_functions_as_it_is():
    """A seed: np.random.default_rng takes no array of no axes."""
    def forward(x, seed):
        kept = np.random.default_rng(seed).random(x.shape) < 0.5
        return x * kept, kept

    x = np.arange(1.0, 5.0)
    assert check_pair(forward, lambda d, kept: d * kept, [x, 42]).ok
    with pytest.raises(ValueError, match=r"expected 1, one for each of x \(seed: integers, without "
                       r"a gradient\), got 3"):
        check_pair(forward, lambda d, kept: (d, d, d), [x, 42])


def scaled(p, factor=1.0):
    """A function with settings beside its arrays, and its gradient."""
    assert p["options"]["shape"] == (4, 2) and p["options"]["name"] is None
    power = {"square": 2, "cube": 3}[p["options"]["mode"]] if p["flag"] else 1
    value = (p["W"][p["ids"]] ** power).sum()
    dW = np.zeros_like(p["W"])
    np.add.at(dW, p["ids"], factor * power * p["W"][p["ids"]] ** (power - 1))
    return value, {"W": dW}


@pytest.mark.parametrize("mode, flag", [("square", True), ("cube", True), ("cube", False)])
def test_settings_beside_arrays_reach_the_functions_as_they_are(mode, flag):
    inputs = {"W": RNG.normal(size=(4, 2)), "ids": np.array([0, 3, 3]), "flag": flag,
              "options": {"mode": mode, "shape": (4, 2), "name": None}}
    for factor in (1.0, 2.0):
        report = check_gradients(lambda p: scaled(p)[0], inputs, lambda p: scaled(p, factor)[1])  # noqa: B023
        assert report.ok == (factor == 1) and [row.name for row in report.rows] == ["W"]
    with pytest.raises(ValueError, match="'ids' is of int64, which has no derivative"):
        check_gradients(lambda p: scaled(p)[0], inputs,
                        lambda p: scaled(p)[1] | {"ids": np.ones(3)})


def nested_loss(net, head, factor):
    h = np.tanh(X @ net["encoder"]["W"] + net["encoder"]["b"])
    dz = (1 - h * h) * head["W"]
    dnet = {"encoder": {"W": X.T @ dz, "b": dz.sum(axis=0)}}
    dhead = {"W": factor * h.sum(0)}
    return (h @ head["W"]).sum(), dnet, dhead


@pytest.mark.parametrize("gradients", [(), ("net", "head")])
def test_nested_gradients_of_a_loss_belong_to_the_mapping_of_their_name(gradients):
    inputs = {"encoder": NESTED["encoder"]}, {"W": NESTED["out"][0]}
    report = check_loss(nested_loss, *inputs, 1.0, gradients=gradients)
    assert report.ok
    assert [row.name for row in report.rows] == ["net.encoder.W", "net.encoder.b", "head.W"]
    report = check_loss(nested_loss, *inputs, 2.0, gradients=gradients)
    assert [row.name for row in report.wrong] == ["head.W"]


class Affine(NamedTuple):
    w: np.ndarray
    c: float


@dataclass
class Kept:
    w: np.ndarray
    c: np.ndarray
    mode: str = "plain"


@dataclass(frozen=True)
class Both:
    first: Affine
    second: Kept


def affine(p, x):
    return x @ p.w + p.c, (p, x)


def affine_backward(d, cache, factor=1.0):
    p, x = cache
    kind = Affine if isinstance(p, Affine) else Kept
    return kind(w=x.T @ d, c=factor * d.sum()), np.outer(d, p.w)


@pytest.mark.parametrize("p", [Affine(RNG.normal(size=3), 0.2), Kept(RNG.normal(size=3), 0.2)])
def test_a_namedtuple_and_a_dataclass_are_taken_apart_by_their_fields(p):
    report = check_pair(affine, affine_backward, [p, X])
    assert report.ok and [row.name for row in report.rows] == ["p.w", "p.c", "x"]
    wrong = check_pair(affine, partial(affine_backward, factor=2.0), [p, X])
    assert [row.name for row in wrong.wrong] == ["p.c"]

    def loss(p):
        return affine(p, X)[0].sum()

    def gradient(p):
        return affine_backward(np.ones(4), (p, X))[0]

    for gradients in (gradient, gradient(p), {"w": X.sum(axis=0), "c": 4.0}):
        assert check_gradients(loss, p, gradients).ok
    with pytest.raises(ValueError, match="expected a mapping for 'p', as in the inputs, got float"):
        check_pair(affine, lambda d, cache: (1.0, d), [p, X])


def test_a_namedtuple_may_have_gradients_in_its_order():
    p = Affine(RNG.normal(size=3), 0.2)
    assert check_pair(affine, lambda d, cache: (
        tuple(affine_backward(d, cache)[0]), np.outer(d, cache[0].w)), [p, X]).ok


def test_dataclasses_inside_each_other():
    both = Both(Affine(RNG.normal(size=3), 0.2), Kept(RNG.normal(size=3), np.array(0.3)))

    def loss(p, factor=1.0):
        (y, first), (z, second) = affine(p.first, X), affine(p.second, X)
        return (y * z).sum(), Both(affine_backward(z, first)[0],
                                   affine_backward(y, second, factor)[0])

    names = ["p.first.w", "p.first.c", "p.second.w", "p.second.c"]
    for report in (check_loss(loss, both),
                   check_gradients(lambda p: loss(p)[0], both, lambda p: loss(p)[1])):
        assert report.ok and [row.name for row in report.rows] == names
    assert [row.name for row in check_loss(loss, both, 2.0).wrong] == ["p.second.c"]


def test_the_number_of_gradients_may_be_that_of_the_names_to_check():
    def product(x, s):
        return x * s, s

    inputs = [np.ones(3), np.arange(3.0) + 1]
    with pytest.raises(ValueError, match=r"got 1; say names=\[...\] \(in a file, NAME_names\), "
                                         "or return None for the others"):
        check_pair(product, lambda d, s: d * s, inputs)
    assert [row.name for row in check_pair(product, lambda d, s: d * s, inputs, names=["x"]).rows
            ] == ["x"]
    assert check_gradients(lambda x, s: (x * s).sum(), inputs, [inputs[1]], names=["x"]).ok
    assert not check_pair(product, lambda d, s: 2 * d * s, inputs, names=["x"])


@pytest.mark.parametrize("kept", [dict, lambda items: list(dict(items).values())])
def test_the_gradient_of_one_mapping_or_list_beside_data_has_its_form(kept):
    rng = np.random.default_rng(0)
    weights, data = kept({"m": rng.normal(size=3), "s": rng.normal(size=3)}), rng.normal(size=3)

    def loss(w, c):
        m, s = w.values() if kept is dict else w
        return (c * m ** 2 + np.sin(s)).sum()

    def gradient(w, c):
        m, s = w.values() if kept is dict else w
        return kept({"m": 2 * c * m, "s": np.cos(s)})

    report = check_gradients(loss, [weights, data], gradient, names=["w"])
    assert report.ok and len(report.rows) == 2
    assert not check_gradients(
        loss, [weights, data], lambda w, c: gradient(w, 2 * c), names=["w"])
    if kept is dict:
        with pytest.raises(ValueError, match=r"a mapping like 'w'; .* say names=\['w'\]"):
            check_gradients(loss, [weights, data], gradient)


class Params:
    def __init__(self):
        self.w = np.ones(3)


def test_an_object_that_is_no_dataclass_is_told_what_to_become():
    with pytest.raises(ValueError, match="put its arrays into a mapping, or make it a dataclass"):
        check_gradients(lambda layer: 0.0, [Params()], [np.ones(1)])
