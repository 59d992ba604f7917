"""Numerical differentiation and the report built on it."""

from __future__ import annotations

import numpy as np
import pytest

from grads.check import central_difference, check_gradients, complex_step

RNG = np.random.default_rng(8)
VALUES = {"W": RNG.normal(size=(3, 4)), "b": RNG.normal(size=3)}
X = RNG.normal(size=4)


def loss(p):
    return np.log(np.cosh(p["W"] @ X + p["b"])).sum()


def gradient(p):
    d = np.tanh(p["W"] @ X + p["b"])
    return {"W": np.outer(d, X), "b": d}


def test_complex_step_is_exact_where_differences_cancel():
    """The example of Squire and Trapp (1998): f'(1.5) to all digits."""
    def f(a):
        return np.exp(a[0]) / (np.cos(a[0]) ** 3 + np.sin(a[0]) ** 3)

    found = complex_step(f, [np.array(1.5)])["0"]
    assert found.shape == ()
    np.testing.assert_allclose(found, 3.62203370071632887, rtol=1e-15)
    np.testing.assert_allclose(central_difference(f, [np.array(1.5)])["0"], found, rtol=1e-9)


@pytest.mark.parametrize("differentiate, rtol", [(complex_step, 1e-14), (central_difference, 1e-9)])
def test_all_entries_or_some(differentiate, rtol):
    full = differentiate(loss, VALUES)
    for name, d in gradient(VALUES).items():
        np.testing.assert_allclose(full[name], d, rtol=rtol)
    some = differentiate(loss, VALUES, {"W": np.array([7, 2])})
    np.testing.assert_array_equal(some["W"], full["W"].reshape(-1)[[7, 2]])
    assert list(some) == ["W"]


@pytest.mark.parametrize("method", ["complex", "central"])
def test_right_gradient_passes_and_inputs_stay(method):
    values = {k: v.copy() for k, v in VALUES.items()}
    gradients = gradient(values)
    for array in [*values.values(), *gradients.values()]:
        array.flags.writeable = False
    found = check_gradients(loss, values, gradients, method=method)
    assert found.ok and [row.checked for row in found.rows] == [12, 3]
    found.raise_if_wrong()
    for name in VALUES:
        np.testing.assert_array_equal(values[name], VALUES[name])


@pytest.mark.parametrize("method", ["complex", "central"])
@pytest.mark.parametrize("wrong", [1.001, 0.0, -1.0, np.nan, np.inf])
def test_wrong_entry_is_named(method, wrong):
    gradients = gradient(VALUES)
    gradients["W"][2, 1] *= wrong
    found = check_gradients(loss, VALUES, gradients, method=method)
    assert not found.ok
    [row] = found.wrong
    assert (row.name, row.worst) == ("W", (2, 1))
    np.testing.assert_allclose(row.numeric, gradient(VALUES)["W"][2, 1], rtol=1e-8)
    np.testing.assert_equal(row.analytic, gradients["W"][2, 1])
    with pytest.raises(AssertionError, match=r"wrong gradient: W\n(.|\n)*\(2, 1\).*WRONG"):
        found.raise_if_wrong()


def test_infinite_gradient_does_not_hide_other_errors():
    gradients = gradient(VALUES)
    gradients["W"][0, 0] = np.inf
    gradients["b"][1] *= 1.01
    found = check_gradients(loss, VALUES, gradients)
    assert [(row.name, row.worst) for row in found.wrong] == [("W", (0, 0)), ("b", (1,))]


def test_central_step_grows_with_the_argument():
    found = central_difference(lambda a: np.log(a[0]), [np.array(1e6)])["0"]
    np.testing.assert_allclose(found, 1e-6, rtol=1e-9)


def test_both_zero_is_no_error_and_one_zero_is():
    values = {"used": np.ones(2), "idle": np.ones(3)}
    gradients = {"used": np.full(2, 2.0), "idle": np.zeros(3)}

    def f(p):
        return (p["used"] ** 2).sum()

    assert [row.error for row in check_gradients(f, values, gradients).rows] == [0.0, 0.0]
    nothing = check_gradients(lambda p: (0 * p["used"]).sum(), values,
                              {k: v * 0 for k, v in gradients.items()})
    assert nothing.ok and nothing.rows[0].error == 0.0
    gradients["idle"][1] = 1e-3
    [row] = check_gradients(f, values, gradients).wrong
    assert (row.name, row.worst, row.error) == ("idle", (1,), 1.0)


