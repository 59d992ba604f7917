"""Losses that return their gradients, methods and layers: opened, verified, the first wrong line
marked; numbers in their lines."""

import numpy as np
import pytest

from backend.errors import UserError
from grads.cli import main
from grads.stepper.explorer import build
from grads.stepper.explorer.examples import open_example
from grads.stepper.explorer.settings import Settings
from grads.stepper.tracing.program import Program

LOSS = """
import numpy as np

gen = np.random.RandomState(3)
W, U, V = gen.randn(3, 4), gen.randn(3, 3), gen.randn(4, 3)

def text_inputs(rng):
    return [[0, 1, 2, 3], [1, 2, 3, 0], rng.normal(size=(3, 1))]

def text(inputs, targets, before):
    xs, hs, ps = {}, {}, {}
    hs[-1] = np.copy(before)
    loss = 0
    for t in range(len(inputs)):
        xs[t] = np.zeros((4, 1))
        xs[t][inputs[t]] = 1
        hs[t] = np.tanh(np.dot(W, xs[t]) + np.dot(U, hs[t - 1]))
        scores = np.dot(V, hs[t])
        ps[t] = np.exp(scores) / np.sum(np.exp(scores))
        loss += -np.log(ps[t][targets[t], 0])
    dW, dU, dV = np.zeros_like(W), np.zeros_like(U), np.zeros_like(V)
    dnext = np.zeros_like(hs[0])
    for t in reversed(range(len(inputs))):
        dscores = np.copy(ps[t])
        dscores[targets[t]] -= 1
        dV += np.dot(dscores, hs[t].T)
        dh = np.dot(V.T, dscores) + dnext
        draw = (1 - hs[t] * hs[t]) * dh
        dW += np.dot(draw, xs[t].T)
        dU += np.dot(draw, hs[t - 1].T)
        dnext = np.dot(U.T, draw)
    return loss, dW, dU, dV, hs[len(inputs) - 1]

class Net:
    def __init__(self):
        self.params = {"W1": gen.randn(4, 5), "W2": gen.randn(5, 3)}

    def loss(self, X, y, reg=0.1):
        W1, W2 = self.params["W1"], self.params["W2"]
        a = X.dot(W1)
        h = np.maximum(0, a)
        scores = h.dot(W2)
        e = np.exp(scores - np.max(scores, axis=1, keepdims=True))
        p = e / np.sum(e, axis=1, keepdims=True)
        loss = -np.mean(np.log(p[np.arange(len(y)), y])) + 0.5 * reg * np.sum(W2 * W2)
        grads = {}
        dscores = p.copy()
        dscores[np.arange(len(y)), y] -= 1
        dscores /= len(y)
        dh = dscores.dot(W2.T)
        da = dh * (a > 0)
        grads["W2"] = h.T.dot(dscores) + reg * W2
        grads["W1"] = X.T.dot(da)
        return loss, grads

class Affine:
    def __init__(self):
        self.W, self.dW = gen.randn(3, 3), None

    def forward(self, x):
        self.x = x
        return np.dot(x, self.W)

    def backward(self, dout):
        self.dW = np.dot(self.x.T, dout)
        return np.dot(dout, self.W.T)

class Squash:
    def forward(self, x):
        self.out = np.tanh(x)
        return self.out

    def backward(self, dout):
        dx = dout * (1 - self.out ** 2)
        return dx

class Both:
    def __init__(self):
        self.first, self.squash, self.last = Affine(), Squash(), Affine()

    def forward(self, x):
        h = self.first.forward(x)
        s = self.squash.forward(h)
        return self.last.forward(s)

    def backward(self, dout):
        ds = self.last.backward(dout)
        dh = self.squash.backward(ds)
        return self.first.backward(dh)

net_loss = Net().loss
layer = Both()
chain = [Affine(), Squash(), Affine()]

def net_loss_inputs(rng):
    return [rng.normal(size=(5, 4)), np.array([0, 2, 1, 1, 0])]

def layer_inputs(rng):
    return [rng.normal(size=(2, 3))]

chain_inputs = layer_inputs

def nothing_inputs(rng):
    return [rng.normal(size=3)]

def nothing_forward(x):
    return 2 * x, x

def nothing_backward(dy, x):
    return np.zeros(5)
"""
STYLES = ("text", "net_loss", "layer", "chain")
# A name, a mistake, and the variables of the first red step
WRONG = [
    ("text", "(1 - hs[t] * hs[t]) * dh", "(1 - hs[t]) * dh", "draw"),
    ("net_loss", "dh * (a > 0)", "dh * (a > 1)", "da"),
    ("net_loss", " + reg * W2", "", "grads['W2']"),
    ("layer", "dout * (1 - self.out ** 2)", "dout * (1 - self.out)", "dx"),
    ("chain", "np.dot(self.x.T, dout)", "np.dot(self.x.T, dout) / 2", "self.dW"),
]
BINARY = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "**": np.power,
          "@": np.matmul, "max": np.maximum, "min": np.minimum, ">": np.greater}


