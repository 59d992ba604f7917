"""The decorator that makes a test of a gradient check, as pytest runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from grads.check.testing import gradient_checked

ROOT = Path(__file__).resolve().parents[3]
TESTS = '''
import pytest
from tanh_layer import layer_backward, layer_forward

from grads.check.testing import gradient_checked


def wrong_backward(dh, cache):
    dx, dW = layer_backward(dh, cache)
    return dx, -dW


@pytest.fixture
def width():
    return 3


@pytest.mark.parametrize("rows", [1, 4])
@gradient_checked(layer_forward, layer_backward)
def test_layer(rng, rows, width):
    """Right."""
    return rng.normal(size=(rows, width)), rng.normal(size=(2, width))


@gradient_checked(layer_forward, wrong_backward)
def test_wrong(rng):
    return rng.normal(size=(4, 3)), rng.normal(size=(2, 3))


@gradient_checked(lambda x: (x ** 3).sum(), lambda x: 3 * x ** 2, scalar=True)
def test_cube(rng):
    return rng.normal(size=5)
'''


def test_pytest_collects_it_and_a_failure_is_the_report(tmp_path):
    (tmp_path / "test_mine.py").write_text(TESTS, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path, capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}", "COLUMNS": "120"})
    assert "1 failed, 3 passed" in done.stdout, done.stdout + done.stderr
    failure = done.stdout.partition("= FAILURES =")[2].partition("= short test summary")[0]
    assert "AssertionError: wrong gradient: W: wrong" in failure
    assert "W at " in failure and "it has the reversed sign (ratio -1)" in failure
    assert "grads/check" not in failure and failure.count("\n") < 25  # no frames of ours


def test_a_wrong_one_fails_without_pytest_too():
    @gradient_checked(lambda x: (2 * x, None), lambda d, cache: 3 * d)
    def factor(rng):
        return rng.normal(size=4)

    with pytest.raises(AssertionError, match="factor: WRONG"):
        factor()


def test_inputs_come_from_the_seed_and_options_go_on():
    drawn = []

    @gradient_checked(lambda x: (2 * x, None), lambda d, cache: 2 * (1 + 1e-6) * d, seed=7,
                      rtol=1e-5)
    def near(rng):
        drawn.append(rng.normal(size=4))
        return drawn[-1]

    near()
    np.testing.assert_array_equal(drawn[0], np.random.default_rng(7).normal(size=4))
