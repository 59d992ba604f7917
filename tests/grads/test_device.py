"""The gradient check with kernels on a device: the stand-in for CuPy, with its fused kernels."""

from __future__ import annotations

import numpy as np
import pytest
from host_cuda.launcher import HostLauncher, needs_compiler
from strict.module import StrictArray, strict

import backend
from backend.fused import switch
from grads.case import SHAPES
from grads.catalogue import ENTRIES, check
from grads.cli import main
from grads.device import on_device
from lstm.cells.lstm import lstm_backward

pytestmark = needs_compiler

BY_NAME = {entry.name: entry for entry in ENTRIES}
NAMES = ["lstm cell", "lstm sequence", "rnn sequence", "gru sequence", "prediction", "embedding",
         "attentional", "translator, general, feeding"]


@pytest.fixture
def launcher(monkeypatch):
    made = HostLauncher()
    monkeypatch.setattr(switch, "_launchers", {StrictArray: made})
    return made


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", ["ragged", "smallest"])
def test_fused_backward_passes_against_numerical_differentiation(name, shape, launcher):
    with backend.using(strict):
        report = check(BY_NAME[name], shape, sample=24)
    report.raise_if_wrong()
    assert launcher.names, "no fused kernel was taken"


def test_a_wrong_kernel_is_caught(launcher, monkeypatch):
    """Negative control: the fused kernel forgets one of the LSTM's arrays."""
    right = lstm_backward.fused_kernel

    def wrong(launch, dh, dc, d_out, u, c_prev, tanh_c, *rest):
        right(launch, dh, dc, d_out, u, tanh_c, tanh_c, *rest)

    monkeypatch.setattr(lstm_backward, "fused_kernel", wrong)
    with backend.using(strict), pytest.raises(AssertionError, match=r"dT|T"):
        check(BY_NAME["lstm sequence"], "ragged", sample=24).raise_if_wrong()
    assert "lstm_backward" in launcher.names


def test_numpy_cases_are_left_alone():
    case = BY_NAME["lstm cell"].make(np.random.default_rng(0), SHAPES["ragged"])
    assert on_device(case) is case


def test_the_command_checks_on_a_device(launcher, monkeypatch, capsys):
    monkeypatch.setattr(backend.switch, "load", {"numpy": np, "cupy": strict}.__getitem__)
    main(["--backend", "cupy", "check", "lstm cell", "--sample", "8"])
    assert "ok" in capsys.readouterr().out
    assert "lstm_backward" in launcher.names and strict.counts.to_device > 0