def written(directory, old="", new=""):
    """The path of the file, with one piece changed."""
    file = directory / "mine.py"
    file.write_text(LOSS.replace(old, new) if old else LOSS)
    return file


def verified(file, name):
    """The verifications of a name of the file."""
    return open_example(f"{file}:{name}", Settings()).verifications()


def status_of(*arguments):
    """The exit status of a command."""
    try:
        main(arguments)
    except SystemExit as ended:
        return ended.code
    return 0


@pytest.mark.parametrize("name", STYLES)
def test_what_is_right_is_verified_in_every_style(name, tmp_path):
    checks = verified(written(tmp_path), name)
    assert not [(check.name, check.line) for check in checks
                if check.status in ("wrong", "suspect", "unpaired")]
    assert sum(check.status == "verified" for check in checks) > 3


@pytest.mark.parametrize(("name", "old", "new", "first"), WRONG)
def test_the_first_wrong_line_is_marked(name, old, new, first, tmp_path):
    red = [check for check in verified(written(tmp_path, old, new), name)
           if check.status == "wrong"]
    assert red[0].name == first and (new or "W2") in red[0].text


def test_the_walk_gives_a_verdict_and_a_status(tmp_path, capsys):
    right, wrong = written(tmp_path), ("draw = (1 - hs[t] * hs[t])", "draw = (1 - hs[t])")
    assert status_of("walk", f"{right}:text") == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("RIGHT: ")
    assert status_of("walk", f"{written(tmp_path, *wrong)}:text") == 1
    assert "WRONG first at mine.py:" in capsys.readouterr().out.splitlines()[-1]
    assert status_of("walk", f"{right}:nothing") == 3
    assert "NOTHING WAS VERIFIED" in capsys.readouterr().out.splitlines()[-1]
    assert status_of("explore", f"{right}:nothing", "-o", str(tmp_path / "n.html")) == 3
    assert "NOTHING WAS VERIFIED" in capsys.readouterr().out


def sides(shape):
    """Rows and columns as the page has them."""
    return (*shape, 1, 1)[:2] if len(shape) < 2 else (int(np.prod(shape[:-1])), shape[-1])