def test_rounding_of_a_gradient_that_should_be_zero_is_no_error():
    gradients = gradient(VALUES) | {"idle": np.array([1e-17])}
    assert check_gradients(loss, VALUES | {"idle": np.ones(1)}, gradients).ok


def test_sequence_of_arrays():
    values, gradients = list(VALUES.values()), list(gradient(VALUES).values())

    def f(a):
        assert isinstance(a, list)
        return loss({"W": a[0], "b": a[1]})

    found = check_gradients(f, values, gradients)
    assert found.ok and [row.name for row in found.rows] == ["0", "1"]


def test_row_gradient_is_written_out():
    class Rows:
        def dense(self):
            return np.array([[0.0], [6.0], [0.0]])

    table = {"W_e": np.array([[1.0], [3.0], [5.0]])}
    assert check_gradients(lambda p: p["W_e"][1, 0] ** 2, table, {"W_e": Rows()}).ok


def test_sample_looks_at_zero_and_nonzero_gradients():
    """Only ten of 10000 gradients are not zero: a uniform sample would hardly see them."""
    values, weight = {"W": RNG.normal(size=(100, 100))}, np.zeros((100, 100))
    weight[37, 20:30] = 1.0
    seen = []

    def f(p):
        seen.append(1)
        return (weight * p["W"] ** 2).sum()

    right = {"W": 2 * weight * values["W"]}
    found = check_gradients(f, values, right, sample=12, rng=np.random.default_rng(1))
    assert found.ok and found.rows[0].checked == len(seen) == 12
    assert not check_gradients(f, values, {"W": right["W"] * 1.01}, sample=12).ok
    assert check_gradients(loss, VALUES, gradient(VALUES), sample=12).rows[0].checked == 12


def test_names_choose_what_is_checked():
    found = check_gradients(loss, VALUES, {"b": gradient(VALUES)["b"]}, names=["b"])
    assert found.ok and [row.name for row in found.rows] == ["b"]


@pytest.mark.parametrize("method", ["complex", "central"])
def test_tolerance_follows_dtype(method):
    """A float32 gradient is held to float32 accuracy; 0.5 % too much still fails."""
    values = {k: v.astype(np.float32) for k, v in VALUES.items()}
    gradients = {k: v.astype(np.float32) for k, v in gradient(values).items()}
    found = check_gradients(loss, values, gradients, method=method)
    assert found.ok and found.tolerance == 1e-3
    gradients["b"] = gradients["b"] * np.float32(1.005)
    assert not check_gradients(loss, values, gradients, method=method).ok
    assert check_gradients(loss, VALUES, gradient(VALUES)).tolerance == 1e-10


def test_loss_that_drops_the_imaginary_part_is_refused():
    with pytest.raises(ValueError, match="imaginary"):
        check_gradients(lambda p: loss(p).real, VALUES, gradient(VALUES))


def test_printed_table():
    lines = str(check_gradients(loss, VALUES, gradient(VALUES))).splitlines()
    assert lines[0] == "gradient check, method complex, tolerance 1e-10"
    assert lines[1].split() == ["name", "shape", "checked", "error", "at", "analytic", "numeric"]
    assert lines[2].startswith("W     (3, 4)  12") and lines[2].endswith("ok")
    column = lines[1].index("analytic")
    assert all(line[column - 1] == " " != line[column] for line in lines[1:])


@pytest.mark.parametrize("change, message", [
    ({"method": "forward"}, "method: expected one of"),
    ({"gradients": {"W": VALUES["W"]}}, "gradients: expected an entry named 'b'"),
    ({"gradients": VALUES | {"c": X}}, "parameters: expected an entry named 'c'"),
    ({"names": ["d"]}, "parameters: expected an entry named 'd'"),
    ({"gradients": VALUES | {"b": X}}, r"'b' of shape \(3,\), got \(4,\)"),
    ({"parameters": VALUES | {"b": VALUES["b"] + 0j}}, "parameters: expected 'b' of a real"),
])
def test_arguments_are_checked(change, message):
    arguments = {"loss": loss, "parameters": VALUES, "gradients": gradient(VALUES)} | change
    with pytest.raises(ValueError, match=message):
        check_gradients(**arguments)
