"""The check: what it says of right gradients, of wrong ones, and of what cannot be checked."""

from __future__ import annotations

import json
from itertools import count

import numpy as np
import pytest

from grads.check import METHODS, check_case, check_gradients, check_pair
from grads.check.case import Block, Case, Labels
from grads.check.comparison import Check
from grads.check.directions import compare_line
from grads.check.entries import choose
from grads.check.evaluate import Evaluator, Line
from grads.check.page import html_page

RNG = np.random.default_rng(8)
VALUES = {"W": RNG.normal(size=(3, 4)), "b": RNG.normal(size=3)}
X = RNG.normal(size=4)


def loss(p):
    return np.log(np.cosh(p["W"] @ X + p["b"])).sum()


def gradient(p):
    d = np.tanh(p["W"] @ X + p["b"])
    return {"W": np.outer(d, X), "b": d}


def forward(x, W, b):
    """Two outputs."""
    h = np.tanh(W @ x + b)
    return (h, x * x), (x, W, h)


def backward(d, cache):
    x, W, h = cache
    dz = (1 - h * h) * d[0]
    return W.T @ dz + 2 * x * d[1], np.outer(dz, x), dz


INPUTS = (X, VALUES["W"], VALUES["b"])


# --- right gradients ----------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["both", "complex", "ridders", "central", "forward"])
def test_right_gradient_passes_and_inputs_stay(method):
    values = {k: v.copy() for k, v in VALUES.items()}
    gradients = gradient(values)
    for array in [*values.values(), *gradients.values()]:
        array.flags.writeable = False
    for every in (False, True):
        report = check_gradients(loss, values, gradients, method=method, every_entry=every)
        assert report.ok and [(row.checked, row.directions, row.size) for row in report.rows] == [
            (12, 0, 12) if every else (1, 2, 12), (3, 0, 3)]
        first, *second = METHODS[method]
        assert [list(row.errors) for row in report.rows] == (
            [[first, *second]] * 2 if every else [[first, "directions"], [first]])
        report.raise_if_wrong()
    for name in VALUES:
        np.testing.assert_array_equal(values[name], VALUES[name])


def test_pair_with_two_outputs_and_names_from_the_signature():
    report = check_pair(forward, backward, INPUTS)
    assert report.ok and [row.name for row in report.rows] == ["x", "W", "b"]
    assert report.outputs == ("0", "1")
    assert all(0 < row.error < 1e-9 for row in report.rows)


def test_an_output_that_is_a_number_of_python_beside_an_array():
    """It has no shape and no dtype of its own, and none is needed for its zero upstream gradient.
    """
    def forward(x):
        return (x * x, float((x**3).sum())), x

    assert check_pair(forward, lambda d, x: 2 * x * d[0] + 3 * x**2 * d[1], [X]).ok
    assert check_pair(forward, lambda d, x: 2 * x * d[0], [X]).verdict == "wrong"


def test_mappings_of_outputs_and_nested_ones():
    def run(p):
        return {"h": np.tanh(p["x"]), "last": [p["x"] ** 2, (p["x"] ** 3,)]}, p["x"]

    def vjp(d, x):
        (cube,) = d["last"][1]
        return {"x": d["h"] * (1 - np.tanh(x) ** 2) + 2 * x * d["last"][0] + 3 * x * x * cube}

    report = check_pair(run, vjp, {"x": X})
    assert report.ok and report.outputs == ("h", "last.0", "last.1.0")


def test_analytic_gradients_by_upstream_gradient_or_by_function():
    d_out = RNG.normal(size=3)
    analytic = [np.outer(d_out, X)]
    assert check_gradients(lambda W: W @ X, [VALUES["W"]], analytic, upstream=d_out).ok
    assert not check_gradients(lambda W: W @ X, [VALUES["W"]], analytic, upstream=d_out[::-1]).ok
    assert check_gradients(loss, VALUES, gradient).ok
    assert check_gradients(np.sin, np.array(0.3), np.cos).ok
    assert check_gradients(lambda x, y: x @ y, (X, 2 * X), (2 * X, X)).ok


