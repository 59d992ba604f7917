"""A user's file that cannot be checked: one line that says what is wrong with it."""

from __future__ import annotations

import textwrap
from contextlib import nullcontext

import numpy as np
import pytest

from backend.errors import UserError
from grads.check.user_code import check_file
from grads.cli import main

STUFF = textwrap.dedent('''
    import numpy as np

    def layer_inputs(rng):
        return rng.normal(size=3)

    number_inputs = alone_inputs = backward_only_inputs = nothing_inputs = layer_inputs
    stops_inputs = labelled_inputs = misnamed_inputs = layer_inputs
    number, number_gradient = 3, np.cos

    def alone_forward(x):
        return 2 * x, x

    def backward_only_backward(d, cache):
        return 2 * d

    def none_inputs(rng):
        return None

    none, none_gradient = np.sum, np.ones_like

    def stops_forward(x):
        raise SystemExit("enough")

    stops_backward = backward_only_backward

    labelled, labelled_gradient, labelled_labels = np.sum, np.ones_like, 4
    misnamed, misnamed_gradient, misnamed_labels = np.sum, np.ones_like, {"0": "unit"}

    def seedless_inputs():
        return np.ones(3)

    def raising_inputs(rng):
        return int(None)

    def objects_inputs(rng):
        return np.array([1.0, 2.0], object)

    def extreme_inputs(rng):
        return np.array([1.0, -1e308])

    class Class:
        def forward(self, x):
            return x

        def backward(self, d):
            pass

    class Raising(Class):
        def backward(self, d):
            raise RuntimeError("no")

    Class_inputs = bare_inputs = vague_inputs = empty_inputs = labelled_layer_inputs = layer_inputs
    raises_inputs, empty, labelled_layer, raises = layer_inputs, Class(), Class(), Raising()
    labelled_layer_labels = {"W": ("unit",)}

    def bare(x):
        return x.sum()

    def vague(x):
        return x.sum(), {"slope": x}

    seedless = raising = objects = extreme = np.sum
    seedless_gradient = raising_gradient = objects_gradient = extreme_gradient = np.ones_like
''')


def error_of(path, name):
    """What the check of a name in a file ends in."""
    with pytest.raises(UserError) as caught:
        check_file(f"{path}:{name}", np.random.default_rng(0))
    return str(caught.value).replace(str(path), "FILE")


@pytest.mark.parametrize("text, message", [
    ("import numpy as np\ndef f(:\n", r"FILE: SyntaxError: invalid syntax (mine.py, line 2)"),
    ("\nimport no_such_thing", "FILE: ModuleNotFoundError: No module named 'no_such_thing' at FILE"
                               ":2"),
    ("x = 1 / 0", "FILE: ZeroDivisionError: division by zero at FILE:1"),
    ("import sys\nsys.exit('no data')", "FILE: SystemExit: no data at FILE:2"),
    ("", "FILE: expected a function layer_inputs, found none; it has no NAME_inputs(rng)"),
])
def test_a_file_that_does_not_import_or_is_empty(tmp_path, text, message):
    path = tmp_path / "mine.py"
    path.write_text(text, encoding="utf-8")
    assert error_of(path, "layer") == message


@pytest.mark.parametrize("name, message", [
    ("", "expected FILE.py:NAME, got no name; with inputs it has layer, "),
    ("lyer", "expected a function lyer_inputs, found none; did you mean 'layer_inputs'?"),
    ("zzz", "expected a function zzz_inputs, found none; with inputs it has layer, "),
    ("number", "expected a function number, got int"),
    ("nothing", "expected nothing_forward and nothing_backward, nothing and nothing_gradient, or a "
                "layer or a loss nothing, beside nothing_inputs; found none of them"),
    ("Class", "FILE: expected a layer, as in class = Class(...), got the class Class"),
    ("bare", "bare: f: expected a tuple of a loss, one number, and its gradients, got float64; "),
    ("vague", "vague: gradients: expected names that say what they are gradients of, as dW of W, "),
    ("empty", "empty: layer: expected parameters with gradients (params and grads, W and dW), "),
    ("labelled_layer", "labelled_layer_labels: expected none for a layer or a loss"),
    ("raises", "RuntimeError: no at FILE:"),
    ("alone", "expected a function alone_backward, found none"),
    ("backward_only", "expected a function backward_only_forward, found none"),
    ("none", "FILE: expected none_inputs(rng) to return an array, or a tuple, list or mapping of "
             "the arguments of none, got None"),
    ("stops", "SystemExit: enough at FILE:"),
    ("labelled", "labelled_labels: expected a mapping from inputs to the names of their axes, got"),
    ("misnamed", "misnamed_labels: expected names of inputs, "),
    ("seedless", "FILE: expected a function seedless_inputs(rng): seedless_inputs() takes 0 posi"),
    ("raising", "FILE: raising_inputs: TypeError: int() argument must be a string"),
    ("objects", "objects_inputs: inputs: expected numbers in 'a', got an array of object; "),
    ("extreme", "inputs: expected values of at most 1e+300 in 'a', got 1e+308: "),
])
def test_a_name_that_cannot_be_checked(tmp_path, name, message):
    path = tmp_path / "mine.py"
    path.write_text(STUFF, encoding="utf-8")
    said = error_of(path, name)
    assert message in said and "\n" not in said


