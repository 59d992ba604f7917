"""The last line of `grads walk` on wrong functions: the line of the mistake, as far as it is known.
"""

import re
from dataclasses import replace

import numpy as np
import pytest

from grads.cli import main
from grads.stepper.explorer.settings import Settings
from grads.stepper.tracing.compared import Numbers, judged
from grads.stepper.tracing.numerical import Derivative
from grads.stepper.walk import open_shown

UNNAMED = """
import numpy as np

def gate_inputs(rng):
    return [rng.normal(size=4)]

def gate_forward(x):
    s = 1 / (1 + np.exp(-x))
    return x * s, (x, s)

def gate_backward(dy, cache):
    x, s = cache
    slope = s * (1 + s)
    scaled = x * slope
    return dy * (s + scaled)
"""
ADJOINT = """
import numpy as np

def flow_inputs(rng):
    return [rng.normal(size=3)]

def flow(start):
    u, states = start, []
    for _ in range(3):
        half = u + 0.1 * np.sin(u)
        states.append((u, half))
        u = u + 0.2 * half ** 2
    loss = np.sum(u ** 2)
    adjoint = 2 * u
    for u, half in states[::-1]:
        stage = 0.4 * half * adjoint
        change = stage * (1 + 0.1 * np.cos(u))
        adjoint = adjoint + change
    dstart = adjoint
    return loss, dstart
"""
ENGINE = """
import numpy as np

class Tensor:
    def __init__(self, data):
        self.data = np.asarray(data)
        self.grad = np.zeros_like(self.data)
        self.tape = []

    def squared(self):
        out = Tensor(self.data ** 2)
        def back():
            self.grad = self.grad + 2 * self.data * out.grad
        out.tape = [*self.tape, back]
        return out

    def total(self):
        out = Tensor(self.data.sum())
        def back():
            self.grad = self.grad + np.ones_like(self.data) * out.grad
        out.tape = [*self.tape, back]
        return out

def norm_inputs(rng):
    return [rng.normal(size=3)]

def norm(x):
    leaf = Tensor(x)
    loss = leaf.squared().squared().total()
    loss.grad = np.ones_like(loss.data)
    for back in reversed(loss.tape):
        back()
    return loss.data, leaf.grad
"""
FILTER = """
import numpy as np

def smooth_inputs(rng):
    return [rng.normal(size=2), rng.normal(size=(3, 2))]

def smooth(a, xs):
    h, loss, tape = np.ones(2), 0.0, []
    for x in xs:
        s = a * h + x
        tape.append((h, s))
        loss += np.sum(s ** 2)
        h = np.sin(s)
    da, dh = np.zeros(2), np.zeros(2)
    for h, s in reversed(tape):
        ds = 2 * s + dh * np.cos(s)
        da += ds * h
        dh = ds * a
    return loss, da
"""
FLOAT32 = """
import numpy as np

def layer_inputs(rng):
    return [rng.normal(size=(3, 4)), rng.normal(size=4)]

def layer_forward(x, w):
    x, w = x.astype(np.float32), w.astype(np.float32)
    y = np.tanh(x @ w)
    return y, (x, w, y)

def layer_backward(dy, cache):
    x, w, y = cache
    dz = dy * (1 - y ** 2)
    dx = np.outer(dz, w)
    dw = dz @ x
    return dx, dw
"""
FORM = """
import numpy as np

def form_inputs(rng):
    return [rng.normal(size=shape) for shape in ((2, 2), (2, 2), 2)]

def form_forward(F, P, m):
    S, n = F @ P @ F.T, F @ m
    return np.sum(np.sin(S)) + n @ n, (F, P, m, S, n)

def form_backward(dy, cache):
    F, P, m, S, n = cache
    slope = np.cos(S)
    gS = dy * slope
    gn = 2 * dy * n
    gF = gS @ F @ P.T
    gF = gF + np.outer(gn, m)
    gP = F.T @ gS @ F
    gm = F.T @ gn
    return gF, gP, gm
"""
NUMBERS = """
import numpy as np

def line_inputs(rng):
    return [0.5, 0.2], rng.normal(size=5), rng.normal(size=5)

def line(params, x, y):
    w, b = params
    e = w * x + b - y
    return 0.5 * np.sum(e ** 2), [np.sum(e * x), np.sum(e)]
"""


@pytest.fixture
def shown(tmp_path):
    """Opens a file's function as the walk does."""
    file = tmp_path / "mine.py"

    def opened(text, name):
        file.write_text(text, "utf-8")
        return open_shown(f"{file}:{name}", Settings())[0]

    return opened


def test_the_line_that_the_check_has_found_comes_first(shown):
    (said,) = shown(UNNAMED, "gate").summary()
    assert said.startswith("WRONG in line 13, as grads check finds; "
                           "first wrong value at mine.py:15, step ")


def test_without_a_cause_the_lines_that_were_not_compared_are_named(shown):
    wrong = shown(UNNAMED, "gate")
    wrong.report = None
    (said,) = wrong.summary()
    assert re.fullmatch(r"WRONG first at mine.py:15, step \d+: return, or in lines 13 to 14, which "
                        "were not compared; 0 gradients verified", said)