def test_cost_and_coverage_are_told():
    report = check_gradients(loss, VALUES, gradient(VALUES), method="complex", every_entry=True)
    assert report.evaluations == 22  # 7 find out whether complex step suits the function
    assert "15 of 15 entries" in report.summary() and "22 evaluations" in report.summary()
    report = check_gradients(loss, VALUES, gradient(VALUES), method="complex")
    assert report.evaluations == 13
    assert "4 of 15 entries and 2 random directions" in report.summary()
    report = check_gradients(loss, VALUES, gradient(VALUES), together=True)
    assert "ok; 2 random directions; 10 evaluations" in report.summary()
    assert [(row.name, row.shape) for row in report.rows] == [("all tensors", None)]


def test_rounding_of_a_gradient_that_should_be_zero_is_no_error():
    assert check_gradients(loss, VALUES | {"unused": np.ones(1)},
                           gradient(VALUES) | {"unused": np.array([1e-17])}).ok


def test_both_zero_is_told_and_one_zero_is_an_error():
    values = {"used": np.ones(2), "unused": np.ones(3)}
    gradients = {"used": np.full(2, 2.0), "unused": np.zeros(3)}

    def f(p):
        return (p["used"] ** 2).sum() + 0 * p["unused"].sum()

    report = check_gradients(f, values, gradients)
    assert report.ok and [row.hints for row in report.rows] == [
        (), ("zero everywhere, numerically too",)]
    gradients["unused"][1] = 1e-3
    [row] = check_gradients(f, values, gradients).wrong
    assert (row.name, row.at, row.error) == ("unused", (1,), 1.0)
    gradients = {"used": np.zeros(2), "unused": np.zeros(3)}
    [row] = check_gradients(f, values, gradients).wrong
    assert row.name == "used" and "zero" in row.hints[0]


@pytest.mark.parametrize("sparse", [
    type("Rows", (), {"dense": lambda self: np.array([[0.0], [6.0], [0.0]])})(),
    (np.array([1, 1]), np.array([[2.0], [4.0]])),  # a duplicate id is summed
])  # fmt: skip
def test_sparse_gradients_are_written_out(sparse):
    table = {"W_e": np.array([[1.0], [3.0], [5.0]])}
    assert check_gradients(lambda p: p["W_e"][1, 0] ** 2, table, {"W_e": sparse}).ok


@pytest.mark.parametrize("method", ["complex", "ridders", "both"])
def test_tolerance_follows_dtype(method):
    """A float32 gradient is held to float32 accuracy; 0.5 % too much still fails."""
    values = {k: v.astype(np.float32) for k, v in VALUES.items()}
    gradients = {k: v.astype(np.float32) for k, v in gradient(values).items()}
    assert check_gradients(loss, values, gradients, method=method).ok
    assert not check_gradients(
        loss, VALUES, {k: v.astype(np.float32).astype(float) for k, v in gradient(VALUES).items()}
    ).ok
    gradients["b"] = gradients["b"] * np.float32(1.005)
    assert not check_gradients(loss, values, gradients, method=method).ok


# --- wrong gradients ----------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["both", "complex", "ridders"])
@pytest.mark.parametrize("wrong", [1.0001, 0.0, -1.0, np.nan, np.inf])
def test_wrong_entry_is_named(method, wrong):
    gradients = gradient(VALUES)
    gradients["W"][2, 1] *= wrong
    report = check_gradients(loss, VALUES, gradients, method=method)
    assert not report.ok
    [row] = report.wrong
    assert (row.name, row.at) == ("W", (2, 1))
    np.testing.assert_allclose(row.numeric, gradient(VALUES)["W"][2, 1], rtol=1e-8)
    np.testing.assert_equal(row.analytic, gradients["W"][2, 1])
    with pytest.raises(AssertionError, match=r"wrong gradient: W: wrong\n(.|\n)*\(2, 1\).*WRONG"):
        report.raise_if_wrong()


