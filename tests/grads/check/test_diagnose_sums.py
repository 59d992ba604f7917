"""Broken sums, and gradients that are wrong in no way that has a name: no hint is invented."""

from __future__ import annotations

import numpy as np
import pytest
from broken_lstm import (
    TRUE,
    T,
    allow,
    broken,
    evidence,
    hints,
    plain,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from grads.check.diagnosis.diagnose import diagnose

# --- outputs and other tensors ------------------------------------------------------------------


def test_the_upstream_gradient_forgotten():
    said = hints("T", TRUE["T"] / -0.3, upstream={"loss": np.array(-0.3)})
    assert said == ["it is off by the factor -3.33333 (1/(upstream gradient of loss))"]


# --- no false hints -----------------------------------------------------------------------------

HONEST = ("the error is spread over all entries", "entries compared are wrong", "entries compared",
          "the error is spread over all entries but those near zero",
          "entries compared but those near zero")


@pytest.mark.parametrize("name", TRUE)
def test_garbage_is_called_nothing(name):
    """200 wrong gradients, of several kinds; none is a pattern but the one that it is."""
    rng = np.random.default_rng(9)
    others = {key: gradient for key, gradient in TRUE.items() if key != name}
    for trial in range(40):
        scale = 10.0 ** rng.uniform(-6, 3) * np.abs(TRUE[name]).max()
        noise = rng.normal(size=TRUE[name].shape) * scale
        where = TRUE[name] != 0  # zero elsewhere, as padding is
        wrong = TRUE[name] + noise * where if trial % 2 else noise * where
        known = {"outputs": {"y": rng.normal(size=noise.shape)},
                 "upstream": {"y": rng.normal(size=noise.shape)}}
        for said in (hints(name, wrong, others=others), hints(name, wrong, **known)):
            assert len(said) == 1 and said[0].endswith(HONEST), (trial, said)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([(1,), (2,), (2, 2), (3, 3), (1, 4), (2, 3, 2)]),
       st.floats(0.02, 0.98), st.booleans())
def test_small_garbage_is_called_nothing(seed, shape, missing, integers):
    """Few entries, some not differentiated: no explanation is accepted, only where they are."""
    rng = np.random.default_rng(seed)
    numeric, wrong = rng.normal(size=(2, *shape))
    if integers:
        wrong = numeric + 1e-7 * (wrong + np.sign(wrong))  # just wrong, and every entry
    numeric = np.where(rng.random(shape) < missing, np.nan, numeric)
    x, y, d, v = rng.normal(size=(4, *shape))
    for hint in plain(wrong, numeric, others={"v": v}, inputs={"w": x}, outputs={"y": np.tanh(y)},
                      upstream={"y": d}):
        assert hint.endswith(HONEST), hint


def test_scattered_errors_are_not_called_a_part():
    rng = np.random.default_rng(2)
    for _ in range(40):
        wrong = TRUE["T"].copy()
        wrong.flat[rng.choice(wrong.size, 4, replace=False)] += rng.normal(size=4)
        assert hints("T", wrong) == ["4 of the 84 entries compared are wrong"]


def test_entries_that_were_not_differentiated_do_not_hide_a_pattern():
    numeric = np.where(np.random.default_rng(0).random(TRUE["T"].shape) < 0.3, TRUE["T"], np.nan)
    assert hints("T", -TRUE["T"], numeric=numeric) == [
        "it has the reversed sign (ratio -1)"]


def test_rounding_in_float32_does_not_hide_a_pattern():
    wrong = (TRUE["T"] / T).astype(np.float32)
    exact = evidence("T", wrong)
    assert diagnose(exact._replace(allowed=allow(exact.numeric, 1e-4))) == [
        "it is off by the factor 0.2 (1/(the length of axis 0 of x))"]


def test_a_near_miss_is_no_pattern():
    assert hints("T", broken("T", (0, 0), lambda g: g) * -1.0001) == [
        "it is off by the constant factor -1.0001"]
    nearly = -TRUE["T"] * (1 + 1e-6 * np.random.default_rng(0).normal(size=TRUE["T"].shape))
    assert hints("T", nearly) == ["the error is spread over all entries"]
