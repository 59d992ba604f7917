"""Mistakes of users, in functions without labels or with few: what the report calls them."""

from __future__ import annotations

import numpy as np
import pytest

from backend.errors import UserError
from grads.check import check_gradients, check_pair
from grads.check.user_code import check_file

RNG = np.random.default_rng(31)


@pytest.mark.parametrize("by", [0.1, 1e-6])
def test_one_entry_among_ten_thousand(by):
    W = 0.1 * RNG.normal(size=(100, 100))
    x = RNG.normal(size=100)
    right = np.outer(1 - np.tanh(W @ x) ** 2, x)
    right[37, 61] *= 1 + by
    [row] = check_gradients(lambda W: np.tanh(W @ x).sum(), [W], [right]).wrong
    assert row.at == (37, 61)
    assert row.hints[0] == "only one entry of those compared is wrong: (37, 61)"


@pytest.mark.parametrize("size", [10, 1000, 100_000])
@pytest.mark.parametrize("by", [1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6])
def test_one_entry_of_any_tensor(size, by):
    x = RNG.normal(size=size)
    right = 1 - np.tanh(x) ** 2
    at = int(np.argsort(right)[-1 - size // 4])
    right[at] *= 1 + by
    report = check_gradients(lambda x: np.tanh(x).sum(), [x], [right])
    [row] = report.wrong
    assert row.at == (at,) and report.evaluations <= 700


def test_a_small_wrong_tensor_costs_little():
    x, W, b = RNG.normal(size=(8, 20)), RNG.normal(size=(50, 20)), RNG.normal(size=50)

    def forward(x, W, b):
        h = np.tanh(x @ W.T + b)
        return h, (x, W, h)

    def wrong(d, cache):
        x, W, h = cache
        dz = d * (1 - h * h)
        return dz @ W, dz.T @ x, dz.sum(axis=0) * (1 + np.arange(50))

    report = check_pair(forward, wrong, [x, W, b])
    assert [row.name for row in report.wrong] == ["b"] and report.evaluations <= 500


def test_a_tensor_much_smaller_than_its_neighbour():
    a, b = RNG.normal(size=5), RNG.normal(size=5)

    def f(a, b):
        return (a**2).sum() + 1e-16 * (b**2).sum()

    assert check_gradients(f, [a, b], [2 * a, 2e-16 * b]).ok
    for factor in (-1, 0, 1.01):
        [row] = check_gradients(f, [a, b], [2 * a, factor * 2e-16 * b]).wrong
        assert row.name == "b" and row.status == "wrong", factor


def test_the_rounding_of_a_right_gradient_is_no_error_of_a_small_tensor():
    """The softmax of large scores is 1 at one place: dq and dk are rounding beside dv."""
    def forward(q, k, v):
        scores = q @ k.T
        e = np.exp(scores - scores.max(axis=1, keepdims=True))
        a = e / e.sum(axis=1, keepdims=True)
        return a @ v, (q, k, v, a)

    def backward(d, cache):
        q, k, v, a = cache
        da = d @ v.T
        ds = a * (da - (da * a).sum(axis=1, keepdims=True))
        return ds @ k, ds.T @ q, a.T @ d

    for seed in range(5):
        rng = np.random.default_rng(seed)
        inputs = [scale * rng.normal(size=shape) for scale, shape in (
            (25, (4, 3)), (25, (5, 3)), (1, (5, 2)))]
        report = check_pair(forward, backward, inputs)
        assert report.ok, str(report)
        assert check_pair(forward, lambda d, c: (*backward(d, c)[:2], -(c[3].T @ d)), inputs).wrong


def test_a_small_tensor_may_have_a_gradient_of_some_rows():
    ids, rng = np.array([0, 2, 2]), np.random.default_rng(7)
    x, table = rng.normal(size=3), rng.normal(size=(4, 2))

    def f(x, table):
        return (x**2).sum() + 1e-16 * (table[ids] ** 3).sum()

    rows = 3e-16 * table[ids] ** 2
    assert check_gradients(f, [x, table], [2 * x, (ids, rows)]).ok
    wrong = check_gradients(f, [x, table], [2 * x, (ids, -rows)]).wrong
    assert [row.name for row in wrong] == ["table"]


def test_a_tuple_of_numbers_is_a_gradient_and_not_rows():
    def product(p):
        return 3 * p[0] * p[1]

    for gradient, right in ((9.0, 6.0), True), ((9, 6), True), ((9.0, 7.0), False), ((9, 7), False):
        assert check_gradients(product, [(2.0, 3.0)], [gradient]).ok == right
        assert check_gradients(product, [(2.0, 3.0)], lambda p: [gradient]).ok == right  # noqa: B023
    rows = np.ones((2, 3)), 2 * np.ones((2, 3))
    assert check_gradients(lambda x: (x[0] + 2 * x[1]).sum(), [np.ones((2, 2, 3))], [rows]).ok


@pytest.mark.parametrize("ids, rows, said", [
    ([0, 9], np.ones((2, 2)), "expected ids below 4 for 'x', got 0 to 9"),
    ([0, 1], np.ones((2, 5)), "rows of shape \\(2,\\), got \\(2,\\) of int64 and \\(2, 5\\)"),
    ([0.0, 1.0], np.ones((2, 2)), "with integers .* got \\(2,\\) of float64"),
])
def test_rows_that_do_not_fit_are_told(ids, rows, said):
    with pytest.raises(ValueError, match=said):
        check_gradients(lambda x: x.sum(), [np.ones((4, 2))], [(np.array(ids), rows)])


def test_a_gradient_may_be_a_whole_number():
    def f(a, b):
        return 3 * a + b**2

    assert check_gradients(f, [0.5, 2.0], lambda a, b: (3, 2 * b)).ok
    assert check_gradients(f, [0.5, 2.0], [3, 4]).ok
    assert check_gradients(f, [0.5, 2.0], [2, 4]).wrong[0].name == "a"


@pytest.mark.parametrize("size", [10, 100, 1000])
def test_one_entry_of_a_function_that_computes_in_float32(size):
    """With 1,000 entries about one such error in seven passes: the rounding of the sum hides it."""
    x = np.random.default_rng(size).normal(size=size)
    right = 1 - np.tanh(x) ** 2

    def f(x):
        return np.tanh(x.astype(np.float32)).sum()

    assert check_gradients(f, [x], [right]).ok
    right[int(right.argmax())] *= 1.01
    assert not check_gradients(f, [x], [right]).ok


def test_a_gradient_that_is_not_finite_is_wrong():
    v = np.array([1.0, 0.0, 2.0])
    with np.errstate(invalid="ignore"):
        report = check_gradients(lambda v: np.abs(v).sum(), [v], [v / np.abs(v)])
    assert report.verdict == "wrong" and report.wrong[0].hints == ("not finite at (1,)",)


def test_a_function_that_iterates_to_a_tolerance():
    A, b = 0.3 * RNG.normal(size=(4, 4)), RNG.normal(size=4)

    def forward(b):
        z, old = np.tanh(b), np.zeros(4)
        while np.abs(z - old).max() > 1e-7:
            z, old = np.tanh(A @ z + b), z
        return z, z

    def backward(d, z):
        slope = 1 - z * z
        return slope * np.linalg.solve((np.eye(4) - slope[:, None] * A).T, d)

    [row] = check_pair(forward, backward, [b]).wrong
    assert "agrees to " in row.hints[0] and "to a tolerance?" in row.hints[0]
    assert len(row.hints) == 1 and check_pair(forward, backward, [b], rtol=1e-5).ok


def test_right_only_for_symmetric_inputs():
    A, x = RNG.normal(size=(4, 4)), RNG.normal(size=4)

    def form(A, x):
        return x @ A @ x, (A, x)

    def wrong(d, cache):
        A, x = cache
        return d * np.outer(x, x), 2 * d * A @ x

    [row] = check_pair(form, wrong, [A, x]).wrong
    assert row.name == "x"
    assert "is right with `((A + A.T) / 2)` in place of `A`" in row.hints[0]
    same = check_pair(form, wrong, [A + A.T, x])
    assert same.verdict == "wrong" and "right here, where A is symmetric, and" in str(same)
    same = check_gradients(lambda A: x @ A @ x, [A + A.T], [np.outer(x, x)])
    assert same.ok and any("A is symmetric: what is right only there passes" in note
                           for note in same.notes)
    assert not any("symmetric" in note for note in check_pair(form, lambda d, cache: (
        d * np.outer(cache[1], cache[1]), d * (cache[0] + cache[0].T) @ cache[1]), [A, x]).notes)


def test_other_inputs_that_are_not_symmetric_may_be_outside_of_the_domain():
    def variance(Q, h):
        s = h @ Q @ h
        return np.log(s), (Q, h, s)

    def right(d, cache):
        Q, h, s = cache
        return d * np.outer(h, h) / s, d * (Q + Q.T) @ h / s

    A, h = np.random.default_rng(2).normal(size=(2, 2)), np.array([1.0, -1.0])
    assert check_pair(variance, right, [A @ A.T, h]).ok  # s < 0 at the asymmetric Q nearby
    assert check_pair(variance, lambda d, cache: (d * np.outer(h, h) / cache[2],
                                                  2 * d * cache[0] @ h / cache[2]),
                      [np.diag(np.diag(A @ A.T)) + 0.1, h]).verdict == "wrong"


def test_accumulation_forgotten():
    """dW = ... in a loop over time, where dW += ... belongs."""
    xs = RNG.normal(size=(5, 2, 8))

    def forward(W):
        return np.tanh(xs @ W.T), W

    def wrong(d, W):
        dW = np.zeros_like(W)
        for t in range(5):
            dW = ((1 - np.tanh(xs[t] @ W.T) ** 2) * d[t]).T @ xs[t]
        return dW

    [row] = check_pair(forward, wrong, [RNG.normal(size=(3, 8))]).wrong
    assert row.hints[0].startswith("it is right with `dW += ((1 - np.tanh(")


# --- how much is let through ----------------------------------------------------------------------


@pytest.mark.parametrize("extent", [{}, {"every_entry": True}, {"together": True, "diagnosis": 0},
                                    {"method": "complex"}])
def test_the_relative_tolerance_can_be_chosen(extent):
    x = RNG.normal(size=(6, 5))
    off = [3 * x**2 * (1 + 1e-5 * RNG.random(x.shape))]
    assert not check_gradients(lambda x: (x**3).sum(), [x], off, **extent).ok
    assert check_gradients(lambda x: (x**3).sum(), [x], off, rtol=3e-5, **extent).ok
    assert not check_gradients(lambda x: (x**3).sum(), [x], off, rtol=1e-6, **extent).ok
    with pytest.raises(ValueError, match="rtol: expected a number between 0 and 1, got 2"):
        check_gradients(lambda x: (x**3).sum(), [x], off, rtol=2)


@pytest.mark.parametrize("how", [{"diagnosis": 1.5}, {"sample": -1}])
def test_a_number_of_entries_is_a_whole_number(how):
    with pytest.raises(ValueError, match="expected a number of entries, got "):
        check_gradients(lambda x: (x**2).sum(), [np.ones(2)], [np.ones(2)], **how)


# --- the user's file ------------------------------------------------------------------------------

FILE = '''
import numpy as np

def layer_inputs(rng):
    return [rng.normal(size=(4, 3)), rng.normal(size=(6, 3))]

layer_labels = {"x": ("batch", "input"),
                "W": (("gate", "input"), {"i": slice(0, 2), "f": slice(2, 4), "o": slice(4, 6)})}

def layer_forward(x, W):
    return x @ W.T, (x, W)

def layer_backward(d, cache):
    x, W = cache
    dW = d.T @ x
    return d @ W, dW[[2, 3, 0, 1, 4, 5]]

fails_inputs, fails_forward = layer_inputs, layer_forward

def fails_backward(d, cache):
    x, W, h = cache
    return d

nothing_inputs, nothing_forward = layer_inputs, layer_forward

def nothing_backward(d, cache):
    d @ cache[1]

odd_inputs, odd_forward, odd_backward = layer_inputs, layer_forward, layer_backward
odd_labels = {"W": ("gate",)}
late_inputs, late_forward, late_backward = layer_inputs, layer_forward, layer_backward
late_labels = {"V": ("gate",)}
'''


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "layer.py"
    path.write_text(FILE, encoding="utf-8")
    return path


def test_labels_of_the_users_file(file):
    [row] = check_file(f"{file}:layer", np.random.default_rng(0)).wrong
    assert row.place.startswith("gate ") and "`dW[[2, 3, 0, 1, 4, 5]]`" in row.hints[0]


@pytest.mark.parametrize("name, message", [
    ("fails", r"layer.py:fails: ValueError: not enough values to unpack .* at .*layer.py:21"),
    ("nothing", "gradients: expected 2, one for each of x, W, got None: does the backward return"),
    ("odd", r"odd_labels: expected 2 axes for 'W', of shape \(6, 3\), got \('gate',\)"),
    ("late", "late_labels: expected names of inputs, x, W, got 'V'"),
])
def test_errors_in_the_users_file_say_where(file, name, message):
    with pytest.raises(UserError, match=message):
        check_file(f"{file}:{name}", np.random.default_rng(0))


def test_many_wrong_tensors_share_the_entries_that_are_differentiated():
    arrays = [np.random.default_rng(k).normal(size=(20, 20)) for k in range(11)]
    report = check_gradients(lambda *a: sum((v**3).sum() for v in a), arrays,
                             [2 * v for v in arrays])
    assert [row.status for row in report.rows] == 11 * ["wrong"]
    assert all(32 <= row.checked <= 64 for row in report.rows)
    assert report.evaluations < 2000
