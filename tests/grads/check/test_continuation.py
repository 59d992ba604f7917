"""Functions in the styles people write: complex step takes them as they are, or says why not."""

from __future__ import annotations

import math
import sys
import types

import numpy as np
import pytest

from grads.check import check_gradients, check_pair
from grads.check.continuation import Continued, continue_run, namespaces_of
from grads.check.continuation.namespace import is_users_module
from grads.check.differentiate import at_entries
from grads.check.evaluate import Evaluator
from grads.derivations.calculus import softmax

RNG = np.random.default_rng(11)
W = RNG.normal(size=(4, 5))
X = RNG.normal(size=(4, 5)) + 0.05
BUFFER = np.zeros(5)
leaky = np.vectorize(lambda v: v if v > 0 else 0.2 * v)


def norm_by_var(x):
    return (W * (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)).sum()


def norm_by_std(x):
    return (W * (x - np.mean(x, axis=1)[:, None]) / np.std(x, axis=1, keepdims=True)).sum()


def norm_in_a_loop(x):
    y = np.zeros((4, 5))
    for i in range(4):
        y[i] = (x[i] - x[i].mean()) / np.sqrt(((x[i] - x[i].mean()) ** 2).mean())
    return (W * y).sum()


def variances(x):
    return np.var(x, ddof=1) + x.std(0, ddof=1).sum() + np.var(x, where=W > 0)


def unit_rows(x):
    return (W * x / np.linalg.norm(x, axis=1, keepdims=True)).sum()


def norms(x):
    return sum(np.linalg.norm(v, p) for v in x for p in (None, 1, 2, 3, np.inf)) + sum(
        np.linalg.norm(x, p) for p in (None, "fro")) + np.linalg.norm(x, 1, axis=0).sum()


def sums_of_absolutes(x):
    return np.abs(x).sum() + abs(x).max() + np.fabs(x[0]).min()


def squared_relu(x):
    return (W * np.maximum(x, 0) ** 2).sum()


def softplus(x):
    return (W * np.logaddexp(0, x)).sum() + np.logaddexp.reduce(x, axis=1).sum()


def log_sum_exp(x):
    m = x.max(axis=1, keepdims=True)
    return (np.log(np.exp(x - m).sum(1)) + m[:, 0]).sum()


def scalars(x):
    total = 0.0
    for i in range(4):
        for j in range(5):
            total += math.tanh(x[i, j]) * W[i, j] + math.exp(-x[i, j] ** 2)
    return total + math.log(2.0)


def buffers(x):
    h, hs = np.zeros(5), np.empty((4, 5))
    for t in range(4):
        h = np.tanh(x[t] + 0.5 * h)
        hs[t] = h
    out = np.zeros_like(W)
    out[:, ::-1] += hs
    return (W * out).sum()


def lists(x):
    rows = [max(0.0, v) + min(v, 1.0) for v in x.ravel()]
    return np.array(rows).sum() + sum(abs(v) for v in x[0]) + np.array([x[0, 0], 1.0], float).sum()


def sorted_entries(x):
    return ((np.sort(x, axis=1) * W).sum() + x[0][np.argsort(x[0])] @ W[0] + np.median(x)
            + np.partition(x[1], 2)[2])


def products(x):
    return (np.einsum("ij,kj->ik", x, W).clip(-1, 1).sum() + np.cumprod(x, axis=1).sum()
            + np.prod(x) + np.outer(x[0], x[1])[1, 2] + np.tensordot(x, W) + x.dot(W.T).trace()
            + np.convolve(x[0], x[1]).max() + np.correlate(x[0], x[1])[0])


def conjugates(x):
    return np.vdot(x, x) + (x * x.conj()).sum() + (np.conj(x) @ W.T).sum()


def masked_softmax(x):
    m = np.where(W > 0, x, -np.inf)
    e = np.exp((m - m.max(1, keepdims=True)) / 2.0)
    return (e / e.sum(1, keepdims=True) * W).sum()


def pooled(x):
    k = x.argmax(axis=1)
    return x[np.arange(4), k].sum() + np.take_along_axis(x, k[:, None], 1).sum() + np.ptp(x)


def kinds_of_angles(x):
    return (np.sign(x) * np.sqrt(np.abs(x)) + np.hypot(x, W) + np.arctan2(x, W) + np.cbrt(x)
            + np.mod(x, 0.7) + np.floor(x) * x + np.round(x, 1) * x - x.round(1)).sum()


