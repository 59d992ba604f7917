"""Kinks and jumps are seen, and nothing smooth is taken for one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grads.check import check_gradients
from grads.check.evaluate import Evaluator
from grads.check.kinks import Kink, find_kink

D_OUT = 1.7


BY = pytest.mark.parametrize("complex_step", [True, False], ids=["complex", "real"])


def at(f, x, complex_step=True):
    """The kink of D_OUT * f at x, in one dimension."""
    evaluate = Evaluator(lambda a: {"y": f(a["x"])}, {"x": np.array(float(x))})
    evaluate.complex_step = complex_step
    return find_kink(evaluate, {}, {"y": np.array(D_OUT)}, "x", 0)


def relu(x):
    return np.maximum(x, 0.0)


TIE = 1.5 * 0.7 - np.sin(0.7)  # where the two pieces of a maxout are equal at 0.7

KINKS = {  # function, place, slopes on the left and on the right
    "relu": (relu, 0, 0, 1),
    "relu of what is zero but for rounding": (lambda x: relu(0.1 + 0.2 - x), 0.3, -1, 0),
    "relu of 1 minus 1": (lambda x: relu(1 - (1 + x)), 0, -1, 0),
    "relu far out": (lambda x: relu(x - 300) + np.sin(x), 300, np.cos(300), 1 + np.cos(300)),
    "relu on a curve": (lambda x: relu(x - 3) + np.exp(x), 3, np.exp(3), np.exp(3) + 1),
    "absolute value": (np.abs, 0, -1, 1),
    "maxout": (lambda x: np.maximum(np.sin(x), 1.5 * x - TIE), 0.7, np.cos(0.7), 1.5),
    "clip at the upper limit": (lambda x: np.clip(x, -1, 1), 1, 1, 0),
    "clip at the lower limit": (lambda x: np.clip(x, -1, 1), -1, 0, 1),
    "leaky": (lambda x: np.where(x > 0, x, 0.99 * x) + np.sin(x + 1), 0,
              0.99 + np.cos(1), 1 + np.cos(1)),
    "small beside the curve": (lambda x: 1e-3 * relu(x) + 500 * x * x, 0, 0, 1e-3),
    "steep": (lambda x: 1e6 * np.abs(x), 0, -1e6, 1e6),
    "largest of a vector": (
        lambda x: np.max(x * np.array([1.0, 2.0, 3.0]) + np.array([2.0, 1.0, 0.0])), 1, 1, 3),
    "sum of the two largest, tied": (
        lambda x: np.sort(x * np.array([0.0, 1.0, -1.0]) + np.array([2.0, 0.0, 0.0]))[-2:].sum(),
        0, -1, 1),
}


@pytest.mark.parametrize("name", KINKS)
@BY
def test_kinks(name, complex_step):
    f, x, left, right = KINKS[name]
    kink = at(f, x, complex_step)
    assert kink is not None and kink.kind == "kink"
    expected = D_OUT * np.array([left, right, right - left])
    np.testing.assert_allclose(kink[1:], expected, rtol=1e-7, atol=1e-7 * abs(expected).max())


def window(p):
    """Gaussian weights of the positions within 2 of p, their sum (local attention, D = 2)."""
    s = np.arange(7)
    inside = (s >= np.ceil(np.real(p) - 2)) & (s <= np.floor(np.real(p) + 2))
    return np.sum(np.where(inside, np.exp(-((s - p) ** 2) / 2), 0.0))


JUMPS = {  # function, place, jump
    "step": (lambda x: np.where(x >= 0, 1.0, 0.0) + x, 0, 1),
    "step, from the other side": (lambda x: np.where(x > 0, 1.0, 0.0) + x, 0, 1),
    "sign": (np.sign, 0, 2),
    "floor": (lambda x: np.floor(x / 0.3), 0.3, 1),
    "one point": (lambda x: np.where(x == 0, 1.0, 0.0), 0, -1),
    "sign on a corner": (lambda x: np.sign(x) + 1e3 * np.abs(x), 0, 2),
    "both edges of a window": (window, 3, -np.exp(-2)),  # the window is wider at x alone
    "edge of a window": (window, 5, -np.exp(-2)),  # the other is outside of the sentence
}


@BY
@pytest.mark.parametrize("name", JUMPS)
def test_jumps(name, complex_step):
    f, x, jump = JUMPS[name]
    kink = at(f, x, complex_step)
    assert kink is not None and kink.kind == "jump"
    assert kink.size == pytest.approx(D_OUT * jump, rel=1e-9)


WAVES = 2 * np.pi * np.arange(1000) / 1000

SMOOTH = {
    "exp(50 x)": (lambda x: np.exp(50 * x), 1), "exp(50 x) at 0": (lambda x: np.exp(50 * x), 0),
    "x^9": (lambda x: x ** 9, 0), "x^9 at 1": (lambda x: x ** 9, 1),
    "x^9 near 0": (lambda x: x ** 9, 1e-3), "x^9 at 10": (lambda x: x ** 9, 10),
    **{f"bell of width {w:g} at {x:g}": (lambda x, w=w: np.exp(-((x / w) ** 2) / 2), x)
       for w in (1e-1, 1e-2, 1e-3, 1e-4) for x in (0.0, w / 3, w, 1.0)},
    "waves that cancel": (lambda x: np.sum(np.sin(x + WAVES)), 0.3),
    "sin^2 + cos^2": (lambda x: np.sin(x) ** 2 + np.cos(x) ** 2, 0.3),
    "hidden rounding": (lambda x: (x + 1e6) - 1e6, 0.3),
    "hidden rounding, squared": (lambda x: ((x + 1e6) - 1e6) ** 2, 0.3),
    "hidden rounding, slow": (lambda x: (1e-3 * x + 1e6) - 1e6, 0.3),
    "line": (lambda x: 3 * x, 0.1), "steep line": (lambda x: 1e6 * (x - 0.1), 0.1),
    "constant": (lambda x: 0 * x + 3, 1), "saturated": (np.tanh, 30), "far": (np.sin, 1e5),
    "logarithm near 0": (np.log, 1e-6), "root near 0": (np.sqrt, 1e-9),
    "softened": (lambda x: np.sqrt(x * x + 1e-8), 0),
    "softened, off": (lambda x: np.sqrt(x * x + 1e-10), 1e-6), "x |x|": (lambda x: x * abs(x), 0),
    "not a number": (lambda x: x * np.nan, 1), "float32": (
        lambda x: np.tanh(np.asarray(x).astype(np.float32)).astype(np.float64), 0.3),
    **{f"kink {x:g} away": (lambda x: relu(x) + x * x, x) for x in (0.1, 1e-3, 3e-5, -1e-3, -1e-5)},
    "jump 0.1 away": (np.sign, 0.1), "jump 1e-9 away": (np.sign, 1e-9),
    **{f"relu at {x:g}": (relu, x) for x in (3e-7, 1e-9, 1e-12, 1e-20, -1e-8, -1e-20)},
    **{f"absolute value at {x:g}": (lambda x: 3 + 1e-3 * abs(x), x) for x in (1e-6, -1e-9)},
    "relu, 1e-9 away": (lambda x: relu(x - 1e-9), 0),
    "relu, 1e-9 away, on a curve": (lambda x: relu(x - 3 - 1e-9) + np.exp(x), 3),
}


@BY
@pytest.mark.parametrize("name", SMOOTH)
def test_nothing_smooth_is_a_kink(name, complex_step):
    f, x = SMOOTH[name]
    assert at(f, x, complex_step) is None


@given(seed=st.integers(0, 2**32 - 1), steep=st.floats(-2, 2), far=st.floats(-1, 2))
@settings(max_examples=200, deadline=None, derandomize=True)  # a statistical claim
@BY
def test_random_networks_have_no_kink_but_where_one_is_put(complex_step, seed, steep, far):
    rng = np.random.default_rng(seed)
    W, W_2 = 10**steep * rng.normal(size=(3, 3)), rng.normal(size=3)
    inputs = {"x": 10**far * rng.normal(size=3)}
    place = int(rng.integers(3))
    corner = inputs["x"][place]
    height = rng.uniform(0.5, 2) * rng.choice([-1, 1]) * (10**steep + 0.1)  # not far below slopes

    def smooth(a):
        return {"y": W_2 @ np.tanh(W @ a["x"]) + np.sin(a["x"]).sum()}

    def kinked(a):
        return {"y": smooth(a)["y"] + height * np.abs(a["x"][place] - corner)}

    def kink_of(f, entry):
        evaluate = Evaluator(f, inputs)
        evaluate.complex_step = complex_step
        return find_kink(evaluate, {}, {"y": np.array(1.0)}, "x", entry)

    assert kink_of(smooth, place) is None
    kink = kink_of(kinked, place)
    assert kink is not None and kink.kind == "kink"
    assert kink.size == pytest.approx(2 * height, rel=1e-3)
    assert kink_of(kinked, (place + 1) % 3) is None


def test_all_outputs_with_an_upstream_gradient_and_only_they_count():
    def f(a):
        return {"smooth": a["x"] ** 2, "corner": np.abs(a["x"])}

    inputs = {"x": np.array([1.0, 0.0])}
    upstream, none = {"corner": np.array([5.0, 2.0])}, {"smooth": np.ones(2)}
    assert find_kink(f, inputs, upstream, "x", 1) == Kink("kink", -2.0, 2.0, 4.0)
    assert find_kink(f, inputs, upstream | none, "x", 1).kind == "kink"
    assert find_kink(f, inputs, none, "x", 1) is None
    assert find_kink(f, inputs, upstream, "x", 0) is None
    assert find_kink(f, inputs, {"corner": np.array([1.0, 0.0])}, "x", 1) is None


@pytest.mark.parametrize("complex_step, evaluations", [(True, 5), (False, 39)])
def test_evaluations_and_inputs(complex_step, evaluations):
    inputs = {"x": np.zeros(3)}
    inputs["x"].flags.writeable = False
    evaluate = Evaluator(lambda a: {"y": relu(a["x"])}, inputs)
    evaluate.complex_step = complex_step
    assert find_kink(evaluate, {}, {"y": np.ones(3)}, "x", 2) is not None
    assert evaluate.evaluations == evaluations


def test_a_function_that_takes_no_complex_numbers():
    assert at(lambda x: max(float(x), 0.0), 0.0) == Kink("kink", 0.0, D_OUT, D_OUT)
    assert at(lambda x: max(float(x), 0.0), 1e-9) is None


def test_equal_slopes_are_no_kink():
    """Where the function's value is mostly rounding."""
    x = np.array([0.5, 0.01, 2.0])
    wrong = np.sin(x) / x**2 - (1 - np.cos(x)) / x**3
    report = check_gradients(lambda x: ((1 - np.cos(x)) / x**2).sum(), x, wrong)
    assert report.verdict == "wrong" and "a kink" not in str(report)


@pytest.mark.parametrize("largest", [np.max, lambda x: float(np.max(x))])
@pytest.mark.parametrize("x", [[1.0, 1.0], [0.0, 0.0, 0.0]])
def test_nothing_is_decided_where_every_entry_has_a_kink(largest, x):
    """With and without complex step, whose derivative is right at one of them."""
    first = np.eye(len(x))[0]
    report = check_gradients(largest, [np.array(x)], lambda x: [first])
    assert report.verdict == "undecided" and "a kink, slope 0 on its left" in str(report)
    apart = np.array([*x, 7.0])
    assert check_gradients(largest, [apart], lambda x: [np.eye(len(apart))[-1]]).ok


def test_a_kink_is_said_where_the_gradient_is_zero():
    report = check_gradients(lambda x: np.abs(x).sum(), [np.zeros(2)], lambda x: [np.sign(x)])
    assert report.verdict == "undecided" and "a kink, slope -1 on its left" in str(report)
