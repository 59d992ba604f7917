"""Forms in which people write functions and layers. The walk is as right about them as the check.
"""

import re

import pytest

from grads.cli import main
from grads.stepper.explorer.examples import open_example
from grads.stepper.explorer.own import own_derivation
from grads.stepper.explorer.settings import Settings

HEAD = "import functools\n\nimport numpy as np\n\n"
# A name, a right file, and a piece of it with a mistake in its place
KEEPS = ("h", """
class Tanh:  # keeps its results and returns nothing
    def forward(self, inputs):
        self.output = np.tanh(inputs)

    def backward(self, dvalues):
        self.dinputs = dvalues * (1 - self.output ** 2)

h = Tanh()

def h_inputs(rng):
    return rng.normal(size=(2, 3))
""", "(1 - self.output ** 2)", "(1 - self.output)")
PARTIAL = ("cost", """
def power(n, x, scale=1.0):
    return scale * np.sum(x ** n)

class Gradient:
    def __init__(self, scale):
        self.scale = scale

    def __call__(self, x):
        g = self.scale * 3 * x ** 2
        return g

cost = functools.partial(power, 3, scale=0.5)
cost_gradient = Gradient(0.5)

def cost_inputs(rng):
    return [rng.normal(size=4)]
""", "3 * x ** 2", "2 * x ** 2")
LAMBDAS = ("f", """
sigmoid = lambda a: 1 / (1 + np.exp(-a))
W = np.arange(1.0, 4.0)
scaled = lambda x: x * W

def f_inputs(rng):
    return [rng.normal(size=3)]

f_forward = lambda x: (sigmoid(scaled(x)), x)

def f_backward(ds, x):
    s = sigmoid(scaled(x))
    dx = ds * s * (1 - s) * W
    return dx
""", "(1 - s) * W", "(1 - s)")
TABLE = ("f", """
RULES = {}

def square(x):
    return x ** 2

def rule(x):
    d = 2 * x
    return d

RULES[square] = rule

def f_inputs(rng):
    return [rng.normal(size=3)]

def f(x):
    return np.sum(square(x))

def f_gradient(x):
    dx = RULES[square](x)
    return dx
""", "d = 2 * x", "d = 3 * x")
TAPE = ("f", """
from contextlib import contextmanager

_TAPE = None

@contextmanager
def recording():
    global _TAPE
    _TAPE = []
    yield _TAPE
    _TAPE = None

def exponential(x):
    y = np.exp(x)
    if _TAPE is not None:
        _TAPE.append(lambda d: d * y)
    return y

def f_inputs(rng):
    return [rng.normal(size=3)]

def f_forward(x):
    with recording() as tape:
        y = exponential(exponential(x))
    return y, tape

def f_backward(d, tape):
    for pull in reversed(tape):
        d = pull(d)
    return d
""", "reversed(tape)", "tape[:1]")
RAGGED = ("f", """
def f_inputs(rng):
    return [rng.normal(size=3)]

def f_forward(x):
    kept = (x, [np.exp(x), 1.0, (x[:2], 2)])
    return np.sum(kept[1][0]), kept

def f_backward(d, kept):
    parts = [kept[1][0], d]
    g = np.array([parts[1] * e for e in parts[0]])
    return g
""", "parts[1] * e", "parts[1] + e")
KEPLER = ("radius", """
import math

def radius_inputs(rng):
    return [np.array([1.2, 0.3, 2.5])]

def anomaly(M, e):
    E = M
    for _ in range(50):
        step = (E - e * math.sin(E) - M) / (1 - e * math.cos(E))
        E -= step
        if abs(step) < 1e-14:
            break
    return E

def radius(p):
    M, e, a = p
    return a * (1 - e * math.cos(anomaly(M, e)))

def radius_gradient(p):
    M, e, a = p
    E = anomaly(M, e)
    k = 1 - e * math.cos(E)
    return [np.array([a * e * math.sin(E) / k, a * (e * math.sin(E) ** 2 / k - math.cos(E)), k])]
""", "math.sin(E) ** 2", "math.sin(E)")
FLOATS = ("price", """
from math import exp

def price_inputs(rng):
    return [1.5, 0.25]

def price(S, r):
    loss = S * exp(-r)
    dS = exp(-r)
    dr = -S * exp(-r)
    return loss, dS, dr
""", "dr = -S", "dr = S")
FORMS = {"keeps its output": KEEPS, "partial and object": PARTIAL, "lambdas": LAMBDAS,
         "a table by functions": TABLE, "a tape in a global": TAPE, "ragged": RAGGED,
         "iterates": KEPLER, "floats": FLOATS}