def determinants(x):
    a = x @ x.T + np.eye(4)
    return np.linalg.det(a) / 100 + np.linalg.inv(a).sum() + np.trace(
        np.linalg.solve(a, W @ W.T))


def powers(x):
    gelu = x * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return (gelu + x**2.0 + np.power(np.abs(x), 1.5) + np.power(x, 3) + np.power(2.0, x)).sum()


def stable_sigmoid(x):
    out, positive = np.empty_like(x), x >= 0
    out[positive] = 1 / (1 + np.exp(-x[positive]))
    e = np.exp(x[~positive])
    out[~positive] = e / (1 + e)
    return (W * out).sum()


def converted(x):
    x = np.asarray(x, dtype=np.float64)
    y = np.ascontiguousarray(np.array(x).T)
    return np.abs(y).sum() + np.array([[x[0, 0], x[1, 1]], [x[2, 2], 1.0]]).var()


def scattered(x):
    t = np.zeros((3, 5))
    np.add.at(t, [0, 1, 1, 2], x)
    np.add.at(t, ([0, 0, 2], slice(1, 3)), x[:3, 1:3])
    return (t**2).sum()


def huber(x):
    a = np.abs(x)
    return np.where(a < 0.5, 0.5 * x**2, 0.5 * (a - 0.25)).sum() + np.log1p(np.exp(-a)).sum()


def applied(x):
    rows = np.apply_along_axis(lambda r: r / np.linalg.norm(r), 1, x)
    inside = np.vectorize(lambda v: v if v > 0 else 0.1 * v)
    return rows[:, 0].sum() + leaky(x)[:, 1].sum() + inside(x).sum() + sum(
        v**2 for _, v in np.ndenumerate(x))


def items(x):
    s = x[0, 0]
    t = s
    s += 1.0
    s *= 2
    listed = sum(v * v for row in x.tolist() for v in row)
    return s * t + x[0, 0].item() * 2 + listed + sum(math.sin(v) for v in x.flat)


def in_place(x):
    y = x.copy()
    y -= y.max(axis=1, keepdims=True)
    np.exp(y, out=y)
    y /= y.sum(axis=1, keepdims=True)
    return (y * W).sum()


def decided_by_real_parts(x):
    return np.where(x.real > 0, x, 0.3 * x)[np.arange(4), x.real.argmax(1)].sum()


def differences(x):
    return np.nansum(np.gradient(x, axis=1) * W) + (np.diff(x, axis=0) ** 2).sum()


def the_array_itself(x):
    """The real part, float64 and whether it is complex are those of the real array."""
    if np.iscomplexobj(x):
        return 0.0
    y = np.exp(x - x.real.max()) + x.astype(np.float64) * np.real(x)
    return (y * W).sum() + x.max()


def erf_by_lists(x):
    return sum(v * math.erf(v) for row in x for v in row)


def convolved(x):
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, 1), (2, 3))
    strided = np.lib.stride_tricks.as_strided(x, (3, 4, 2, 2), x.strides * 2)
    return np.abs(np.einsum("ijkl,kl->ij", windows, W[:2, :3])).sum() + strided.max((2, 3)).sum()


RIGHT = [f for f in list(globals().values()) if isinstance(f, types.FunctionType)
         and f.__module__ == __name__]


def assert_continued(f):
    """Complex step agrees with differences at every entry, to what those can do."""
    evaluate = Evaluator(lambda a: {"f": f(a["x"])}, {"x": X})
    upstream, where = {"f": np.ones(())}, {"x": np.arange(X.size)}
    exact = at_entries(evaluate, {}, upstream, where)["x"].value[0]
    numeric = at_entries(evaluate, {}, upstream, where, "ridders")["x"]
    assert (np.abs(exact - numeric.value[0]) <= 10 * numeric.error[0] + 1e-13).all()
    assert numeric.error[0].max() < 1e-6 * np.abs(exact).max()
    report = check_gradients(f, [X], [exact.reshape(X.shape)])
    assert report.ok and not any("no complex step" in note for note in report.notes), report
    wrong = exact.reshape(X.shape).copy()
    wrong[2, 3] += 1e-5
    assert check_gradients(f, [X], [wrong], method="complex").verdict == "wrong"


@pytest.mark.parametrize("f", RIGHT, ids=lambda f: f.__name__)
def test_complex_step_takes_it_as_it_is(f):
    assert_continued(f)


def test_scipys_functions():
    special = pytest.importorskip("scipy.special")
    space = {"np": np, "W": W, "special": special, "expit": special.expit}
    for text in ("expit(x).sum()", "(special.expit(x) * W).sum()",
                 "(special.erf(x) + special.gammaln(np.abs(x)) + special.log_expit(x)).sum()"):
        assert_continued(eval(f"lambda x: {text}", space))