def test_infinite_gradient_does_not_hide_other_errors():
    gradients = gradient(VALUES)
    gradients["W"][0, 0] = np.inf
    gradients["b"][1] *= 1.01
    report = check_gradients(loss, VALUES, gradients)
    assert [(row.name, row.at) for row in report.wrong] == [("W", (0, 0)), ("b", (1,))]


def test_a_backward_that_ignores_an_output_is_caught_and_told():
    def deaf(d, cache):
        return backward((d[0], 0 * d[1]), cache)

    report = check_pair(forward, deaf, INPUTS)
    assert {(row.name, row.upstream) for row in report.wrong} == {("x", "all"), ("x", "1")}


def test_errors_that_cancel_over_the_outputs_are_caught():
    """With both upstream gradients alike, two mistakes make up for each other."""
    def run(x):
        return (x * x, x * x), x

    def vjp(d, x):
        return 4 * x * d[0]

    same = {"0": np.ones(4), "1": np.ones(4)}
    report = check_pair(run, vjp, [X], upstream=same)
    assert {row.upstream for row in report.wrong} == {"0", "1"}


def test_a_function_that_is_not_for_complex_numbers_is_checked_by_differences():
    report = check_gradients(lambda x: float(x @ x), X, [2 * X])
    assert report.ok and list(report.rows[0].errors) == ["ridders", "directions"]
    assert "no complex step" in report.notes[0] and "test_check.py" in report.notes[0]
    with pytest.raises(ValueError, match="method: expected one that suits the function"):
        check_gradients(lambda x: np.fft.fft(x).imag.sum(), X, [np.sign(X)], method="complex")


# --- kinks --------------------------------------------------------------------------------------


def relu_sum(x):
    return np.where(x > 0, x, 0 * x).sum()


@pytest.mark.parametrize("method", ["both", "ridders"])
def test_a_kink_is_neither_alarm_nor_pass(method):
    x = np.array([-1.0, 0.0, 2.0])
    report = check_gradients(relu_sum, x, [np.array([0.0, 0.0, 1.0])], method=method)
    [row] = report.rows
    assert report.ok and (row.status, row.inconclusive) == ("inconclusive", 1)
    assert "(1,): a kink, slope 0 on its left and 1 on its right" in row.hints[0]
    outside = check_gradients(relu_sum, x, [np.array([0.0, 2.0, 1.0])], method=method)
    assert not outside.ok and "outside of both" in "".join(outside.wrong[0].hints)
    beside = check_gradients(relu_sum, x, [np.array([0.0, 0.0, 2.0])], method=method)
    assert beside.wrong[0].at == (2,)


def test_several_kinks_in_one_place_are_no_mistake():
    """Rows of zeros: all units at their kink, none of whose slopes is that of either side."""
    def forward(x, W):
        return np.maximum(0, x @ W).sum(axis=0), (x, W)

    def backward(d, cache):
        x, W = cache
        dz = (x @ W > 0) * d
        return dz @ W.T, x.T @ dz

    x = np.random.default_rng(0).normal(size=(6, 4))
    W = np.random.default_rng(4).normal(size=(4, 5))
    x[4:] = 0
    report = check_pair(forward, backward, [x, W])
    assert report.ok and report.rows[0].inconclusive == 8
    assert "beside it the gradient is right" in "".join(report.rows[0].hints)
    report = check_pair(forward, lambda d, cache: [1.01 * g for g in backward(d, cache)], [x, W])
    assert report.verdict == "wrong"


def test_only_kinks_verify_nothing():
    report = check_gradients(relu_sum, np.zeros(2), [np.zeros(2)])
    assert not report.ok and report.findings[0].kind == "nothing"


