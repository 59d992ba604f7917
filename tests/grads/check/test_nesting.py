"""Parameters in nested mappings and lists, and inputs at the ends of what numbers can hold."""

from __future__ import annotations

import numpy as np
import pytest

from grads.check import check_gradients, check_pair

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
    for given in (gradient, gradient(NESTED)):
        found = check_gradients(loss, NESTED, given)
        assert found.ok and [row.name for row in found.rows] == [
            "encoder.W", "encoder.b", "out.0", "out.1"]
    [row] = check_gradients(loss, NESTED, gradient(NESTED, 2.0)).wrong
    assert (row.name, row.hints[0]) == ("encoder.b", "it is off by the factor 2")


def test_nested_parameters_of_a_pair_beside_an_array():
    def forward(x, p):
        return [layer @ x for layer in p["layers"]], (x, p)

    def backward(d, cache):
        x, p = cache
        return (sum(layer.T @ one for layer, one in zip(p["layers"], d, strict=True)),
                {"layers": [np.outer(one, x) for one in d]})

    inputs = [RNG.normal(size=3), {"layers": [RNG.normal(size=(2, 3)), RNG.normal(size=(4, 3))]}]
    assert check_pair(forward, backward, inputs).ok


@pytest.mark.parametrize("change, said", [
    (lambda g: g["encoder"].pop("b"), "expected an entry named 'encoder.b', got none"),
    (lambda g: g["encoder"].update(c=1.0), "expected an entry named 'encoder.c', got none"),
    (lambda g: g.update(out=g["out"][:1]), "expected 2 for 'out', got 1"),
    (lambda g: g.update(encoder=1.0), "expected a mapping for 'encoder', as in the inputs"),
])
def test_gradients_in_another_form_are_told(change, said):
    found = gradient(NESTED)
    change(found)
    with pytest.raises(ValueError, match=said):
        check_gradients(loss, NESTED, found)


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