# --- what cannot be continued ---------------------------------------------------------------------


def by_float(x):
    return sum(float(v) ** 2 for v in x.ravel())  # HERE by_float


def cast(x):
    return (x.astype(np.longdouble) ** 2).sum()  # HERE cast


def imaginary_part(x):
    return (x.imag + x**2).sum()  # HERE imaginary_part


def angle(x):
    return (np.angle(x) * 0 + x**2).sum()  # HERE angle


def transformed(x):
    return (np.abs(np.fft.fft(x, axis=1)) ** 2).sum()  # HERE transformed


def covariances(x):
    return (np.cov(x) ** 2).sum()  # HERE covariances


def singular_values(x):
    return np.linalg.svd(x, compute_uv=False).sum()  # HERE singular_values


def into_a_buffer(x):
    BUFFER[...] = x[0] ** 2  # HERE into_a_buffer
    return BUFFER.sum() + (x[1:] ** 2).sum()


def own_complex_numbers(x):
    return np.abs(np.exp(1j * x) + 2.0).sum()  # HERE own_complex_numbers


@pytest.mark.parametrize("f", [by_float, cast, imaginary_part, angle, transformed,
                               covariances, singular_values, into_a_buffer, own_complex_numbers],
                         ids=lambda f: f.__name__)
def test_what_cannot_be_continued_is_named_and_differences_decide(f):
    with open(__file__, encoding="utf-8") as source:
        [line] = [k for k, text in enumerate(source, 1) if text.endswith(f"# HERE {f.__name__}\n")]
    evaluate = Evaluator(lambda a: {"f": f(a["x"])}, {"x": X})
    slope = at_entries(evaluate, {}, {"f": np.ones(())}, {"x": np.arange(X.size)}, "ridders")["x"]
    gradient = slope.value.reshape(X.shape)
    report = check_gradients(f, [X], [gradient])
    assert report.ok and "complex" not in report.rows[0].errors
    assert f"test_continuation.py:{line}" in report.notes[0]
    assert report.notes[0].startswith("no complex step: ")
    assert report.notes[0].endswith("; Ridders alone decides")
    assert check_gradients(f, [X], [gradient + 1e-3]).verdict == "wrong"
    with pytest.raises(ValueError, match=f"got 'complex': f: .*test_continuation.py:{line}"):
        check_gradients(f, [X], [gradient], method="complex")


def test_what_overflows_with_complex_numbers_only_is_left_to_differences():
    def steep(x):
        with np.errstate(over="ignore"):
            return (1 / (1 + np.exp(-1000 * x))).sum() + (x * x).sum()

    x = np.array([-1.0, 2.0])
    report = check_gradients(steep, [x], [2 * x])
    assert report.ok and "not for complex ones; Ridders alone decides" in report.notes[0]


class Hidden:
    """Takes the absolute value where no array class sees it."""

    def __call__(self, x):
        y = np.ndarray.view(x, np.ndarray)
        return (np.abs(y) * y).sum()


def test_a_second_direction_of_the_complex_plane_shows_what_is_not_analytic():
    report = check_gradients(Hidden(), [X], [2 * np.abs(X)])
    assert report.ok and "not the same in all directions" in report.notes[0]
    with pytest.raises(ValueError, match=r"got 'complex': .*not the same in all directions"):
        check_gradients(Hidden(), [X], [2 * np.abs(X)], method="complex")


def two_faced(x):
    return (x * x).sum() * (2 if x.dtype.kind == "c" else 1)


@pytest.mark.parametrize("extent", [{}, {"diagnosis": 0}, {"every_entry": True}, {"sample": 3},
                                    {"together": True}, {"together": True, "diagnosis": 0}])
@pytest.mark.parametrize("factor", [2, 4, 3])
def test_methods_that_disagree_decide_nothing(extent, factor):
    """Right by one of them, right by the other, and right by neither."""
    report = check_gradients(two_faced, [X], [factor * X], **extent)
    neither = factor == 3 and extent.get("diagnosis") == 0  # each of them says wrong
    assert report.verdict == ("wrong" if neither else "undecided") and not report.ok
    if not neither:
        assert "UNDECIDED" in report.summary() and "isagree" in "".join(report.remarks())
        with pytest.raises(AssertionError, match="undecided gradient"):
            report.raise_if_wrong()


