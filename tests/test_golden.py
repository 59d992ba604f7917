"""Losses and gradients of fixed tiny models against values once computed by PyTorch.

Runs where PyTorch is not installed. `golden/make_golden.py` says where the values come from.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from golden.cases import (
    CASES,
    PATH,
    SOURCE_SIZE,
    TARGET_SIZE,
    fingerprint,
    golden_batch,
    golden_parameters,
)

from backend.rows import RowGradient
from nmt.models.translator import Translator

GOLDEN = json.loads(PATH.read_text(encoding="utf-8"))
TOLERANCE = 1e-10


@pytest.mark.parametrize("case", CASES)
def test_golden(case):
    """Each number to 1e-10 of its gradient's norm."""
    expected, model = GOLDEN[case], Translator(CASES[case], SOURCE_SIZE, TARGET_SIZE)
    loss, cache = model.loss(golden_parameters(CASES[case]), golden_batch())
    gradients = model.backward(cache)
    assert abs(float(loss) - expected["loss"]) < TOLERANCE * expected["loss"]
    assert gradients.keys() == expected["gradients"].keys()
    for name, gradient in gradients.items():
        gradient = gradient.dense() if isinstance(gradient, RowGradient) else gradient
        numbers = np.array(expected["gradients"][name])
        assert numbers[1] > 0
        assert np.abs(fingerprint(gradient) - numbers).max() < TOLERANCE * numbers[1], name


def test_every_case_has_values():
    assert GOLDEN.keys() == CASES.keys()