def test_a_jump_is_reported():
    def f(x):
        return np.where(x.real >= 1.0, x + 3.0, x).sum()

    report = check_gradients(f, np.array([0.2, 1.0]), [np.ones(2)])
    assert report.rows[0].inconclusive == 1 and "jumps by 3" in report.rows[0].hints[0]


def test_a_kink_too_small_for_differences():
    """Two maxima so alike that differences alone see a smooth function."""
    def f(x):
        return np.where(x.real[0] >= x.real[1], x[0] ** 2, x[1] ** 2 + 1e-9 * (x[1] - x[0]))

    report = check_gradients(f, np.array([1.0, 1.0]), [np.array([2.0, 0.0])])
    assert report.rows[0].status == "inconclusive"


# --- large tensors ------------------------------------------------------------------------------


def test_sample_covers_zero_and_nonzero_gradients():
    """Only ten of 10000 gradients are not zero: a uniform sample would hardly see them."""
    values, weight = {"W": RNG.normal(size=(100, 100))}, np.zeros((100, 100))
    weight[37, 20:30] = 1.0

    def f(p):
        return (weight * p["W"] ** 2).sum()

    right = {"W": 2 * weight * values["W"]}
    report = check_gradients(f, values, right, sample=12)
    assert report.ok and report.rows[0].checked == 12
    assert report.rows[0].directions == 2 and "2 random directions" in report.summary()
    assert not check_gradients(f, values, {"W": right["W"] * 1.01}, sample=12).ok


def test_samples_are_stratified_over_blocks():
    """A block with a thousandth of the entries has its share."""
    labels = Labels(("gate", "column"), tuple(
        Block(name, (slice(a, b), slice(None)))
        for name, a, b in (("i", 0, 1), ("f", 1, 1000))))
    chosen = choose(np.ones((1000, 5)), labels, 40, np.random.default_rng(0))
    assert len(chosen) == 25 and (chosen < 5).sum() == 5
    assert len(choose(np.ones((1000, 5)), None, 40, np.random.default_rng(0))) == 40


def test_an_error_outside_of_the_sample_is_found_along_a_direction():
    values = {"W": RNG.normal(size=(60, 60)), "b": RNG.normal(size=60)}

    def f(p):
        return np.sin(p["W"] @ p["b"]).sum()

    d = np.cos(values["W"] @ values["b"])
    gradients = {"W": np.outer(d, values["b"]), "b": values["W"].T @ d}
    assert check_gradients(f, values, gradients, sample=8).ok
    gradients["W"][41, 17] += 1e-6
    for extent in ({"sample": 8}, {"diagnosis": 8}, {"together": True, "diagnosis": 8}, {}):
        [row] = check_gradients(f, values, gradients, **extent).wrong
        assert (row.name, row.at, row.upstream) == ("W", (41, 17), "all"), extent
        assert row.hints[0] == "only one entry of those compared is wrong: (41, 17)"
        assert row.hints[1].startswith(f"this rests on {row.checked} of 3600 entries")


def test_the_limit_of_a_direction_is_that_of_its_entries_summed():
    values = {"W": np.ones((200, 200))}
    evaluate = Evaluator(lambda p: {"f": (p["W"] ** 2).sum() / 2}, values)

    def word(off):
        check = Check(None, evaluate, {"all": {"W": values["W"] + off}}, {"f": np.ones(())})
        result = compare_line(check, "all", Line({"W": np.ones((200, 200))}), "complex")
        assert result.numeric == pytest.approx(40000)
        return result.words[0]

    assert (word(1e-14), word(1e-11)) == ("right", "wrong")


def test_no_diagnosis_where_none_is_wanted():
    wrong = gradient(VALUES) | {"b": 2 * gradient(VALUES)["b"]}
    report = check_gradients(loss, VALUES, wrong, diagnosis=0)
    assert [row.name for row in report.wrong] == ["b"] and not report.wrong[0].hints
    assert report.rows[1].entries is None