def test_complex_step_alone_is_refused_where_differences_refute_it():
    with pytest.raises(ValueError, match="got 'complex': f: real differences say otherwise"):
        check_gradients(two_faced, [X], [4 * X], method="complex")


# --- the run --------------------------------------------------------------------------------------


def test_names_are_put_back_and_only_the_users_modules_change():
    space = {"np": np, "__name__": "users"}
    exec("def inner(x): return np.zeros(2) + x\ndef f(a): return {'y': inner(a['x'])}", space)
    spaces = namespaces_of(space["f"])
    assert spaces == [space]
    outputs = continue_run(space["f"], {"x": np.array([1.0, 2e-30j])}, spaces)
    assert outputs["y"].tolist() == [1.0, 2e-30j] and type(outputs["y"]) is np.ndarray
    assert space["np"] is np
    with pytest.raises(ZeroDivisionError):
        continue_run(lambda a: 1 / 0, {"x": np.ones(1)}, spaces)
    assert space["np"] is np


def test_the_module_of_a_layer_that_a_function_holds_is_found():
    space = {"np": np, "__name__": "layers"}
    exec("class Layer:\n    def forward(self, x): return np.zeros(2) + x", space)
    layer = space["Layer"]()
    assert any(namespace is space for namespace in namespaces_of(lambda x: layer.forward(x)))


def test_this_projects_functions_are_made_for_complex_steps():
    seen = []

    def run(f):
        seen.clear()
        at_entries(Evaluator(f, {"x": X}), {}, {"f": np.ones(())}, {"x": np.arange(2)})
        return seen[-1]

    assert namespaces_of(softmax) is None
    ours = {"__name__": "grads.example", "see": seen.append}
    exec("def f(a): see(type(a['x'])); return {'f': (a['x'] ** 2).sum()}", ours)
    assert run(ours["f"]) is np.ndarray
    assert run(lambda a: ours["f"](a)) is Continued


def test_ties_are_decided_as_real_numbers_are():
    """A padded softmax: equal maxima, of which the complex one is larger by its imaginary part."""
    x = np.array([1.0, 1.0, 0.5])

    def f(x):
        return np.where(x == x.max(), 0.0, x).sum()

    outputs = continue_run(lambda a: {"y": f(a["x"])}, {"x": x + 1e-30j * np.arange(3)}, [])
    assert outputs["y"] == 0.5 + 2e-30j


@pytest.mark.parametrize("file, expected", [
    ("/home/me/.local/lib/python3.11/site-packages/numpy/__init__.py", True),  # not this prefix
    ("/usr/lib/python3/dist-packages/numpy/linalg/__init__.py", True),
    (np.__file__, True), ("/home/me/layers.py", False),
])
def test_installed_packages_are_libraries_in_whichever_environment(file, expected, monkeypatch):
    module = types.ModuleType("somebodys")
    module.__file__ = file
    monkeypatch.setitem(sys.modules, "somebodys", module)
    assert is_users_module("somebodys.layers") is not expected


def test_a_complex_step_that_a_fourier_transform_loses_is_not_used():
    fft = pytest.importorskip("scipy.fft")
    kernel = fft.fft(np.array([1.0, 0.5, 0.25, 0.0, 0.0]))

    def forward(x):
        return fft.ifft(fft.fft(x) * kernel).real.copy(), x

    def backward(d, x):
        return fft.ifft(fft.fft(d) * kernel.conj()).real.copy()

    assert check_pair(forward, backward, [np.random.default_rng(0).normal(size=5)]).ok


def whole(x, last):
    return not np.array_equal(x, last)


def any_entry(x, last):
    return bool(np.any(x != last))


def all_entries(x, last):
    return not np.all(x == last)


class Memo:
    """The loss and the gradient of the last x, as those who minimise keep them."""

    def __init__(self, is_new, power):
        self.is_new, self.power, self.x = is_new, power, np.zeros(3)

    def update(self, x):
        if self.is_new(x, self.x):
            self.x = x.copy()
            self.loss, self.gradient = (x**4).sum(), 4 * x**self.power

    def value(self, x):
        self.update(x)
        return self.loss

    def slope(self, x):
        self.update(x)
        return [self.gradient]


@pytest.mark.parametrize("is_new", [whole, any_entry, all_entries])
@pytest.mark.parametrize("power, verdict", [(3, "ok"), (2, "wrong")])
def test_the_step_belongs_to_the_x_that_a_memo_compares(is_new, power, verdict):
    memo = Memo(is_new, power)
    assert check_gradients(memo.value, [np.array([1.5, 2.0, 0.3])], memo.slope).verdict == verdict
