"""Numbers that a function gives to its variables are no names of the factors that they equal."""

import numpy as np
import pytest

from grads.check.user_code import check_file

IN_A_TUPLE = """
import numpy as np

def f(x):
    sigma, eps, cut = 1.0, 0.8, 9.0
    r2 = (x ** 2).sum(axis=1)
    near = r2 < cut
    s = (sigma ** 2 / r2) ** 3
    g = (24 * eps * near * (s - 2 * s * s))[:, None] * x  # / r2
    return (near * 4 * eps * (s * s - s)).sum(), g

def f_inputs(rng):
    return rng.normal(size=(6, 3)) + 1
"""
IN_BOTH = """
import numpy as np

def f_forward(x, w):
    weight = 2.0
    power = 3
    u = x @ w
    return (u ** 2).sum() + weight * (np.abs(w) ** power).sum(), (x, w, u)

def f_backward(d, cache):
    x, w, u = cache
    weight = 2.0
    power = 3
    penalty = weight * power * np.sign(w) * np.abs(w) ** (power - 1)
    return d * 2 * np.outer(u, w), d * (x.T @ u + penalty)  # 2 * u

def f_inputs(rng):
    return rng.normal(size=(5, 3)), rng.normal(size=3)
"""

DEFAULT = """
import numpy as np

def f(x, size=8):
    frames = x[np.arange(size) + 4 * np.arange(3)[:, None]]
    e = np.fft.rfft(frames, axis=1)
    full = np.zeros(frames.shape, complex)
    full[:, :e.shape[1]] = 2 * e
    g = np.zeros_like(x)
    np.add.at(g, np.arange(size) + 4 * np.arange(3)[:, None], np.fft.ifft(full, axis=1).real)
    return (np.abs(e) ** 2).sum(), g  # * size

def f_inputs(rng):
    return [rng.normal(size=16)]
"""


@pytest.mark.parametrize("code, cause, names", [
    (IN_A_TUPLE, "/ r2", ("sigma",)), (IN_BOTH, "2 *", ("weight", "power")),
])
def test_a_number_of_a_variable_is_not_named_by_accident(code, cause, names, tmp_path):
    (tmp_path / "mine.py").write_text(code)
    row, = check_file(f"{tmp_path / 'mine.py'}:f", np.random.default_rng(0)).wrong
    said = row.hints[-1].partition("in place of")[0]
    assert said and cause in said and not any(name in said for name in names)
    assert "only with" not in row.hints[-1]


def test_a_large_factor_is_named_after_a_setting(tmp_path):
    (tmp_path / "mine.py").write_text(DEFAULT)
    row, = check_file(f"{tmp_path / 'mine.py'}:f", np.random.default_rng(0)).wrong
    assert "* size" in row.hints[-1]