# --- what goes with the values ------------------------------------------------------------------


def pair(run=lambda x: x * x, vjp=lambda d, x: 2 * x * d):
    return check_pair(lambda x: (run(x), x), vjp, [X.copy()])


def mutating(x):
    if not np.iscomplexobj(x):
        x[0] = np.nextafter(x[0], 9)
    return x * x


def greedy(d, x):
    d *= 2 * x
    return d


COUNTER = []
RUNS = count()  # a number that differs from run to run


@pytest.mark.parametrize("flaw, kind, name", [
    ({"run": mutating}, "mutated", "x"),
    ({"vjp": greedy}, "mutated", "df"),
    ({"run": lambda x: x * x + 1e-12 * next(RUNS)}, "random", "f"),
    ({"vjp": lambda d, x: 2 * x * d + 1e-12 * next(RUNS)}, "random", "dx"),
    ({"run": lambda x: x * np.nan}, "not finite", "f"),
])  # fmt: skip
def test_a_flaw_beside_the_values_is_found(flaw, kind, name):
    assert pair().ok
    report = pair(**flaw)
    assert not report.ok and (report.findings[0].kind, report.findings[0].name) == (kind, name)


def test_padding_and_vanishing():
    padding = np.array([False, True, False])
    case = Case({"x": X[:3]}, lambda a: ({"y": a["x"] * ~padding}, None),
                lambda d, _: {"x": d["y"] * np.where(padding, 1e-300, 1.0)}, {"x": padding})
    [finding] = check_case(case).findings
    assert (finding.kind, finding.name) == ("padding", "dx")
    case = Case({"x": X[:3]}, lambda a: ({"y": 0.0 * a["x"]}, None),
                lambda d, _: {"x": 0.0 * d["y"]})
    assert check_case(case).ok
    assert check_case(case, vanish=False).findings[0].kind == "vanishing"


# --- what comes out -----------------------------------------------------------------------------


def test_printed_table():
    lines = str(check_gradients(loss, VALUES, gradient(VALUES))).splitlines()
    assert lines[0].startswith("gradient check: ok; 2 tensors, 4 of 15 entries and 2 random direct")
    assert lines[1].split() == ["name", "shape", "checked", "complex", "step", "directions", "at",
                                "analytic", "numeric"]
    assert lines[2].startswith("W     (3, 4)  1 of 12 + 2") and lines[2].endswith("ok")
    assert lines[4].startswith("Ridders along a direction over all tensors: ")
    lines = str(check_gradients(loss, VALUES, gradient(VALUES), every_entry=True)).splitlines()
    assert lines[0].startswith("gradient check: ok; 2 tensors, 15 of 15 entries; ")
    assert lines[1].split() == ["name", "shape", "checked", "complex", "step", "Ridders", "at",
                                "analytic", "numeric"]
    assert lines[2].startswith("W     (3, 4)  12") and lines[2].endswith("ok")
    column = lines[1].index("analytic")
    assert all(line[column - 1] == " " != line[column] for line in lines[1:])


def test_json_is_strict_and_complete():
    gradients = gradient(VALUES)
    gradients["b"][0] = np.nan
    report = check_gradients(loss, VALUES, gradients)
    read = json.loads(report.to_json(), parse_constant=lambda text: pytest.fail(text))
    assert read["ok"] is False and read["rows"][1]["analytic"] == "nan"
    assert read["rows"][0]["errors"]["complex"] == report.rows[0].errors["complex"]
    assert read["evaluations"] == report.evaluations


def test_html_escapes_and_needs_nothing():
    report = check_gradients(lambda p: p["<b>"].sum(), {"<b>": X}, {"<b>": 2 + 0 * X})
    page = html_page([report, report])
    assert "&lt;b&gt;" in page and "<b>" not in page
    assert page.count("<section id=") == 2 and 'class="wrong"' in page
    assert "http://" not in page and "https://" not in page and "<script" not in page
    assert html_page([report]).count("<section id=") == 1


