"""Kinks and jumps are seen, and nothing smooth is taken for one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grads.check.evaluate import Evaluator
from grads.check.kinks import Kink, agreeing_step, find_kink

D_OUT = 1.7


def at(f, x, **options):
    """The kink of D_OUT * f at x, in one dimension."""
    return find_kink(lambda a: {"y": f(a["x"])}, {"x": np.array(float(x))},
                     {"y": np.array(D_OUT)}, "x", 0, **options)


def relu(x):
    return np.maximum(x, 0.0)


TIE = 1.5 * 0.7 - np.sin(0.7)  # where the two pieces of a maxout are equal at 0.7

KINKS = {  # function, place, slopes on the left and on the right
    "relu": (relu, 0, 0, 1),
    "relu, from the left": (lambda x: relu(x - 1e-9), 0, 0, 1),
    "relu, from the right": (lambda x: relu(x + 1e-9), 0, 0, 1),
    "relu, 3e-7 away": (lambda x: relu(x - 3e-7), 0, 0, 1),
    "relu far out": (lambda x: relu(x - 300) + np.sin(x), 300, np.cos(300), 1 + np.cos(300)),
    "relu, 1e-9 away, on a curve": (
        lambda x: relu(x - 3 - 1e-9) + np.exp(x), 3, np.exp(3), np.exp(3) + 1),
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
def test_kinks(name):
    f, x, left, right = KINKS[name]
    found = at(f, x)
    assert found is not None and found.kind == "kink"
    expected = D_OUT * np.array([left, right, right - left])
    np.testing.assert_allclose(found[1:], expected, rtol=1e-7, atol=1e-7 * abs(expected).max())


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
    "1e-9 away": (lambda x: np.where(x > 1e-9, 1.0, 0.0), 0, 1),
    "one point": (lambda x: np.where(x == 0, 1.0, 0.0), 0, -1),
    "sign on a corner": (lambda x: np.sign(x) + 1e3 * np.abs(x), 0, 2),
    "both edges of a window": (window, 3, -np.exp(-2)),  # the window is wider at x alone
    "edge of a window": (window, 5, -np.exp(-2)),  # the other is outside of the sentence
}


@pytest.mark.parametrize("name", JUMPS)
def test_jumps(name):
    f, x, jump = JUMPS[name]
    found = at(f, x)
    assert found is not None and found.kind == "jump"
    assert found.size == pytest.approx(D_OUT * jump, rel=1e-9)


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
    "jump 0.1 away": (np.sign, 0.1),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_nothing_smooth_is_a_kink(name):
    f, x = SMOOTH[name]
    assert at(f, x) is None


@given(seed=st.integers(0, 2**32 - 1), steep=st.floats(-2, 2), far=st.floats(-1, 2))
@settings(max_examples=200, deadline=None, derandomize=True)  # a statistical claim
def test_random_networks_have_no_kink_but_where_one_is_put(seed, steep, far):
    rng = np.random.default_rng(seed)
    W, W_2 = 10**steep * rng.normal(size=(3, 3)), rng.normal(size=3)
    inputs = {"x": 10**far * rng.normal(size=3)}
    place, off = int(rng.integers(3)), 10 ** rng.uniform(-14, -7) * rng.choice([-1, 0, 1])
    corner = inputs["x"][place] + off * max(1, abs(inputs["x"][place]))
    height = rng.uniform(0.5, 2) * rng.choice([-1, 1]) * (10**steep + 0.1)  # not far below slopes

    def smooth(a):
        return {"y": W_2 @ np.tanh(W @ a["x"]) + np.sin(a["x"]).sum()}

    def kinked(a):
        return {"y": smooth(a)["y"] + height * np.abs(a["x"][place] - corner)}

    upstream = {"y": np.array(1.0)}
    assert find_kink(smooth, inputs, upstream, "x", place) is None
    found = find_kink(kinked, inputs, upstream, "x", place)
    assert found is not None and found.kind == "kink"
    assert found.size == pytest.approx(2 * height, rel=1e-3)
    assert find_kink(kinked, inputs, upstream, "x", (place + 1) % 3) is None


def test_all_outputs_with_an_upstream_gradient_and_only_they_count():
    def f(a):
        return {"smooth": a["x"] ** 2, "corner": np.abs(a["x"])}

    inputs = {"x": np.array([1.0, 0.0])}
    one, none = {"corner": np.array([5.0, 2.0])}, {"smooth": np.ones(2)}
    assert find_kink(f, inputs, one, "x", 1) == Kink("kink", -2.0, 2.0, 4.0)
    assert find_kink(f, inputs, one | none, "x", 1).kind == "kink"
    assert find_kink(f, inputs, none, "x", 1) is None
    assert find_kink(f, inputs, one, "x", 0) is None
    assert find_kink(f, inputs, {"corner": np.array([1.0, 0.0])}, "x", 1) is None


def test_evaluations_and_inputs():
    inputs = {"x": np.zeros(3)}
    inputs["x"].flags.writeable = False
    evaluate = Evaluator(lambda a: {"y": relu(a["x"])}, inputs)
    assert find_kink(evaluate, {}, {"y": np.ones(3)}, "x", 2) is not None
    assert evaluate.evaluations == 73


# --- decisions ----------------------------------------------------------------------------------


def test_decisions_show_a_kink_beside_a_strong_curve():
    inputs, upstream = {"x": np.array(0.0)}, {"y": np.array(1.0)}

    def f(a):
        return {"y": np.maximum(a["x"], 1.0001 * a["x"]) + 300.0 * np.cos(a["x"])}

    def which(a):
        return [np.array([1, 2]), a["x"] < 1.0001 * a["x"]]

    assert find_kink(f, inputs, upstream, "x", 0) is None  # rounding hides it where it is straight
    found = find_kink(f, inputs, upstream, "x", 0, which)
    assert found is not None and found.kind == "kink"
    np.testing.assert_allclose(found[1:], [1.0, 1.0001, 1e-4], atol=1e-6)
    assert find_kink(f, {"x": np.array(1e-3)}, upstream, "x", 0, which) is None
    evaluate = Evaluator(f, inputs)
    assert find_kink(evaluate, {}, upstream, "x", 0, which) == found


def test_a_change_of_decision_that_changes_no_slope_is_no_kink():
    def f(a):
        return {"y": np.maximum(a["x"], a["x"]) + np.exp(a["x"])}

    inputs, upstream = {"x": np.array(0.0)}, {"y": np.array(1.0)}
    assert agreeing_step(lambda a: a["x"] > 0, inputs, "x", 0) == 0.0
    assert find_kink(f, inputs, upstream, "x", 0, lambda a: a["x"] > 0) is None


@pytest.mark.parametrize("corner, expected", [
    (0.0, 0.0), (1e-15, 0.0), (0.3, 2.0**-4), (0.05, 2.0**-5), (-0.05, 2.0**-5), (1e-6, 2.0**-20),
])
def test_the_step_within_which_decisions_agree(corner, expected):
    inputs = {"x": np.array([9.0, 0.0])}

    def masks(a):
        return [a["x"][1] > corner, a["x"][:1] > 0]

    assert agreeing_step(masks, inputs, "x", 1) == expected
    assert agreeing_step(masks, inputs, "x", 0) == 2.0**-4