def value(data, tree):
    """The numbers of a tree, as the page computes them."""
    kind, rest = tree[0], tree[1:]
    if kind == "t":
        number, shape = rest[0], data["tensors"][rest[0]]["shape"]
        while data["tensors"][number]["same_as"] is not None:
            number = data["tensors"][number]["same_as"]
        return np.array(data["tensors"][number]["value"], float).reshape(sides(shape))
    if kind in ("n", "v"):
        return np.array([[rest[0]]], float) if kind == "n" else np.reshape(rest[1], rest[0])
    if kind == "f":
        return getattr(np, rest[0])(value(data, rest[1]))
    if kind == "stack":
        return np.concatenate([value(data, branch) for branch in rest[1]], rest[0])
    if kind == "g":
        entries = np.array(rest[2], int)
        return value(data, rest[0])[entries // rest[3], entries % rest[3]].reshape(rest[1])
    inner = [value(data, branch) for branch in rest]
    if kind in BINARY:
        return BINARY[kind](*inner)
    return {"neg": lambda: -inner[0], "T": lambda: inner[0].T, "where": lambda: np.where(*inner),
            "total": lambda: inner[0].sum(axis=1, keepdims=True),
            "largest": lambda: inner[0].max(axis=1, keepdims=True)}[kind]()


@pytest.mark.parametrize("name", STYLES)
def test_nearly_all_lines_have_numbers_and_these_are_theirs(name, tmp_path):
    data = build(f"{written(tmp_path)}:{name}")
    steps = [step for step in data["steps"] if not step.get("bookkeeping")]
    with_numbers = 0
    for step in steps:
        missing = False
        for target, tree in zip(step["targets"], step["expansions"], strict=True):
            tensor = data["tensors"][target]
            if tree is not None and tensor["value"] is not None:
                expected = np.reshape(tensor["value"], sides(tensor["shape"]))
                np.testing.assert_allclose(np.broadcast_to(value(data, tree), expected.shape),
                                           expected, rtol=1e-6, atol=1e-8, err_msg=step["text"])
            missing |= tree is None and tensor["same_as"] is None
        with_numbers += not missing
    assert with_numbers > 0.9 * len(steps) > 0


def test_a_missing_term_marks_the_line_that_could_have_added_it(tmp_path):
    """The sum is compared a time step later."""
    file = tmp_path / "mine.py"
    file.write_text("""
import numpy as np

def decay_inputs(rng):
    return [rng.normal(size=(3, 2)), rng.normal(size=2), rng.normal(size=(2, 2))]

def decay_forward(x, z, W):
    h = {-1: np.zeros(2)}
    for t in range(3):
        h[t] = z * h[t - 1] + np.tanh(W @ h[t - 1]) + x[t]
    return h[2] + h[0], (x, z, W, h)

def decay_backward(dout, cache):
    x, z, W, h = cache
    dx, dz, dW = np.zeros_like(x), np.zeros_like(z), np.zeros_like(W)
    carried = np.zeros(2)
    for t in reversed(range(3)):
        dh = carried + (dout if t != 1 else 0)
        da = dh * (1 - np.tanh(W @ h[t - 1]) ** 2)
        dx[t] = dh
        dz += dh * h[t - 1]
        dW += np.outer(da, h[t - 1])
        carried = W.T @ da
    return dx, dz, dW
""")
    checks = verified(file, "decay")
    assert next(check.name for check in checks if check.status == "wrong") == "dh"
    assert {check.text for check in checks if check.status == "suspect"} == {"carried = W.T @ da"}


# A helper with a name of this project, a step of which one value has no gradient, complex numbers.
ODD = """
import numpy as np

def predict(x, W):
    y = x @ W
    return y

def helped_inputs(rng):
    return rng.normal(size=(2, 3)), rng.normal(size=(3, 2))

def helped_forward(x, W):
    y = predict(x, W)
    return y, (x, W)

def helped_backward(d, cache):
    x, W = cache
    return d @ W.T, x.T @ d

def gathered_inputs(rng):
    return rng.normal(size=3), rng.normal(size=3)

def gathered_forward(a, b):
    return a[[0, 1, 2]] * b, (a, b)

def gathered_backward(d, cache):
    a, b = cache
    da = np.zeros_like(a)
    np.add.at(da, ([0, 1, 2],), d * b)
    return da, np.stack([2 * d * a]).reshape(3)

def power_inputs(rng):
    return [rng.normal(size=6)]

def power_forward(x):
    z = np.fft.rfft(x)
    return np.abs(z) ** 2, (z, len(x))

def power_backward(d, cache):
    z, n = cache
    g = 2 * d * z
    weights = np.array([1, 0.5, 0.5, 1])
    g = g * weights
    return (np.fft.irfft(g, n) * n,)
"""


@pytest.mark.parametrize(("name", "status"), [("helped", 0), ("gathered", 1), ("power", 0)])
def test_odd_code_is_walked_and_explored(name, status, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(ODD)
    assert status_of("walk", f"{file}:{name}", "--all") == status
    assert status_of("explore", f"{file}:{name}", "-o", str(tmp_path / "page.html")) == 0


@pytest.mark.parametrize(("inputs", "hint"), [
    ('{"x": rng.normal(size=3), "V": rng.normal(size=(2, 3))}',
     "; a mapping is one argument: return a list of all arguments"), ("[rng.normal(size=3)]", "")])
def test_inputs_that_do_not_fit_are_refused(inputs, hint, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(f"def f_inputs(rng):\n    return {inputs}\n\n"
                    "def f_forward(x, W):\n    return W @ x, (x, W)\n\n"
                    "def f_backward(dy, cache):\n    return cache[1].T @ dy\n")
    with pytest.raises(UserError) as raised:
        build(f"{file}:f")
    assert str(raised.value) == (f"{file}:f: f_forward(x, W) cannot be called with what f_inputs "
                                 f"returns: missing a required argument: 'W'{hint}")


def test_each_function_is_rewritten_once_per_opening(tmp_path, monkeypatch):
    file, rewritten = tmp_path / "mine.py", []
    file.write_text(LOSS)
    original = Program.rewritten
    monkeypatch.setattr(Program, "rewritten", lambda program, function, edits=(): (
        rewritten.append((function, program.parts is not None)),
        original(program, function, edits))[1])
    example = open_example(f"{file}:layer", Settings())
    example.verifications()
    assert rewritten and len(rewritten) == len(set(rewritten))


def test_a_function_that_only_makes_a_layer_is_told_what_to_write(tmp_path):
    (tmp_path / "made.py").write_text(
        "class Cell:\n    def forward(self, x):\n        return x\n\n"
        "    def backward(self, dy):\n        return dy\n\n"
        "def layer():\n    return Cell()\n\n"
        "def layer_inputs(rng):\n    return [rng.normal(size=3)]\n")
    with pytest.raises(UserError, match=r"made.py:layer: expected a layer, got a function that "
                       r"returns a Cell: write layer = Cell\(\.\.\.\) instead of def layer"):
        build(f"{tmp_path / 'made.py'}:layer")


LOOK_UP = """
import numpy as np

def f_forward(ids, E):
    y = E[ids]
    out = y * y
    return out, (ids, E, y)

def f_backward(dout, cache):
    ids, E, y = cache
    dy = 2 * y * dout
    dE = np.zeros_like(E)
    np.add.at(dE, ids, dy)
    return RETURNED

def f_inputs(rng):
    return np.array([1, 0, 1]), rng.normal(size=(3, 2))
"""


@pytest.mark.parametrize("returned", ["dE", "(dE,)", "None, dE", "0 * ids, dE"])
def test_gradients_are_of_the_arguments_that_have_one(tmp_path, capsys, returned):
    """With or without a place for integers, which come first here."""
    file = tmp_path / "f.py"
    file.write_text(LOOK_UP.replace("RETURNED", returned))
    assert status_of("walk", f"{file}:f") == 0
    file.write_text(LOOK_UP.replace("2 * y", "y").replace("RETURNED", returned))
    assert status_of("walk", f"{file}:f") == 1
    capsys.readouterr()
    assert status_of("explore", f"{file}:f", "-o", str(tmp_path / "page.html")) == 0
    assert "WRONG for E" in capsys.readouterr().out


def test_a_loss_in_the_return_after_its_wrong_gradient_has_a_verdict(tmp_path, capsys):
    """All its steps are forward ones."""
    file = tmp_path / "short.py"
    file.write_text("import numpy as np\n\ndef h_inputs(rng):\n    return [rng.normal(size=3)]\n\n"
                    "def h(w):\n    error = w - 1\n    return np.sum(error**2), error\n", "utf-8")
    assert status_of("walk", f"{file}:h") == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith(
        "WRONG first at short.py:7, step 1: error, or in line 8, as grads check finds; ")


@pytest.mark.parametrize(("slope", "status"), [("1 - y * y", 0), ("1 - y", 1)])
def test_a_mapping_of_inputs_by_the_names_of_the_parameters_is_walked(slope, status, tmp_path):
    file = tmp_path / "named.py"
    file.write_text("import numpy as np\n\ndef m_inputs(rng):\n"
                    "    return {'x': rng.normal(size=(4, 3)), 'W': rng.normal(size=(3, 2))}\n\n"
                    "def m_forward(W, x):\n    y = np.tanh(x @ W)\n    return y, (W, x, y)\n\n"
                    "def m_backward(dy, cache):\n    W, x, y = cache\n"
                    f"    da = dy * ({slope})\n    return {{'W': x.T @ da, 'x': da @ W.T}}\n",
                    "utf-8")
    assert status_of("walk", f"{file}:m") == status == status_of("check", f"{file}:m")
    assert status_of("explore", f"{file}:m", "-o", str(tmp_path / "page.html")) == 0