def test_a_line_of_a_long_statement_is_named_where_the_mistake_is(shown):
    text = UNNAMED.replace("return dy * (s + scaled)", "return dy * (\n        s ** 2 + scaled)")
    (said,) = shown(text.replace("1 + s)", "1 - s)"), "gate").summary()
    assert said.startswith("WRONG first at mine.py:16, step ")


def test_a_forgotten_term_is_told(shown):
    wrong = shown(UNNAMED, "gate")
    hint = "it lacks what comes through `x` in line 8: is this path forgotten?"
    wrong.report = replace(wrong.report, rows=[
        replace(row, hints=(hint,)) for row in wrong.report.rows])
    assert wrong.summary()[0].endswith(f"; grads check: x: {hint}")


def test_a_wrong_line_whose_variable_is_not_named_as_a_gradient_is_compared(shown):
    wrong = shown(ADJOINT.replace("half * adjoint", "u * adjoint"), "flow")
    first = next(v for v in wrong.verifications.values() if v.status == "wrong")
    assert (first.name, first.line) == ("stage", 16) and first.error > 1e-3
    assert all(v.line < 16 for v in wrong.verifications.values() if v.status == "suspect")
    right = shown(ADJOINT, "flow")
    assert right.summary() == ["RIGHT: 1 gradient verified"]


def test_an_engine_whose_loss_a_tensor_holds_has_a_backward(shown):
    right = shown(ENGINE, "norm")
    assert right.summary() == ["RIGHT: 1 gradient verified"]
    assert {name for name, step in right.steps if step.function.endswith("back")} == {"backward"}
    wrong = shown(ENGINE.replace("np.ones_like(self.data) * out", "0.5 * out"), "norm")
    wrong.report = None
    assert "or in lines 20, 30, which were not compared" in wrong.summary()[0]


def test_a_reversed_loop_is_counted_down_as_the_forward_counted_up(shown):
    right = shown(FILTER, "smooth")
    checks = [check for check in right.verifications.values() if check.name == "ds"]
    assert [check.loops for check in checks] == [(("iteration", n),) for n in (3, 2, 1)]
    assert {check.status for check in checks} == {"verified"}
    wrong = shown(FILTER.replace("dh = ds * a", "dh = ds * a * h"), "smooth")
    (said,) = wrong.summary()
    assert said.startswith("WRONG first at mine.py:18, step ") and "iteration=3" in said


def test_numbers_that_only_the_check_compares(tmp_path, capsys):
    (tmp_path / "mine.py").write_text(NUMBERS, "utf-8")
    main(["walk", f"{tmp_path}/mine.py:line"])
    said = capsys.readouterr().out.splitlines()
    assert said[1] == "What the backward returns is right, as grads check finds."
    assert said[-1].startswith("RIGHT: ")


def test_what_is_computed_in_float32_is_red_by_its_jumps(shown):
    """The upstream gradient is float64, so float32 cannot represent the loss. Only the jumps show
    how it is rounded, and that short steps say nothing."""
    right = shown(FLOAT32, "layer")
    assert right.summary() == ["RIGHT: 3 gradients verified"]
    (said,) = shown(FLOAT32.replace("(dz, w)", "(dz, w) * 1.05"), "layer").summary()
    assert re.fullmatch(r"WRONG first at mine.py:15, step \d+: dx; 2 gradients verified", said)


def test_what_the_walk_cannot_decide_is_wrong_where_the_check_says_so(shown):
    report = shown(FLOAT32.replace("(dz, w)", "(dz, w) * 1.05"), "layer").report
    unknown = Numbers(np.arange(12), Derivative(*np.zeros((2, 12)), np.inf), "undecided", 0.0)
    assert judged(report, "x", unknown).status == "wrong"
    assert judged(report, "w", unknown).status == "verified"
    assert judged(report, "other", unknown).status == "undecided"


def test_a_fault_that_is_in_no_gradient_is_told(shown):
    """A sentence of verified gradients alone reads as if all were right."""
    text = FLOAT32.replace("    return dx, dw", "    x *= 3\n    return dx, dw")
    wrong = shown(text, "layer")
    (said,) = wrong.summary()
    assert said.startswith("WRONG, as grads check finds: cache: backward: a second call")
    assert said.endswith("; 3 gradients verified")
    wrong.report = None
    assert wrong.summary() == ["WRONG in what the backward returns, in no line that was compared; "
                               "3 gradients verified"]


def test_a_line_that_right_gradients_are_computed_from_is_not_suspected(shown):
    """Only the gradient of F is wrong. Line 16 forgets a term, and what lines 13 to 15 compute is
    used for right gradients, too."""
    (said,) = shown(FORM, "form").summary()
    assert re.match(r"WRONG first at mine.py:17, step \d+: gF, or in line 16, which was not", said)
    text = FORM.replace("gn = 2 * dy", "gn = 3 * dy")
    (said,) = shown(text, "form").summary()
    assert said.startswith("WRONG first at mine.py:15, step "), said