def walked(file, name, source):
    """The exit status of the walk."""
    file.write_text(HEAD + source)
    try:
        main(["walk", f"{file}:{name}"])
    except SystemExit as ended:
        return ended.code
    return 0


@pytest.mark.parametrize("form", FORMS)
def test_right_functions_are_right_and_wrong_ones_wrong(form, tmp_path, capsys):
    name, source, old, new = FORMS[form]
    assert walked(tmp_path / "right.py", name, source) == 0
    assert "\nRIGHT" in capsys.readouterr().out
    assert main(["explore", f"{tmp_path / 'right.py'}:{name}", "-o", str(tmp_path / "page.html")]
                ) is None
    assert source.count(old) == 1
    assert walked(tmp_path / "wrong.py", name, source.replace(old, new)) == 1
    assert "\nWRONG" in capsys.readouterr().out


def test_the_user_module_is_left_as_it_was(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(HEAD + TABLE[1])
    derivation = own_derivation(f"{file}:f", Settings())
    space = derivation.forward.__globals__
    before = dict(space)
    derivation.run()
    assert {name for name in before if space[name] is not before[name]} <= {"_listener_"}


RETURNED = '''
def f_inputs(rng):
    return [rng.normal(size=4), rng.normal(size=(4, 3))]

def f_forward(value, adv):
    q = value[:, None] + adv - adv.mean(axis=1, keepdims=True)
    return q ** 2, q

def f_backward(d, q):
    dq = 2 * q * d
    return dq.sum(1), dq
'''
STARTED = '''
def f_inputs(rng):
    return rng.normal(size=7), 0.5 * rng.normal(size=6), rng.normal(size=6)

def f_forward(v, logr, r):
    raw = np.exp(logr)
    rho, c = np.minimum(raw, 1.3), np.minimum(raw, 1.0)
    T = len(r)
    vs = np.empty(T + 1)
    vs[T] = v[T]
    for t in range(T - 1, -1, -1):
        delta = rho[t] * (r[t] + 0.95 * v[t + 1] - v[t])
        vs[t] = v[t] + delta + 0.95 * c[t] * (vs[t + 1] - v[t + 1])
    return vs[:-1], (v, rho, c, raw, r, vs)

def f_backward(dvs, cache):
    v, rho, c, raw, r, vs = cache
    T = len(r)
    dv, drho, dc, dr = np.zeros(T + 1), np.zeros(T), np.zeros(T), np.zeros(T)
    carry = 0.0
    for t in range(T):
        g = dvs[t] + carry
        dv[t] += g * (1 - rho[t])
        dv[t + 1] += g * 0.95 * rho[t]
        dr[t] = g * rho[t]
        drho[t] = g * (r[t] + 0.95 * v[t + 1] - v[t])
        dc[t] = g * 0.95 * (vs[t + 1] - v[t + 1])
        carry = g * 0.95 * c[t]
    dv[T] += carry
    return dv, (drho * (raw < 1.3) + dc * (raw < 1.0)) * raw, dr
'''


def red(tmp_path, source, status="wrong"):
    """The verifications of a pair f with this status, in order."""
    file = tmp_path / "mine.py"
    file.write_text(HEAD + source)
    return [check for check in open_example(f"{file}:f", Settings()).verifications()
            if check.status == status]


def test_a_gradient_that_is_returned_as_that_of_another_is_red_at_the_return(tmp_path):
    first, *_ = red(tmp_path, RETURNED)
    assert first.name == "return 2" and "it is d loss / d q, and" in first.reason


def test_the_zeros_that_a_sum_starts_with_are_not_red(tmp_path):
    checks = red(tmp_path, STARTED)
    assert checks and not [check for check in checks if "np.zeros" in check.text]


UNNAMED = '''
def f_inputs(rng):
    return [rng.normal(size=(3, 4)), rng.normal(size=(4, 2))]

def f_forward(x, W):
    h = np.tanh(x @ W)
    return h / h.sum(axis=1, keepdims=True), (x, W, h)

def f_backward(d, cache):
    x, W, h = cache
    total = h.sum(axis=1, keepdims=True)
    inner = np.sum(d * h, axis=1, keepdims=True)
    before = d / total - inner / total ** 2
    slope = 1 - h
    return before * slope @ W.T, x.T @ (before * slope)
'''


def test_the_line_in_which_the_check_finds_the_mistake_says_so_though_it_assigns_no_gradient(
        tmp_path):
    said = {check.name: check.reason for check in red(tmp_path, UNNAMED, "suspect")}
    assert "`h ** 2` in place of `h`" in said["slope"]
    assert not red(tmp_path, UNNAMED.replace("1 - h\n", "1 - h ** 2\n"))


def test_a_gradient_of_several_numbers_is_refused(tmp_path, capsys):
    assert walked(tmp_path / "mine.py", "f", "def f_inputs(rng):\n    return [np.ones(3)]\n\n"
                  "def f(x):\n    return x ** 2\n\ndef f_gradient(x):\n    return 2 * x\n") == 2
    assert "expected one number" in capsys.readouterr().err


CLOSURE = '''
def f_inputs(rng):
    return [rng.normal(size=3)]

def f_forward(x):
    s = np.sin(x)

    def back(d):
        dx = d * np.cos(x)
        return dx
    return s, back

def f_backward(d, back):
    return back(d)
'''
COUNTER = '''
STATE = {"step": 0}

def f_inputs(rng):
    return [rng.normal(size=3)]

def f_forward(x):
    STATE["step"] += 1
    t = 1 + 1 / STATE["step"]
    y = np.sin(x * t)
    return y, (x, t)

def f_backward(dy, cache):
    x, t = cache
    dx = dy * np.cos(x * t) * t
    return dx
'''
TABLE_OF_MANY = '''
def f_inputs(rng):
    return [rng.normal(size=(2500, 20)), np.array([3, 1200, 3, 2499])]

def f_forward(table, ids):
    return table[ids] ** 2, (table, ids)

def f_backward(d, cache):
    table, ids = cache
    dtable = np.zeros(table.shape)
    np.add.at(dtable, ids, 2 * d * table[ids])
    return dtable, None
'''


def test_lines_of_an_inner_function_that_the_forward_returns_are_shown(tmp_path, capsys):
    assert walked(tmp_path / "mine.py", "f", CLOSURE) == 0
    assert "back, mine.py:13" in capsys.readouterr().out


def test_the_forward_is_repeated_from_the_state_that_it_began_in(tmp_path):
    assert [check.name for check in red(tmp_path, COUNTER, "verified")] == ["dx"]


def test_a_random_function_has_no_red_line(tmp_path):
    unknown = COUNTER.replace("1 / STATE", "np.random.default_rng().random() / STATE")
    assert not red(tmp_path, unknown) and red(tmp_path, unknown, "undecided")


@pytest.mark.parametrize("returned", ["dx[1:]", "(dx * 0).astype(int)"])
def test_gradients_that_the_check_refuses_are_not_right(returned, tmp_path, capsys):
    source = CLOSURE.replace("return dx", f"return {returned}")
    assert walked(tmp_path / "mine.py", "f", source) == 3
    assert "grads check refuses what the backward returns: gradients:" in capsys.readouterr().out


def test_of_a_large_array_some_entries_are_compared_and_the_worst_of_the_check(tmp_path):
    assert 16 <= compared(tmp_path, TABLE_OF_MANY, "verified") < 100
    wrong = TABLE_OF_MANY.replace("return dtable", "dtable[7, 7] = 1e-3\n    return dtable")
    assert compared(tmp_path, wrong, "wrong") < 100
    ragged = TABLE_OF_MANY.replace("2499])]", "2499]), [[1], [2, 3]]]").replace(
        "(table, ids):", "(table, ids, tree):").replace("dtable, None", "dtable, None, None")
    assert compared(tmp_path, ragged, "verified") < 100


def compared(tmp_path, source, status):
    """How many entries of the only gradient that a pair f returns were compared."""
    file = tmp_path / "mine.py"
    file.write_text(HEAD + source)
    (numbers,) = open_example(f"{file}:f", Settings()).own_verification.pair.results
    assert numbers.status == status
    return len(numbers.where)


@pytest.mark.parametrize("held", ["threading.Lock()", "open(__file__)", "threading.local()"])
def test_a_layer_that_holds_what_cannot_be_copied(held, tmp_path):
    name, source, old, new = KEEPS
    source = source.replace("h = Tanh()", f"import threading\nh = Tanh()\nh.held = {held}")
    assert walked(tmp_path / "mine.py", name, source) == 0
    assert walked(tmp_path / "wrong.py", name, source.replace(old, new)) == 1


def test_a_layer_that_adds_to_what_it_holds_is_copied_for_each_run(tmp_path, capsys):
    name, source, _, _ = KEEPS
    source = source.replace("self.output = np.tanh(inputs)",
                            "self.sum += inputs\n        self.output = np.tanh(self.sum)")
    source = source.replace("h = Tanh()", "import threading\nh = Tanh()\nh.sum, h.held = "
                            "np.zeros((2, 3)), threading.Lock()")
    assert walked(tmp_path / "mine.py", name, source) == 0
    said = re.findall(r"relative error (\S+)", capsys.readouterr().out)
    assert said and all(float(error) < 1e-9 for error in said)