FORMS = '''
import numpy as np

W = np.arange(6.0).reshape(3, 2) / 7


class Dense:
    def __init__(self):
        self.W = np.array(W)

    def forward(self, x, ids=None):
        self.x = x
        return x @ self.W

    def backward(self, d):
        self.dW = FACTOR * self.x.T @ d
        return d @ self.W.T


dense, layers = Dense(), [Dense()]


def dense_inputs(rng):
    return rng.normal(size=(4, 3))


def layers_inputs(rng):
    return [rng.normal(size=(4, 3))]


def loss_inputs(rng):
    return rng.normal(size=(4, 3)), np.array([0, 1, 1, 0])


def loss(X, y):
    picked = (X @ W)[np.arange(len(y)), y]
    d = np.zeros((len(y), 2))
    d[np.arange(len(y)), y] = 2 * picked
    dW = FACTOR * X.T @ d
    return (picked ** 2).sum(), dW
'''


@pytest.mark.parametrize("name, tensor", [("dense", "W"), ("layers", "layers.0.W"), ("loss", "W")])
@pytest.mark.parametrize("factor", [1, 2])
def test_layers_and_losses_of_a_file(tmp_path, capsys, name, tensor, factor):
    path = tmp_path / "mine.py"
    path.write_text(FORMS.replace("FACTOR", str(factor)), encoding="utf-8")
    with pytest.raises(SystemExit) if factor == 2 else nullcontext():
        main(["check", f"{path}:{name}"])
    out = capsys.readouterr().out
    assert (f"{name}: ok" in out) == (factor == 1) and tensor in out
    assert (f"{tensor} at (" in out and "WRONG" in out) == (factor == 2)


def test_a_function_that_only_makes_a_layer_is_told_what_to_write(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FORMS.replace("FACTOR", "1") + """

def make_layer():
    return Dense()


def make_layer_inputs(rng):
    return rng.normal(size=(4, 3))
""", encoding="utf-8")
    assert error_of(path, "make_layer") == (
        "FILE:make_layer: expected a layer, got a function that returns a Dense: write make_layer "
        "= Dense(...) instead of def make_layer")


@pytest.mark.parametrize("name", ["product", "total"])
def test_inputs_by_name_for_a_function_of_several(tmp_path, name):
    (tmp_path / "named.py").write_text(textwrap.dedent("""
        def product_forward(x, w):
            return x * w ** 2, (x, w)

        def product_backward(d, cache):
            x, w = cache
            return {"x": d * w ** 2, "w": 2 * d * x * w}

        def total(x, w):
            return (x * w ** 2).sum(), w ** 2, 2 * x * w

        def product_inputs(rng):
            return {"w": rng.normal(size=3), "x": rng.normal(size=3)}

        total_inputs = product_inputs
    """))
    report = check_file(f"{tmp_path / 'named.py'}:{name}", np.random.default_rng(0))
    assert report.ok and [row.name for row in report.rows] == ["x", "w"]


def test_a_file_names_the_inputs_whose_gradients_are_returned(tmp_path, capsys):
    file = tmp_path / "logit.py"
    file.write_text("""
import numpy as np

def logit(beta, X, y):
    z = X @ beta
    return np.log1p(np.exp(z)).sum() - y @ z

def logit_gradient(beta, X, y):
    return X.T @ (1 / (1 + np.exp(-X @ beta)) - y)

def logit_inputs(rng):
    return rng.normal(size=3), rng.normal(size=(8, 3)), rng.random(8).round()

logit_names = ["beta"]
""", encoding="utf-8")
    for command in ("check", "walk"):
        main([command, f"{file}:logit"])  # ends with exit status 0
    printed = capsys.readouterr().out
    assert "1 check, 0 wrong" in printed and "RIGHT: 1 gradient verified" in printed
    other = tmp_path / "other.py"
    other.write_text(file.read_text(encoding="utf-8").replace("logit_names", "other_names"))
    assert "(in a file, NAME_names)" in error_of(other, "logit")