# --- arguments ----------------------------------------------------------------------------------


@pytest.mark.parametrize("change, message", [
    ({"method": "magic"}, "method: expected one of both, complex"),
    ({"gradients": {"W": VALUES["W"]}}, "gradients: expected an entry named 'b'"),
    ({"gradients": VALUES | {"c": X}}, "inputs: expected an entry named 'c'"),
    ({"gradients": [VALUES["W"]]}, "gradients: expected 2, one for each of W, b, got 1"),
    ({"names": ["d"]}, "names: expected some of W, b, got 'd'"),
    ({"gradients": VALUES | {"b": X}}, r"'b' of shape \(3,\), got \(4,\)"),
    ({"gradients": VALUES | {"b": np.arange(3)}}, "gradients: expected 'b' of a real floating"),
    ({"inputs": VALUES | {"b": VALUES["b"] + 0j}}, "inputs: expected 'b' of a real floating"),
    ({"inputs": VALUES | {"b": np.arange(3)}}, "inputs: 'b' is of int64, which has no derivative"),
    ({"inputs": VALUES | {"b": np.array([1, np.nan, 2])}}, r"finite values in 'b', got nan at \(1"),
    ({"inputs": {}, "gradients": {}}, "inputs: expected at least one tensor, got none"),
    ({"upstream": np.ones(3)}, "upstream: expected arrays of the shapes of f's outputs"),
    ({"f": lambda p: p["W"] @ X}, "upstream: expected gradients of the outputs f, since f is not"),
])
def test_arguments_are_checked(change, message):
    arguments = {"f": loss, "inputs": VALUES, "gradients": gradient(VALUES)} | change
    with pytest.raises(ValueError, match=message):
        check_gradients(**arguments)


def test_a_forward_without_a_cache_is_refused():
    with pytest.raises(ValueError, match="forward: expected it to return outputs, cache"):
        check_pair(lambda x: x, lambda d, c: d, [X])


def test_names_choose_what_is_checked():
    report = check_gradients(loss, VALUES, gradient(VALUES), names=["b"])
    assert report.ok and [row.name for row in report.rows] == ["b"]


class Dense:
    """A layer whose weights are its own; what else the backward needs is in the tape."""

    def forward(self, x):
        return np.tanh(x @ self.W), [x]

    def backward(self, d, tape):
        dz = d * (1 - np.tanh(tape[0] @ self.W) ** 2)
        return dz @ self.W.T, tape[0].T @ dz


def test_a_layer_that_keeps_its_weights_in_itself_shares_no_buffer():
    layer = Dense()

    def forward(x, W):
        layer.W = W
        return layer.forward(x)

    inputs = [RNG.normal(size=(4, 3)), RNG.normal(size=(3, 2))]
    assert check_pair(forward, layer.backward, inputs).ok


def test_random_numbers_of_a_seed_are_the_same_while_a_function_is_continued():
    """NumPy's own names are its own, wherever it is installed."""
    def forward(x):
        mask = np.random.default_rng(0).random(x.shape) > 0.5
        return np.abs(x) * mask, (x, mask)

    assert check_pair(forward, lambda d, cache: d * np.sign(cache[0]) * cache[1], [X.copy()]).ok


def test_an_argument_that_does_not_exist_is_named():
    with pytest.raises(ValueError, match=r"seed: there is no such argument .*rng="):
        check_pair(lambda x: (x, x), lambda d, x: d, [np.ones(2)], seed=3)


def test_a_function_without_outputs():
    with pytest.raises(ValueError, match="f: expected at least one output, got none"):
        check_pair(lambda x: ({}, x), lambda d, x: x, [np.ones(2)])
