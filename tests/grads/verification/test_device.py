"""The gradient check with kernels on a device: the stand-in for CuPy, with its fused kernels."""

from __future__ import annotations

import numpy as np
import pytest
from host_cuda.launcher import HostLauncher, needs_compiler
from strict.module import StrictArray, strict

import backend
from backend.fused import switch
from grads.cli import main
from grads.verification.cases import model_case
from grads.verification.catalogue import check, entries, random_model
from grads.verification.device import on_device
from lstm.cells.lstm import lstm_backward

pytestmark = needs_compiler

# The first entry of each architecture. test_strict.py shows that all others give NumPy's numbers,
# which the catalogue's tests check.
ENTRIES = list({entry.architecture: entry for entry in reversed(entries("tiny"))
                if entry.shape == "ragged"}.values())
USUAL = ENTRIES[-1]


@pytest.fixture
def launcher(monkeypatch):
    host = HostLauncher()
    monkeypatch.setattr(switch, "_launchers", {StrictArray: host})
    return host


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_fused_backward_passes_against_numerical_differentiation(entry, launcher):
    with backend.using(strict):
        report = check(entry, together=True)
    report.raise_if_wrong()
    assert launcher.names, "no fused kernel was taken"


def test_a_wrong_kernel_is_caught(launcher, monkeypatch):
    """Negative control: the fused kernel forgets one of the LSTM's arrays."""
    right = lstm_backward.fused_kernel

    def wrong(launch, dh, dc, d_out, u, c_prev, tanh_c, *rest):
        right(launch, dh, dc, d_out, u, tanh_c, tanh_c, *rest)

    monkeypatch.setattr(lstm_backward, "fused_kernel", wrong)
    with backend.using(strict), pytest.raises(AssertionError, match=r"encoder.0.W: wrong"):
        check(USUAL, diagnosis=0).raise_if_wrong()
    assert "lstm_backward" in launcher.names


def test_numpy_cases_are_left_alone():
    case = model_case(random_model(USUAL))
    assert on_device(case) is case


def test_the_command_checks_on_a_device(launcher, monkeypatch, capsys):
    monkeypatch.setattr(backend.device, "load", {"numpy": np, "cupy": strict}.__getitem__)
    main(["--backend", "cupy", "check", "luong: as usual; ragged"])
    assert "ok" in capsys.readouterr().out
    assert "lstm_backward" in launcher.names and strict.counts.to_device > 0
